"""One-dimensional maps from a standard normal variable to a prior, tabulated once.

Every model is sampled in coordinates in which its prior is exactly N(0, I): no boundary, no Jacobian, κ = 0 is the
easiest target there is, and a prior draw is a normal draw. The maps are quantile functions z ↦ F⁻¹(Φ(z)), monotone and
smooth, stored as cubic Hermite tables with exact slopes φ(z)/f(F⁻¹(Φ(z))); the error is below 1e-8 on [−9, 9] and
beyond that, where a prior draw falls once in 10¹⁸, they go on linearly.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import special

from equipoise._util.arrays import Floats
from equipoise._util.quantiles import GRID, LIMIT, STEP, beta_quantile, log_gamma_quantile


class Table(NamedTuple):
    """Values and slopes on the grid; any leading axes are separate maps."""

    values: Array
    slopes: Array


def transport(table: Table, normal: Array) -> Array:
    """Evaluate one map for each coordinate: `table` [..., knots] at `normal` [...]."""
    clipped = jnp.clip(normal, -LIMIT, LIMIT)
    place = (clipped + LIMIT) / STEP
    left = jnp.clip(jnp.floor(place), 0, len(GRID) - 2).astype(jnp.int32)
    t = place - left

    def knot(values: Array, index: Array) -> Array:
        return jnp.take_along_axis(values, index[..., None], axis=-1)[..., 0]

    low, high = knot(table.values, left), knot(table.values, left + 1)
    low_slope, high_slope = STEP * knot(table.slopes, left), STEP * knot(table.slopes, left + 1)
    step = high - low
    curve = low + t * (
        low_slope + t * (3 * step - 2 * low_slope - high_slope + t * (low_slope + high_slope - 2 * step))
    )
    edge = jnp.where(normal > 0, table.slopes[..., -1], table.slopes[..., 0])
    return curve + edge * (normal - clipped)


def log_gamma_table(shape: float | Floats) -> Table:
    """Map z to log X, X ~ Gamma(shape, 1)."""
    shape = np.asarray(shape, dtype=float)[..., None]
    log_x = log_gamma_quantile(GRID, shape)
    log_density = shape * log_x - np.exp(log_x) - special.gammaln(shape)  # of log X
    return _table(log_x, log_density)


def beta_table(first: float, second: float) -> Table:
    """Map z to logit X, X ~ Beta(first, second)."""
    log_x, log_rest = beta_quantile(GRID, first, second)
    log_density = first * log_x + second * log_rest - special.betaln(first, second)  # of logit X
    return _table(log_x - log_rest, log_density)


def truncated_normal_table(mean: float, spread: float, lower: float, upper: float) -> Table:
    """Map z to logit((X − lower)/(upper − lower)), X ~ N(mean, spread²) on [lower, upper]."""
    a, b = (lower - mean) / spread, (upper - mean) / spread
    mass = special.ndtr(b) - special.ndtr(a)
    width = upper - lower

    def distance(end: float, share: Floats) -> Floats:
        """How far from the end at standardised `end` ≤ 0 a share of the mass reaches, looking inwards."""
        tail, part = special.ndtr(end), share * mass
        density = math.exp(-0.5 * end**2) / math.sqrt(2 * math.pi)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            expanded = part / density + 0.5 * end * (part / density) ** 2
        # The difference of quantiles cancels where the part is small beside the tail cut off.
        return spread * np.where(part < 1e-4 * tail, expanded, special.ndtri(tail + part) - end)

    below, above = distance(a, special.ndtr(GRID)), distance(-b, special.ndtr(-GRID))
    fraction = np.where(GRID > 0, 1 - above / width, below / width)
    rest = np.where(GRID > 0, above / width, 1 - below / width)
    x = lower + width * fraction
    log_density = (
        -0.5 * ((x - mean) / spread) ** 2
        - np.log(spread * mass)
        - 0.5 * np.log(2 * np.pi)
        + np.log(width * fraction * rest)
    )
    return _table(np.log(fraction) - np.log(rest), log_density)


def stacked(tables: Sequence[Table]) -> Table:
    """Several maps as one, each with a place on a new first axis."""
    return Table(*(jnp.stack(parts) for parts in zip(*tables, strict=True)))


def _table(values: Floats, log_density: Floats) -> Table:
    slopes = np.exp(-0.5 * GRID**2 - 0.5 * np.log(2 * np.pi) - log_density)
    return Table(jnp.asarray(values), jnp.asarray(slopes))


def partial_correlation_table(width: int, concentration: float) -> Table:
    """Maps to the logit of (1 + partial correlation)/2, by column, of a correlation matrix with an LKJ prior.

    Canonical partial correlations (Lewandowski et al. 2009): those of column j are Beta(b, b) on [−1, 1] with
    b = concentration + (w − 2 − j)/2, independent of each other.
    """
    shapes = concentration + (width - 2 - np.arange(max(width - 1, 1))) / 2
    return stacked([beta_table(b, b) for b in shapes if b > 0])


def correlation_root(table: Table, block: Array, width: int) -> Array:
    """Cholesky factor of a correlation matrix from w(w − 1)/2 coordinates."""
    if width < 2:
        return jnp.ones((width, width))
    rows, columns = np.tril_indices(width, -1)
    tables = jax.tree.map(lambda part: part[columns], table)
    partial_correlation = jnp.zeros((width, width)).at[rows, columns].set(jnp.tanh(0.5 * transport(tables, block)))
    rest = jnp.cumprod(jnp.sqrt(1 - jnp.tril(partial_correlation, -1) ** 2), axis=1)
    before = jnp.concatenate([jnp.ones((width, 1)), rest[:, :-1]], axis=1)
    return jnp.tril(before * (partial_correlation + jnp.eye(width)))
