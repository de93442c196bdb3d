"""Outcome of a settled round if some parties had chosen stronger privacy, for the operator.

More noise, τ = 1/ε′ − 1/ε, turns a release at ε into one at a smaller ε′. Weaker privacy cannot be simulated, because
the noise is already in the released numbers. Only coalitions with a changed party are valued again; the settlement has
all others. The outcome depends on the noise that happens to be drawn, so the noise is drawn several times.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._util.canonical import canonical_json, sha256_hex
from equipoise.errors import MediationError
from equipoise.estimate import Estimate
from equipoise.mediation.appraisal import Evaluator
from equipoise.mediation.journal import FileJournal
from equipoise.mediation.requests import Request
from equipoise.mediation.seeds import derived_seed
from equipoise.mediation.settlement import Settlement
from equipoise.mediation.task import first_draws
from equipoise.protocol.submission import Submission
from equipoise.reward.targets import every_coalition, targets_from_values

REALISATIONS = 3
JOURNAL = "what-if.jsonl"


@dataclass(frozen=True)
class Outcome:
    """ε of a party, its value alone, its Shapley value, and the target of its reward."""

    epsilon: float
    alone: Estimate
    shapley: Estimate
    target: Estimate


@dataclass(frozen=True)
class WhatIf:
    """Outcome of every party as settled, and with stronger privacy of some. `what_if` makes one.

    Attributes
    ----------
    changes : dict of str to float
        The smaller ε of each changed party.
    realisations : int
        Number of times that the additional noise was drawn.
    before, after : dict of str to Outcome
        For each party: `epsilon`, the value `alone`, the Shapley value (`shapley`) and the `target` of its reward.
        Errors of `after` include the randomness of the additional noise.
    team_before, team_after : Estimate
        Value of all parties together.
    rho_before, rho_after : float
        Fairness exponent.
    notes : tuple of str
        Remarks on realisations of the noise with an unusual outcome.
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
        """Return the answer as plain numbers, strings, lists and dictionaries."""
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
    """Compute every party's outcome if some parties had chosen stronger privacy.

    Noise is added to their releases, and coalitions with one of them are valued again.

    Parameters
    ----------
    settlement : Settlement
        The settled round. All of its coalitions must have been valued, as they are by default for up to 7 parties.
    submissions : sequence of Submission
        The submissions that were settled.
    changes : mapping of str to float
        A smaller ε, at the agreement's Rényi order, by party.
    realisations : int
        Number of times to draw the noise, 2 or more.
    folder : path, optional
        Folder that keeps results for the next call.
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
        No ε is changed, an ε is not smaller than that of the release, a party took no part, or coalitions were sampled.

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
        appraiser = Evaluator(
            settlement.agreement, sent, journal, settlement.settings, processes=processes, progress=progress
        )
        appraisals = dict(zip(requests, appraiser.appraise(requests, what="what if"), strict=True))
    rounds = []
    for number in range(realisations):
        values = [Estimate(0.0, 0.0)]
        for members in coalitions:
            appraisal = appraisals.get(_request(settlement, members, extra, number))
            values.append(settlement.value(*members) if appraisal is None else appraisal.value)
        rounds.append(_decided(settlement, values))
    notes = [note for decided in rounds for note in decided.notes]
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
            party: Outcome(
                changes.get(party, settlement.contributions[party].epsilon),
                _pooled([decided.alone[party] for decided in rounds]),
                _pooled([decided.shapley[party] for decided in rounds]),
                _pooled([decided.targets[party] for decided in rounds]),
            )
            for party in parties
        },
        team_before=settlement.value(*parties),
        team_after=_pooled([decided.team for decided in rounds]),
        rho_before=settlement.rho,
        rho_after=float(np.mean([decided.rho for decided in rounds])),
        notes=tuple(dict.fromkeys(notes)),
    )


def _added_noise(settlement: Settlement, changes: Mapping[str, float]) -> dict[str, float]:
    """Check the changes, and return the noise τ to add by party."""
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
    """Return the request for a coalition's value with one realisation of the additional noise."""
    more = tuple((party, tau) for party, tau in sorted(extra.items()) if party in members)
    settings = settlement.settings
    seed = derived_seed(settings.seed, "what if", sorted(members), more, number)
    noise_seed = derived_seed(settings.seed, "what-if noise", number)
    # The numbers of draws are those of the settlement.
    may_be_reward = len(members) == 1 or members in settlement.teams
    draws = settings.draws if may_be_reward else first_draws(settlement.agreement, settings)
    return Request(members, draws, seed, noise_seed=noise_seed, extra=more)


@dataclass(frozen=True)
class _Decided:
    """Decisions with one realisation of the additional noise; `team` is the value of all parties together."""

    team: Estimate
    rho: float
    alone: dict[str, Estimate]
    shapley: dict[str, Estimate]
    targets: dict[str, Estimate]
    notes: list[str]


def _decided(settlement: Settlement, values: Sequence[Estimate]) -> _Decided:
    """Decide a round again, from values of all coalitions in the order of `every_coalition`."""
    parties = settlement.parties
    shapley, targets = targets_from_values(parties, settlement.teams, values, settlement.terms)
    return _Decided(
        team=values[-1],
        rho=targets.rho,
        # Coalitions are numbered by their bits (`equipoise.valuation.shapley`).
        alone={party: values[1 << index] for index, party in enumerate(parties)},
        shapley={party: shapley[index] for index, party in enumerate(parties)},
        targets={party: targets[index] for index, party in enumerate(parties)},
        notes=[
            f"with some noise no exponent leaves {party} as well off as alone, and it gets its own posterior"
            for party, falls_back in zip(parties, targets.falls_back, strict=True)
            if falls_back
        ],
    )


def _pooled(estimates: Sequence[Estimate]) -> Estimate:
    """Return the mean over realisations of the noise; its error covers their spread and sampling errors."""
    values = np.array([estimate.value for estimate in estimates])
    # Realisations share some estimates, such as values of unchanged coalitions, so sampling errors do not average out.
    sampling = float(np.mean([estimate.error**2 for estimate in estimates]))
    return Estimate(float(values.mean()), float(np.sqrt(np.var(values, ddof=1) / len(values) + sampling)))
