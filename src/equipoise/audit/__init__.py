"""The paper's promises, checked on one settlement: V1, P1 to P6, F1 to F4 (paper §3, §4, App. D.2).

Decisions are made from estimates. A promise that is a statement about decisions (targets follow from values) is checked
exactly; one about true values is checked as far as their errors allow. Each finding holds, fails, or cannot be told at
this precision, and says so with numbers. Nothing is taken from the settlement's own conclusions that can be recomputed:
Shapley values and targets from coalition values, attained values from the very draws of the rewards.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Self

from equipoise.audit import fairness, promises, shares
from equipoise.audit.verdict import Found, Verdict

if TYPE_CHECKING:
    from equipoise.settlement import Settlement

PROMISES = {
    "V1": "No coalition's value is negative",
    "P1": "Nobody's privacy guarantee is weaker in any reward than it was released with",
    "P2": "In every team somebody receives the team's whole posterior",
    "P3": "Targets are the agreed shares, and rewards are worth their targets",
    "F1": "Who brings nothing to any coalition gets nothing",
    "F2": "Who brings the same to every coalition gets the same",
    "F3": "Who brings more somewhere and less nowhere gets more",
    "F4": "Who brings more than before, all else equal, gets more than before",
    "P4": "Nobody's reward is worth less than its own release is alone",
    "P5": "Of rewards of one value, the one more like the team's posterior is made",
    "P6": "Rewards are worth as much together as the agreed fairness allows",
}


@dataclass(frozen=True)
class Finding:
    """What was found about one promise."""

    code: str
    promise: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class Ranking:
    """How probable it is that the first party's Shapley value is truly above the second's."""

    higher: str
    lower: str
    probability: float


@dataclass(frozen=True)
class Audit:
    """All findings, and how sure the order of the parties is."""

    findings: tuple[Finding, ...]
    rankings: tuple[Ranking, ...]

    def __getitem__(self, code: str) -> Finding:
        return next(finding for finding in self.findings if finding.code == code)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @property
    def failures(self) -> tuple[Finding, ...]:
        """Promises that are broken."""
        return tuple(finding for finding in self.findings if finding.verdict == "fails")

    def to_json(self) -> dict[str, Any]:
        """As plain strings and numbers."""
        return {"findings": [asdict(one) for one in self.findings], "rankings": [asdict(one) for one in self.rankings]}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        findings = tuple(Finding(**one) for one in document["findings"])
        return cls(findings, tuple(Ranking(**one) for one in document["rankings"]))


def audit(settlement: "Settlement", reference: "Settlement | None" = None) -> Audit:
    """Check a settlement; F4 compares with `reference`, another settlement of the same parties."""
    checks: dict[str, Callable[[], Found]] = {
        "V1": lambda: promises.values_not_negative(settlement),
        "P1": lambda: promises.guarantees_kept(settlement),
        "P2": lambda: promises.whole_posterior_handed_out(settlement),
        "P3": lambda: shares.shares_as_agreed(settlement),
        "F1": lambda: fairness.useless_get_nothing(settlement),
        "F2": lambda: fairness.equals_get_alike(settlement),
        "F3": lambda: fairness.better_get_more(settlement),
        "F4": lambda: fairness.more_than_before(settlement, reference),
        "P4": lambda: promises.nobody_loses(settlement),
        "P5": lambda: promises.similar_in_order(settlement),
        "P6": lambda: promises.nothing_withheld(settlement),
    }
    findings = [Finding(code, PROMISES[code], *check()) for code, check in checks.items()]
    return Audit(tuple(findings), _rankings(settlement))


def _rankings(settlement: "Settlement") -> tuple[Ranking, ...]:
    order = sorted(settlement.parties, key=lambda party: settlement.shapley[party].value, reverse=True)
    return tuple(
        Ranking(higher, lower, settlement.probability_above(higher, lower))
        for higher, lower in itertools.pairwise(order)
    )
