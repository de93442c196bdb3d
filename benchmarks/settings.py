"""The posterior that the engine's benchmarks sample, rendered from the model itself; no file is read.

`syn` has the shape, prior and privacy levels of the paper's synthetic experiment (App. H.1). Values of λ, Δ and the
noise are the library's, in the units the data are in:

    variance = ½ (λ/ε) Δ²,  λ = 2,  Δ = 1 + Σb_j² + b_y²

for columns within ±b_j, and squares have the noise divided by √((w+4)/2).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from equipoise.inference.engine import Problem
from equipoise.inference.observations import Observations, Scenarios
from numpy.typing import NDArray

from equipoise.inference.models.linear import LinearRegression, linear_prior
from equipoise.inference.runtime import double_precision

Floats = NDArray[np.float64]

PAPER_EPSILONS = (0.2, 0.1, 0.2)
ORDER = 2.0  # λ


class Setting(NamedTuple):
    """A problem, and the one scenario in which everybody is in."""

    problem: Problem
    scenarios: Scenarios


@double_precision
def syn(epsilons: Sequence[float] = PAPER_EPSILONS, seed: int = 1) -> Setting:
    """Two features, 100, 200 and 400 rows, each party with a feature distribution of its own.

    The truth is a draw of the prior, and bounds are those of the rendered data, as in the paper.
    """
    rng = np.random.default_rng(seed)
    features, targets = syn_rows(rng)
    feature_bounds = np.max([np.abs(x).max(axis=0) for x in features], axis=0)
    target_bound = max(float(np.abs(y).max()) for y in targets)
    prior = linear_prior(
        shape=5.0,
        scale=0.1,
        weight_mean=np.zeros(3),
        weight_precision=0.025 * np.eye(3),
        feature_mean=np.zeros(2),
        mean_strength=1.0,
        scatter=np.eye(2),
        degrees_of_freedom=50.0,
    )
    observations = _linear_observations(rng, features, targets, feature_bounds, target_bound, epsilons)
    return _everybody(Problem(LinearRegression(3, 2, shared=False), prior, observations))


def syn_rows(rng: np.random.Generator) -> tuple[list[Floats], list[Floats]]:
    """Features and targets of the three parties of Syn."""
    variance = 0.1 / rng.gamma(5.0)
    weights = rng.normal(size=3) * np.sqrt(variance / 0.025)
    features = []
    for rows in (100, 200, 400):
        normal = rng.normal(size=(50, 2))
        covariance = np.linalg.inv(normal.T @ normal)  # W⁻¹(I, 50)
        mean = rng.multivariate_normal(np.zeros(2), covariance)
        features.append(rng.multivariate_normal(mean, covariance, size=rows))
    return features, [_linear_target(rng, x, weights, variance) for x in features]


def _everybody(problem: Problem) -> Setting:
    member = jnp.ones((1, problem.model.slots))
    return Setting(problem, Scenarios(member, jnp.ones(1), jnp.zeros_like(member)))


def _linear_target(rng: np.random.Generator, x: Floats, weights: Floats, variance: float) -> Floats:
    noise: Floats = rng.normal(scale=np.sqrt(variance), size=len(x))
    return np.asarray(x @ weights[:-1] + weights[-1] + noise)


def _sums(x: Floats, y: Floats) -> Floats:
    """Sums of the columns (y last), then of their products, by rows of the upper triangle."""
    z = np.column_stack([x, y])
    return np.concatenate([z.sum(axis=0), (z.T @ z)[np.triu_indices(z.shape[1])]])


def _squares(width: int) -> NDArray[np.bool_]:
    """Which entries of a statistic are sums of squares."""
    first, second = np.triu_indices(width + 1)
    return np.concatenate([np.zeros(width + 1, bool), first == second])


def _linear_observations(
    rng: np.random.Generator,
    features: Sequence[Floats],
    targets: Sequence[Floats],
    feature_bounds: Floats,
    target_bound: float,
    epsilons: Sequence[float],
) -> Observations:
    width = len(feature_bounds)
    statistics = [_sums(x, y) for x, y in zip(features, targets, strict=True)]
    sensitivity = 1 + float(feature_bounds @ feature_bounds) + target_bound**2
    rows = [len(y) for y in targets]
    return _release(rng, statistics, rows, _squares(width), sensitivity, (width + 4) / 2, epsilons)


def _release(
    rng: np.random.Generator,
    statistics: Sequence[Floats],
    rows: Sequence[int],
    squares: NDArray[np.bool_],
    sensitivity: float,
    square_gain: float,
    epsilons: Sequence[float],
) -> Observations:
    """Perturb all parties' statistics; `square_gain` is what the variance of the squares' noise is divided by."""
    epsilon = np.asarray(epsilons, dtype=float)[:, None]
    variance = 0.5 * (ORDER / epsilon) * sensitivity**2 / np.where(squares, square_gain, 1.0)
    noise = np.sqrt(variance) * rng.normal(size=variance.shape)
    return Observations(
        statistic=jnp.asarray(np.stack(statistics) + noise),
        rows=jnp.asarray(rows, float),
        variance=jnp.asarray(variance),
        added=jnp.asarray(np.sqrt(epsilon * variance)),
        unit_noise=jnp.asarray(rng.normal(size=variance.shape)),
    )
