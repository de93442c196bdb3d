"""A normal approximation of the posterior: where chains start, and their first idea of its shape.

Fisher scoring: the prior is N(0, I) in our coordinates and the information of the mean statistics is known in closed
form, so the curvature I + Σ κ c² Jᵀ C⁻¹ J is positive definite everywhere. The likelihood is switched on by degrees,
which keeps small-noise problems out of far valleys.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

SWITCH_ON = 12  # steps until the whole likelihood counts
MAX_STEPS = 60
TOLERANCE = 1e-3  # of the last step, in posterior standard deviations


class Approximation(NamedTuple):
    """The normal distribution N(centre, root rootᵀ), with the inverse of its root."""

    centre: Array
    root: Array
    inverse_root: Array


class _Climb(NamedTuple):
    step: Array
    position: Array
    gradient: Array
    curvature_root: Array
    settled: Array


def laplace(
    log_likelihood: Callable[[Array], Array], information: Callable[[Array], Array], start: Array
) -> Approximation:
    """Mode of −½|x|² + log likelihood, sought from a start, and a root of the inverse curvature there."""
    dimension = len(start)
    eye = jnp.eye(dimension)
    lengths = jnp.concatenate([0.5 ** jnp.arange(8), jnp.zeros(1)])  # the last one stays where it is
    value_and_gradient = jax.vmap(jax.value_and_grad(log_likelihood))

    def climb(now: _Climb) -> _Climb:
        power = jnp.exp(jnp.minimum(0.0, jnp.log(1e-4) * (1 - now.step / SWITCH_ON)))
        lower = jnp.linalg.cholesky(eye + power * information(now.position))
        slope = power * now.gradient - now.position
        direction = jnp.where(now.step == 0, 0.0, jax.scipy.linalg.cho_solve((lower, True), slope))
        candidates = now.position + lengths[:, None] * direction
        values, gradients = value_and_gradient(candidates)
        heights = power * values - 0.5 * jnp.sum(candidates**2, axis=1)
        best = jnp.argmax(jnp.where(jnp.isfinite(heights), heights, -jnp.inf))
        moved = jnp.linalg.norm(lower.T @ (candidates[best] - now.position))
        settled = (now.step > SWITCH_ON) & (moved < TOLERANCE * jnp.sqrt(dimension))
        return _Climb(now.step + 1, candidates[best], gradients[best], lower, settled)

    # The first step only evaluates the gradient.
    first = _Climb(jnp.array(0.0), start, jnp.zeros(dimension), eye, jnp.array(False))
    end = jax.lax.while_loop(lambda now: ~now.settled & (now.step < MAX_STEPS), climb, first)
    root = inverse_lower(end.curvature_root).T
    return Approximation(end.position, root, end.curvature_root.T)


def inverse_lower(lower: Array) -> Array:
    """Inverse of lower triangular matrices [..., n, n]."""
    eye = jnp.broadcast_to(jnp.eye(lower.shape[-1]), lower.shape)
    return jax.scipy.linalg.solve_triangular(lower, eye, lower=True)
