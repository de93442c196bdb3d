"""Inference problems simulated from their own models, at the engine's level: rows, exact statistics, noise."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from equipoise.inference.engine import Problem
from equipoise.inference.observations import Observations, Scenarios
from numpy.typing import NDArray

from equipoise.inference.models.linear import LinearPrior, LinearRegression, linear_prior

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Simulated:
    """A problem whose true parameters are known: `position` are the true coordinates."""

    problem: Problem
    position: Floats
    rows: list[Floats]
    exact: Floats


def everyone(problem: Problem, *, kappa: float = 1.0, members: list[int] | None = None) -> Scenarios:
    """One scenario with all (or the given) parties."""
    slots = problem.model.slots
    member = np.zeros((1, slots))
    member[:, members if members is not None else slice(None)] = 1
    return Scenarios(jnp.asarray(member), jnp.asarray([kappa]), jnp.zeros((1, slots)))


def noise_variances(sensitivity: float, epsilons: list[float], squares: NDArray[np.bool_], weight: float) -> Floats:
    """½(λ/ε)Δ² at λ = 2 for every party and entry, divided by the squared weight for squares."""
    return sensitivity**2 / np.asarray(epsilons)[:, None] / np.where(squares, weight**2, 1.0)


def linear_entries(columns: Floats) -> Floats:
    """Statistic of one party: sums, then the upper triangle of products of all columns."""
    i, j = np.triu_indices(columns.shape[1])
    return np.concatenate([columns.sum(axis=0), (columns.T @ columns)[i, j]])


def square_entries(columns: int) -> NDArray[np.bool_]:
    """Which entries of `linear_entries` are sums of squares."""
    i, j = np.triu_indices(columns)
    return np.concatenate([np.zeros(columns, bool), i == j])


def syn_prior(width: int = 2) -> LinearPrior:
    """The paper's synthetic setting."""
    return linear_prior(
        shape=5.0,
        scale=0.1,
        weight_mean=np.zeros(width + 1),
        weight_precision=0.025 * np.eye(width + 1),
        feature_mean=np.zeros(width),
        mean_strength=1.0,
        scatter=np.eye(width),
        degrees_of_freedom=50.0,
    )


def housing_prior(width: int = 6) -> LinearPrior:
    """Like the paper's housing setting: weak beliefs worth ten rows, standardised features."""
    return linear_prior(
        shape=5.0,
        scale=5 * 0.3,
        weight_mean=np.zeros(width + 1),
        weight_precision=10 * np.eye(width + 1),
        feature_mean=np.zeros(width),
        mean_strength=1.0,
        scatter=3.0 * np.eye(width),
        degrees_of_freedom=width + 4.0,
    )


def linear_observations(
    rng: np.random.Generator,
    model: LinearRegression,
    parameters: dict[str, Any],
    counts: list[int],
    epsilons: list[float],
    bound: float,
) -> tuple[Observations, list[Floats], Floats]:
    """Simulate rows and noisy statistics; `bound` sets the noise, rows are not clipped."""
    width = model.width
    weights, variance = np.asarray(parameters["weights"]), float(parameters["variance"])
    tables = []
    for party, count in enumerate(counts):
        mean, covariance = (
            np.asarray(parameters[name] if model.shared else parameters[name][party])
            for name in ("feature_mean", "feature_covariance")
        )
        x = rng.multivariate_normal(mean, covariance, size=count)
        y = x @ weights[:-1] + weights[-1] + rng.normal(size=count) * np.sqrt(variance)
        tables.append(np.column_stack([x, y]))
    exact = np.stack([linear_entries(table) for table in tables])
    variances = noise_variances(
        1 + (width + 1) * bound**2, epsilons, square_entries(width + 1), np.sqrt((width + 4) / 2)
    )
    return _observations(rng, exact, counts, variances, epsilons), tables, exact


def _observations(
    rng: np.random.Generator, exact: Floats, counts: list[int], variances: Floats, epsilons: list[float]
) -> Observations:
    noisy = exact + rng.normal(size=exact.shape) * np.sqrt(variances)
    added = np.sqrt(variances * np.asarray(epsilons)[:, None])
    parts = (noisy, np.asarray(counts, float), variances, added, rng.normal(size=exact.shape))
    return Observations(*(jnp.asarray(part) for part in parts))


def simulate_linear(
    seed: int,
    *,
    prior: LinearPrior | None = None,
    counts: list[int] | None = None,
    epsilons: list[float] | None = None,
    shared: bool = False,
    bound: float = 1.0,
) -> Simulated:
    """Draw everything from the model; Syn by default."""
    prior = prior or syn_prior()
    counts = counts or [100, 200, 400]
    epsilons = epsilons or [0.2, 0.1, 0.2]
    model = LinearRegression(len(counts), len(prior.scatter), shared)
    rng = np.random.default_rng(seed)
    position = rng.normal(size=model.dimension)
    parameters = jax.tree.map(np.asarray, model.parameters(prior, jnp.asarray(position)))
    observations, tables, exact = linear_observations(rng, model, parameters, counts, epsilons, bound)
    return Simulated(Problem(model, prior, observations), position, tables, exact)


def simulate_housing(seed: int, *, epsilons: list[float] | None = None) -> Simulated:
    """The shape of the paper's housing setting: 6 features, 6,581 rows, one feature distribution."""
    return simulate_linear(
        seed,
        prior=housing_prior(),
        counts=[1316, 1974, 3291],
        epsilons=epsilons or [0.2, 0.1, 0.2],
        shared=True,
        bound=2.0,
    )
