"""Numbers, clipped to scaled bounds: variance ~ InvGamma, by its quantiles; mean | variance ~ N(m, variance/k)."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient

from equipoise._util.arrays import Floats
from equipoise.inference.conjugate import check_possible, normal_gamma_divergence, repaired
from equipoise.inference.models.base import SAFE, Draws, Family, Released
from equipoise.inference.moment_likelihood import RowMoments
from equipoise.inference.quantile_maps import Table, log_gamma_table, transport

if TYPE_CHECKING:
    from equipoise.models.gaussian import GaussianModel

# A Gauss-Legendre rule on [−1, 1], the shortest that leaves an error of 1e-14 on the densities it is used for.
NORMAL_NODES, NORMAL_WEIGHTS = np.polynomial.legendre.leggauss(48)
NORMAL_REACH = 9.0  # a normal variable lies beyond ±9 with probability 2e-19


class GaussianPrior(NamedTuple):
    """Variance ~ InvGamma(shape, scale), mean | variance ~ N(mean, variance / mean_strength), in scaled units."""

    shape: Array
    scale: Array
    mean: Array
    mean_strength: Array
    log_gamma: Table  # of scale / variance


def gaussian_prior(shape: float, scale: float, mean: float, mean_strength: float) -> GaussianPrior:
    """Prepare a normal-inverse-gamma prior."""
    return GaussianPrior(
        shape=jnp.asarray(shape, float),
        scale=jnp.asarray(scale, float),
        mean=jnp.asarray(mean, float),
        mean_strength=jnp.asarray(mean_strength, float),
        log_gamma=log_gamma_table(shape),
    )


@dataclass(frozen=True)
class Gaussian(Family[GaussianPrior]):
    """A number mapped to scaled units and clipped to [−1, 1]; the statistic holds the sums of z and z²."""

    @property
    def dimension(self) -> int:
        """The logarithm of the variance, then the standardised mean."""
        return 2

    @property
    def entries(self) -> int:
        """Sums of z and z²."""
        return 2

    def row_moments(self, prior: GaussianPrior, position: Array) -> RowMoments:
        """Moments of (z, z²)."""
        mean, covariance = clipped_normal(*_mean_and_deviation(prior, position))
        return RowMoments(mean[None], covariance[None])

    def parameters(self, prior: GaussianPrior, position: Array) -> dict[str, Array]:
        """Mean and variance before clipping, in scaled units."""
        mean, deviation = _mean_and_deviation(prior, position)
        return {"mean": mean, "variance": deviation**2}

    def conjugate_draws(
        self, rng: np.random.Generator, prior: GaussianPrior, released: Released, draws: int
    ) -> dict[str, Floats]:
        """Independent draws from the normal-inverse-gamma posterior."""
        rows = released.total_rows
        first, second = released.tempered.sum(axis=0)
        if released.repair and rows > 0:
            matrix = repaired(np.array([[rows, first], [first, second]]), fixed=[0])
            first, second = matrix[0, 1], matrix[1, 1]
        strength0, mean0 = float(prior.mean_strength), float(prior.mean)
        strength = strength0 + rows
        mean = (strength0 * mean0 + first) / strength
        scale = float(prior.scale) + 0.5 * (second + strength0 * mean0**2 - strength * mean**2)
        check_possible(scale - float(prior.scale), second, "squares")
        variance = scale / rng.gamma(float(prior.shape) + rows / 2, size=draws)
        return {"mean": mean + np.sqrt(variance / strength) * rng.normal(size=draws), "variance": variance}

    def conjugate_divergence(self, prior: GaussianPrior, draws: Draws) -> float:
        """Divergence from the prior of the normal-inverse-gamma distribution that fits the draws best."""
        mean, strength = np.array([float(prior.mean)]), np.array([[float(prior.mean_strength)]])
        return normal_gamma_divergence(
            draws["mean"][:, None], draws["variance"], mean, strength, float(prior.shape), float(prior.scale)
        )


def _mean_and_deviation(prior: GaussianPrior, position: Array) -> tuple[Array, Array]:
    log_variance = jnp.log(prior.scale) - transport(prior.log_gamma, position[0])
    deviation = jnp.exp(0.5 * jnp.clip(log_variance, -SAFE, SAFE))
    return prior.mean + deviation * position[1] / jnp.sqrt(prior.mean_strength), deviation


def build(agreed: "GaussianModel", slots: int) -> tuple[Gaussian, GaussianPrior]:
    """The agreed model and prior."""
    prior = agreed.prior
    return Gaussian(slots), gaussian_prior(prior.shape, prior.scale, prior.mean, prior.mean_strength)


def clipped_normal(mean: Array, deviation: Array) -> tuple[Array, Array]:
    """Mean [2] and covariance [2, 2] of (z, z²), z = clip(x, −1, 1), x ~ N(mean, deviation²).

    z is −1 with probability Φ((−1 − mean)/deviation), 1 with probability Φ((mean − 1)/deviation), and has the normal
    density between. A Gauss-Legendre rule over the part of [−1, 1] within 9 deviations of the mean turns that density
    into points with positive weights, accurate whether the density is a needle or flat. The covariance is then a
    weighted sum of outer products about the mean: without cancellation, and positive semi-definite as it stands.
    """
    # Points stay put under differentiation: the integral runs over [−1, 1] whatever the parameters are, and what moves
    # in or out at 9 deviations does not count.
    fixed_mean, fixed_deviation = stop_gradient(mean), stop_gradient(deviation)
    low, high = jnp.clip((jnp.array([-1.0, 1.0]) - fixed_mean) / fixed_deviation, -NORMAL_REACH, NORMAL_REACH)
    half_length = (high - low) / 2
    standard = (low + high) / 2 + half_length * jnp.asarray(NORMAL_NODES)
    # (point − mean)/deviation equals `standard`; written so that it does not round when the deviation is tiny, and
    # still knows how it depends on both parameters.
    distance = (fixed_deviation * standard + (fixed_mean - mean)) / deviation
    density = jnp.exp(-0.5 * distance**2) / math.sqrt(2 * math.pi) * (fixed_deviation / deviation)
    weights = jnp.concatenate(
        [
            half_length * jnp.asarray(NORMAL_WEIGHTS) * density,
            jax.scipy.special.ndtr(jnp.array([-1.0, 1.0]) * (mean - jnp.array([-1.0, 1.0])) / deviation),
        ]
    )
    # Relative to the point of [−1, 1] nearest to the mean: a needle's spread keeps its digits.
    reference = jnp.clip(fixed_mean, -1, 1)
    offset = jnp.concatenate(
        [(fixed_mean - reference) + fixed_deviation * standard, jnp.array([-1.0, 1.0]) - reference]
    )
    offset = jnp.clip(offset, -1 - reference, 1 - reference)  # points of weight 0 may lie outside
    values = jnp.stack([offset, offset * (2 * reference + offset)])  # z − r and z² − r²
    average = values @ weights
    centred = values - average[:, None]
    covariance = (centred[:, None] * centred) @ weights  # Σ w (v − v̄)(v − v̄)ᵀ, symmetric to the last digit
    return jnp.stack([reference, reference**2]) + average, covariance
