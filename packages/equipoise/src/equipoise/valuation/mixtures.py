r"""Small mixtures of normal distributions, and the map under which a mixture becomes N(0, I).

A mixture p(x) = Σ_k w_k N(x; m_k, L_k L_kᵀ) describes heavy tails (the same centre with several scales) as well as
separated modes. It is fitted by expectation–maximisation where the draws are about N(0, I).

The Rosenblatt transform maps a draw of the mixture to independent standard normal numbers, one coordinate after the
other: z_j = Φ⁻¹(F(x_j | x_1 … x_{j−1})). With lower triangular roots L_k all the conditional distributions are mixtures
of normal ones, Σ_k w_k(x_1 … x_{j−1}) Φ(u_kj) with u_k = L_k⁻¹ (x − m_k). The density of x is then p(x) r(z), where r
is the ratio of the density of z to that of N(0, I).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, special

from equipoise._util.arrays import Floats

STEPS = 50
TOLERANCE = 1e-4  # nats per draw, gained by a step
# Short runs from several starts are compared on a few draws; the best one is continued on all of them.
SHORT_RUN = 10
TRIED_ON = 512
RANDOM_STARTS = 8
BLUR = 0.02  # of each draw, shared equally by all components at the start
# A component that has lost its draws becomes N(0, I) again, and one that has few stays away from a singular covariance.
PRIOR_SPREAD = 0.001
SMALLEST_MASS = 1e-9
# Numbers below have no normal quantile in double precision. At 37 standard deviations from every component, tails of
# the mixture say nothing about the draws, and all that is asked of such a draw is to stay finite.
SMALLEST_TAIL = 1e-300


@dataclass(frozen=True)
class Mixture:
    """A mixture of normal distributions: shares [k], means [k, d], lower triangular roots of covariances [k, d, d]."""

    shares: Floats
    means: Floats
    roots: Floats

    def log_density(self, points: Floats) -> Floats:
        """Return the log density at points [n, d]."""
        return np.asarray(np.logaddexp.reduce(self.log_joint(points), axis=1))

    def log_joint(self, points: Floats) -> Floats:
        """Return log(w_k N(x; m_k, L_k L_kᵀ)) of every component [n, k]."""
        squares = np.sum(self._whiten(points) ** 2, axis=1)
        scales = np.sum(np.log(np.diagonal(self.roots, axis1=1, axis2=2)), axis=1)
        return np.asarray(np.log(self.shares) - scales - 0.5 * squares - 0.5 * points.shape[1] * math.log(2 * math.pi))

    def map_to_normal(self, points: Floats) -> Floats:
        """Map points [n, d] by the Rosenblatt transform: draws of this mixture become draws of N(0, I)."""
        white = self._whiten(points)
        log_density = -0.5 * white**2 - np.log(np.diagonal(self.roots, axis1=1, axis2=2)).T
        log_weights = np.log(self.shares) + np.cumsum(log_density, axis=1) - log_density
        weights = special.softmax(log_weights, axis=2)
        # The smaller of the two tails keeps its digits where 1 − F would be rounded to 0.
        lower, upper = (np.sum(weights * special.ndtr(sign * white), axis=2) for sign in (1, -1))
        quantiles = special.ndtri(np.clip(np.minimum(lower, upper), SMALLEST_TAIL, 0.5))
        return np.asarray(np.where(lower < upper, quantiles, -quantiles))

    def _whiten(self, points: Floats) -> Floats:
        """Return L_k⁻¹ (x − m_k) of every component [n, d, k]."""
        white = [
            linalg.solve_triangular(root, (points - mean).T, lower=True, check_finite=False).T
            for mean, root in zip(self.means, self.roots, strict=True)
        ]
        return np.stack(white, axis=2)


def fit_mixture(points: Floats, size: int, rng: np.random.Generator) -> Mixture:
    """Fit a mixture of `size` components to points [n, d] that are about N(0, I) as a whole, by maximum likelihood."""
    if size == 1:
        return _maximise(points, np.ones((len(points), 1)))
    few = rng.permutation(points)[:TRIED_ON]
    tried = [_improve(few, memberships, SHORT_RUN) for memberships in _starts(few, size, rng)]
    _, best = max(tried, key=lambda run: run[0])
    return _improve(points, special.softmax(best.log_joint(points), axis=1), STEPS)[1]


def _starts(points: Floats, size: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Yield memberships [n, size] to start from: shells around the centre (heavy tails), and random cells (modes)."""
    radii = np.sum(points**2, axis=1)
    yield _blur(np.searchsorted(np.quantile(radii, 1 - 0.5 ** np.arange(1, size)), radii), size)
    for _ in range(RANDOM_STARTS):
        centres = points[rng.choice(len(points), size, replace=False)]
        yield _blur(np.argmin(np.sum((points[:, None] - centres) ** 2, axis=2), axis=1), size)


def _blur(labels: NDArray[np.intp], size: int) -> Floats:
    """Return memberships that are nearly all in one component each."""
    return np.asarray((1 - BLUR) * np.eye(size)[labels] + BLUR / size)


def _improve(points: Floats, memberships: Floats, steps: int) -> tuple[float, Mixture]:
    """Run expectation–maximisation until the mean log density settles; return it and the mixture."""
    reached = -math.inf
    for _ in range(steps):
        mixture = _maximise(points, memberships)
        log_joint = mixture.log_joint(points)
        log_density = np.logaddexp.reduce(log_joint, axis=1)
        memberships = np.exp(log_joint - log_density[:, None])
        before, reached = reached, float(np.mean(log_density))
        if reached - before < TOLERANCE:
            break
    return reached, mixture


def _maximise(points: Floats, memberships: Floats) -> Mixture:
    """Return the mixture that is most likely if each point belongs to the components by these shares."""
    number, dimension = points.shape
    mass = memberships.sum(axis=0)
    means = memberships.T @ points / (mass + SMALLEST_MASS)[:, None]
    roots = []
    for mean, members in zip(means, memberships.T, strict=True):
        apart = points - mean
        scatter = (apart.T * members) @ apart
        scatter[np.diag_indices(dimension)] += PRIOR_SPREAD
        roots.append(np.linalg.cholesky(scatter / (members.sum() + PRIOR_SPREAD)))
    return Mixture((mass + 1) / (number + len(mass)), means, np.array(roots))
