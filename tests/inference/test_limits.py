"""What the posterior must tend to: the conjugate one without noise, the prior with endless noise or κ = 0."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equipoise.inference.engine import Problem, Sampled, Settings
from equipoise.inference.observations import Scenarios
from scipy import stats

from equipoise.inference import baselines, engine
from problems import everyone, simulate_linear

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def sample(problem: Problem, scenarios: Scenarios, *, seed: int = 0, **options: Any) -> list[Sampled]:
    settings = Settings(**({"draws": 4_000} | options))
    keys = jax.random.split(jax.random.key(seed), len(scenarios.kappa))
    return engine.run(keys, problem, scenarios, settings)


def assert_prior(sampled: Sampled) -> None:
    """Moments, and a test of each coordinate against N(0, 1) on nearly independent draws."""
    positions = sampled.positions
    assert positions is not None
    flat = positions.reshape(-1, positions.shape[-1])
    np.testing.assert_allclose(flat.mean(axis=0), 0, atol=0.1)
    np.testing.assert_allclose(flat.std(axis=0), 1, atol=0.06)
    thinned = positions[:, ::6].reshape(-1, positions.shape[-1])
    pvalues = [stats.kstest(thinned[:, k], "norm").pvalue for k in range(thinned.shape[1])]
    assert min(pvalues) * len(pvalues) > 1e-3


@pytest.mark.parametrize("shared", [True, False])
def test_without_noise_linear_regression_is_conjugate(shared: bool) -> None:
    simulated = simulate_linear(11, counts=[20_000, 30_000, 40_000], epsilons=[1e9] * 3, shared=shared)
    problem = simulated.problem
    (sampled,) = sample(problem, everyone(problem), draws=8_000)
    exact = Problem(problem.model, problem.prior, problem.observations._replace(statistic=jnp.asarray(simulated.exact)))
    rng = np.random.default_rng(0)
    conjugate = baselines.conjugate_draws(rng, exact, np.ones(3), 1.0, 40_000, repair=False)
    for name, values in conjugate.items():
        draws = sampled.parameters[name]
        draws = draws.reshape(-1, *draws.shape[2:])
        shift = (draws.mean(axis=0) - values.mean(axis=0)) / values.std(axis=0)
        np.testing.assert_allclose(shift, 0, atol=0.12, err_msg=name)
        np.testing.assert_allclose(draws.std(axis=0) / values.std(axis=0), 1, atol=0.06, err_msg=name)


def test_with_endless_noise_or_no_weight_everything_is_the_prior() -> None:
    noisy = simulate_linear(12, epsilons=[1e-12] * 3).problem
    assert_prior(sample(noisy, everyone(noisy))[0])
    plain = simulate_linear(12, epsilons=[1.0] * 3).problem
    assert_prior(sample(plain, everyone(plain, kappa=0.0))[0])


def test_gibbs_at_kappa_zero_is_the_prior() -> None:
    problem = simulate_linear(14).problem
    (sampled,) = sample(problem, everyone(problem, kappa=0.0), sampler="gibbs", rule="scaled")
    variance = sampled.parameters["variance"].reshape(-1)
    assert stats.kstest(variance, stats.invgamma(5, scale=0.1).cdf).pvalue > 1e-3
    scaled = sampled.parameters["weights"].reshape(-1, 3) / np.sqrt(variance)[:, None] * np.sqrt(0.025)
    assert min(stats.kstest(scaled[:, k], "norm").pvalue for k in range(3)) > 1e-3


def test_value_grows_with_kappa_under_power_and_does_not_vanish_under_scaled() -> None:
    """KL(q_κ ‖ prior) of a normal fit to the coordinates: monotone under `power`; under `scaled` a collapsed posterior
    keeps the factor |K|^(−1/2) as κ → 0, draws the feature covariance together and does not tend to the prior."""
    problem = simulate_linear(15, shared=True, epsilons=[1.0] * 3).problem
    kappas = [1e-6, 3e-3, 0.1, 1.0]
    member, nothing = jnp.ones((4, 3)), jnp.zeros((4, 3))
    scenarios = Scenarios(member, jnp.asarray(kappas), nothing)
    power = [divergence_from_prior(one) for one in sample(problem, scenarios, draws=2_000)]
    assert all(ahead > behind - 0.1 for behind, ahead in itertools.pairwise(power))
    assert power[0] < 0.1
    scaled = [divergence_from_prior(one) for one in sample(problem, scenarios, rule="scaled", draws=2_000)]
    assert scaled[3] == pytest.approx(power[3], abs=0.3)
    assert scaled[0] > power[0] + 2


def divergence_from_prior(sampled: Sampled) -> float:
    assert sampled.positions is not None
    flat = sampled.positions.reshape(-1, sampled.positions.shape[-1])
    mean, covariance = flat.mean(axis=0), np.cov(flat.T)
    return float(0.5 * (np.trace(covariance) + mean @ mean - len(mean) - np.linalg.slogdet(covariance)[1]))
