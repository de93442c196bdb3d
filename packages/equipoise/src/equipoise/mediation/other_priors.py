"""Shapley values and targets under other priors, to see how much they depend on the agreed one.

A value is the information beyond the prior, so it depends on the prior, and so may the order of the parties. Here the
round is valued again with priors half and twice as wide; releases, seeds and rules stay. No rewards are made.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from equipoise._util.canonical import canonical_json, sha256_hex
from equipoise.agreement import Agreement
from equipoise.errors import MediationError
from equipoise.estimate import Estimate
from equipoise.mediation.appraisal import Evaluator
from equipoise.mediation.journal import FileJournal
from equipoise.mediation.requests import Request
from equipoise.mediation.seeds import derived_seed
from equipoise.mediation.settlement import Settlement
from equipoise.protocol.submission import Submission
from equipoise.reward.targets import every_coalition, targets_from_values

JOURNAL = "other-priors-{name}.jsonl"
WIDTHS = {"half as wide": 0.5, "twice as wide": 2.0}
AGREED = "as agreed"


@dataclass(frozen=True)
class UnderPrior:
    """Shapley values and targets of all parties under one prior, and the value of all together."""

    team: Estimate
    rho: float
    shapley: dict[str, Estimate]
    targets: dict[str, Estimate]

    @property
    def order(self) -> tuple[str, ...]:
        """Parties by Shapley value, largest first."""
        return tuple(sorted(self.shapley, key=lambda party: -self.shapley[party].value))

    def share(self, party: str) -> float:
        """Return the party's target as a share of the largest one."""
        largest = max(target.value for target in self.targets.values())
        return self.targets[party].value / largest if largest > 0 else 1.0


def other_priors(
    settlement: Settlement,
    submissions: Sequence[Submission],
    *,
    folder: str | Path | None = None,
    processes: int | None = None,
    progress: bool | None = None,
) -> dict[str, UnderPrior]:
    """Compare the settled round with priors half and twice as wide; `folder` keeps results for the next call."""
    sent = settlement.submissions_among(submissions)
    if not settlement.exact:
        raise MediationError(
            f"of these {len(settlement.parties)} parties coalitions were sampled, and other priors need all of them "
            "valued: settle up to 12 parties with --coalitions all"
        )
    parties, settings = settlement.parties, settlement.settings
    outcomes = {
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
            appraiser = Evaluator(
                settlement.agreement,
                sent,
                journal,
                settings,
                processes=processes,
                progress=progress,
                believed=believed,
            )
            values = [appraisal.value for appraisal in appraiser.appraise(requests, what=f"prior {name}")]
        shapley, targets = targets_from_values(
            parties, settlement.teams, [Estimate(0.0, 0.0), *values], settlement.terms
        )
        outcomes[name] = UnderPrior(
            values[-1],
            targets.rho,
            {party: shapley[index] for index, party in enumerate(parties)},
            {party: targets[index] for index, party in enumerate(parties)},
        )
    return outcomes


def to_json(found: dict[str, UnderPrior]) -> dict[str, Any]:
    """Return the outcomes of `other_priors` as plain numbers and strings."""
    return {name: {**asdict(outcome), "order": list(outcome.order)} for name, outcome in found.items()}


def widened(agreement: Agreement, width: float) -> Agreement:
    """Multiply the width of an agreement's prior of parameters; no party released data under the result."""
    document = agreement.model_dump(mode="json")
    stated = dict(document["model"].get("prior", {}))
    document["model"]["prior"] = {**stated, **agreement.model.widened_prior(width)}
    return Agreement.model_validate(document)
