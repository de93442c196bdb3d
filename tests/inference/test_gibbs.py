"""The parts of the Gibbs sampler that have an exact answer."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equipoise.inference.observations import Scenarios

from engine_setup import jit
from equipoise.inference import gibbs
from problems import everyone, simulate_linear

pytestmark = pytest.mark.engine


# Compiled whole: operation by operation, each of them would be compiled by itself.
temper = jit(gibbs.temper)
start = jit(gibbs.start, static_argnums=0)
step = jit(gibbs.step, static_argnums=0)
conjugate = jit(gibbs._conjugate, static_argnums=0)
randomness = jit(gibbs._randomness, static_argnums=(1, 4))


def prepared(shared: bool, kappa: float = 1.0) -> tuple:  # type: ignore[type-arg]
    simulated = simulate_linear(1, shared=shared, epsilons=[2.0, 1.0, 4.0])
    problem = simulated.problem
    scenario = jax.tree.map(lambda part: part[0], everyone(problem, kappa=kappa))
    evidence = temper(problem.observations, scenario)
    state = start(problem.model, problem.prior, evidence, jnp.asarray(simulated.position))
    return problem, evidence, state


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_drawn_statistics_have_the_conditional_mean_and_covariance(shared: bool) -> None:
    """s | θ, ω, o is the product of N(cM, cK) and N(o, noise); compare many structural draws with the dense answer."""
    problem, evidence, state = prepared(shared)
    model, bias = problem.model, problem.model.width
    random = randomness(jax.random.key(0), model, problem.prior, evidence, (60_000,))
    draw = jit(jax.vmap(partial(gibbs._draw_statistics, model, evidence, state)))
    drawn = np.asarray(draw(random))
    i, j = model.places_of_entries
    for party in range(3):
        moment = np.asarray(state.statistic[party] / evidence.rows[party])
        count = float(evidence.rows[party])
        sampling = count * np.asarray(model.covariance_of_row(jnp.asarray(moment)))
        gain = sampling @ np.linalg.inv(sampling + np.diag(evidence.noise[party]))
        mean = (count * moment)[i, j] + gain @ (np.asarray(evidence.statistic[party]) - (count * moment)[i, j])
        covariance = sampling - gain @ sampling
        entries = drawn[:, party][:, i, j]
        scale = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose((entries.mean(axis=0) - mean) / scale, 0, atol=0.025)
        np.testing.assert_allclose(
            np.cov(entries.T) / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.03
        )
        assert np.all(drawn[:, party, bias, bias] == pytest.approx(count))


def test_statistics_of_real_rows_are_valid_and_impossible_ones_are_not() -> None:
    simulated = simulate_linear(2, shared=True)
    problem = simulated.problem
    scenario = jax.tree.map(lambda part: part[0], everyone(problem))
    evidence = temper(problem.observations, scenario)
    real = problem.model.matrices(jnp.asarray(simulated.exact), problem.observations.rows)
    check = partial(conjugate, problem.model, problem.prior, evidence)
    assert bool(check(real).valid)
    impossible = {
        "negative residual sum of squares": real.at[0, -1, -1].add(-1e4),
        "indefinite scatter": real.at[0, 0, 0].add(-1e4),
    }
    for why, statistic in impossible.items():
        assert not bool(check(statistic).valid), why


def test_an_unusable_draw_leaves_the_statistics_as_they_were() -> None:
    problem, evidence, state = prepared(shared=True)
    random = randomness(jax.random.key(1), problem.model, problem.prior, evidence, ())
    wild = random._replace(sampling_square=1e6 * random.sampling_square)
    after, info = step(problem.model, problem.prior, evidence, state, wild)
    assert not bool(info.accepted)
    np.testing.assert_array_equal(after.statistic, state.statistic)
    assert float(after.variance) != float(state.variance)  # the parameters move all the same


def test_conjugate_update_equals_a_direct_one() -> None:
    problem, evidence, state = prepared(shared=True)
    prior = problem.prior
    update = conjugate(problem.model, prior, evidence, state.statistic)
    total = np.asarray(state.statistic.sum(axis=0))
    precision = 0.025 * np.eye(3) + total[:-1, :-1]
    mean = np.linalg.solve(precision, total[:-1, -1])
    np.testing.assert_allclose(update.weight_mean, mean, rtol=1e-9)
    assert float(update.scale) == pytest.approx(0.1 + 0.5 * (total[-1, -1] - mean @ precision @ mean), rel=1e-9)
    centre = total[:2, 2] / (1 + total[2, 2])
    scatter = np.eye(2) + total[:2, :2] - (1 + total[2, 2]) * np.outer(centre, centre)
    np.testing.assert_allclose(update.scatter_root[0] @ update.scatter_root[0].T, scatter, rtol=1e-9)


def test_scaled_tempering_multiplies_statistic_rows_and_noise() -> None:
    problem, whole, _ = prepared(shared=True)
    _, part, _ = prepared(shared=True, kappa=0.25)
    np.testing.assert_allclose(part.statistic, 0.25 * whole.statistic)
    np.testing.assert_allclose(part.rows, 0.25 * whole.rows)
    np.testing.assert_allclose(part.noise, 0.25**2 * whole.noise)
    nobody = Scenarios(jnp.ones(3), jnp.asarray(0.0), jnp.zeros(3))
    assert float(jnp.sum(gibbs.temper(problem.observations, nobody).member)) == 0
