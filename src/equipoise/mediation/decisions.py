"""The decisions of a settlement that need no secret, and their comparison with a repetition.

The values of coalitions, Shapley values, the fairness exponent and targets follow from the agreement, the submissions
and the options. Rewards that are made by noise also need the mediator's secret. An auditor without it can therefore
still repeat everything that decides who deserves how much.

A repetition by the same versions on the same kind of processor gives the same numbers. Elsewhere the last digits of
floating-point arithmetic differ, Markov chains part ways, and values differ by their Monte Carlo errors. `compare`
tells the three cases apart: the same, different within errors, and different beyond them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

from scipy.stats import norm

from equipoise.estimate import Estimate
from equipoise.mediation.settlement import Settlement

# Standard errors are estimates, so a difference of fewer of them than this is never called an error.
FEWEST_ERRORS = 5.0
FALSE_ALARMS = 1e-3
# Sums in another order differ by less than this, relative to the value.
ROUNDING = 1e-9

Outcome = Literal["same", "within errors", "different"]


@dataclass(frozen=True)
class Decisions:
    """Values of coalitions by members; Shapley values and targets by party; and who counts as bringing nothing."""

    values: Mapping[frozenset[str], Estimate]
    shapley: Mapping[str, Estimate]
    targets: Mapping[str, Estimate]
    rho: float
    nothing: frozenset[str]

    @classmethod
    def of(cls, settlement: Settlement) -> Self:
        """Take the decisions out of a settlement."""
        targets = {party: award.target for party, award in settlement.awards.items()}
        nothing = frozenset(settlement.nothing or ())
        return cls(settlement.values, settlement.shapley, targets, settlement.rho, nothing)


@dataclass(frozen=True)
class Comparison:
    """The outcome of a comparison; `words` name the largest difference, if there is one."""

    outcome: Outcome
    words: str = ""


def compare(stated: Decisions, repeated: Decisions) -> Comparison:
    """Compare decisions as they were stated with a repetition of them.

    Shapley values, exponent and targets follow from the values of coalitions without any randomness, which the audit
    checks (P3). If the values are the same but something that follows from them is not, the decisions are different.
    """
    unequal = [members for members, value in stated.values.items() if not _equal(value, repeated.values.get(members))]
    if not unequal and stated.values.keys() == repeated.values.keys():
        return _compare_what_follows(stated, repeated)
    # Samples of coalitions can grow differently, so only coalitions that were valued both times are compared.
    common = [members for members in unequal if members in repeated.values]
    limit = max(FEWEST_ERRORS, float(norm.isf(FALSE_ALARMS / 2 / max(len(stated.values), 1))))
    distances = {members: _distance(stated.values[members], repeated.values[members]) for members in common}
    worst = max(distances, key=lambda members: distances[members], default=None)
    if worst is None:
        return Comparison("within errors", "other coalitions were sampled")
    words = (
        f"the value of {{{', '.join(sorted(worst))}}} is stated as {stated.values[worst]} nats, and is "
        f"{repeated.values[worst]}, {distances[worst]:.3g} standard errors away"
    )
    return Comparison("different" if distances[worst] > limit else "within errors", words)


def _compare_what_follows(stated: Decisions, repeated: Decisions) -> Comparison:
    """Compare everything that follows from values that are the same."""
    if not math.isclose(stated.rho, repeated.rho, rel_tol=1e-6):
        return Comparison("different", f"the exponent is stated as {stated.rho:.4g}, and is {repeated.rho:.4g}")
    for name, said, found in (
        ("Shapley value", stated.shapley, repeated.shapley),
        ("target", stated.targets, repeated.targets),
    ):
        for party, value in said.items():
            if not _equal(value, found.get(party), rounding=1e-6):
                return Comparison("different", f"the {name} of {party} is stated as {value}, and is {found.get(party)}")
    if stated.nothing != repeated.nothing:
        others = ", ".join(sorted(stated.nothing ^ repeated.nothing))
        return Comparison("different", f"it is stated otherwise whether {others} bring nothing")
    return Comparison("same")


def _equal(one: Estimate, other: Estimate | None, rounding: float = ROUNDING) -> bool:
    return other is not None and math.isclose(one.value, other.value, rel_tol=rounding, abs_tol=rounding)


def _distance(one: Estimate, other: Estimate) -> float:
    """Return how many joint standard errors two estimates are apart."""
    error = math.hypot(one.error, other.error)
    difference = abs(one.value - other.value)
    return difference / error if error > 0 else math.inf
