"""Check of the paper's promises on one settlement: V1, P1 to P6, F1 to F4 (paper §3, §4, App. D.2).

The mediator decides from estimates. A promise about decisions (targets follow from values) is checked exactly; one
about true values is checked as far as their errors allow. Each promise holds, fails, or cannot be told at this
precision, and its finding gives the numbers. The audit recomputes everything that it can instead of trusting the
settlement: Shapley values and targets from coalition values, attained values from the draws of the rewards.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace

from equipoise.mediation.audit import fairness, promises, shares
from equipoise.mediation.audit.verdict import Found
from equipoise.mediation.findings import Audit, Finding, Ranking
from equipoise.mediation.settlement import Settlement

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


def audit(settlement: Settlement, reference: Settlement | None = None) -> Audit:
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


def audited(settlement: Settlement) -> Settlement:
    """Audit a settlement, and return it with the findings."""
    return replace(settlement, findings=audit(settlement))


def _rankings(settlement: Settlement) -> tuple[Ranking, ...]:
    order = sorted(settlement.parties, key=lambda party: settlement.shapley[party].value, reverse=True)
    return tuple(
        Ranking(higher, lower, settlement.probability_above(higher, lower))
        for higher, lower in itertools.pairwise(order)
    )
