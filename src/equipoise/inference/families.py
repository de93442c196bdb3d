"""The conjugate families (Bernoulli, categorical, Poisson, exponential, Gaussian), statistics integrated out.

A party's statistic is a sum over rows, so the engine needs the mean and covariance of one row's contribution and
nothing else (`moment_likelihood.py`). Rows were clipped to public bounds before they were summed: all moments here are
those of the *clipped* variable, so that clipping costs information but never biases a posterior.

Coordinates are those of `transport.py`: the prior is exactly N(0, I).

    Bernoulli    probability ~ Beta, through the quantile function of its logit
    categorical  probabilities ~ Dirichlet, as K − 1 independent Beta fractions of what the earlier categories left
    Poisson      rate ~ Gamma, through the quantile function of its logarithm
    exponential  the same
    Gaussian     variance ~ InvGamma likewise; mean | variance ~ N(m, variance/k) is a standard normal, moved and scaled

A chain may wander far into a tail. Rates and variances that the moments see are therefore kept where floating-point
numbers neither overflow nor vanish; the moments are constant to the last digit beyond.

A row's variance may be 0 to the last digit (a rate so high that every row is clipped). No likelihood divides by it:
the noise that was added to the statistic is always on top.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax import stop_gradient

from equipoise.inference import moment_likelihood
from equipoise.inference.moment_likelihood import RowMoments
from equipoise.inference.scenario import Observed
from equipoise.inference.transport import Table, beta_table, log_gamma_table, transport

# Logarithms of rates and variances stay in ±SAFE: their exponentials, squares and reciprocal squares are all finite.
SAFE = 300.0

# Gauss-Legendre rules on [−1, 1]. Each is the shortest that leaves an error of 1e-14 on the densities it is used for.
NORMAL_NODES, NORMAL_WEIGHTS = np.polynomial.legendre.leggauss(48)
TAIL_NODES, TAIL_WEIGHTS = np.polynomial.legendre.leggauss(32)
NORMAL_REACH = 9.0  # a normal variable lies beyond ±9 with probability 2e-19
TAIL_REACH = 13.0  # in units of 2√rate, where a Poisson tail decays at least as fast as exp(−s²/4): 13 leaves 4e-19


class BernoulliPrior(NamedTuple):
    """Probability of the second label ~ Beta(positive, negative)."""

    positive: Array
    negative: Array
    logit: Table


class CategoricalPrior(NamedTuple):
    """Probabilities ~ Dirichlet(concentrations [categories]); `logit` [categories − 1] of the stick fractions."""

    concentrations: Array
    logit: Table


class RatePrior(NamedTuple):
    """Rate ~ Gamma(shape, rate) in the data's own units, and the bounds to which data were clipped."""

    shape: Array
    rate: Array
    lower: Array
    upper: Array
    log_gamma: Table  # of rate parameter × rate


class GaussianPrior(NamedTuple):
    """Variance ~ InvGamma(shape, scale), mean | variance ~ N(mean, variance / mean_strength), in scaled units."""

    shape: Array
    scale: Array
    mean: Array
    mean_strength: Array
    log_gamma: Table  # of scale / variance


def bernoulli_prior(positive: float, negative: float) -> BernoulliPrior:
    """Prepare a Beta prior from the pseudo-counts of the second and the first label."""
    return BernoulliPrior(
        positive=jnp.asarray(positive, float),
        negative=jnp.asarray(negative, float),
        logit=beta_table(positive, negative),
    )


def categorical_prior(concentrations: Sequence[float]) -> CategoricalPrior:
    """Prepare a Dirichlet prior from one concentration for each category."""
    # What is left for the later categories has the sum of their concentrations; summed from the end, so that no
    # remainder is a difference of two larger sums.
    remaining = np.cumsum(np.asarray(concentrations, float)[::-1])[::-1]
    tables = [beta_table(float(first), float(rest)) for first, rest in zip(concentrations, remaining[1:], strict=False)]
    return CategoricalPrior(
        concentrations=jnp.asarray(concentrations, float),
        logit=Table(
            jnp.stack([table.values for table in tables]),
            jnp.stack([table.slopes for table in tables]),
        ),
    )


def rate_prior(shape: float, rate: float, lower: float, upper: float) -> RatePrior:
    """Prepare a Gamma prior of a Poisson or exponential rate, with the bounds of the data."""
    return RatePrior(
        shape=jnp.asarray(shape, float),
        rate=jnp.asarray(rate, float),
        lower=jnp.asarray(lower, float),
        upper=jnp.asarray(upper, float),
        log_gamma=log_gamma_table(shape),
    )


def gaussian_prior(shape: float, scale: float, mean: float, mean_strength: float) -> GaussianPrior:
    """Prepare a normal-inverse-gamma prior."""
    return GaussianPrior(
        shape=jnp.asarray(shape, float),
        scale=jnp.asarray(scale, float),
        mean=jnp.asarray(mean, float),
        mean_strength=jnp.asarray(mean_strength, float),
        log_gamma=log_gamma_table(shape),
    )


Prior = TypeVar("Prior")


@dataclass(frozen=True)
class _Family(ABC, Generic[Prior]):
    """What all families share: everything follows from the moments of a row, which are the same for all parties."""

    slots: int

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Number of coordinates."""

    @property
    @abstractmethod
    def entries(self) -> int:
        """Length of a statistic."""

    @property
    def focus(self) -> int:
        """All coordinates are the model's own parameters."""
        return self.dimension

    @abstractmethod
    def row_moments(self, prior: Prior, position: Array) -> RowMoments:
        """Mean [1, entries] and covariance [1, entries, entries] of one clipped row's statistic."""

    @abstractmethod
    def parameters(self, prior: Prior, position: Array) -> dict[str, Array]:
        """Named parameters at a position."""

    def prepare(self, observed: Observed) -> Observed:
        """Nothing needs arranging."""
        return observed

    def log_likelihood(self, prior: Prior, evidence: Observed, position: Array) -> Array:
        """Log density of each party's statistic [slots]."""
        return moment_likelihood.log_likelihood(self.row_moments(prior, position), evidence)

    def information(self, prior: Prior, evidence: Observed, position: Array) -> Array:
        """Fisher information of the mean statistics [d, d]."""
        return moment_likelihood.information(partial(self.row_moments, prior), evidence, position)


@dataclass(frozen=True)
class Bernoulli(_Family[BernoulliPrior]):
    """Two labels; the statistic is the number of rows with the second."""

    @property
    def dimension(self) -> int:
        """The logit of the probability."""
        return 1

    @property
    def entries(self) -> int:
        """One count."""
        return 1

    def row_moments(self, prior: BernoulliPrior, position: Array) -> RowMoments:
        """Mean p and variance p(1 − p); both factors from the logit, so that neither loses digits near 0 or 1."""
        logit = transport(prior.logit, position[0])
        probability = jax.nn.sigmoid(logit)
        return _single_entry(probability, probability * jax.nn.sigmoid(-logit))

    def parameters(self, prior: BernoulliPrior, position: Array) -> dict[str, Array]:
        """Probability of the second label."""
        return {"probability": jax.nn.sigmoid(transport(prior.logit, position[0]))}


@dataclass(frozen=True)
class Categorical(_Family[CategoricalPrior]):
    """Several categories; the statistic holds all their counts."""

    categories: int

    @property
    def dimension(self) -> int:
        """One stick fraction for each category but the last, which gets what is left."""
        return self.categories - 1

    @property
    def entries(self) -> int:
        """One count for each category."""
        return self.categories

    def row_moments(self, prior: CategoricalPrior, position: Array) -> RowMoments:
        """Mean p and covariance diag(p) − p pᵀ, singular because counts sum to the row count.

        Its diagonal p_i (1 − p_i) is written Σ_{j≠i} p_i p_j: no digits are lost when one category takes nearly all,
        and a matrix whose rows sum to 0 with nothing positive off the diagonal is positive semi-definite.
        """
        probabilities = _stick_breaking(transport(prior.logit, position))
        products = jnp.outer(probabilities, probabilities) * (1 - jnp.eye(self.categories))
        return RowMoments(probabilities[None], (jnp.diag(products.sum(axis=1)) - products)[None])

    def log_likelihood(self, prior: CategoricalPrior, evidence: Observed, position: Array) -> Array:
        """Log density of each party's counts [slots], in O(K): C = D − c p pᵀ with D diagonal (Sherman–Morrison)."""
        probabilities, scale, den = self._diagonal_and_rank_one(prior, evidence, position)
        residual = evidence.statistic - evidence.rows[:, None] * probabilities
        along = jnp.sum(probabilities * residual / scale, axis=1)
        square = jnp.sum(residual**2 / scale, axis=1) + evidence.sampling * along**2 / den
        log_det = jnp.sum(jnp.log(scale), axis=1) + jnp.log(den)
        return -0.5 * (square + log_det + self.categories * math.log(2 * math.pi))

    def information(self, prior: CategoricalPrior, evidence: Observed, position: Array) -> Array:
        """Fisher information of the mean counts [d, d], without a K × K covariance."""
        probabilities, scale, den = self._diagonal_and_rank_one(prior, evidence, position)
        jacobian = jax.jacfwd(lambda at: _stick_breaking(transport(prior.logit, at)))(position)  # [K, d]
        weight = evidence.weight * evidence.rows**2
        along = (probabilities / scale) @ jacobian  # [slots, d]
        diagonal = jnp.sum(weight[:, None] / scale, axis=0)
        rank_one = (weight * evidence.sampling / den)[:, None] * along
        information: Array = jacobian.T @ (diagonal[:, None] * jacobian) + along.T @ rank_one
        return information

    def _diagonal_and_rank_one(
        self, prior: CategoricalPrior, evidence: Observed, position: Array
    ) -> tuple[Array, Array, Array]:
        """Return p, D = c p + noise and 1 − c pᵀD⁻¹p, which is Σ p · noise/D because p sums to 1."""
        probabilities = _stick_breaking(transport(prior.logit, position))
        scale = evidence.sampling[:, None] * probabilities + evidence.variance
        return probabilities, scale, jnp.sum(probabilities * evidence.variance / scale, axis=1)

    def parameters(self, prior: CategoricalPrior, position: Array) -> dict[str, Array]:
        """Probabilities of all categories."""
        return {"probabilities": _stick_breaking(transport(prior.logit, position))}


@dataclass(frozen=True)
class Poisson(_Family[RatePrior]):
    """A count, clipped to whole numbers `lower` to `upper` and mapped to [−1, 1]; the statistic is the sum.

    The bounds are part of the static model because they are the orders of the incomplete gamma functions involved.
    """

    lower: int
    upper: int

    @property
    def dimension(self) -> int:
        """The logarithm of the rate."""
        return 1

    @property
    def entries(self) -> int:
        """One sum."""
        return 1

    def row_moments(self, prior: RatePrior, position: Array) -> RowMoments:
        """Moments of (clip(x) − middle) / half_width."""
        return _single_entry(*_clipped_poisson(_log_rate(prior, position), self.lower, self.upper))

    def parameters(self, prior: RatePrior, position: Array) -> dict[str, Array]:
        """Rate in the data's own units."""
        return {"rate": jnp.exp(_log_rate(prior, position))}


@dataclass(frozen=True)
class Exponential(_Family[RatePrior]):
    """A waiting time, clipped to the prior's bounds and mapped to [−1, 1]; the statistic is the sum."""

    @property
    def dimension(self) -> int:
        """The logarithm of the rate."""
        return 1

    @property
    def entries(self) -> int:
        """One sum."""
        return 1

    def row_moments(self, prior: RatePrior, position: Array) -> RowMoments:
        """Moments of (clip(x) − middle) / half_width."""
        return _single_entry(*_clipped_exponential(_log_rate(prior, position), prior.lower, prior.upper))

    def parameters(self, prior: RatePrior, position: Array) -> dict[str, Array]:
        """Rate in the data's own units."""
        return {"rate": jnp.exp(_log_rate(prior, position))}


@dataclass(frozen=True)
class Gaussian(_Family[GaussianPrior]):
    """A number mapped to scaled units and clipped to [−1, 1]; the statistic holds the sums of z and z²."""

    @property
    def dimension(self) -> int:
        """The logarithm of the variance, then the standardised mean."""
        return 2

    @property
    def entries(self) -> int:
        """Sums of z and z²."""
        return 2

    def row_moments(self, prior: GaussianPrior, position: Array) -> RowMoments:
        """Moments of (z, z²)."""
        mean, covariance = _clipped_normal(*_mean_and_deviation(prior, position))
        return RowMoments(mean[None], covariance[None])

    def parameters(self, prior: GaussianPrior, position: Array) -> dict[str, Array]:
        """Mean and variance before clipping, in scaled units."""
        mean, deviation = _mean_and_deviation(prior, position)
        return {"mean": mean, "variance": deviation**2}


def _single_entry(mean: Array, variance: Array) -> RowMoments:
    return RowMoments(mean[None, None], variance[None, None, None])


def _stick_breaking(logits: Array) -> Array:
    """p_k = v_k Π_{j<k} (1 − v_j), in logarithms, which no long product can exhaust."""
    log_left = jnp.cumsum(jax.nn.log_sigmoid(-logits))  # log Π_{j≤k} (1 − v_j)
    before = jnp.concatenate([jnp.zeros(1), log_left])
    taken = jnp.concatenate([jax.nn.log_sigmoid(logits), jnp.zeros(1)])  # the last category takes all that is left
    return jnp.exp(before + taken)


def _log_rate(prior: RatePrior, position: Array) -> Array:
    return transport(prior.log_gamma, position[0]) - jnp.log(prior.rate)


def _mean_and_deviation(prior: GaussianPrior, position: Array) -> tuple[Array, Array]:
    log_variance = jnp.log(prior.scale) - transport(prior.log_gamma, position[0])
    deviation = jnp.exp(0.5 * jnp.clip(log_variance, -SAFE, SAFE))
    return prior.mean + deviation * position[1] / jnp.sqrt(prior.mean_strength), deviation


# Poisson.


def _clipped_poisson(log_rate: Array, lower: int, upper: int) -> tuple[Array, Array]:
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


def _clipped_exponential(log_rate: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
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


def _clipped_normal(mean: Array, deviation: Array) -> tuple[Array, Array]:
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
