"""The conjugate families (Bernoulli, categorical, Poisson, exponential, Gaussian), statistics integrated out.

A party's statistic is a sum over rows, so the engine needs the mean and covariance of one row's contribution and
nothing else (`moment_likelihood.py`). Rows were clipped to public bounds before they were summed: all moments here are
those of the *clipped* variable (`clipped.py`), so that clipping costs information but never biases a posterior.

Coordinates are those of `transport.py`: the prior is exactly N(0, I).

    Bernoulli    probability ~ Beta, through the quantile function of its logit
    categorical  probabilities ~ Dirichlet, as K − 1 independent Beta fractions of what the earlier categories left
    Poisson      rate ~ Gamma, through the quantile function of its logarithm
    exponential  the same
    Gaussian     variance ~ InvGamma likewise; mean | variance ~ N(m, variance/k) is a standard normal, moved and scaled
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

from equipoise.inference import moment_likelihood
from equipoise.inference.clipped import SAFE, clipped_exponential, clipped_normal, clipped_poisson
from equipoise.inference.coordinates import PlainCoordinates
from equipoise.inference.moment_likelihood import RowMoments
from equipoise.inference.observations import Observed
from equipoise.inference.quantile_maps import Table, beta_table, log_gamma_table, transport


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
class _Family(PlainCoordinates, ABC, Generic[Prior]):
    """What all families share: everything follows from the moments of a row, which are the same for all parties."""

    slots: int

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return 1

    @property
    def entries(self) -> int:
        """Length of a statistic."""
        return 1

    @property
    def focus(self) -> int:
        """All coordinates are the model's own parameters."""
        return self.dimension

    @property
    def offset(self) -> float:
        """The search for the mode starts at the prior's."""
        return 0.0

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


class _Rate(_Family[RatePrior]):
    """One coordinate, the logarithm of a rate."""

    def parameters(self, prior: RatePrior, position: Array) -> dict[str, Array]:
        """Rate in the data's own units."""
        return {"rate": jnp.exp(_log_rate(prior, position))}


@dataclass(frozen=True)
class Poisson(_Rate):
    """A count, clipped to whole numbers `lower` to `upper` and mapped to [−1, 1]; the statistic is the sum.

    The bounds are part of the static model because they are the orders of the incomplete gamma functions involved.
    """

    lower: int
    upper: int

    def row_moments(self, prior: RatePrior, position: Array) -> RowMoments:
        """Moments of (clip(x) − middle) / half_width."""
        return _single_entry(*clipped_poisson(_log_rate(prior, position), self.lower, self.upper))


@dataclass(frozen=True)
class Exponential(_Rate):
    """A waiting time, clipped to the prior's bounds and mapped to [−1, 1]; the statistic is the sum."""

    def row_moments(self, prior: RatePrior, position: Array) -> RowMoments:
        """Moments of (clip(x) − middle) / half_width."""
        return _single_entry(*clipped_exponential(_log_rate(prior, position), prior.lower, prior.upper))


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
        mean, covariance = clipped_normal(*_mean_and_deviation(prior, position))
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
