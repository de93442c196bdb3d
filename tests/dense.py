"""The dense normal density of a second-moment statistic, the slow and obvious way."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise.inference.statistic_likelihood import MatrixNoise


def dense_covariance(moment: Array, sampling: Array, off_diagonal: Array, diagonal: Array, bias: int) -> Array:
    """Covariance of the upper triangle without the bias entry, from Cov(v_i v_j, v_k v_l)."""
    i, j = upper(moment.shape[0], bias)
    mean = moment[:, bias]
    products = mean[i] * mean[j]
    cov = moment[i][:, i] * moment[j][:, j] + moment[i][:, j] * moment[j][:, i] - 2 * jnp.outer(products, products)
    return sampling * cov + jnp.diag(jnp.where(i == j, diagonal[i], off_diagonal))


def upper(size: int, bias: int) -> tuple[np.ndarray, np.ndarray]:
    i, j = np.triu_indices(size)
    inner = ~((i == bias) & (j == bias))
    return i[inner], j[inner]


def dense_log_likelihood(
    moment: Array, statistic: Array, count: Array, sampling: Array, noise: MatrixNoise, bias: int
) -> Array:
    i, j = upper(moment.shape[0], bias)

    def one(statistic: Array, count: Array, sampling: Array, off: Array, diagonal: Array) -> Array:
        covariance = dense_covariance(moment, sampling, off, diagonal, bias)
        residual = (statistic - count * moment)[i, j]
        log_det = jnp.linalg.slogdet(covariance)[1]
        return -0.5 * (residual @ jnp.linalg.solve(covariance, residual) + log_det + len(i) * jnp.log(2 * jnp.pi))

    return jax.vmap(one)(statistic, count, sampling, *noise)
