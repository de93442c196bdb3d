r"""An allowance for targets that were moved to the ends of their reach.

A linear regression is one of targets y as they are, and a release has sums of h(y), moved to the agreed range. If y is
normal about the predictor η = θᵀu of its row, with the residual variance, the moments E[h(y) u] and E[h(y)²] are means
over rows of those of limited normal variables; rows are simulated with the estimated feature moments. If these are too
many to simulate, u and y are taken to be normal together, and Stein's lemma gives E[h(y) u] = E[u] E h(y) + p Cov(u, y)
with the share p that is not moved.

Tails of real targets are often shorter, because what is measured has a least and a largest value, and then next to
nothing changes. Sums of moved values cannot tell. So the expected moments lie λ of the way from those without moving to
those of such a normal target, λ ~ N(½, ½²), and λ is integrated out: the mean moves by half of the difference d, and ¼
d dᵀ is added to the covariance. d is computed at the parameters that explain the release if λ = 1, and held fixed, as
the covariance of a row is. If bounds say that no value lies beyond an end of the range, none is moved there.

If every party's features have a distribution of their own, each release is an observation with a d of its own. All
share one λ, which separate observations do not know: of n of them, doubt about their mean would shrink by √n. So the
variance of λ is n times as large there.
"""

from dataclasses import replace

import numpy as np
from scipy import special

from equipoise._util.arrays import Floats
from equipoise.inference.regression.observation import TargetObservation
from equipoise.inference.regression.population import Population

EXPECTED_SHARE = 0.5  # share of the full change by moving a normal target
SPREAD_OF_SHARE = 0.5

Ends = tuple[bool, bool]  # True for each end of [−1, 1] to which targets are moved


def assume_moved_targets(observation: TargetObservation, change: Floats) -> TargetObservation:
    """Subtract from an observation all that moving a normal target changes."""
    return replace(observation, observed=observation.observed - change)


def allow_for_moved_targets(observation: TargetObservation, change: Floats, observations: int) -> TargetObservation:
    """Add the possible effect of moving targets to an observation's error; `observations` share one λ."""
    variance = observations * SPREAD_OF_SHARE**2
    return replace(
        observation,
        observed=observation.observed - EXPECTED_SHARE * change,
        covariance=observation.covariance + variance * np.outer(change, change),
    )


def change_by_moving(population: Population, weights: Floats, variance: float, ends: Ends) -> Floats:
    """Return the change of E[y u] and E[y²] [terms + 2] of simulated rows, if targets are moved into [−1, 1]."""
    predicted = population.rows @ weights
    _, first, second = limited_moments(predicted, variance, ends)
    by_rows = population.weights * (first - predicted)
    return np.append(by_rows @ population.rows, population.weights @ (second - predicted**2 - variance))


def change_of_normal_rows(second_moments: Floats, weights: Floats, variance: float, ends: Ends) -> Floats:
    """Return the same change if features and target are normal together, from E[u uᵀ]."""
    products = second_moments @ weights
    mean = products[-1]
    spread = max(float(weights @ products - mean**2), 0.0) + variance
    inside, first, second = limited_moments(mean, spread, ends)
    features = second_moments[-1]
    return np.append(features * first + inside * (products - features * mean) - products, second - spread - mean**2)


def limited_moments(mean: Floats, variance: float, ends: Ends) -> tuple[Floats, Floats, Floats]:
    """Return P(y is not moved), E h(y) and E h(y)² of y ~ N(mean, variance), moved to the open `ends` of [−1, 1]."""
    deviation = np.sqrt(variance)
    inside, first, second = np.ones_like(mean), mean, variance + mean**2
    for side, is_open in zip((-1.0, 1.0), ends, strict=True):
        if not is_open:
            continue
        # What lies beyond an end has the excess e = side · (y − side) > 0, and h(y) = y − side · e there.
        far = (1 - side * mean) / deviation
        share = special.ndtr(-far)
        density = np.exp(-0.5 * far**2) / np.sqrt(2 * np.pi)
        excess = deviation * (density - far * share)  # E[e; y beyond]
        square = variance * ((1 + far**2) * share - far * density)  # E[e²; y beyond]
        inside = inside - share
        first = first - side * excess
        second = second - square - 2 * excess  # y² − 1 = e² + 2 e
    return inside, first, second
