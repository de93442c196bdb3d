"""Moments of Poisson, exponential and normal variables clipped to bounds and mapped to [−1, 1].

A chain may wander far into a tail. Rates and variances that the moments see are therefore kept where floating-point
numbers neither overflow nor vanish; the moments are constant to the last digit beyond.

A row's variance may be 0 to the last digit (a rate so high that every row is clipped). No likelihood divides by it:
the noise that was added to the statistic is always on top.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient

# Logarithms of rates and variances stay in ±SAFE: their exponentials, squares and reciprocal squares are all finite.
SAFE = 300.0

# Gauss-Legendre rules on [−1, 1]. Each is the shortest that leaves an error of 1e-14 on the densities it is used for.
NORMAL_NODES, NORMAL_WEIGHTS = np.polynomial.legendre.leggauss(48)
TAIL_NODES, TAIL_WEIGHTS = np.polynomial.legendre.leggauss(32)
NORMAL_REACH = 9.0  # a normal variable lies beyond ±9 with probability 2e-19
TAIL_REACH = 13.0  # in units of 2√rate, where a Poisson tail decays at least as fast as exp(−s²/4): 13 leaves 4e-19


# Poisson.


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


# Exponential.


def clipped_exponential(log_rate: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Mean and variance of a clipped and scaled exponential variable.

    With w = upper − lower and b = rate · w: x exceeds `lower` with probability s = exp(−rate · lower), and by how much
    is exponential again. So clip(x) = lower + w v, where v is min(e, 1), e ~ Exponential(b), with probability s, and
    otherwise 0:

        E v = s A,    Var v = s V + s (1 − s) A²,
        A = E min(e, 1) = (1 − exp(−b)) / b,    V = Var min(e, 1) = (1 − exp(−2b) − 2b exp(−b)) / b².

    No term is negative. z = 2v − 1.
    """
    width = upper - lower
    scaled_rate = jnp.exp(jnp.clip(log_rate + jnp.log(width), -SAFE, SAFE))  # b
    wait = scaled_rate * (lower / width)  # rate · lower
    exceeds = jnp.exp(-wait)
    excess_mean = _excess_mean(scaled_rate)
    variance = exceeds * (_excess_variance(scaled_rate) - jnp.expm1(-wait) * excess_mean**2)
    return 2 * exceeds * excess_mean - 1, 4 * variance


def _excess_mean(scaled_rate: Array) -> Array:
    """A(b) = (1 − exp(−b)) / b = 1 − b/2! + b²/3! − … The series is for gradients, of which 1/b − 1/b would be left."""
    small = scaled_rate < 0.01
    tiny, large = jnp.where(small, scaled_rate, 0.0), jnp.where(small, 1.0, scaled_rate)
    series = jnp.polyval(jnp.asarray([(-1.0) ** k / math.factorial(k + 1) for k in range(7, -1, -1)]), tiny)
    return jnp.where(small, series, -jnp.expm1(-large) / large)


def _excess_variance(scaled_rate: Array) -> Array:
    """V(b) = 2 exp(−b) (sinh b − b) / b², which starts as b/3: the terms up to b² of the numerator cancel."""
    small = scaled_rate < 0.5
    tiny, large = jnp.where(small, scaled_rate, 0.0), jnp.where(small, 1.0, scaled_rate)
    coefficients = jnp.asarray([1 / math.factorial(2 * k + 3) for k in range(6, -1, -1)])  # of (sinh b − b)/b³
    series = 2 * tiny * jnp.exp(-tiny) * jnp.polyval(coefficients, tiny**2)
    return jnp.where(small, series, (-jnp.expm1(-2 * large) / large - 2 * jnp.exp(-large)) / large)


# Gaussian.


def clipped_normal(mean: Array, deviation: Array) -> tuple[Array, Array]:
    """Mean [2] and covariance [2, 2] of (z, z²), z = clip(x, −1, 1), x ~ N(mean, deviation²).

    z is −1 with probability Φ((−1 − mean)/deviation), 1 with probability Φ((mean − 1)/deviation), and has the normal
    density between. A Gauss-Legendre rule over the part of [−1, 1] within 9 deviations of the mean turns that density
    into points with positive weights, accurate whether the density is a needle or flat. The covariance is then a
    weighted sum of outer products about the mean: without cancellation, and positive semi-definite as it stands.
    """
    # Points stay put under differentiation: the integral runs over [−1, 1] whatever the parameters are, and what moves
    # in or out at 9 deviations does not count.
    fixed_mean, fixed_deviation = stop_gradient(mean), stop_gradient(deviation)
    low, high = jnp.clip((jnp.array([-1.0, 1.0]) - fixed_mean) / fixed_deviation, -NORMAL_REACH, NORMAL_REACH)
    half_length = (high - low) / 2
    standard = (low + high) / 2 + half_length * jnp.asarray(NORMAL_NODES)
    # (point − mean)/deviation equals `standard`; written so that it does not round when the deviation is tiny, and
    # still knows how it depends on both parameters.
    distance = (fixed_deviation * standard + (fixed_mean - mean)) / deviation
    density = jnp.exp(-0.5 * distance**2) / math.sqrt(2 * math.pi) * (fixed_deviation / deviation)
    weights = jnp.concatenate(
        [
            half_length * jnp.asarray(NORMAL_WEIGHTS) * density,
            jax.scipy.special.ndtr(jnp.array([-1.0, 1.0]) * (mean - jnp.array([-1.0, 1.0])) / deviation),
        ]
    )
    # Relative to the point of [−1, 1] nearest to the mean: a needle's spread keeps its digits.
    reference = jnp.clip(fixed_mean, -1, 1)
    offset = jnp.concatenate(
        [(fixed_mean - reference) + fixed_deviation * standard, jnp.array([-1.0, 1.0]) - reference]
    )
    offset = jnp.clip(offset, -1 - reference, 1 - reference)  # points of weight 0 may lie outside
    values = jnp.stack([offset, offset * (2 * reference + offset)])  # z − r and z² − r²
    average = values @ weights
    centred = values - average[:, None]
    covariance = (centred[:, None] * centred) @ weights  # Σ w (v − v̄)(v − v̄)ᵀ, symmetric to the last digit
    return jnp.stack([reference, reference**2]) + average, covariance
