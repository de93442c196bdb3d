r"""Evidence of the others' releases as one weighted sum, with which own rows are combined exactly (docs/maths.md §8).

A degraded reward is made from the others' releases with noise added to each. Passing on their posterior as draws would
require fitting a density to the draws before own rows can be combined with them, and the fit fails where own rows lie
in its tail. So the reward carries the data behind the posterior: one weighted sum of the others' noisy statistics. The
sum is distributed like one release of a given number of rows (`inference.pooling.add_up`), so its likelihood is the
usual one.

The others' rows may follow other weights than one's own rows. The model takes theirs to be one's own plus a deviation,

    z_others = z + s ε,   ε ~ N(0, I),   log s normal,

in the coordinates in which the prior is N(0, I): s = 1 is as large a deviation as the agreement expects a weight to be.
The deviation is integrated out to first order, by adding Σ_k d_k d_kᵀ to the covariance of the observed target moments.
Here d_k is half of the distance by which their mean moves from z − s e_k to z + s e_k (in logistic regression, the
largest distance by which it can move). s is a further coordinate, which is learnt along with the weights: where own
rows and the others agree, it is small; where they do not, the others count for little and the posterior returns to that
of own rows alone.

The residual variance of a linear regression has an s of its own, correlated with that of the weights. If both shared
one s, others whose targets scatter differently would shift the own weights and variance, because that makes the
deviations more probable. If the two were independent, the scatter of made-up targets would cast no doubt on the
weights.
"""

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.inference.normals import normal_log_density
from equipoise.inference.pooling import Releases
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.problem import build_observation
from equipoise.models.regression import Regression
from equipoise.reward.evidence import Normal
from equipoise.reward.sums import OthersSums

# The prior's median of s, and its standard deviation of log s.
USUAL_DEVIATION, SPREAD_OF_DEVIATION = 0.02, 2.0
# The prior correlation between log s of the residual variance and log s of the weights.
CORRELATION = 0.9
# The search for the mode starts a second time from this coordinate of s, in case the others deviate.
HETEROGENEOUS = 2.0


class ExactEvidence:
    """Prior times the likelihood of the others' sums, in the coordinates of own parameters and of deviations.

    Attributes
    ----------
    dimension : int
        Number of coordinates: those of the model, the residual variance's s if there is one, and the weights' s.
    parts : tuple of Normal
        Normal distributions around which the density may have modes.
    """

    fits = True
    misfit = None

    def __init__(self, agreed: Regression, sums: OthersSums) -> None:
        self._model = RegressionModel.of(agreed)
        order = self._model.moments.order
        releases = Releases(
            sums.statistic[None, order], np.array([sums.rows]), np.array([1.0]), np.asarray(sums.variance)[order]
        )
        self._likelihood, mode = build_observation(self._model, releases)
        own = self._model.dimension
        weights = self._model.moments.width + 1
        self._is_weight = np.arange(own) >= own - weights
        deviations = 1 if self._is_weight.all() else 2
        self.dimension = own + deviations
        root = np.eye(self.dimension)
        root[:own, :own] = mode.root
        prior = Normal.prior(self.dimension)
        self.parts = (
            Normal.of(np.append(mode.centre, np.zeros(deviations)), root @ root.T),
            Normal.of(np.append(np.zeros(own), np.full(deviations, HETEROGENEOUS)), prior.covariance),
        )

    def log_density(self, points: Floats) -> Floats:
        """Return the log density of prior times evidence at points [n, d]."""
        size = self._model.dimension
        own = points[:, :size]
        of_weights, rest = points[:, -1:], points[:, size : size + 1]
        of_variance = CORRELATION * of_weights + np.sqrt(1 - CORRELATION**2) * rest
        deviation = deviation_at(np.where(self._is_weight, of_weights, of_variance))
        likelihood = self._likelihood
        mean, covariance = likelihood.moments_at(self._model.parameters(own))
        moves = deviation[:, None] * np.eye(size)
        ends = np.concatenate([(own[:, None] + moves), (own[:, None] - moves)])
        moved = likelihood.at_most_moved(self._model.parameters(ends.reshape(-1, size)))
        above, below = moved.reshape(2, *moves.shape[:2], -1)
        away = 0.5 * (above - below)
        covariance = covariance + np.matmul(away.transpose(0, 2, 1), away)
        log_likelihood = normal_log_density(likelihood.observation.observed - mean, covariance)
        return np.asarray(log_likelihood - 0.5 * np.sum(points**2, axis=1))


def deviation_at(coordinate: Floats) -> Floats:
    """Return s at its coordinate, which is N(0, 1) under the prior."""
    return np.asarray(USUAL_DEVIATION * np.exp(SPREAD_OF_DEVIATION * coordinate))
