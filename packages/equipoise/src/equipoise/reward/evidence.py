r"""Density of the others' evidence, fitted to draws, with which own rows can be combined (docs/maths.md §8).

A reward holds draws of q ∝ p(z) e(z): prior times the others' evidence, held back as in the reward, in the coordinates
in which the prior is N(0, I). They are fitted by a normal distribution N(m, S), and the posterior at home is

    p(z | own rows, reward) ∝ q(z) p(own rows | z).

Evidence can only narrow: eigenvalues of S beyond 1 are those of a finite number of draws, and are set to 1 (of S⁻¹ − I,
below 0 to 0). The fit is checked by the divergence of the draws from it (`knn-mixture`). Where that is more than 0.1
nats, a mixture of a few normal distributions is fitted, each limited in the same way, and the remaining divergence is
reported.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.estimate import Estimate
from equipoise.valuation.divergence import divergence

LARGEST_MISFIT = 0.1  # nats
MOST_COMPONENTS = 5
# A mixture needs at least this many draws for each number that it estimates.
DRAWS_PER_NUMBER = 10


@dataclass(frozen=True)
class Normal:
    """A normal distribution, by its mean and a root of its covariance, L Lᵀ."""

    mean: Floats
    root: Floats

    @classmethod
    def narrowed(cls, mean: Floats, covariance: Floats) -> Self:
        """Return a normal distribution with this mean and covariance, the latter clipped where wider than the prior."""
        values, vectors = np.linalg.eigh(covariance)
        values = np.clip(values, 1e-12, 1.0)
        return cls.of(mean, (vectors * values) @ vectors.T)

    @classmethod
    def of(cls, mean: Floats, covariance: Floats) -> Self:
        """Return the normal distribution with this mean and covariance."""
        return cls(mean, np.asarray(np.linalg.cholesky(covariance), float))

    @property
    def covariance(self) -> Floats:
        """The covariance matrix, L Lᵀ."""
        return np.asarray(self.root @ self.root.T)

    @classmethod
    def prior(cls, dimension: int) -> Self:
        """Return N(0, I)."""
        return cls(np.zeros(dimension), np.eye(dimension))

    def whitened(self, points: Floats) -> Floats:
        """Map points [n, d] to the coordinates in which this distribution is N(0, I)."""
        return np.asarray((points - self.mean) @ self._inverse.T)

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(np.linalg.inv(self.root), float)

    def log_density(self, points: Floats) -> Floats:
        """Return the log density at points [n, d]."""
        white = self.whitened(points)
        constant = 0.5 * len(self.mean) * math.log(2 * math.pi) + float(np.sum(np.log(np.diag(self.root))))
        return np.asarray(-0.5 * np.sum(white**2, axis=1) - constant)


@dataclass(frozen=True)
class Evidence:
    """Prior times evidence, q(z): a normal distribution, or a mixture where a single one does not fit.

    `misfit` is the divergence of the draws from it, in nats; None for the prior itself, where there is no evidence.
    """

    parts: tuple[Normal, ...]
    shares: tuple[float, ...] = (1.0,)
    misfit: Estimate | None = None

    @classmethod
    def none(cls, dimension: int) -> Self:
        """Return the prior, for rewards without evidence."""
        return cls((Normal.prior(dimension),))

    @classmethod
    def fitted(cls, draws: Floats) -> Self:
        """Fit draws [chains, draws, d] of q; use a mixture if a single distribution does not fit."""
        points = draws.reshape(-1, draws.shape[2])
        dimension = points.shape[1]
        normal = Normal.narrowed(points.mean(axis=0), np.cov(points.T).reshape(dimension, dimension))
        # Heavy tails bias the default estimator, which would overstate their misfit by up to half a nat.
        misfit = divergence(normal.whitened(points).reshape(draws.shape), "knn-mixture")
        best = cls((normal,), (1.0,), misfit)
        numbers = dimension * (dimension + 3) // 2 + 1
        for size in range(2, min(MOST_COMPONENTS, len(points) // (DRAWS_PER_NUMBER * numbers)) + 1):
            if best.fits:
                break
            mixture = cls(*_mixture(points, normal, size))
            gained = float(np.mean(mixture.log_density(points) - normal.log_density(points)))
            left = Estimate(misfit.value - gained, misfit.error)
            if left.value < best._left:
                best = cls(mixture.parts, mixture.shares, left)
        return best

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.parts[0].mean)

    @property
    def _left(self) -> float:
        return 0.0 if self.misfit is None else self.misfit.value

    @property
    def fits(self) -> bool:
        """True if the density describes the draws well enough."""
        return self._left <= LARGEST_MISFIT

    def log_density(self, points: Floats) -> Floats:
        """Return the log density of prior times evidence at points [n, d]."""
        if len(self.parts) == 1:
            return self.parts[0].log_density(points)
        each = [math.log(share) + part.log_density(points) for share, part in zip(self.shares, self.parts, strict=True)]
        return np.asarray(np.logaddexp.reduce(each))


def _mixture(points: Floats, around: Normal, size: int) -> tuple[tuple[Normal, ...], tuple[float, ...]]:
    """Fit `size` normal distributions and their shares by maximum likelihood, in the coordinates of `around`."""
    # scikit-learn takes a second to load and is seldom needed.
    from sklearn.mixture import GaussianMixture
    from threadpoolctl import threadpool_limits

    fit = GaussianMixture(size, random_state=0, n_init=5, init_params="random_from_data")
    # The matrices are so small that BLAS threads would only wait for each other.
    with threadpool_limits(1):
        mixture = fit.fit(around.whitened(points))
    parts = [
        Normal.narrowed(around.mean + around.root @ mean, around.root @ covariance @ around.root.T)
        for mean, covariance in zip(mixture.means_, mixture.covariances_, strict=True)
    ]
    return tuple(parts), tuple(float(share) for share in mixture.weights_)
