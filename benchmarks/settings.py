"""The posteriors that the inference benchmarks sample, rendered from the models themselves; no file is read.

`syn`, `calih` and `diab` have the shapes, priors and privacy levels of the paper's three experiments (App. H.1).
Values of λ, Δ and the noise are the library's, in the units the data are in:

    variance = ½ (λ/ε) Δ²,  λ = 2,  Δ = 1 + Σb_j² + b_y² (linear) or 2 + Σb_j² (logistic)

for columns within ±b_j, and squares have the noise divided by √((w+4)/2) or √((w+5)/2).
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.inference.engine import Problem
from equipoise.inference.models.linear import LinearRegression, linear_prior
from equipoise.inference.models.logistic import LogisticRegression, logistic_prior
from equipoise.inference.observations import Observations, Scenarios
from equipoise.inference.runtime import double_precision

Floats = NDArray[np.float64]

PAPER_EPSILONS = (0.2, 0.1, 0.2)
ORDER = 2.0  # λ
SHARES = (0.2, 0.3, 0.5)  # of the rows, for CaliH and Diab


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
    return _everybody(Problem(LinearRegression(2, 3, shared=False), prior, observations))


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


@double_precision
def calih(epsilons: Sequence[float] = PAPER_EPSILONS, seed: int = 2) -> Setting:
    """Six correlated standardised features and a standardised target, all clipped at ±4; 6,581 rows, one distribution.

    The prior counts as much as ten rows, as in the paper: InvGamma(5, 5σ̂²), and a precision of ten times E[x xᵀ].
    """
    width, bound = 6, 4.0
    rng = np.random.default_rng(seed)
    covariance = 0.7 * np.eye(width) + 0.3
    weights = np.array([0.5, -0.3, 0.25, 0.15, -0.1, 0.05, 0.0])
    variance = 1 - float(weights[:-1] @ covariance @ weights[:-1])
    features, targets = [], []
    for share in SHARES:
        x = rng.multivariate_normal(np.zeros(width), covariance, size=round(share * 6581))
        features.append(np.clip(x, -bound, bound))
        targets.append(np.clip(_linear_target(rng, x, weights, variance), -bound, bound))
    degrees = width + 4.0
    prior = linear_prior(
        shape=5.0,
        scale=5.0 * variance,
        weight_mean=np.zeros(width + 1),
        weight_precision=10 * np.block([[covariance, np.zeros((width, 1))], [np.zeros((1, width)), np.ones((1, 1))]]),
        feature_mean=np.zeros(width),
        mean_strength=1.0,
        scatter=(degrees - width - 1) * covariance,
        degrees_of_freedom=degrees,
    )
    observations = _linear_observations(rng, features, targets, np.full(width, bound), bound, epsilons)
    return _everybody(Problem(LinearRegression(width, 3, shared=True), prior, observations))


@double_precision
def diab(epsilons: Sequence[float] = PAPER_EPSILONS, seed: int = 3) -> Setting:
    """Four uncorrelated standardised features clipped at ±2.2, y = ±1 (about 36 % positive), 614 rows."""
    width, bound = 4, 2.2
    rng = np.random.default_rng(seed)
    truth = np.array([0.9, -0.4, 0.5, 0.2, -0.75])  # the bias last
    rows = [round(share * 614) for share in SHARES]
    statistics = []
    for number in rows:
        x = rng.normal(size=(number, width))
        probability = 1 / (1 + np.exp(-(x @ truth[:-1] + truth[-1])))
        y = np.where(rng.uniform(size=number) < probability, 1.0, -1.0)
        statistics.append(_sums(np.clip(x, -bound, bound), y)[:-1])  # Σy² is the row count
    prior = logistic_prior(
        width=width,
        degrees_of_freedom=4.0,
        max_squared_norm=2.5 * float(truth @ truth),
        weight_scale=1.0,
        bias_scale=1.0,
        mean_spread=0.0,
        concentration=2.0,
        sd_mean=1.0,
        sd_spread=1.0,
        sd_max=2.0,
    )
    sensitivity = 2 + width * bound**2
    observations = _release(rng, statistics, rows, _squares(width)[:-1], sensitivity, (width + 5) / 2, epsilons)
    return _everybody(Problem(LogisticRegression(width, 3, shared=True, centred=True), prior, observations))


@double_precision
def scenarios_of(problem: Problem, members: ArrayLike, kappas: ArrayLike) -> Scenarios:
    """Scenarios without added noise: `members` [scenarios, parties] of 0 and 1, `kappas` [scenarios]."""
    member = jnp.atleast_2d(jnp.asarray(members, float))
    kappa = jnp.broadcast_to(jnp.asarray(kappas, float), member.shape[:1])
    if member.shape[1] != problem.model.slots:
        raise ValueError(f"{problem.model.slots} parties, but members of {member.shape[1]}")
    return Scenarios(member, kappa, jnp.zeros_like(member))


def _everybody(problem: Problem) -> Setting:
    return Setting(problem, scenarios_of(problem, np.ones((1, problem.model.slots)), 1.0))


def _linear_target(rng: np.random.Generator, x: Floats, weights: Floats, variance: float) -> Floats:
    noise: Floats = rng.normal(scale=np.sqrt(variance), size=len(x))
    return np.asarray(x @ weights[:-1] + weights[-1] + noise)


def _correlation(covariance: Floats) -> Floats:
    deviation = np.sqrt(np.diagonal(covariance))
    return np.asarray(covariance / np.outer(deviation, deviation))


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
