"""The parts of the Gibbs sampler that have an exact answer."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from engine_setup import jit
from equipoise.inference.models.linear import LinearPrior
from equipoise_paper import gibbs
from equipoise_paper.gibbs import Evidence, Sizes, State
from problems import Simulated, asked, simulate_linear

pytestmark = pytest.mark.engine


# Compiled whole: operation by operation, each of them would be compiled by itself.
start = jit(gibbs._start, static_argnums=0)
step = jit(gibbs.step, static_argnums=0)
conjugate = jit(gibbs._conjugate, static_argnums=0)
randomness = jit(gibbs._randomness, static_argnums=(1, 4))


def prepared(shared: bool, kappa: float = 1.0) -> tuple[Simulated, Sizes, Any, Evidence, State]:
    simulated = simulate_linear(1, shared=shared, epsilons=[2.0, 1.0, 4.0])
    sizes = Sizes(2, 3, shared)
    prior: Any = LinearPrior(*map(jnp.asarray, simulated.model.prior))  # type: ignore[arg-type]
    evidence = gibbs.temper(simulated.sums, asked(simulated, kappa=kappa))
    truth = simulated.truth
    means, covariances = (np.reshape(truth[name], (-1, *shape)) for name, shape in FEATURES.items())
    parts = (truth["weights"], truth["variance"], means, np.linalg.cholesky(covariances))
    state: State = start(sizes, prior, evidence, *map(jnp.asarray, parts))
    return simulated, sizes, prior, evidence, state


FEATURES = {"feature_mean": (2,), "feature_covariance": (2, 2)}


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_drawn_statistics_have_the_conditional_mean_and_covariance(shared: bool) -> None:
    """s | θ, ω, o is the product of N(cM, cK) and N(o, noise); compare many structural draws with the dense answer."""
    _, sizes, prior, evidence, state = prepared(shared)
    random = randomness(jax.random.key(0), sizes, prior, evidence, (60_000,))
    draw = jit(jax.vmap(partial(gibbs._draw_statistics, sizes, evidence, state)))
    drawn = np.asarray(draw(random))
    i, j = sizes.places_of_entries
    for party in range(3):
        moment = np.asarray(state.statistic[party] / evidence.rows[party])
        count = float(evidence.rows[party])
        sampling = count * np.asarray(sizes.covariance_of_row(jnp.asarray(moment)))
        gain = sampling @ np.linalg.inv(sampling + np.diag(evidence.noise[party]))
        mean = (count * moment)[i, j] + gain @ (np.asarray(evidence.statistic[party]) - (count * moment)[i, j])
        covariance = sampling - gain @ sampling
        entries = drawn[:, party][:, i, j]
        scale = np.sqrt(np.diag(covariance))
        np.testing.assert_allclose((entries.mean(axis=0) - mean) / scale, 0, atol=0.025)
        np.testing.assert_allclose(
            np.cov(entries.T) / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.03
        )
        assert np.all(drawn[:, party, 2, 2] == pytest.approx(count))


def test_statistics_of_real_rows_are_valid_and_impossible_ones_are_not() -> None:
    simulated, sizes, prior, evidence, _ = prepared(shared=True)
    real = sizes.matrices(jnp.asarray(simulated.exact), jnp.asarray(simulated.sums.rows))
    np.testing.assert_array_equal(real, simulated.model.matrices(simulated.exact, simulated.sums.rows))
    check = partial(conjugate, sizes, prior, evidence)
    assert bool(check(real).valid)
    impossible = {
        "negative residual sum of squares": real.at[0, -1, -1].add(-1e4),
        "indefinite scatter": real.at[0, 0, 0].add(-1e4),
    }
    for why, statistic in impossible.items():
        assert not bool(check(statistic).valid), why


def test_an_unusable_draw_leaves_the_statistics_as_they_were() -> None:
    _, sizes, prior, evidence, state = prepared(shared=True)
    random = randomness(jax.random.key(1), sizes, prior, evidence, ())
    wild = random._replace(sampling_square=1e6 * random.sampling_square)
    after, info = step(sizes, prior, evidence, state, wild)
    assert not bool(info.accepted)
    np.testing.assert_array_equal(after.statistic, state.statistic)
    assert float(after.variance) != float(state.variance)  # the parameters move all the same


def test_conjugate_update_equals_a_direct_one() -> None:
    _, sizes, prior, evidence, state = prepared(shared=True)
    update = conjugate(sizes, prior, evidence, state.statistic)
    total = np.asarray(state.statistic.sum(axis=0))
    precision = 0.025 * np.eye(3) + total[:-1, :-1]
    mean = np.linalg.solve(precision, total[:-1, -1])
    np.testing.assert_allclose(update.weight_mean, mean, rtol=1e-9)
    assert float(update.scale) == pytest.approx(0.1 + 0.5 * (total[-1, -1] - mean @ precision @ mean), rel=1e-9)
    centre = total[:2, 2] / (1 + total[2, 2])
    scatter = np.eye(2) + total[:2, :2] - (1 + total[2, 2]) * np.outer(centre, centre)
    np.testing.assert_allclose(update.scatter_root[0] @ update.scatter_root[0].T, scatter, rtol=1e-9)


def test_scaled_tempering_multiplies_statistic_rows_and_noise() -> None:
    simulated, _, _, whole, _ = prepared(shared=True)
    part = gibbs.temper(simulated.sums, asked(simulated, kappa=0.25))
    np.testing.assert_allclose(part.statistic, 0.25 * whole.statistic)
    np.testing.assert_allclose(part.rows, 0.25 * whole.rows)
    np.testing.assert_allclose(part.noise, 0.25**2 * whole.noise)
    assert float(jnp.sum(gibbs.temper(simulated.sums, asked(simulated, kappa=0.0)).member)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_whatever_a_party_that_is_out_sent_is_never_read(shared: bool) -> None:
    simulated = simulate_linear(5, shared=shared)
    wanted, settings = asked(simulated, members=[0, 2]), gibbs.GibbsSettings(draws=640, max_thinning=1)
    results = []
    for filling in (0.0, 1e300, np.nan):
        spoilt = [part.copy() for part in simulated.sums]
        for part in spoilt:
            part[1] = filling
        sums = type(simulated.sums)(*spoilt)
        results.append(gibbs.sample_by_gibbs(simulated.model, sums, wanted, settings).parameters)
    for result in results[1:]:
        np.testing.assert_array_equal(result["weights"], results[0]["weights"])
        assert np.all(np.isfinite(result["weights"]))


@pytest.mark.slow
def test_scenarios_of_any_kappa_and_noise_compile_once() -> None:
    simulated = simulate_linear(6)
    programs: list[Any] = [gibbs._begin, gibbs._advance]
    for program in programs:
        program.clear_cache()
    for kappa in (0.0, 0.2, 1.0):
        gibbs.sample_by_gibbs(
            simulated.model, simulated.sums, asked(simulated, kappa=kappa), gibbs.GibbsSettings(640, max_thinning=1)
        )
    assert [program._cache_size() for program in programs] == [1, 1]
