"""Waiting times: an exponential variable, clipped to bounds and mapped to [−1, 1].

A chain may wander far into a tail. Rates that the moments see are therefore kept where floating-point numbers neither
overflow nor vanish; the moments are constant to the last digit beyond. A row's variance may be 0 to the last digit (a
rate so high that every row is clipped). No likelihood divides by it: the noise that was added to the statistic is
always on top.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise._util.arrays import Floats
from equipoise.inference.models.base import SAFE, Released, single_entry
from equipoise.inference.models.rate import Rate, RatePrior, log_rate, rate_prior, total_in_units
from equipoise.inference.moment_likelihood import RowMoments

if TYPE_CHECKING:
    from equipoise.models.exponential import ExponentialModel


@dataclass(frozen=True)
class Exponential(Rate):
    """A waiting time, clipped to the prior's bounds and mapped to [−1, 1]; the statistic is the sum."""

    def row_moments(self, prior: RatePrior, position: Array) -> RowMoments:
        """Moments of (clip(x) − middle) / half_width."""
        return single_entry(*clipped_exponential(log_rate(prior, position), prior.lower, prior.upper))

    def conjugate_draws(
        self, rng: np.random.Generator, prior: RatePrior, released: Released, draws: int
    ) -> dict[str, Floats]:
        """From the gamma posterior; the sum is clipped to what it can be."""
        total, rows = total_in_units(prior, released)
        return {"rate": rng.gamma(float(prior.shape) + rows, 1 / (float(prior.rate) + total), draws)}


def build(agreed: "ExponentialModel", slots: int) -> tuple[Exponential, RatePrior]:
    """The agreed model and prior."""
    return Exponential(slots), rate_prior(agreed.prior.shape, agreed.prior_rate, *agreed.target.bounds)


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
