"""Counts: a Poisson variable, clipped to bounds and mapped to [−1, 1].

A chain may wander far into a tail. Rates that the moments see are therefore kept where floating-point numbers neither
overflow nor vanish; the moments are constant to the last digit beyond. A row's variance may be 0 to the last digit (a
rate so high that every row is clipped). No likelihood divides by it: the noise that was added to the statistic is
always on top.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient

from equipoise._util.arrays import Floats
from equipoise.inference.models.base import SAFE, Released, single_entry
from equipoise.inference.models.rate import Rate, RatePrior, log_rate, rate_prior, total_in_units
from equipoise.inference.moment_likelihood import RowMoments

if TYPE_CHECKING:
    from equipoise.models.poisson import PoissonModel

# A Gauss-Legendre rule on [−1, 1], the shortest that leaves an error of 1e-14 on the densities it is used for.
TAIL_NODES, TAIL_WEIGHTS = np.polynomial.legendre.leggauss(32)
TAIL_REACH = 13.0  # in units of 2√rate, where a Poisson tail decays at least as fast as exp(−s²/4): 13 leaves 4e-19


@dataclass(frozen=True)
class Poisson(Rate):
    """A count, clipped to whole numbers `lower` to `upper` and mapped to [−1, 1]; the statistic is the sum.

    The bounds are part of the static model because they are the orders of the incomplete gamma functions involved.
    """

    lower: int
    upper: int

    def row_moments(self, prior: RatePrior, position: Array) -> RowMoments:
        """Moments of (clip(x) − middle) / half_width."""
        return single_entry(*clipped_poisson(log_rate(prior, position), self.lower, self.upper))

    def conjugate_draws(
        self, rng: np.random.Generator, prior: RatePrior, released: Released, draws: int
    ) -> dict[str, Floats]:
        """From the gamma posterior; the sum is clipped to what it can be."""
        total, rows = total_in_units(prior, released)
        return {"rate": rng.gamma(float(prior.shape) + total, 1 / (float(prior.rate) + rows), draws)}


def build(agreed: "PoissonModel", slots: int) -> tuple[Poisson, RatePrior]:
    """The agreed model and prior."""
    lower, upper = agreed.target.bounds
    return Poisson(slots, int(lower), int(upper)), rate_prior(agreed.prior.shape, agreed.prior_rate, lower, upper)


def clipped_poisson(log_rate: Array, lower: int, upper: int) -> tuple[Array, Array]:
    """Mean and variance of a clipped and scaled Poisson variable, at a cost that does not depend on the bounds.

    With D = x − rate, probabilities f and distribution function F, k f(k) = rate f(k − 1) gives the sums below any m:

        Σ_{x≤m} D f(x) = −rate f(m),    Σ_{x≤m} D² f(x) = rate F(m) − rate f(m) (m + 1 − rate).

    Moments are taken about the point of [lower, upper] nearest to the rate: far outside the bounds, where x is almost
    always clipped to that point, all terms are as small as the moments themselves and nothing large cancels.
    """
    half_width = (upper - lower) / 2
    # Above this rate, the probability of anything up to `upper` is below 1e-300 (Chernoff's bound).
    ceiling = math.log(upper + 40 * math.sqrt(upper) + 1000)
    rate = jnp.exp(jnp.clip(log_rate, -SAFE, ceiling))
    # Any reference gives the same moments, so that gradients need not follow it.
    reference = stop_gradient(jnp.clip(rate, lower, upper))
    offset = rate - reference

    at_upper = _poisson_probability(upper, rate)
    up_to_upper, above = _poisson_tails(upper, rate)
    if lower > 0:
        before_lower = _poisson_probability(lower - 1, rate)
        below, from_lower = _poisson_tails(lower - 1, rate)
        # The difference of whichever two tails are small.
        inside = jnp.where(rate < lower, from_lower - above, up_to_upper - below)
    else:
        before_lower, below, inside = jnp.zeros(()), jnp.zeros(()), up_to_upper

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
    return mean, jnp.maximum(second - first**2, 0.0) / half_width**2


def _poisson_probability(count: int, rate: Array) -> Array:
    """f(count) = exp(−rate) rate^count / count!, count ≥ 0, around its maximum at rate = count.

    count log(rate/count) − (rate − count) keeps 14 digits where count log(rate) − rate − log(count!), a difference of
    large numbers, keeps 11 for counts of 10⁴.
    """
    if count == 0:
        return jnp.exp(-rate)
    # log(count!) − count log(count) + count, by Stirling's series where the difference would lose digits.
    peak = (
        0.5 * math.log(2 * math.pi * count) + 1 / (12 * count) - 1 / (360 * count**3) + 1 / (1260 * count**5)
        if count > 64
        else math.lgamma(count + 1) - count * math.log(count) + count
    )
    excess = (rate - count) / count
    low = excess < -0.5  # where 1 + excess has lost the digits of a small rate
    log_ratio = jnp.where(low, jnp.log(rate / count), jnp.log1p(jnp.where(low, 0.0, excess)))
    return jnp.exp(count * (log_ratio - excess) - peak)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _poisson_tails(count: int, rate: Array) -> tuple[Array, Array]:
    """P(x ≤ count) and P(x > count) of a Poisson variable, both to full relative precision unless negligible.

    P(x > count) = ∫₀^rate f(count; t) dt, and the other tail is the rest of that integral. In the coordinate s = 2√t
    the integrand has a spread of about 1 whatever the count, so that one fixed rule serves all of them; the series and
    fractions of `jax.scipy.special.gammainc` take some √count turns. The tail that does not hold the peak is
    integrated.
    """
    low = rate < count + 1
    here = 2 * jnp.sqrt(rate)
    start = jnp.where(low, jnp.maximum(here - TAIL_REACH, 0.0), here)
    length = jnp.where(low, here - start, TAIL_REACH)
    place = start + length * jnp.asarray((TAIL_NODES + 1) / 2)
    density = _poisson_probability(count, place**2 / 4) * place / 2  # dt = s/2 ds
    tail = length * (density @ jnp.asarray(TAIL_WEIGHTS / 2))
    return jnp.where(low, 1 - tail, tail), jnp.where(low, tail, 1 - tail)


@_poisson_tails.defjvp
def _poisson_tails_jvp(
    count: int, primals: tuple[Array], tangents: tuple[Array]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Raising the rate moves mass from up to `count` to above it: dP(x > count)/d rate = f(count)."""
    flow = _poisson_probability(count, primals[0]) * tangents[0]
    return _poisson_tails(count, primals[0]), (-flow, flow)
