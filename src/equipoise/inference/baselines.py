"""What one would have without noise, or by ignoring it: independent draws from conjugate posteriors.

* exact: the statistics are taken as they are; right when they are exact.
* naive: the same, from *perturbed* statistics. They need not be the statistic of any rows (negative sums of squares),
  so they are first **repaired**: second-moment matrices are projected on the positive semi-definite ones and scaled
  back to the public row count; counts and sums are clipped to their possible range. Its posterior ignores the noise
  and is overconfident; it is here to be compared with.

Tempering by κ multiplies statistics and row counts, for which both rules agree. Clipping is ignored, as the conjugate
updates of the paper do. Logistic regression has no conjugate posterior, nor has linear regression with a standardised
prior: their baselines are the collapsed posterior with the noise variance set to almost nothing (`without_noise`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy import stats

from equipoise.errors import InferenceError
from equipoise.inference import families
from equipoise.inference.engine import Problem
from equipoise.inference.linear import LinearPrior, LinearRegression
from equipoise.inference.logistic import LogisticRegression
from equipoise.inference.observations import Observations
from equipoise.inference.standardised import StandardisedLinear

Floats = NDArray[np.float64]


class Sums(NamedTuple):
    """Statistics [parties, entries] and row counts [parties] of a coalition's members, already multiplied by κ."""

    statistic: Floats
    rows: Floats


def conjugate_draws(
    rng: np.random.Generator, problem: Problem, member: Floats, kappa: float, draws: int, *, repair: bool
) -> dict[str, Floats]:
    """Independent draws of every parameter from the conjugate posterior of a coalition's statistics."""
    model, prior = problem.model, problem.prior
    inside = member > 0
    statistic = np.asarray(problem.observations.statistic)[inside]
    count = np.asarray(problem.observations.rows)[inside]
    sums = Sums(kappa * statistic, kappa * count)
    if isinstance(model, LinearRegression):
        matrices = np.asarray(model.matrices(jnp.asarray(statistic), jnp.asarray(count)))
        if repair:
            matrices = np.stack([repaired(matrix, fixed=[model.width]) for matrix in matrices])
        return _linear(rng, model, prior, kappa * matrices, inside, draws)
    if isinstance(model, families.Bernoulli):
        return _bernoulli(rng, prior, sums, draws)
    if isinstance(model, families.Categorical):
        return _categorical(rng, prior, sums, draws)
    if isinstance(model, families.Poisson):
        total, rows = _total_in_units(prior, sums)
        return {"rate": rng.gamma(float(prior.shape) + total, 1 / (float(prior.rate) + rows), draws)}
    if isinstance(model, families.Exponential):
        total, rows = _total_in_units(prior, sums)
        return {"rate": rng.gamma(float(prior.shape) + rows, 1 / (float(prior.rate) + total), draws)}
    assert isinstance(model, families.Gaussian)
    return _gaussian(rng, prior, sums, draws, repair=repair)


def is_conjugate(model: object) -> bool:
    """Whether `conjugate_draws` knows the posterior; if not, there is `without_noise`."""
    return not isinstance(model, LogisticRegression | StandardisedLinear)


def without_noise(problem: Problem, *, repair: bool) -> Problem:
    """The same problem as if the statistics were exact, for models without a conjugate posterior."""
    observations = problem.observations
    statistic = np.asarray(observations.statistic)
    count = np.asarray(observations.rows)
    if repair:
        mended: Callable[[Any, Floats, float], Floats] = _repaired_logistic
        if isinstance(problem.model, LinearRegression):
            mended = _repaired_linear
        statistic = np.stack([mended(problem.model, *one) for one in zip(statistic, count, strict=True)])
    # Exactly singular only where a statistic is constant; a speck of variance keeps the factorisation finite.
    variance = np.broadcast_to(1e-9 * count[:, None], statistic.shape)
    nothing = jnp.zeros(statistic.shape)
    quiet = Observations(jnp.asarray(statistic), observations.rows, jnp.asarray(variance), nothing, nothing)
    return Problem(problem.model, problem.prior, quiet)


def repaired(matrix: Floats, *, fixed: list[int]) -> Floats:
    """The second-moment matrix with negative eigenvalues removed, and the public diagonal entries as they were.

    Removing negative eigenvalues only adds to the diagonal, so scaling rows and columns down restores the public
    entries and keeps the matrix positive semi-definite.
    """
    values, vectors = np.linalg.eigh(matrix)
    floor = 1e-9 * np.max(np.abs(values))
    clipped = (vectors * np.maximum(values, floor)) @ vectors.T
    scale = np.ones(len(matrix))
    scale[fixed] = np.sqrt(np.diag(matrix)[fixed] / np.diag(clipped)[fixed])
    return np.asarray(scale[:, None] * clipped * scale)


def _linear(
    rng: np.random.Generator,
    model: LinearRegression,
    prior: LinearPrior,
    matrices: Floats,
    inside: NDArray[np.bool_],
    draws: int,
) -> dict[str, Floats]:
    width = model.width
    total = matrices.sum(axis=0)
    precision0, mean0 = np.asarray(prior.weight_precision), np.asarray(prior.weight_mean)
    precision = precision0 + total[:-1, :-1]
    _check_possible(float(np.linalg.eigvalsh(precision)[0]), 0.0, "products of the features")
    mean = np.linalg.solve(precision, precision0 @ mean0 + total[:-1, -1])
    shape = float(prior.shape) + total[width, width] / 2
    scale = float(prior.scale) + 0.5 * (total[-1, -1] + mean0 @ precision0 @ mean0 - mean @ precision @ mean)
    _check_possible(scale - float(prior.scale), total[-1, -1], "squares of the target")
    variance = scale / rng.gamma(shape, size=draws)
    root = np.linalg.inv(np.linalg.cholesky(precision)).T
    weights = mean + np.sqrt(variance)[:, None] * (rng.normal(size=(draws, width + 1)) @ root.T)

    def features(sums: Floats) -> tuple[Floats, Floats]:
        """Normal-inverse-Wishart posterior of one feature distribution."""
        strength0, centre0 = float(prior.mean_strength), np.asarray(prior.feature_mean)
        strength = strength0 + sums[width, width]
        centre = (strength0 * centre0 + sums[:width, width]) / strength
        scatter = np.asarray(prior.scatter) + sums[:width, :width] + strength0 * np.outer(centre0, centre0)
        scatter = scatter - strength * np.outer(centre, centre)
        degrees = float(prior.degrees_of_freedom) + sums[width, width]
        _check_possible(float(np.linalg.eigvalsh(scatter)[0]), 0.0, "products of the features")
        covariance = stats.invwishart.rvs(degrees, scatter, size=draws, random_state=rng).reshape(draws, width, width)
        noise = np.einsum("nij,nj->ni", np.linalg.cholesky(covariance), rng.normal(size=(draws, width)))
        return centre + noise / np.sqrt(strength), covariance

    if model.shared:
        means, covariances = features(total)
    else:
        groups = np.zeros((model.slots, *total.shape))
        groups[inside] = matrices  # parties that are out keep their prior
        pairs = [features(sums) for sums in groups]
        means, covariances = (np.stack(part, axis=1) for part in zip(*pairs, strict=True))
    return {"weights": weights, "variance": variance, "feature_mean": means, "feature_covariance": covariances}


def _check_possible(remainder: float, total: float, what: str) -> None:
    """Refuse statistics that no rows have: what the means leave of a sum of squares would be negative."""
    if not remainder >= -1e-9 * abs(total):
        raise InferenceError(
            f"these cannot be the exact statistics of any rows: the {what} are smaller than the sums of the same rows "
            "allow. Check that they are exact (a perturbed statistic is not), in scaled units and in the order of the "
            "agreement"
        )


def _bernoulli(rng: np.random.Generator, prior: families.BernoulliPrior, sums: Sums, draws: int) -> dict[str, Floats]:
    rows = sums.rows.sum()
    positive = np.clip(sums.statistic.sum(), 0, rows)
    return {
        "probability": rng.beta(float(prior.positive) + positive, float(prior.negative) + rows - positive, size=draws)
    }


def _categorical(
    rng: np.random.Generator, prior: families.CategoricalPrior, sums: Sums, draws: int
) -> dict[str, Floats]:
    counts = np.maximum(sums.statistic.sum(axis=0), 0)
    counts *= sums.rows.sum() / max(counts.sum(), 1e-300)
    return {"probabilities": rng.dirichlet(np.asarray(prior.concentrations) + counts, size=draws)}


def _total_in_units(prior: families.RatePrior, sums: Sums) -> tuple[float, float]:
    """Sum of the observations in their own units, within what the bounds allow, and the number of rows."""
    lower, upper = float(prior.lower), float(prior.upper)
    rows = float(sums.rows.sum())
    total = (lower + upper) / 2 * rows + (upper - lower) / 2 * float(sums.statistic.sum())
    return float(np.clip(total, lower * rows, upper * rows)), rows


def _gaussian(
    rng: np.random.Generator, prior: families.GaussianPrior, sums: Sums, draws: int, *, repair: bool
) -> dict[str, Floats]:
    rows = float(sums.rows.sum())
    first, second = sums.statistic.sum(axis=0)
    if repair and rows > 0:
        matrix = repaired(np.array([[rows, first], [first, second]]), fixed=[0])
        first, second = matrix[0, 1], matrix[1, 1]
    strength0, mean0 = float(prior.mean_strength), float(prior.mean)
    strength = strength0 + rows
    mean = (strength0 * mean0 + first) / strength
    scale = float(prior.scale) + 0.5 * (second + strength0 * mean0**2 - strength * mean**2)
    _check_possible(scale - float(prior.scale), second, "squares")
    variance = scale / rng.gamma(float(prior.shape) + rows / 2, size=draws)
    return {"mean": mean + np.sqrt(variance / strength) * rng.normal(size=draws), "variance": variance}


def _repaired_linear(model: LinearRegression, statistic: Floats, count: float) -> Floats:
    """The statistic whose matrix over (x, 1, y) is positive semi-definite."""
    matrix = np.asarray(model.matrices(jnp.asarray(statistic), jnp.asarray(count)))
    rows, columns = model.places_of_entries
    return np.asarray(repaired(matrix, fixed=[model.width])[rows, columns])


def _repaired_logistic(model: LogisticRegression, statistic: Floats, count: float) -> Floats:
    """The statistic whose matrix over (x, y, 1) is positive semi-definite, with y² = 1 known."""
    width = model.width
    matrix = np.empty((width + 2, width + 2))
    matrix[-1, :-1] = matrix[:-1, -1] = statistic[: width + 1]
    matrix[-1, -1] = matrix[width, width] = count
    rows, columns = np.triu_indices(width + 1)
    inner = ~((rows == width) & (columns == width))
    rows, columns = rows[inner], columns[inner]
    matrix[rows, columns] = matrix[columns, rows] = statistic[width + 1 :]
    fixed = repaired(matrix, fixed=[width, width + 1])
    return np.concatenate([fixed[-1, : width + 1], fixed[rows, columns]])
