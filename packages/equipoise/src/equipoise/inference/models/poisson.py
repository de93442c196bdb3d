"""Inference with counts: a Poisson variable, clipped to bounds and mapped to [−1, 1].

A point may lie far in a tail of the prior. Rates that the moments see are therefore kept where floating-point numbers
neither overflow nor vanish; the moments are constant to the last digit beyond. A row's variance may be 0 to the last
digit (a rate so high that every row is clipped). No likelihood divides by it: the noise that was added to the statistic
is always on top.
"""

import math

import numpy as np
import scipy

from equipoise._util.arrays import Floats
from equipoise.inference.models.base import SAFE, Draws, Released, RowMoments, single_entry
from equipoise.inference.models.rate import Rate
from equipoise.models.poisson import PoissonModel


class Poisson(Rate[PoissonModel]):
    """A count, clipped to whole numbers and mapped to [−1, 1]; the statistic is the sum."""

    def row_moments(self, draws: Draws) -> RowMoments:
        lower, upper = map(int, self.agreed.target.bounds)
        return single_entry(*clipped_poisson(draws["rate"], lower, upper))

    def conjugate_draws(self, rng: np.random.Generator, released: Released, draws: int) -> dict[str, Floats]:
        """Draw from the gamma posterior; the sum is clipped to its possible range."""
        total, rows = self.total_in_units(released)
        return {"rate": rng.gamma(self.agreed.prior.shape + total, 1 / (self.agreed.prior_rate + rows), draws)}


HALF = Poisson


def clipped_poisson(rate: Floats, lower: int, upper: int) -> tuple[Floats, Floats]:
    """Return mean and variance of clipped and scaled Poisson variables of rates [draws].

    With D = x − rate, probabilities f and distribution function F, k f(k) = rate f(k − 1) gives the sums below any m:

        Σ_{x≤m} D f(x) = −rate f(m),    Σ_{x≤m} D² f(x) = rate F(m) − rate f(m) (m + 1 − rate).

    Moments are taken about the point of [lower, upper] nearest to the rate: far outside the bounds, where x is almost
    always clipped to that point, all terms are as small as the moments themselves and nothing large cancels.
    """
    half_width = (upper - lower) / 2
    # Above this rate, the probability of anything up to `upper` is below 1e-300 (Chernoff's bound).
    rate = np.clip(rate, math.exp(-SAFE), upper + 40 * math.sqrt(upper) + 1000)
    reference = np.clip(rate, lower, upper)
    offset = rate - reference

    at_upper = _probability(upper, rate)
    up_to_upper, above = _tails(upper, rate)
    before_lower, below, inside = np.zeros_like(rate), np.zeros_like(rate), up_to_upper
    if lower > 0:
        before_lower = _probability(lower - 1, rate)
        below, from_lower = _tails(lower - 1, rate)
        # The difference of whichever two tails are small.
        inside = np.where(rate < lower, from_lower - above, up_to_upper - below)

    inside_first = rate * (before_lower - at_upper)  # Σ D f(x), lower ≤ x ≤ upper
    inside_second = rate * (inside + before_lower * (lower - rate) - at_upper * (upper + 1 - rate))  # Σ D² f(x)
    first = below * (lower - reference) + above * (upper - reference) + inside_first + offset * inside
    second = (
        below * (lower - reference) ** 2
        + above * (upper - reference) ** 2
        + (inside_second + 2 * offset * inside_first + offset**2 * inside)
    )
    mean = (reference - (lower + upper) / 2 + first) / half_width
    # Rounding may leave −1e-16 or so where all rows are clipped. A row that never varies is the right answer there.
    return mean, np.maximum(second - first**2, 0.0) / half_width**2


def _probability(count: int, rate: Floats) -> Floats:
    """Return f(count) = exp(−rate) rate^count / count!, computed around its maximum at rate = count.

    count log(rate/count) − (rate − count) keeps 14 digits where count log(rate) − rate − log(count!), a difference of
    large numbers, keeps 11 for counts of 10⁴.
    """
    if count == 0:
        return np.exp(-rate)
    # log(count!) − count log(count) + count, by Stirling's series where the difference would lose digits.
    peak = (
        0.5 * math.log(2 * math.pi * count) + 1 / (12 * count) - 1 / (360 * count**3) + 1 / (1260 * count**5)
        if count > 64
        else math.lgamma(count + 1) - count * math.log(count) + count
    )
    excess = (rate - count) / count
    # Here 1 + excess has lost the digits of a small rate.
    low = excess < -0.5
    log_ratio = np.where(low, np.log(rate / count), np.log1p(np.where(low, 0.0, excess)))
    return np.exp(count * (log_ratio - excess) - peak)


def _tails(count: int, rate: Floats) -> tuple[Floats, Floats]:
    """Return P(x ≤ count) and P(x > count) of Poisson variables, both to full relative precision."""
    special = scipy.special
    return np.asarray(special.gammaincc(count + 1.0, rate)), np.asarray(special.gammainc(count + 1.0, rate))
