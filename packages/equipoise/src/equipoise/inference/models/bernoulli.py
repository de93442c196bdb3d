"""Inference with two labels: the statistic is the number of rows with the second."""

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.inference.conjugate import dirichlet_divergence, fit_dirichlet
from equipoise.inference.models.base import Draws, Family, Released, RowMoments, single_entry
from equipoise.models.bernoulli import BernoulliModel


class Bernoulli(Family[BernoulliModel]):
    """Probability of the second label ~ Beta."""

    def row_moments(self, draws: Draws) -> RowMoments:
        probability = draws["probability"]
        return single_entry(probability, probability * (1 - probability))

    def conjugate_draws(self, rng: np.random.Generator, released: Released, draws: int) -> dict[str, Floats]:
        """Draw from the Beta posterior; the count is clipped to its possible range."""
        prior, rows = self.agreed.prior, released.total_rows
        positive = np.clip(released.tempered.sum(), 0, rows)
        return {"probability": rng.beta(prior.positive + positive, prior.negative + rows - positive, size=draws)}

    def conjugate_divergence(self, draws: Draws) -> float:
        """Return the divergence from the prior of the best-fitting Beta distribution."""
        prior = self.agreed.prior
        both = np.stack([draws["probability"], 1 - draws["probability"]], axis=1)
        return dirichlet_divergence(fit_dirichlet(both), np.array([prior.positive, prior.negative]))


HALF = Bernoulli
