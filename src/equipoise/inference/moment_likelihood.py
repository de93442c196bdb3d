"""Likelihood of perturbed statistics from the moments of one row's, for statistics short enough to be dense.

By the central limit theorem a party's statistic is N(c · mean, c · covariance + noise). A model that can state both
moments of a row at a position needs nothing else.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from equipoise.inference.laplace import inverse_lower
from equipoise.inference.observations import Observed


class RowMoments(NamedTuple):
    """Mean [parties or 1, entries] and covariance [parties or 1, entries, entries] of one row's statistic."""

    mean: Array
    covariance: Array


def log_likelihood(moments: RowMoments, observed: Observed) -> Array:
    """Log density of each party's statistic [slots]."""
    parties = observed.rows.shape[0]
    moments = jax.tree.map(lambda part: jnp.broadcast_to(part, (parties, *part.shape[1:])), moments)
    scaled_covariance = observed.sampling[:, None, None] * moments.covariance
    covariance = scaled_covariance + jax.vmap(jnp.diag)(observed.variance)
    return jax.vmap(_log_normal)(observed.statistic - observed.rows[:, None] * moments.mean, covariance)


def information(moments_at: Callable[[Array], RowMoments], observed: Observed, position: Array) -> Array:
    """Fisher information Σ weight · c² Jᵀ C⁻¹ J of the mean statistics: [d, d]."""
    moments = moments_at(position)
    jacobian = jax.jacfwd(lambda at: moments_at(at).mean)(position)  # [parties or 1, entries, d]
    parties = observed.rows.shape[0]
    jacobian = jnp.broadcast_to(jacobian, (parties, *jacobian.shape[1:]))
    covariances = observed.sampling[:, None, None] * moments.covariance + jax.vmap(jnp.diag)(observed.variance)

    def one_party(jacobian: Array, covariance: Array, scale: Array) -> Array:
        half = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(covariance), jacobian, lower=True)
        return scale * half.T @ half

    return jnp.sum(jax.vmap(one_party)(jacobian, covariances, observed.weight * observed.rows**2), axis=0)


@jax.custom_vjp
def _log_normal(residual: Array, covariance: Array) -> Array:
    return _forward(residual, covariance)[0]


def _forward(residual: Array, covariance: Array) -> tuple[Array, tuple[Array, Array]]:
    lower = jnp.linalg.cholesky(covariance)
    inverse = inverse_lower(lower)
    white = inverse @ residual
    constant = 0.5 * len(residual) * math.log(2 * math.pi)
    value = -0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(lower))) - constant
    return value, (inverse, white)


def _backward(kept: tuple[Array, Array], cotangent: Array) -> tuple[Array, Array]:
    """By hand, ½(αα ᵀ − C⁻¹): the automatic gradient of a Cholesky factor costs several times as much."""
    inverse, white = kept
    solved = inverse.T @ white
    pull = 0.5 * (jnp.outer(solved, solved) - inverse.T @ inverse)
    return -cotangent * solved, cotangent * pull


_log_normal.defvjp(_forward, _backward)
