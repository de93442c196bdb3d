"""Inverses of triangular matrices."""

import jax
import jax.numpy as jnp
from jax import Array


def inverse_lower(lower: Array) -> Array:
    """Inverse of lower triangular matrices [..., n, n]."""
    eye = jnp.broadcast_to(jnp.eye(lower.shape[-1]), lower.shape)
    return jax.scipy.linalg.solve_triangular(lower, eye, lower=True)
