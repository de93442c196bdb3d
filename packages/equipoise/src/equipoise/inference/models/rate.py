"""Inference with rates ~ Gamma, which counts and waiting times share."""

from typing import TypeVar

import numpy as np

from equipoise.inference.conjugate import fit_gamma, gamma_divergence
from equipoise.inference.models.base import Draws, Family, Released
from equipoise.models.exponential import ExponentialModel
from equipoise.models.poisson import PoissonModel

AgreedRate = TypeVar("AgreedRate", PoissonModel, ExponentialModel)


class Rate(Family[AgreedRate]):
    """A rate ~ Gamma in the data's own units; data were clipped to the target's bounds."""

    def conjugate_divergence(self, draws: Draws) -> float:
        """Return the divergence from the prior of the best-fitting gamma distribution."""
        return gamma_divergence(*fit_gamma(draws["rate"]), self.agreed.prior.shape, self.agreed.prior_rate)

    def total_in_units(self, released: Released) -> tuple[float, float]:
        """Return the sum of the observations in their own units, clipped to the bounds, and the number of rows."""
        lower, upper = map(float, self.agreed.target.bounds)
        rows = released.total_rows
        total = (lower + upper) / 2 * rows + (upper - lower) / 2 * float(released.tempered.sum())
        return float(np.clip(total, lower * rows, upper * rows)), rows
