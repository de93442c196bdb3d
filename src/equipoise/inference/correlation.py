"""Correlation matrices with an LKJ prior, from standard normal coordinates.

Canonical partial correlations (Lewandowski et al. 2009): those of column j are Beta(b, b) on [−1, 1] with
b = concentration + (w − 2 − j)/2, independent of each other.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise.inference.quantile_maps import Table, beta_table, stacked, transport


def partial_correlation_table(width: int, concentration: float) -> Table:
    """Logit of (1 + partial correlation)/2, by column."""
    shapes = concentration + (width - 2 - np.arange(max(width - 1, 1))) / 2
    return stacked([beta_table(b, b) for b in shapes if b > 0])


def correlation_root(table: Table, block: Array, width: int) -> Array:
    """Cholesky factor of a correlation matrix from w(w − 1)/2 coordinates."""
    if width == 1:
        return jnp.ones((1, 1))
    rows, columns = np.tril_indices(width, -1)
    tables = jax.tree.map(lambda part: part[columns], table)
    partial_correlation = jnp.zeros((width, width)).at[rows, columns].set(jnp.tanh(0.5 * transport(tables, block)))
    rest = jnp.cumprod(jnp.sqrt(1 - jnp.tril(partial_correlation, -1) ** 2), axis=1)
    before = jnp.concatenate([jnp.ones((width, 1)), rest[:, :-1]], axis=1)
    return jnp.tril(before * (partial_correlation + jnp.eye(width)))
