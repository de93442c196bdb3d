"""Had the prior been another: who brings how much, and gets which share, under two other sensible ones.

A value is how much is learnt beyond the prior, so it depends on the prior, and so may the order of the parties. Here
the round is valued again with beliefs half and twice as wide; releases, seeds and rules stay. Rewards are not made.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from equipoise._util.canonical import canonical_json, sha256_hex
from equipoise.agreement import Agreement
from equipoise.errors import MediationError
from equipoise.estimate import Estimate
from equipoise.mediation.appraisal import Appraiser
from equipoise.mediation.journal import FileJournal
from equipoise.mediation.requests import Request
from equipoise.mediation.seeds import derived_seed
from equipoise.mediation.settlement import Settlement
from equipoise.protocol.submission import Submission
from equipoise.reward.targets import decide, every_coalition

JOURNAL = "other-priors-{name}.jsonl"
WIDTHS = {"half as wide": 0.5, "twice as wide": 2.0}
AGREED = "as agreed"


@dataclass(frozen=True)
class UnderPrior:
    """What parties bring and are to get under one prior, and what all together know beyond it."""

    team: Estimate
    rho: float
    shapley: dict[str, Estimate]
    targets: dict[str, Estimate]

    @property
    def order(self) -> tuple[str, ...]:
        """Parties by what they bring, most first."""
        return tuple(sorted(self.shapley, key=lambda party: -self.shapley[party].value))

    def share(self, party: str) -> float:
        """The party's target as a share of the largest one."""
        most = max(one.value for one in self.targets.values())
        return self.targets[party].value / most if most > 0 else 1.0


def other_priors(
    settlement: Settlement,
    submissions: Sequence[Submission],
    *,
    folder: str | Path | None = None,
    processes: int | None = None,
    progress: bool | None = None,
) -> dict[str, UnderPrior]:
    """The settled round as agreed, and under priors half and twice as wide; `folder` keeps what was computed."""
    sent = settlement.submissions_among(submissions)
    if not settlement.exact:
        raise MediationError(
            f"of these {len(settlement.parties)} parties coalitions were sampled, and other priors need all of them "
            "valued: settle up to 12 parties with --coalitions all"
        )
    parties, settings = settlement.parties, settlement.settings
    found = {
        AGREED: UnderPrior(
            settlement.value(*parties),
            settlement.rho,
            dict(settlement.shapley),
            {party: award.target for party, award in settlement.awards.items()},
        )
    }
    requests = [
        Request(members, settings.draws, derived_seed(settings.seed, "other priors", sorted(members)))
        for members in every_coalition(parties)[1:]
    ]
    for name, width in WIDTHS.items():
        believed = widened(settlement.agreement, width)
        path = None if folder is None else Path(folder) / JOURNAL.format(name=name.replace(" ", "-"))
        inputs = sha256_hex(
            canonical_json([settlement.decisions_digest, settlement.environment, believed.identity_digest])
        )
        with FileJournal(path, inputs) as journal:
            appraiser = Appraiser(
                settlement.agreement,
                sent,
                journal,
                settings,
                processes=processes,
                progress=progress,
                believed=believed,
            )
            values = [one.value for one in appraiser.appraise(requests, what=f"prior {name}")]
        shapley, targets = decide(parties, settlement.teams, [Estimate(0.0, 0.0), *values], settlement.terms)
        found[name] = UnderPrior(
            values[-1],
            targets.rho,
            {party: shapley[place] for place, party in enumerate(parties)},
            {party: targets[place] for place, party in enumerate(parties)},
        )
    return found


def to_json(found: dict[str, UnderPrior]) -> dict[str, Any]:
    """The outcomes under other priors as plain numbers and strings."""
    return {name: {**asdict(one), "order": list(one.order)} for name, one in found.items()}


def widened(agreement: Agreement, width: float) -> Agreement:
    """The same agreement, but for a prior of the parameters that is so many times as wide; nobody released under it."""
    document = agreement.model_dump(mode="json")
    stated = dict(document["model"].get("prior", {}))
    document["model"]["prior"] = {**stated, **agreement.model.widened_prior(width)}
    return Agreement.model_validate(document)
