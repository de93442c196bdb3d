"""What if a party had chosen stronger privacy? For the operator, from the submissions there are.

A release at ε becomes one at a smaller ε′ by more noise, τ = 1/ε′ − 1/ε. Weaker privacy than released cannot be had:
the noise is in the numbers. Only coalitions with a changed party are valued again; all others are in the settlement.
Because what comes out depends on the noise that happens to be drawn, it is drawn several times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._util.canonical import canonical_json, sha256_hex
from equipoise.errors import MediationError
from equipoise.estimate import Estimate
from equipoise.mediation.appraisal import Appraiser
from equipoise.mediation.journal import FileJournal
from equipoise.mediation.requests import Request
from equipoise.mediation.seeds import derived_seed
from equipoise.mediation.settlement import Settlement
from equipoise.mediation.task import first_draws
from equipoise.protocol.submission import Submission
from equipoise.reward.targets import decide, every_coalition

REALISATIONS = 3
JOURNAL = "what-if.jsonl"


@dataclass(frozen=True)
class Outcome:
    """What a party is worth alone, brings to the coalition, and would get."""

    epsilon: float
    alone: Estimate
    shapley: Estimate
    target: Estimate


@dataclass(frozen=True)
class WhatIf:
    """Everybody's outcome as it is and as it would be with stronger privacy. `what_if` makes one.

    Attributes
    ----------
    changes : dict of str to float
        The smaller ε of each changed party.
    realisations : int
        How often the additional noise was drawn.
    before, after : dict of str to Outcome
        Of each party: `epsilon`, the value `alone`, the Shapley value (`shapley`) and the `target` of its reward.
        Errors of `after` cover the choice of noise.
    team_before, team_after : Estimate
        Value of all together.
    rho_before, rho_after : float
        Fairness exponent.
    notes : tuple of str
        What did not go as planned.
    """

    changes: dict[str, float]
    realisations: int
    before: dict[str, Outcome]
    after: dict[str, Outcome]
    team_before: Estimate
    team_after: Estimate
    rho_before: float
    rho_after: float
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The answer as plain numbers, strings, lists and dictionaries."""
        return asdict(self) | {"notes": list(self.notes)}


def what_if(
    settlement: Settlement,
    submissions: Sequence[Submission],
    changes: Mapping[str, float],
    *,
    realisations: int = REALISATIONS,
    folder: str | Path | None = None,
    processes: int | None = None,
    progress: bool | None = None,
) -> WhatIf:
    """Say what everybody would have got, had some parties chosen stronger privacy.

    Noise is added to their releases, and coalitions with one of them are valued again.

    Parameters
    ----------
    settlement : Settlement
        The settled round; all of its coalitions must have been valued, as they are of up to 7 parties.
    submissions : sequence of Submission
        The submissions that were settled.
    changes : mapping of str to float
        A smaller ε, at the agreement's Rényi order, by party.
    realisations : int
        How often to draw the noise, 2 or more.
    folder : path, optional
        Keeps what was computed for the next question.
    processes : int, optional
        Processes to sample in; by default as many as there are cores, where that pays.
    progress : bool, optional
        Whether to show a progress bar; by default on a terminal.

    Returns
    -------
    WhatIf
        Outcomes before and after.

    Raises
    ------
    MediationError
        Nothing is changed, an ε is not smaller than the one released with, a party took no part, or coalitions were
        sampled.

    Examples
    --------
    >>> answer = eq.what_if(settlement, submissions, {"north": 0.2})  # doctest: +SKIP
    >>> print(answer.before["north"].target, answer.after["north"].target)  # doctest: +SKIP
    """
    sent = settlement.submissions_among(submissions)
    extra = _added_noise(settlement, changes)
    if realisations < 2:
        raise MediationError(f"realisations = {realisations} cannot show what depends on luck; ask for 2 or more")
    parties = settlement.parties
    coalitions = every_coalition(parties)[1:]
    requests = [
        _request(settlement, members, extra, number)
        for number in range(realisations)
        for members in coalitions
        if set(members) & set(extra)
    ]
    path = None if folder is None else Path(folder) / JOURNAL
    inputs = sha256_hex(canonical_json([settlement.decisions_digest, settlement.environment]))
    with FileJournal(path, inputs) as journal:
        appraiser = Appraiser(
            settlement.agreement, sent, journal, settlement.settings, processes=processes, progress=progress
        )
        found = dict(zip(requests, appraiser.appraise(requests, what="what if"), strict=True))
    rounds: list[list[Estimate]] = []
    notes: list[str] = []
    for number in range(realisations):
        values = [
            found[request].value
            if (request := _request(settlement, members, extra, number)) in found
            else settlement.value(*members)
            for members in coalitions
        ]
        rounds.append(_outcome(settlement, [Estimate(0.0, 0.0), *values], notes))
    pooled = [_pooled([one[place] for one in rounds]) for place in range(len(rounds[0]))]
    own, contributed, targets = (pooled[2 + k * len(parties) : 2 + (k + 1) * len(parties)] for k in range(3))
    return WhatIf(
        changes=dict(changes),
        realisations=realisations,
        before={
            party: Outcome(
                settlement.contributions[party].epsilon,
                settlement.value(party),
                settlement.shapley[party],
                settlement.awards[party].target,
            )
            for party in parties
        },
        after={
            party: Outcome(changes.get(party, settlement.contributions[party].epsilon), *estimates)
            for party, *estimates in zip(parties, own, contributed, targets, strict=True)
        },
        team_before=settlement.value(*parties),
        team_after=pooled[0],
        rho_before=settlement.rho,
        rho_after=pooled[1].value,
        notes=tuple(dict.fromkeys(notes)),
    )


def _added_noise(settlement: Settlement, changes: Mapping[str, float]) -> dict[str, float]:
    """τ by party, checked."""
    if not settlement.exact:
        raise MediationError(
            f"of these {len(settlement.parties)} parties coalitions were sampled, and what-if needs all of them: "
            "settle up to 12 parties with --coalitions all, or ask `equipoise party advise` instead"
        )
    if not changes:
        raise MediationError("nothing is changed; name a party and a smaller epsilon")
    extra = {}
    for party, epsilon in changes.items():
        if party not in settlement.contributions:
            raise MediationError(f"{party!r} took no part; the parties are {', '.join(settlement.parties)}")
        released = settlement.contributions[party].epsilon
        if not 0 < epsilon < released:
            raise MediationError(
                f"epsilon = {epsilon:g} for {party} is not below the {released:g} it released with; privacy can be "
                "strengthened afterwards by more noise, never weakened"
            )
        extra[party] = 1 / epsilon - 1 / released
    return extra


def _request(settlement: Settlement, members: tuple[str, ...], extra: Mapping[str, float], number: int) -> Request:
    more = tuple((party, tau) for party, tau in sorted(extra.items()) if party in members)
    settings = settlement.settings
    seed = derived_seed(settings.seed, "what if", sorted(members), more, number)
    noise_seed = derived_seed(settings.seed, "what-if noise", number)
    whole = len(members) == 1 or members in settlement.teams
    draws = settings.draws if whole else first_draws(settlement.agreement, settings)  # as in the settlement
    return Request(members, draws, seed, noise_seed=noise_seed, extra=more)


def _outcome(settlement: Settlement, values: Sequence[Estimate], notes: list[str]) -> list[Estimate]:
    """Value of all, exponent, then values alone, Shapley values and targets of the parties in order."""
    parties = settlement.parties
    shapley, targets = decide(parties, settlement.teams, values, settlement.terms)
    for party, falls_back in zip(parties, targets.falls_back, strict=True):
        if falls_back:
            notes.append(
                f"with some noise no exponent leaves {party} as well off as alone, and it gets its own posterior"
            )
    alone = [values[1 << place] for place in range(len(parties))]
    contributed = [shapley[place] for place in range(len(parties))]
    exponent = Estimate(targets.rho, 0.0)
    return [values[-1], exponent, *alone, *contributed, *(targets[place] for place in range(len(parties)))]


def _pooled(found: Sequence[Estimate]) -> Estimate:
    """Mean over realisations of the noise: their spread, and the sampling errors of each."""
    values = np.array([one.value for one in found])
    # Some of what is estimated is the same in all realisations, so sampling errors do not average out.
    sampling = float(np.mean([one.error**2 for one in found]))
    return Estimate(float(values.mean()), float(np.sqrt(np.var(values, ddof=1) / len(values) + sampling)))
