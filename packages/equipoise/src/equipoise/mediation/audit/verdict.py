"""Verdicts of an audit, and tests that two numbers are equal or that several are 0."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from equipoise.estimate import Estimate
from equipoise.mediation.findings import Verdict

# A verdict with its reason in words and numbers.
Found = tuple[Verdict, str]

# Relative difference of numbers that were computed from the same inputs.
SAME = 1e-9


def same(first: float, second: float) -> bool:
    """Return True if two numbers differ by rounding at most."""
    return math.isclose(first, second, rel_tol=SAME, abs_tol=SAME)


# Probability of a false alarm, and of noticing an effect of the size that is called detectable.
LEVEL = 0.01
POWER = 0.9


def critical(comparisons: int, level: float = 2 * NormalDist().cdf(-2.0)) -> float:
    """Return the limit, in standard errors, that the furthest of independent numbers around 0 exceeds at a level.

    This is Šidák's correction. The default level is the probability that a single number is two errors away.
    """
    return NormalDist().inv_cdf(0.5 + 0.5 * (1 - level) ** (1 / comparisons))


@dataclass(frozen=True)
class AllZero:
    """Test that several numbers with independent errors are all 0.

    Half of its level goes to their mean, weighted by precision, because a party that contributes mostly does so in
    every coalition. The other half goes to the number furthest from 0, corrected for how many there are. Unlike a sum
    of squares, the test is robust to errors of the errors. `detectable` is the common distance from 0 that the test
    notices in nine of ten cases.
    """

    mean: Estimate
    # In standard errors.
    furthest: float
    comparisons: int
    # True if all values are 0, whatever their errors are.
    exactly: bool

    @classmethod
    def of(cls, numbers: Sequence[Estimate]) -> "AllZero":
        """Make the test for one or more numbers."""
        exactly = all(one.value == 0 for one in numbers)
        known = [one for one in numbers if one.error == 0]
        # Numbers without an error decide the test alone if one of them is not 0, or if there are no others.
        if any(one.value for one in known) or len(known) == len(numbers):
            return cls(max(known, key=lambda one: abs(one.value)), 0.0, len(known), exactly)
        numbers = [one for one in numbers if one.error > 0]
        weights = [one.error**-2 for one in numbers]
        mean = sum(weight * one.value for weight, one in zip(weights, numbers, strict=True)) / sum(weights)
        furthest = max((one.z_score for one in numbers), key=abs)
        return cls(Estimate(mean, sum(weights) ** -0.5), furthest, len(numbers), exactly)

    @property
    def possible(self) -> bool:
        """True if all numbers may be 0."""
        return abs(self.mean.z_score) <= critical(1, LEVEL / 2) and abs(self.furthest) <= critical(
            self.comparisons, LEVEL / 2
        )

    @property
    def detectable(self) -> float:
        """Common value of all numbers that the test would notice with probability `POWER`."""
        return self.mean.error * (critical(1, LEVEL / 2) + NormalDist().inv_cdf(POWER))
