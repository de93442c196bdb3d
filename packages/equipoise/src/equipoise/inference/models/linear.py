r"""Linear regression with the conjugate prior: posteriors of exact statistics, and what Gibbs sampling needs to know.

σ² ~ InvGamma,  weights | σ² ~ N(mean, σ² Λ⁻¹),  Σ ~ W⁻¹(Ψ, ν),  μ | Σ ~ N(μ₀, Σ/k)
x ~ N(μ, Σ),  y = weights·(x, 1) + N(0, σ²)
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from equipoise._util.arrays import Floats
from equipoise.inference.conjugate import check_possible, normal_gamma_divergence, repaired
from equipoise.inference.models.base import Conjugate, Draws, Released
from equipoise.models.linear import LinearModel


class LinearPrior(NamedTuple):
    """Hyper-parameters; `weight_mean` and `weight_precision` have the bias last, `scatter` is Ψ."""

    shape: float
    scale: float
    weight_mean: Floats
    weight_precision: Floats
    feature_mean: Floats
    mean_strength: float
    scatter: Floats
    degrees_of_freedom: float


class ConjugateRegression(Conjugate[LinearModel]):
    """Posteriors of a linear regression whose prior is conjugate."""

    @property
    def width(self) -> int:
        """The number of features."""
        return len(self.agreed.features)

    @property
    def shared(self) -> bool:
        """True if all parties' features have one distribution."""
        return self.agreed.data_prior.scope == "shared"

    @cached_property
    def prior(self) -> LinearPrior:
        """The agreed hyper-parameters."""
        agreed, width = self.agreed, self.width
        prior, data = agreed.prior, agreed.data_prior
        assert prior.kind == "conjugate"
        assert data.kind == "conjugate"
        degrees = width + 4.0 if data.degrees_of_freedom is None else data.degrees_of_freedom
        return LinearPrior(
            shape=prior.shape,
            scale=prior.scale,
            weight_mean=_vector(prior.weight_mean, width + 1),
            weight_precision=agreed.weight_precision,
            feature_mean=_vector(data.mean, width),
            mean_strength=data.mean_strength,
            scatter=agreed.feature_covariance * (degrees - width - 1),  # E[Σ] = Ψ/(ν − w − 1)
            degrees_of_freedom=degrees,
        )

    def own_of_draws(self, draws: Draws) -> Floats:
        """Return coordinates of σ² and weights, from draws of a sampler that uses none."""
        precision, shape = self.prior.scale / draws["variance"], self.prior.shape  # the former ~ Gamma(shape, 1)
        # The nearer tail, which keeps its digits.
        lower = special.ndtri(special.gammainc(shape, precision))
        upper = -special.ndtri(special.gammaincc(shape, precision))
        first = np.where(precision < special.gammaincinv(shape, 0.5), lower, upper)
        return self.agreed.weight_coordinates(draws["weights"], first)

    def matrices(self, statistic: Floats, rows: Floats) -> Floats:
        """Arrange statistics [..., entries] and row counts [...] as Σ v vᵀ [..., n, n], v = (x, 1, y)."""
        return np.concatenate([statistic, rows[..., None]], axis=-1)[..., matrix_places(self.width)]

    def conjugate_draws(self, rng: np.random.Generator, released: Released, draws: int) -> dict[str, Floats]:
        """Draw from the normal-inverse-gamma posterior, and the normal-inverse-Wishart one of features."""
        # The import takes a second, and every worker process would wait for it.
        from scipy import stats

        prior, matrices = self.prior, self.matrices(released.statistic, released.rows)
        if released.repair:
            matrices = np.stack([repaired(matrix, fixed=[self.width]) for matrix in matrices])
        matrices = released.kappa * matrices
        width = self.width
        total = matrices.sum(axis=0)
        precision0, mean0 = prior.weight_precision, prior.weight_mean
        precision = precision0 + total[:-1, :-1]
        check_possible(float(np.linalg.eigvalsh(precision)[0]), 0.0, "products of the features")
        mean = np.linalg.solve(precision, precision0 @ mean0 + total[:-1, -1])
        shape = prior.shape + total[width, width] / 2
        scale = prior.scale + 0.5 * (total[-1, -1] + mean0 @ precision0 @ mean0 - mean @ precision @ mean)
        check_possible(scale - prior.scale, total[-1, -1], "squares of the target")
        variance = scale / rng.gamma(shape, size=draws)
        root = np.linalg.inv(np.linalg.cholesky(precision)).T
        weights = mean + np.sqrt(variance)[:, None] * (rng.normal(size=(draws, width + 1)) @ root.T)

        def features(sums: Floats) -> tuple[Floats, Floats]:
            """Draw from the normal-inverse-Wishart posterior of a feature distribution."""
            strength0, centre0 = prior.mean_strength, prior.feature_mean
            strength = strength0 + sums[width, width]
            centre = (strength0 * centre0 + sums[:width, width]) / strength
            scatter = prior.scatter + sums[:width, :width] + strength0 * np.outer(centre0, centre0)
            scatter = scatter - strength * np.outer(centre, centre)
            degrees = prior.degrees_of_freedom + sums[width, width]
            check_possible(float(np.linalg.eigvalsh(scatter)[0]), 0.0, "products of the features")
            covariance = stats.invwishart.rvs(degrees, scatter, size=draws, random_state=rng)
            covariance = covariance.reshape(draws, width, width)
            noise = np.einsum("nij,nj->ni", np.linalg.cholesky(covariance), rng.normal(size=(draws, width)))
            return centre + noise / np.sqrt(strength), covariance

        if self.shared:
            means, covariances = features(total)
        else:
            groups = np.zeros((len(released.inside), *total.shape))
            # Parties outside the coalition keep their prior.
            groups[released.inside] = matrices
            pairs = [features(sums) for sums in groups]
            means, covariances = (np.stack(part, axis=1) for part in zip(*pairs, strict=True))
        return {"weights": weights, "variance": variance, "feature_mean": means, "feature_covariance": covariances}

    def conjugate_divergence(self, draws: Draws) -> float:
        """Return the divergence from the prior of the best-fitting normal-inverse-gamma distribution."""
        prior = self.prior
        return normal_gamma_divergence(
            draws["weights"], draws["variance"], prior.weight_mean, prior.weight_precision, prior.shape, prior.scale
        )


HALF = ConjugateRegression


def matrix_places(width: int) -> NDArray[np.intp]:
    """Return the index in a statistic of each entry of the n × n matrix (features, bias, target); −1 is the count."""
    size, names = width + 2, [*range(width), width + 1]
    places = np.full((size, size), -1, np.intp)
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
