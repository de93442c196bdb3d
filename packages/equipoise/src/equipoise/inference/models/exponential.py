"""Inference with waiting times: an exponential variable, clipped to bounds and mapped to [−1, 1].

As for counts, rates stay where floating-point numbers neither overflow nor vanish, and a row's variance may be 0.
"""

import math

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.inference.models.base import SAFE, Draws, Released, RowMoments, single_entry
from equipoise.inference.models.rate import Rate
from equipoise.models.exponential import ExponentialModel


class Exponential(Rate[ExponentialModel]):
    """A waiting time, clipped and mapped to [−1, 1]; the statistic is the sum."""

    def row_moments(self, draws: Draws) -> RowMoments:
        lower, upper = map(float, self.agreed.target.bounds)
        return single_entry(*clipped_exponential(draws["rate"], lower, upper))

    def conjugate_draws(self, rng: np.random.Generator, released: Released, draws: int) -> dict[str, Floats]:
        """Draw from the gamma posterior; the sum is clipped to its possible range."""
        total, rows = self.total_in_units(released)
        return {"rate": rng.gamma(self.agreed.prior.shape + rows, 1 / (self.agreed.prior_rate + total), draws)}


HALF = Exponential


def clipped_exponential(rate: Floats, lower: float, upper: float) -> tuple[Floats, Floats]:
    """Return mean and variance of clipped and scaled exponential variables of rates [draws].

    With w = upper − lower and b = rate · w: x exceeds `lower` with probability s = exp(−rate · lower), and by how much
    is exponential again. So clip(x) = lower + w v, where v is min(e, 1), e ~ Exponential(b), with probability s, and
    otherwise 0:

        E v = s A,    Var v = s V + s (1 − s) A²,
        A = E min(e, 1) = (1 − exp(−b)) / b,    V = Var min(e, 1) = (1 − exp(−2b) − 2b exp(−b)) / b².

    No term is negative. z = 2v − 1.
    """
    width = upper - lower
    scaled_rate = np.clip(rate * width, math.exp(-SAFE), math.exp(SAFE))  # b
    wait = scaled_rate * (lower / width)  # rate · lower
    exceeds = np.exp(-wait)
    excess_mean = -np.expm1(-scaled_rate) / scaled_rate
    variance = exceeds * (_excess_variance(scaled_rate) - np.expm1(-wait) * excess_mean**2)
    return 2 * exceeds * excess_mean - 1, 4 * variance


def _excess_variance(scaled_rate: Floats) -> Floats:
    """Return V(b) = 2 exp(−b) (sinh b − b) / b², which starts as b/3: terms up to b² of the numerator cancel."""
    small = scaled_rate < 0.5
    tiny, large = np.where(small, scaled_rate, 0.0), np.where(small, 1.0, scaled_rate)
    coefficients = [1 / math.factorial(2 * k + 3) for k in range(6, -1, -1)]  # of (sinh b − b)/b³
    series = 2 * tiny * np.exp(-tiny) * np.polyval(coefficients, tiny**2)
    return np.where(small, series, (-np.expm1(-2 * large) / large - 2 * np.exp(-large)) / large)
