r"""Bayesian linear regression with the conjugate prior: what Gibbs sampling starts from, and exact statistics.

    σ² ~ InvGamma,  weights | σ² ~ N(mean, σ² Λ⁻¹),  Σ ~ W⁻¹(Ψ, ν),  μ | Σ ~ N(μ₀, Σ/k)
    x ~ N(μ, Σ),  y = weights·(x, 1) + N(0, σ²),  statistic of a party ~ N(c M, c K(M) + noise)

Coordinates: σ² and the squared diagonal of the Bartlett factor A (Σ = L_Ψ A⁻ᵀ A⁻¹ L_Ψᵀ) through their quantile
functions, everything else as standard normal variables, so that the prior is N(0, I).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike
from scipy import special

from equipoise._util.arrays import Floats
from equipoise.inference.conjugate import check_possible, normal_gamma_divergence, repaired
from equipoise.inference.laplace import inverse_lower
from equipoise.inference.models.base import Draws, Family, Released
from equipoise.inference.moment_likelihood import RowMoments
from equipoise.inference.quantile_maps import Table, log_gamma_table, transport

if TYPE_CHECKING:
    from equipoise.models.linear import LinearModel


class LinearPrior(NamedTuple):
    """Hyper-parameters, and the tables and factors that follow from them."""

    shape: Array
    scale: Array
    weight_mean: Array
    weight_precision: Array
    weight_root: Array  # R Rᵀ = Λ⁻¹
    feature_mean: Array
    mean_strength: Array
    scatter: Array  # Ψ
    scatter_root: Array
    degrees_of_freedom: Array
    log_gamma: Table  # of 1/σ²
    log_chi2: Table  # of the squared Bartlett diagonal


def linear_prior(
    *,
    shape: float,
    scale: float,
    weight_mean: ArrayLike,
    weight_precision: ArrayLike,
    feature_mean: ArrayLike,
    mean_strength: float,
    scatter: ArrayLike,
    degrees_of_freedom: float,
) -> LinearPrior:
    """Prepare a prior; `weight_mean` and `weight_precision` have the bias last."""
    precision, scatter = np.asarray(weight_precision, float), np.asarray(scatter, float)
    width = len(scatter)
    lower = np.linalg.cholesky(precision)
    half_chi2 = log_gamma_table((degrees_of_freedom - np.arange(width)) / 2)
    return LinearPrior(
        shape=jnp.asarray(shape, float),
        scale=jnp.asarray(scale, float),
        weight_mean=jnp.asarray(weight_mean, float),
        weight_precision=jnp.asarray(precision),
        weight_root=jnp.asarray(np.linalg.inv(lower).T),
        feature_mean=jnp.asarray(feature_mean, float),
        mean_strength=jnp.asarray(mean_strength, float),
        scatter=jnp.asarray(scatter),
        scatter_root=jnp.asarray(np.linalg.cholesky(scatter)),
        degrees_of_freedom=jnp.asarray(degrees_of_freedom, float),
        log_gamma=log_gamma_table(shape),
        log_chi2=Table(half_chi2.values + math.log(2), half_chi2.slopes),
    )


@dataclass(frozen=True)
class LinearRegression(Family[LinearPrior]):
    """Static part of the model: number of parties and features, and whether parties share the feature distribution."""

    width: int
    shared: bool

    @property
    def entries(self) -> int:
        """Length of a statistic: sums of x and y, then the upper triangle of their products."""
        return (self.width + 1) + (self.width + 1) * (self.width + 2) // 2

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return 2 + self.width + (1 if self.shared else self.slots) * self._data_dimension

    @property
    def _data_dimension(self) -> int:
        return self.width + self.width * (self.width + 1) // 2

    @property
    def focus(self) -> int:
        """The first coordinates, which are the model's own parameters; the rest describe the features."""
        return 2 + self.width

    @property
    def places_of_entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Row and column, in the n × n matrix, of every entry of the statistic."""
        rows, columns = np.triu_indices(self.width + 2)
        order = np.argsort(matrix_places(self.width)[rows, columns])[1:]  # the count, −1, comes first
        return rows[order], columns[order]

    def matrices(self, statistic: Array, count: Array) -> Array:
        """Statistics [..., entries] and counts [...] as matrices Σ v vᵀ [..., n, n], v = (x, 1, y)."""
        return jnp.concatenate([statistic, count[..., None]], axis=-1)[..., matrix_places(self.width)]

    def parameters(self, prior: LinearPrior, position: Array) -> dict[str, Array]:
        """Model and data parameters at a position; data parameters have a leading axis of parties unless shared."""
        weights, variance = self.regression(prior, position)
        means, roots = self.features(prior, position)
        covariances = roots @ roots.mT
        if self.shared:
            means, covariances = means[0], covariances[0]
        return {"weights": weights, "variance": variance, "feature_mean": means, "feature_covariance": covariances}

    def regression(self, prior: LinearPrior, position: Array) -> tuple[Array, Array]:
        """Weights, the bias last, and σ²."""
        variance = prior.scale * jnp.exp(-transport(prior.log_gamma, position[0]))
        return prior.weight_mean + jnp.sqrt(variance) * prior.weight_root @ position[1 : self.focus], variance

    def features(self, prior: LinearPrior, position: Array) -> tuple[Array, Array]:
        """Means and covariance roots of the feature distributions: [1 or slots, …]."""
        blocks = position[self.focus :].reshape(-1, self._data_dimension)
        return jax.vmap(partial(self._features, prior))(blocks)

    def _features(self, prior: LinearPrior, block: Array) -> tuple[Array, Array]:
        """Mean and a square root of the covariance of the features."""
        width = self.width
        diagonal = jnp.exp(0.5 * transport(prior.log_chi2, block[width : 2 * width]))  # Aᵢᵢ² ~ χ²(ν − i)
        bartlett = jnp.zeros((width, width)).at[np.tril_indices(width, -1)].set(block[2 * width :])
        bartlett += jnp.diag(diagonal)
        root = prior.scatter_root @ inverse_lower(bartlett).T
        return prior.feature_mean + root @ block[:width] / jnp.sqrt(prior.mean_strength), root

    def second_moments(self, prior: LinearPrior, position: Array) -> Array:
        """M = E[v vᵀ] for each feature distribution: [1 or slots, n, n]."""
        return second_moments(*self.features(prior, position), *self.regression(prior, position))

    def row_moments(self, prior: LinearPrior, position: Array) -> RowMoments:
        """Mean and covariance of one row's statistic for each feature distribution [1 or slots, entries, …]."""
        moments = self.second_moments(prior, position)
        rows, columns = self.places_of_entries
        return RowMoments(moments[:, rows, columns], jax.vmap(self.covariance_of_row)(moments))

    def covariance_of_row(self, moment: Array) -> Array:
        """Covariance [entries, entries] of v vᵀ for normal v with M = E[v vᵀ], by Isserlis' theorem."""
        i, j = self.places_of_entries
        mean = moment[:, self.width]
        products = jnp.outer(mean[i] * mean[j], mean[i] * mean[j])
        return moment[i][:, i] * moment[j][:, j] + moment[i][:, j] * moment[j][:, i] - 2 * products

    def own_of_draws(self, prior: LinearPrior, draws: Draws) -> Floats:
        """Coordinates of σ² and weights, of a sampler that works in none."""
        return regression_coordinates(prior, draws["weights"], draws["variance"])

    def conjugate_draws(
        self, rng: np.random.Generator, prior: LinearPrior, released: Released, draws: int
    ) -> dict[str, Floats]:
        """From the normal-inverse-gamma posterior of the model and the normal-inverse-Wishart one of the features."""
        from scipy import stats  # takes a second to load, which every worker process would wait for

        matrices = np.asarray(self.matrices(jnp.asarray(released.statistic), jnp.asarray(released.rows)))
        if released.repair:
            matrices = np.stack([repaired(matrix, fixed=[self.width]) for matrix in matrices])
        matrices = released.kappa * matrices
        width = self.width
        total = matrices.sum(axis=0)
        precision0, mean0 = np.asarray(prior.weight_precision), np.asarray(prior.weight_mean)
        precision = precision0 + total[:-1, :-1]
        check_possible(float(np.linalg.eigvalsh(precision)[0]), 0.0, "products of the features")
        mean = np.linalg.solve(precision, precision0 @ mean0 + total[:-1, -1])
        shape = float(prior.shape) + total[width, width] / 2
        scale = float(prior.scale) + 0.5 * (total[-1, -1] + mean0 @ precision0 @ mean0 - mean @ precision @ mean)
        check_possible(scale - float(prior.scale), total[-1, -1], "squares of the target")
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
            check_possible(float(np.linalg.eigvalsh(scatter)[0]), 0.0, "products of the features")
            covariance = stats.invwishart.rvs(degrees, scatter, size=draws, random_state=rng)
            covariance = covariance.reshape(draws, width, width)
            noise = np.einsum("nij,nj->ni", np.linalg.cholesky(covariance), rng.normal(size=(draws, width)))
            return centre + noise / np.sqrt(strength), covariance

        if self.shared:
            means, covariances = features(total)
        else:
            groups = np.zeros((self.slots, *total.shape))
            groups[released.inside] = matrices  # parties that are out keep their prior
            pairs = [features(sums) for sums in groups]
            means, covariances = (np.stack(part, axis=1) for part in zip(*pairs, strict=True))
        return {"weights": weights, "variance": variance, "feature_mean": means, "feature_covariance": covariances}

    def conjugate_divergence(self, prior: LinearPrior, draws: Draws) -> float:
        """Divergence from the prior of the normal-inverse-gamma distribution that fits the draws best."""
        return normal_gamma_divergence(
            draws["weights"],
            draws["variance"],
            np.asarray(prior.weight_mean),
            np.asarray(prior.weight_precision),
            float(prior.shape),
            float(prior.scale),
        )


def regression_coordinates(prior: LinearPrior, weights: ArrayLike, variance: ArrayLike) -> Floats:
    """Coordinates of the model's own parameters [draws, w + 2]: the inverse of `LinearRegression.regression`."""
    sigma2, slopes = np.asarray(variance, float), np.asarray(weights, float)
    precision = float(prior.scale) / sigma2  # ~ Gamma(shape, 1)
    shape = float(prior.shape)
    # The nearer tail, which keeps its digits.
    lower = special.ndtri(special.gammainc(shape, precision))
    upper = -special.ndtri(special.gammaincc(shape, precision))
    first = np.where(precision < special.gammaincinv(shape, 0.5), lower, upper)
    centred = (slopes - np.asarray(prior.weight_mean)) / np.sqrt(sigma2)[:, None]
    return np.column_stack([first, np.linalg.solve(np.asarray(prior.weight_root), centred.T).T])


def second_moments(means: Array, roots: Array, weights: Array, variance: Array) -> Array:
    """E[v vᵀ] for several feature distributions: [distributions, n, n]."""
    return jax.vmap(second_moment, in_axes=(0, 0, None, None))(means, roots, weights, variance)


def second_moment(mean: Array, root: Array, weights: Array, variance: Array) -> Array:
    """E[v vᵀ] of v = (x, 1, y), for features N(mean, root rootᵀ)."""
    return _second_moment(mean, root @ root.T, weights, variance)


def _second_moment(mean: Array, covariance: Array, weights: Array, variance: Array) -> Array:
    width = mean.shape[0]
    cross = covariance @ weights[:width]
    centred = jnp.zeros((width + 2, width + 2))
    centred = centred.at[:width, :width].set(covariance)
    centred = centred.at[:width, -1].set(cross).at[-1, :width].set(cross)
    centred = centred.at[-1, -1].set(weights[:width] @ cross + variance)
    whole = jnp.concatenate([mean, jnp.ones(1), (weights[:width] @ mean + weights[width])[None]])
    return centred + jnp.outer(whole, whole)


def build(agreed: "LinearModel", slots: int) -> tuple[LinearRegression, Any]:
    """Build the agreed model and its conjugate prior."""
    width = len(agreed.features)
    prior, data = agreed.prior, agreed.data_prior
    assert prior.kind == "conjugate"
    assert data.kind == "conjugate"
    degrees = width + 4.0 if data.degrees_of_freedom is None else data.degrees_of_freedom
    model = LinearRegression(slots, width, data.scope == "shared")
    return model, linear_prior(
        shape=prior.shape,
        scale=prior.scale,
        weight_mean=_vector(prior.weight_mean, width + 1),
        weight_precision=agreed.weight_precision,
        feature_mean=_vector(data.mean, width),
        mean_strength=data.mean_strength,
        scatter=agreed.feature_covariance * (degrees - width - 1),  # E[Σ] = Ψ/(ν − w − 1)
        degrees_of_freedom=degrees,
    )


def matrix_places(width: int) -> np.ndarray:
    """Where each entry of the n × n matrix (features, bias, target) stands in a statistic; −1 the count."""
    size, names = width + 2, [*range(width), width + 1]
    places = np.full((size, size), -1)
    for position, i in enumerate(names):
        places[i, width] = places[width, i] = position
    position = width + 1
    for first, i in enumerate(names):
        for j in names[first:]:
            places[i, j] = places[j, i] = position
            position += 1
    return places


def _vector(values: Sequence[float] | None, length: int) -> Floats:
    return np.zeros(length) if values is None else np.asarray(values, dtype=float)
