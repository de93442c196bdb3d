"""Several categories: the statistic holds all their counts."""

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.inference.conjugate import dirichlet_divergence, fit_dirichlet
from equipoise.inference.models.base import Draws, Family, Released, RowMoments
from equipoise.models.categorical import CategoricalModel


class Categorical(Family[CategoricalModel]):
    """Probabilities ~ Dirichlet."""

    @property
    def _concentrations(self) -> Floats:
        agreed = self.agreed
        return np.broadcast_to(np.asarray(agreed.prior.concentration, float), len(agreed.target.categories))

    def row_moments(self, draws: Draws) -> RowMoments:
        """Mean p and covariance diag(p) − p pᵀ, singular because counts sum to the row count.

        Its diagonal p_i (1 − p_i) is written Σ_{j≠i} p_i p_j: no digits are lost when one category takes nearly all,
        and a matrix whose rows sum to 0 with nothing positive off the diagonal is positive semi-definite.
        """
        probabilities = draws["probabilities"]
        covariance = -probabilities[:, :, None] * probabilities[:, None, :]
        places = np.arange(probabilities.shape[1])
        covariance[:, places, places] = 0.0
        covariance[:, places, places] = -covariance.sum(axis=2)
        return RowMoments(probabilities, covariance)

    def conjugate_draws(self, rng: np.random.Generator, released: Released, draws: int) -> dict[str, Floats]:
        """Draw from the Dirichlet posterior; counts are made what they can be."""
        counts = np.maximum(released.tempered.sum(axis=0), 0)
        counts *= released.total_rows / max(counts.sum(), 1e-300)
        return {"probabilities": rng.dirichlet(self._concentrations + counts, size=draws)}

    def conjugate_divergence(self, draws: Draws) -> float:
        """Divergence from the prior of the Dirichlet distribution that fits the draws best."""
        return dirichlet_divergence(fit_dirichlet(draws["probabilities"]), self._concentrations)


HALF = Categorical
