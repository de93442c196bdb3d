"""The sampler on targets whose answer is known, and its integrator's two defining properties."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equipoise.inference.laplace import Approximation, laplace
from jax import Array
from scipy import stats

from engine_setup import jit
from equipoise.inference import hmc

pytestmark = pytest.mark.engine


def run(log_density: hmc.LogDensity, approximation: Approximation, *, rounds: int = 8, chains: int = 32) -> np.ndarray:
    ensemble = jit(lambda key: hmc.begin(key, log_density, approximation, chains))(jax.random.key(0))
    advance = jit(lambda key, ensemble, adapt: hmc.advance(key, log_density, ensemble, adapt))
    kept = []
    for number in range(5 + rounds):
        ensemble, draws, _ = advance(jax.random.key(number + 1), ensemble, jnp.asarray(number < 5))
        if number >= 5:
            kept.append(np.asarray(draws.position))
    return np.concatenate(kept, axis=1)


def wrong_guess(dimension: int) -> Approximation:
    """A first idea that is off in place, scale and correlation."""
    return Approximation(jnp.full(dimension, 0.5), 2.0 * jnp.eye(dimension), 0.5 * jnp.eye(dimension))


def test_a_correlated_normal_is_learnt_from_a_wrong_start() -> None:
    covariance = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.02], [0.0, 0.02, 0.01]])
    precision = jnp.asarray(np.linalg.inv(covariance))
    mean = jnp.array([3.0, -1.0, 0.2])
    draws = run(lambda x: -0.5 * (x - mean) @ precision @ (x - mean), wrong_guess(3)).reshape(-1, 3)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.04)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.04)
    z = (draws - np.asarray(mean)) / np.sqrt(np.diag(covariance))
    assert min(stats.kstest(z[::4, k], "norm").pvalue for k in range(3)) > 1e-3


def test_a_skewed_target_is_sampled_exactly() -> None:
    """log Gamma(3): far from normal in its lower tail."""
    draws = run(lambda x: 3 * x[0] - jnp.exp(x[0]) - 0.5 * x[1] ** 2, wrong_guess(2), rounds=12).reshape(-1, 2)
    assert stats.kstest(np.exp(draws[::4, 0]), stats.gamma(3).cdf).pvalue > 1e-3


def test_scores_are_those_of_the_draws_along_what_is_asked_for() -> None:
    """log Gamma(3) and a normal, correlated; scores by hand, in any orthonormal basis of one direction."""

    def log_density(x: Array) -> Array:
        return 3 * x[0] - jnp.exp(x[0]) - 0.5 * (x[1] - 0.5 * x[0]) ** 2

    ensemble = jit(lambda key: hmc.begin(key, log_density, wrong_guess(2), 32))(jax.random.key(0))
    advance = jit(lambda key, ensemble, adapt: hmc.advance(key, log_density, ensemble, adapt, 1))
    for number in range(5):
        ensemble, _, _ = advance(jax.random.key(number + 1), ensemble, jnp.asarray(True))
    centre, root = (np.asarray(part) for part in ensemble.geometry)
    rounds = []
    for number in range(10):
        ensemble, draws, _ = advance(jax.random.key(number + 9), ensemble, jnp.asarray(False))
        rounds.append(draws)
    position, along, score = (np.concatenate(part, axis=1) for part in zip(*rounds, strict=True))
    direction = np.array([1.0, 0.0]) @ root
    direction /= np.linalg.norm(direction)
    x, y = position[..., 0], position[..., 1]
    gradient = np.stack([3 - np.exp(x) + 0.5 * (y - 0.5 * x), 0.5 * x - y], axis=-1)
    expected = gradient @ root @ direction
    sign = np.sign(np.vdot(expected, score[..., 0]))
    np.testing.assert_allclose(sign * score[..., 0], expected, atol=1e-9)
    whitened = np.linalg.solve(root, (position - centre).reshape(-1, 2).T).T @ direction
    np.testing.assert_allclose(sign * along[..., 0].reshape(-1), whitened, atol=1e-9)
    for function in (score, along * score + 1):  # Stein's identity
        assert abs(function.mean()) < 4 * function.std() / np.sqrt(function.size / 3)


def test_two_modes_are_both_found() -> None:
    """The approximation knows one mode; candidates from the prior find the other."""

    def log_density(x: Array) -> Array:
        return jnp.logaddexp(-0.5 * ((x[0] - 1.0) / 0.4) ** 2, -0.5 * ((x[0] + 1.0) / 0.4) ** 2) - 0.5 * x[1] ** 2

    narrow = Approximation(jnp.array([1.0, 0.0]), jnp.diag(jnp.array([0.4, 1.0])), jnp.diag(jnp.array([2.5, 1.0])))
    draws = run(log_density, narrow, rounds=16, chains=64)
    assert 0.4 < np.mean(draws[..., 0] > 0) < 0.6


def test_the_integrator_is_reversible_and_keeps_volume() -> None:
    def value_and_gradient(y: Array) -> tuple[Array, Array]:
        return jax.vmap(jax.value_and_grad(lambda x: -0.3 * jnp.sum(x**4) - 0.5 * x[0] * x[1]))(y)

    def leap(point: Array) -> Array:
        position, momentum = point[None, :2], point[None, 2:]
        state = hmc.State(position, *value_and_gradient(position))
        state, momentum = hmc._leap(value_and_gradient, state, momentum, jnp.asarray(0.3))
        return jnp.concatenate([state.position[0], momentum[0]])

    point = jnp.array([0.4, -0.7, 0.3, 1.1])
    flip = jnp.array([1.0, 1.0, -1.0, -1.0])
    np.testing.assert_allclose(leap(leap(point) * flip) * flip, point, atol=1e-12)
    assert abs(float(jnp.linalg.det(jax.jacfwd(leap)(point)))) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("dimension", [2, pytest.param(200, marks=pytest.mark.slow)])
def test_a_normal_target_takes_one_step_in_any_dimension(dimension: int) -> None:
    def log_density(x: Array) -> Array:
        return -0.5 * x @ x

    exact = Approximation(jnp.zeros(dimension), jnp.eye(dimension), jnp.eye(dimension))
    ensemble = jit(lambda key: hmc.begin(key, log_density, exact, 8))(jax.random.key(0))
    advance = jit(lambda key, ensemble, adapt: hmc.advance(key, log_density, ensemble, adapt))
    ensemble, _, record = advance(jax.random.key(1), ensemble, jnp.asarray(False))
    assert float(jnp.min(record.acceptance)) > 1 - 1e-9
    tuned = ensemble._replace(log_step=jnp.full((), np.log(2.0)))  # what tuning for acceptance arrives at
    _, _, record = advance(jax.random.key(2), tuned, jnp.asarray(False))
    assert np.all(np.asarray(record.steps) == 1)
    assert float(jnp.min(record.acceptance)) > 1 - 1e-9


def test_a_stuck_chain_is_rescued_during_warm_up() -> None:
    state = hmc.State(jnp.arange(8.0)[:, None], jnp.zeros(8), jnp.zeros((8, 1)))
    acceptance = jnp.full(8, 0.8).at[jnp.array([2, 5])].set(0.0)
    moved = hmc._replace_stuck(jnp.linspace(-1, 0, 8), state, acceptance).position[:, 0]
    untouched = [0, 1, 3, 4, 6, 7]
    assert [float(moved[k]) for k in untouched] == untouched
    assert {float(moved[2]), float(moved[5])} == {7.0, 6.0}


def test_the_laplace_approximation_of_a_normal_posterior_is_exact() -> None:
    design = jnp.asarray(np.random.default_rng(0).normal(size=(30, 4)))
    target = design @ jnp.array([1.0, -2.0, 0.5, 3.0])

    def log_likelihood(x: Array) -> Array:
        return -0.5 * jnp.sum((target - design @ x) ** 2)

    near = jit(lambda: laplace(log_likelihood, lambda _: design.T @ design, jnp.zeros(4)))()
    precision = np.eye(4) + np.asarray(design.T @ design)
    np.testing.assert_allclose(near.centre, np.linalg.solve(precision, design.T @ target), atol=1e-6)
    np.testing.assert_allclose(near.root @ near.root.T, np.linalg.inv(precision), atol=1e-9)
    np.testing.assert_allclose(near.root @ near.inverse_root, np.eye(4), atol=1e-12)
