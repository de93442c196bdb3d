"""What an audit can say, when two numbers are the same, and when several that should be are not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from equipoise.estimate import Estimate
from equipoise.mediation.findings import Verdict

Found = tuple[Verdict, str]  # with the reason, in words and numbers

SAME = 1e-9  # relative; for numbers that were computed from the same ones


def same(first: float, second: float) -> bool:
    """Whether two numbers differ by rounding at most."""
    return math.isclose(first, second, rel_tol=SAME, abs_tol=SAME)


LEVEL = 0.01  # how often a test says that there is something where there is nothing
POWER = 0.9


def critical(comparisons: int, level: float = 2 * NormalDist().cdf(-2.0)) -> float:
    """Standard errors that the furthest of so many independent numbers around 0 exceeds with a probability (Šidák).

    By default with that of one number being two errors away.
    """
    return NormalDist().inv_cdf(0.5 + 0.5 * (1 - level) ** (1 / comparisons))


@dataclass(frozen=True)
class AllZero:
    """One test that several numbers with independent errors are all 0.

    Half of its level goes to their mean, weighted by precision, because parties that bring something mostly bring it
    everywhere; the other half to the number furthest from 0, among as many as there are. Unlike a sum of squares it
    does not turn on errors of the errors. `detectable` is how far from 0 all must be for it to be seen in nine of ten
    cases.
    """

    mean: Estimate
    furthest: float  # standard errors
    comparisons: int
    exactly: bool  # by their values, whatever the errors are

    @classmethod
    def of(cls, numbers: Sequence[Estimate]) -> "AllZero":
        """The test for these numbers, one or more."""
        exactly = all(one.value == 0 for one in numbers)
        known = [one for one in numbers if one.error == 0]
        if any(one.value for one in known) or len(known) == len(numbers):  # nothing else is needed
            return cls(max(known, key=lambda one: abs(one.value)), 0.0, len(known), exactly)
        numbers = [one for one in numbers if one.error > 0]
        weights = [one.error**-2 for one in numbers]
        mean = sum(weight * one.value for weight, one in zip(weights, numbers, strict=True)) / sum(weights)
        furthest = max((one.z_score for one in numbers), key=abs)
        return cls(Estimate(mean, sum(weights) ** -0.5), furthest, len(numbers), exactly)

    @property
    def possible(self) -> bool:
        """Whether all may be 0."""
        return abs(self.mean.z_score) <= critical(1, LEVEL / 2) and abs(self.furthest) <= critical(
            self.comparisons, LEVEL / 2
        )

    @property
    def detectable(self) -> float:
        """What all numbers would have to be for the test to see it, mostly."""
        return self.mean.error * (critical(1, LEVEL / 2) + NormalDist().inv_cdf(POWER))
