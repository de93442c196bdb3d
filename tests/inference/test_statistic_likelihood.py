"""The fast likelihood against the dense normal density it replaces."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from dense import dense_log_likelihood
from engine_setup import jit
from equipoise.inference.models.linear import second_moment
from equipoise.inference.statistic_likelihood import (
    MatrixNoise,
    apply_sampling,
    factorise,
    log_likelihood,
    solve,
)

pytestmark = pytest.mark.engine


class Case:
    """A random regression and two parties' statistics, at a given level of noise."""

    def __init__(self, width: int, level: float, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.bias, size = width, width + 2
        root = rng.normal(size=(width, width)) * 0.3 + 0.2 * np.eye(width)
        self.parts = tuple(
            jnp.asarray(part)
            for part in (rng.normal(size=width) * 0.3, root, rng.normal(size=width + 1), np.array(0.1))
        )
        self.moment = second_moment(*self.parts)
        self.count = jnp.array([100.0, 50.0])
        self.sampling = self.count * jnp.array([1.0, 3.0])
        off = level * jnp.array([1.0, 2.0])
        diagonal = (off[:, None] / np.linspace(1, 3, size)).at[:, width].set(2 * off)
        self.noise = MatrixNoise(off, diagonal)
        spread = rng.normal(size=(2, size, size)) * np.sqrt(100 + level)
        statistic = self.count[:, None, None] * self.moment + spread + spread.transpose(0, 2, 1)
        self.statistic = statistic.at[:, width, width].set(self.count)

    @property
    def observed(self) -> tuple[Any, ...]:
        return self.statistic, self.count, self.sampling, self.noise

    def fast(self, moment: Array) -> Array:
        return log_likelihood(moment, self.statistic, self.count, self.sampling, self.noise, self.bias)

    def dense(self, moment: Array) -> Array:
        return dense_log_likelihood(moment, self.statistic, self.count, self.sampling, self.noise, self.bias)


@partial(jit, static_argnums=(0, 1))
def weighted(likelihood: Callable[..., Array], bias: int, observed: tuple[Any, ...], parts: Any) -> Any:
    """Log likelihoods of both parties, and the gradient of a weighted sum: compiled once for any level of noise."""

    def total(*parts: Array) -> tuple[Array, Array]:
        values = likelihood(second_moment(*parts), *observed, bias)
        return values @ jnp.array([1.0, 0.3]), values

    gradient, values = jax.grad(total, argnums=(0, 1, 2, 3), has_aux=True)(*parts)
    return values, gradient


@pytest.mark.parametrize("width", [1, 3, *(pytest.param(width, marks=pytest.mark.slow) for width in (2, 6, 12))])
def test_value_and_gradient_equal_the_dense_ones(width: int) -> None:
    for level in (1e-2, 1.0, 1e4):
        case = Case(width, level)
        values, gradient = weighted(log_likelihood, case.bias, case.observed, case.parts)
        expected, slope = weighted(dense_log_likelihood, case.bias, case.observed, case.parts)
        np.testing.assert_allclose(values, expected, rtol=1e-8)
        for fast, dense in zip(gradient, slope, strict=True):
            np.testing.assert_allclose(fast, dense, rtol=1e-7, atol=1e-7 * float(jnp.max(jnp.abs(dense))))


def test_gradient_equals_finite_differences() -> None:
    case = Case(6, 1.0)
    means, root, weights, variance = case.parts

    def sum_of(weights: Array) -> Array:
        return jnp.sum(case.fast(second_moment(means, root, weights, variance)))

    total, gradient = jit(sum_of), jit(jax.grad(sum_of))(weights)
    step = 1e-5
    for k in range(len(weights)):
        ahead, behind = (total(weights.at[k].add(sign * step)) for sign in (1, -1))
        assert float(gradient[k]) == pytest.approx(float((ahead - behind) / (2 * step)), rel=1e-6)


def test_repeated_eigenvalues_are_no_special_case() -> None:
    """Features with one variance and mean zero give M an eigenspace of dimension w."""
    width = 5
    case = Case(width, 1.0)
    parts = (jnp.zeros(width), 0.5 * jnp.eye(width), jnp.zeros(width + 1).at[0].set(0.7), jnp.array(0.1))
    values = np.linalg.eigvalsh(second_moment(*parts))
    assert np.min(np.diff(values)) < 1e-12

    def total(likelihood: str) -> Array:
        def sum_of(root: Array) -> Array:
            return jnp.sum(getattr(case, likelihood)(second_moment(parts[0], root, *parts[2:])))

        return jit(jax.grad(sum_of))(parts[1])

    assert np.all(np.isfinite(total("fast")))
    np.testing.assert_allclose(total("fast"), total("dense"), rtol=1e-9, atol=1e-8)


def test_solving_undoes_the_covariance() -> None:
    case = Case(4, 2.0)
    rng = np.random.default_rng(1)
    half = rng.normal(size=(2, 6, 6))
    matrix = jnp.asarray(half + half.transpose(0, 2, 1)).at[:, case.bias, case.bias].set(0.0)
    solved = jit(lambda given: solve(factorise(case.moment, case.sampling, case.noise, case.bias), given))(matrix)
    noise = 2 * case.noise.off_diagonal[:, None, None] * solved
    noise = noise + jax.vmap(jnp.diag)(
        (case.noise.diagonal - 2 * case.noise.off_diagonal[:, None]) * jnp.diagonal(solved, axis1=1, axis2=2)
    )
    back = case.sampling[:, None, None] * apply_sampling(case.moment, solved, case.bias) + noise
    np.testing.assert_allclose(back, matrix, atol=1e-10)


def test_sampling_covariance_is_that_of_gaussian_rows() -> None:
    case = Case(2, 1.0)
    rng = np.random.default_rng(2)
    means, root, weights, variance = (np.asarray(part) for part in case.parts)
    x = means + rng.normal(size=(400_000, 2)) @ root.T
    y = x @ weights[:-1] + weights[-1] + rng.normal(size=len(x)) * np.sqrt(variance)
    v = np.column_stack([x, np.ones(len(x)), y])
    for half in rng.normal(size=(3, 4, 4)):
        a = half + half.T
        exact = float(jnp.vdot(a, apply_sampling(case.moment, jnp.asarray(a), case.bias)))
        assert np.var(np.einsum("ni,ij,nj->n", v, a, v)) == pytest.approx(exact, rel=0.03)
