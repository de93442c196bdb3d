"""Inference with several categories: the statistic holds all their counts."""

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.inference.conjugate import dirichlet_divergence, fit_dirichlet
from equipoise.inference.models.base import Draws, Family, Released, RowMoments
from equipoise.inference.pooling import Releases
from equipoise.models.categorical import CategoricalModel


class Categorical(Family[CategoricalModel]):
    """Probabilities ~ Dirichlet."""

    @property
    def _concentrations(self) -> Floats:
        agreed = self.agreed
        return np.broadcast_to(np.asarray(agreed.prior.concentration, float), len(agreed.target.categories))

    def row_moments(self, draws: Draws) -> RowMoments:
        """Return mean p and covariance diag(p) − p pᵀ, singular because counts sum to the row count.

        Its diagonal p_i (1 − p_i) is written Σ_{j≠i} p_i p_j: no digits are lost when one category takes nearly all,
        and a matrix whose rows sum to 0 with nothing positive off the diagonal is positive semi-definite.
        """
        probabilities = draws["probabilities"]
        covariance = -probabilities[:, :, None] * probabilities[:, None, :]
        places = np.arange(probabilities.shape[1])
        covariance[:, places, places] = 0.0
        covariance[:, places, places] = -covariance.sum(axis=2)
        return RowMoments(probabilities, covariance)

    def log_density(self, draws: Draws, releases: Releases, sampling: float) -> Floats:
        """Return the log density of counts in O(K): covariances are D − n p pᵀ with D diagonal (Sherman–Morrison)."""
        statistic, rows, scale, shape = releases
        p, n = draws["probabilities"][:, None], rows[:, None]
        noise = scale[:, None] * shape
        diagonal = sampling * n * p + noise  # [draws, parties, categories]
        residual = statistic - n * p
        left = np.sum(p * noise / diagonal, axis=2)  # 1 − n pᵀ D⁻¹ p, because p sums to 1
        along = np.sum(p * residual / diagonal, axis=2)
        square = np.sum(residual**2 / diagonal, axis=2) + sampling * rows * along**2 / left
        return np.asarray(-0.5 * np.sum(square + np.sum(np.log(diagonal), axis=2) + np.log(left), axis=1))

    def conjugate_draws(self, rng: np.random.Generator, released: Released, draws: int) -> dict[str, Floats]:
        """Draw from the Dirichlet posterior; counts are clipped and scaled to possible ones."""
        counts = np.maximum(released.tempered.sum(axis=0), 0)
        counts *= released.total_rows / max(counts.sum(), 1e-300)
        return {"probabilities": rng.dirichlet(self._concentrations + counts, size=draws)}

    def conjugate_divergence(self, draws: Draws) -> float:
        """Return the divergence from the prior of the best-fitting Dirichlet distribution."""
        return dirichlet_divergence(fit_dirichlet(draws["probabilities"]), self._concentrations)


HALF = Categorical
