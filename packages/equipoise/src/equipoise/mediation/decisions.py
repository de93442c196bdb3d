"""The decisions of a settlement that need no secret, and their comparison with a repetition.

The values of coalitions, Shapley values, the fairness exponent and targets follow from the agreement, the submissions
and the options. Rewards that are made by noise also need the mediator's secret. An auditor without it can therefore
still repeat everything that decides who deserves how much.

A repetition by the same versions on the same kind of processor gives the same numbers. Elsewhere the last digits of
floating-point arithmetic differ, Markov chains part ways, and values differ by their Monte Carlo errors. `compare`
tells the three cases apart: the same, different within errors, and different beyond them. The errors are those of the
repetition: whoever makes values up can make their errors up as well.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Self

import scipy

from equipoise.estimate import ABOVE_ZERO, Estimate
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

    Shapley values, exponent and targets follow from the values of coalitions without any randomness. If the values are
    the same but something that follows from them is not, or other coalitions were valued, the decisions are different.
    """
    common = stated.values.keys() & repeated.values.keys()
    if all(_equal(stated.values[members], repeated.values[members]) for members in common):
        if stated.values.keys() != repeated.values.keys():
            return Comparison("different", f"{len(stated.values):,} coalitions are stated where others are valued")
        return _compare_what_follows(stated, repeated)
    differences = sorted(_differences(stated, repeated), reverse=True)
    limit = max(FEWEST_ERRORS, -float(scipy.special.ndtri(FALSE_ALARMS / 2 / len(differences))))
    distance, words = differences[0]
    if distance <= limit:
        moved = _moved_to_nothing(stated, repeated)
        return Comparison("different", moved) if moved else Comparison("within errors", words)
    return Comparison("different", words)


def _compare_what_follows(stated: Decisions, repeated: Decisions) -> Comparison:
    """Compare everything that follows from values that are the same."""
    if not math.isclose(stated.rho, repeated.rho, rel_tol=1e-6):
        return Comparison("different", f"the exponent is stated as {stated.rho:.4g}, and is {repeated.rho:.4g}")
    for name, said, found in (
        ("Shapley value", stated.shapley, repeated.shapley),
        ("target", stated.targets, repeated.targets),
    ):
        for party, value in said.items():
            if not _equal(value, found[party], rounding=1e-6):
                return Comparison("different", f"the {name} of {party} is stated as {value}, and is {found[party]}")
    if stated.nothing != repeated.nothing:
        others = ", ".join(sorted(stated.nothing ^ repeated.nothing))
        return Comparison("different", f"it is stated otherwise whether {others} bring nothing")
    return Comparison("same")


def _differences(stated: Decisions, repeated: Decisions) -> Iterator[tuple[float, str]]:
    """List how many errors every number is off, and which it is.

    Targets are left out where a party counts as bringing nothing in one of the two: then all of them may differ.
    """
    pairs = [
        (f"the value of {{{', '.join(sorted(members))}}}", stated.values[members], value)
        for members, value in repeated.values.items()
        if members in stated.values
    ]
    pairs += [(f"the Shapley value of {party}", stated.shapley[party], one) for party, one in repeated.shapley.items()]
    if stated.nothing == repeated.nothing:
        pairs += [(f"the target of {party}", stated.targets[party], one) for party, one in repeated.targets.items()]
    for name, said, found in pairs:
        distance = _distance(said, found)
        yield distance, f"{name} is stated as {said} nats, and is {found}, {distance:.3g} standard errors away"


def _moved_to_nothing(stated: Decisions, repeated: Decisions) -> str:
    """Name a party that surely brings something and is said to bring nothing, or the other way round."""
    for party in sorted(stated.nothing ^ repeated.nothing):
        found = repeated.shapley[party]
        is_told = found.z_score > 2 * ABOVE_ZERO if party in stated.nothing else found.z_score < 1
        if is_told:
            said = "nothing" if party in stated.nothing else "something"
            return f"{party} is stated to bring {said}, and brings {found} nats"
    return ""


def _equal(one: Estimate, other: Estimate, rounding: float = ROUNDING) -> bool:
    return math.isclose(one.value, other.value, rel_tol=rounding, abs_tol=rounding)


def _distance(stated: Estimate, repeated: Estimate) -> float:
    """Return how many standard errors of a difference two estimates are apart, by the error of the repetition."""
    difference = abs(stated.value - repeated.value)
    if _equal(stated, repeated):
        return 0.0
    return difference / (math.sqrt(2) * repeated.error) if repeated.error > 0 else math.inf
