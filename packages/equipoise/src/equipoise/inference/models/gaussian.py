"""Inference with numbers, scaled and clipped to [−1, 1]: the statistic holds the sums of z and z²."""

import math

import numpy as np
import scipy

from equipoise._util.arrays import Floats
from equipoise.inference.conjugate import check_possible, normal_gamma_divergence, repaired
from equipoise.inference.models.base import SAFE, Draws, Family, Released, RowMoments
from equipoise.models.gaussian import GaussianModel

# A Gauss-Legendre rule on [−1, 1], the shortest that leaves an error of 1e-14 on the densities it is used for.
NORMAL_NODES, NORMAL_WEIGHTS = np.polynomial.legendre.leggauss(48)
NORMAL_REACH = 9.0  # a normal variable lies beyond ±9 with probability 2e-19


class Gaussian(Family[GaussianModel]):
    """Variance ~ InvGamma(shape, scale), mean | variance ~ N(m, variance/k), before clipping and in scaled units."""

    def row_moments(self, draws: Draws) -> RowMoments:
        deviation = np.clip(np.sqrt(draws["variance"]), math.exp(-SAFE / 2), math.exp(SAFE / 2))
        return clipped_normal(draws["mean"], deviation)

    def conjugate_draws(self, rng: np.random.Generator, released: Released, draws: int) -> dict[str, Floats]:
        """Draw independently from the normal-inverse-gamma posterior."""
        prior, rows = self.agreed.prior, released.total_rows
        first, second = released.tempered.sum(axis=0)
        if released.repair and rows > 0:
            matrix = repaired(np.array([[rows, first], [first, second]]), fixed=[0])
            first, second = matrix[0, 1], matrix[1, 1]
        strength = prior.mean_strength + rows
        mean = (prior.mean_strength * prior.mean + first) / strength
        scale = prior.scale + 0.5 * (second + prior.mean_strength * prior.mean**2 - strength * mean**2)
        check_possible(scale - prior.scale, second, "squares")
        variance = scale / rng.gamma(prior.shape + rows / 2, size=draws)
        return {"mean": mean + np.sqrt(variance / strength) * rng.normal(size=draws), "variance": variance}

    def conjugate_divergence(self, draws: Draws) -> float:
        """Return the divergence from the prior of the best-fitting normal-inverse-gamma distribution."""
        prior = self.agreed.prior
        mean, strength = np.array([prior.mean]), np.array([[prior.mean_strength]])
        return normal_gamma_divergence(
            draws["mean"][:, None], draws["variance"], mean, strength, prior.shape, prior.scale
        )


HALF = Gaussian


def clipped_normal(mean: Floats, deviation: Floats) -> RowMoments:
    """Return moments of (z, z²), z = clip(x, −1, 1), x ~ N(mean, deviation²), for arrays [draws].

    z is −1 with probability Φ((−1 − mean)/deviation), 1 with probability Φ((mean − 1)/deviation), and has the normal
    density between. A Gauss-Legendre rule over the part of [−1, 1] within 9 deviations of the mean turns that density
    into points with positive weights, accurate whether the density is a needle or flat. The covariance is then a
    weighted sum of outer products about the mean: without cancellation, and positive semi-definite as it stands.
    """
    ends = np.array([-1.0, 1.0])
    mean, deviation = mean[:, None], deviation[:, None]
    low, high = np.split(np.clip((ends - mean) / deviation, -NORMAL_REACH, NORMAL_REACH), 2, axis=1)
    half_length = (high - low) / 2
    standard = (low + high) / 2 + half_length * NORMAL_NODES
    density = np.exp(-0.5 * standard**2) / math.sqrt(2 * math.pi)
    beyond = scipy.special.ndtr(ends * (mean - ends) / deviation)
    weights = np.concatenate([half_length * NORMAL_WEIGHTS * density, beyond], axis=1)
    # Relative to the point of [−1, 1] nearest to the mean: a needle's spread keeps its digits.
    reference = np.clip(mean, -1, 1)
    offset = np.concatenate([(mean - reference) + deviation * standard, ends - reference], axis=1)
    # Points of weight 0 may lie outside.
    offset = np.clip(offset, -1 - reference, 1 - reference)
    values = np.stack([offset, offset * (2 * reference + offset)], axis=1)  # z − r and z² − r²
    average = np.sum(values * weights[:, None], axis=2)
    centred = values - average[:, :, None]
    covariance = np.matmul(centred * weights[:, None], centred.transpose(0, 2, 1))
    # Symmetric to the last digit.
    covariance = (covariance + covariance.transpose(0, 2, 1)) / 2
    return RowMoments(np.concatenate([reference, reference**2], axis=1) + average, covariance)
