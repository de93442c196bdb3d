"""What counts and waiting times share: a rate ~ Gamma, through the quantile function of its logarithm."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise.inference.conjugate import fit_gamma, gamma_divergence
from equipoise.inference.models.base import Draws, Family, Released
from equipoise.inference.quantile_maps import Table, log_gamma_table, transport


class RatePrior(NamedTuple):
    """Rate ~ Gamma(shape, rate) in the data's own units, and the bounds to which data were clipped."""

    shape: Array
    rate: Array
    lower: Array
    upper: Array
    log_gamma: Table  # of rate parameter × rate


def rate_prior(shape: float, rate: float, lower: float, upper: float) -> RatePrior:
    """Prepare a Gamma prior of a rate, with the bounds of the data."""
    return RatePrior(
        shape=jnp.asarray(shape, float),
        rate=jnp.asarray(rate, float),
        lower=jnp.asarray(lower, float),
        upper=jnp.asarray(upper, float),
        log_gamma=log_gamma_table(shape),
    )


class Rate(Family[RatePrior]):
    """One coordinate, the logarithm of a rate."""

    def parameters(self, prior: RatePrior, position: Array) -> dict[str, Array]:
        """Rate in the data's own units."""
        return {"rate": jnp.exp(log_rate(prior, position))}

    def conjugate_divergence(self, prior: RatePrior, draws: Draws) -> float:
        """Divergence from the prior of the gamma distribution that fits the draws best."""
        return gamma_divergence(*fit_gamma(draws["rate"]), float(prior.shape), float(prior.rate))


def log_rate(prior: RatePrior, position: Array) -> Array:
    """Logarithm of the rate at a position."""
    return transport(prior.log_gamma, position[0]) - jnp.log(prior.rate)


def total_in_units(prior: RatePrior, released: Released) -> tuple[float, float]:
    """Sum of the observations in their own units, within what the bounds allow, and the number of rows."""
    lower, upper = float(prior.lower), float(prior.upper)
    rows = released.total_rows
    total = (lower + upper) / 2 * rows + (upper - lower) / 2 * float(released.tempered.sum())
    return float(np.clip(total, lower * rows, upper * rows)), rows
