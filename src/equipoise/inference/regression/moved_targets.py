r"""Allow for targets that were moved to the ends of their reach.

A linear regression is one of targets y as they are, and a release has sums of h(y), moved to the agreed range. If y is
normal with mean ν and variance v, and p is the share that is not moved, Stein's lemma gives

    E[h(y) u] = E[u] E h(y) + p Cov(u, y),

so that slopes look smaller by the factor p. Tails of real targets are often shorter, because what is measured has a
least and a largest value, and then next to nothing changes. Sums of moved values cannot tell. So the expected moments
lie λ of the way from those without moving to those of a normal target, λ ~ N(½, ½²), and λ is integrated out: the mean
moves by half of the difference d, and ¼ d dᵀ is added to the covariance. d is taken at the mode and held fixed, as the
covariance of a row is. Where bounds say that no value lies beyond an end of the range, none is moved there.
"""

import math
from dataclasses import replace

import numpy as np
from scipy import special

from equipoise._util.arrays import Floats
from equipoise.inference.regression.observation import TargetObservation

EXPECTED_SHARE = 0.5  # of what moving a normal target would change
SPREAD_OF_SHARE = 0.5


def allow_for_moved_targets(
    observation: TargetObservation, second_moments: Floats, weights: Floats, variance: float, ends: tuple[bool, bool]
) -> TargetObservation:
    """Add to an observation's error what moving targets may change, at the weights and residual variance of a mode.

    `ends` says at which ends of [−1, 1] targets are moved.
    """
    if not any(ends):
        return observation
    change = change_by_moving(second_moments, weights, variance, ends)
    return replace(
        observation,
        observed=observation.observed - EXPECTED_SHARE * change,
        covariance=observation.covariance + SPREAD_OF_SHARE**2 * np.outer(change, change),
    )


def change_by_moving(second_moments: Floats, weights: Floats, variance: float, ends: tuple[bool, bool]) -> Floats:
    """How far E[y u] and E[y²] [terms + 2] change where normal targets are moved into [−1, 1]."""
    products = second_moments @ weights
    mean = float(products[-1])
    spread = max(float(weights @ products) - mean**2, 0.0) + variance
    inside, first, second = limited_moments(mean, spread, ends)
    features = second_moments[-1]
    moved = features * first + inside * (products - features * mean)
    return np.append(moved - products, second - spread - mean**2)


def limited_moments(mean: float, variance: float, ends: tuple[bool, bool]) -> tuple[float, float, float]:
    """P(y is not moved), E h(y) and E h(y)² of y ~ N(mean, variance), moved to those ends of [−1, 1] that are open."""
    deviation = math.sqrt(variance)
    inside, first, second = 1.0, mean, variance + mean**2
    for end, side, is_open in ((-1.0, -1.0, ends[0]), (1.0, 1.0, ends[1])):
        if not is_open:
            continue
        # What lies beyond an end has the excess e = side · (y − end) > 0, and h(y) = y − side · e there.
        far = side * (end - mean) / deviation
        share = float(special.ndtr(-far))
        density = math.exp(-0.5 * far**2) / math.sqrt(2 * math.pi)
        excess = deviation * (density - far * share)  # E[e; y beyond]
        square = variance * ((1 + far**2) * share - far * density)  # E[e²; y beyond]
        inside -= share
        first -= side * excess
        second -= square + 2 * side * end * excess  # y² − end² = e² + 2 side · end · e
    return inside, first, second
