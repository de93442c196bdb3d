"""Linear regression's coordinates, statistic layout and moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import builders
from engine_setup import jit
from equipoise.inference.models.linear import LinearRegression
from equipoise.models import layout_of
from equipoise.models.guarantee import Guarantee
from problems import linear_entries, simulate_linear, syn_prior

pytestmark = pytest.mark.engine


def test_prior_draws_follow_the_stated_prior() -> None:
    width = 2
    prior, model = syn_prior(width), LinearRegression(width, 1, shared=True)
    positions = jax.random.normal(jax.random.key(0), (40_000, model.dimension))
    draws = jit(jax.vmap(lambda at: model.parameters(prior, at)))(positions)
    variance = np.asarray(draws["variance"])
    assert stats.kstest(variance, stats.invgamma(5, scale=0.1).cdf).pvalue > 1e-3
    weights = np.asarray(draws["weights"]) / np.sqrt(variance)[:, None] * np.sqrt(0.025)
    assert min(stats.kstest(weights[:, k], "norm").pvalue for k in range(3)) > 1e-3
    covariance = np.asarray(draws["feature_covariance"])
    # A diagonal entry of W⁻¹(I, ν) is inverse gamma with shape (ν − w + 1)/2.
    law = stats.invgamma((50 - width + 1) / 2, scale=0.5)
    assert min(stats.kstest(covariance[:, k, k], law.cdf).pvalue for k in range(width)) > 1e-3
    direct = np.asarray(stats.invwishart.rvs(50, np.eye(width), size=40_000, random_state=1))
    assert stats.ks_2samp(covariance[:, 0, 1], direct[:, 0, 1]).pvalue > 1e-3
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), np.asarray(draws["feature_mean"])[..., None])[..., 0]
    assert min(stats.kstest(whitened[:, k], "norm").pvalue for k in range(width)) > 1e-3


@pytest.mark.parametrize("norm_bound", [None, 1.25])
def test_the_matrix_reads_the_agreed_statistic(norm_bound: float | None) -> None:
    """Entry by entry, the n × n matrix holds what the party's layout says, and the noise where it is."""
    agreement = builders.linear(4, norm_bound=norm_bound)
    layout = layout_of(agreement)
    model = LinearRegression(4, 1, shared=True)
    assert model.entries == len(layout)
    places = np.asarray(model.matrices(jnp.arange(len(layout), dtype=float), jnp.asarray(-1.0))).astype(int)
    column_of = [0, 1, 2, 3, None, 4]  # features, bias, target
    for i, first in enumerate(column_of):
        for j, second in enumerate(column_of):
            if first is None and second is None:
                assert places[i, j] == -1
                continue
            entry = layout.entries[places[i, j]]
            expected = sorted(k for k in (first, second) if k is not None)
            assert [k for k in (entry.first, entry.second) if k is not None] == expected
    variance = np.square(layout.noise_deviations(Guarantee(2, 0.5)))
    noise = model.noise(jnp.asarray(variance))
    off_diagonal = {float(variance[places[i, j]]) for i in range(6) for j in range(i) if places[i, j] >= 0}
    assert off_diagonal == {float(noise.off_diagonal)}
    for i in (0, 1, 2, 3, 5):
        assert float(noise.diagonal[i]) == variance[places[i, i]]
    assert float(noise.diagonal[4]) == 2 * float(noise.off_diagonal)


def test_expected_statistic_is_that_of_simulated_rows() -> None:
    simulated = simulate_linear(3, counts=[400_000], epsilons=[1.0], shared=True)
    model, prior = simulated.problem.model, simulated.problem.prior
    moment = model.second_moments(prior, jnp.asarray(simulated.position))[0]
    table = simulated.rows[0]
    sampled = np.asarray(model.matrices(jnp.asarray(linear_entries(table)), jnp.asarray(float(len(table)))))
    np.testing.assert_allclose(sampled / len(table), moment, atol=0.01)


def test_information_is_the_curvature_of_the_expected_log_likelihood() -> None:
    """At small noise and many rows the information dominates: it is the Hessian of ½ rᵀC⁻¹r at the true position."""
    simulated = simulate_linear(4, counts=[10_000_000], epsilons=[50.0], shared=True)
    model, prior = simulated.problem.model, simulated.problem.prior
    from equipoise.inference.observations import observe
    from problems import everyone

    scenario = jax.tree.map(lambda part: part[0], everyone(simulated.problem))
    evidence = jit(lambda: model.prepare(observe(simulated.problem.observations, scenario, "power")))()
    at = jnp.asarray(simulated.position)
    moment = model.second_moments(prior, at)[0]
    quiet = evidence._replace(statistic=evidence.rows[:, None, None] * moment[None])  # no residual
    gradient = jit(jax.grad(lambda x: jnp.sum(model.log_likelihood(prior, quiet, x))))
    step = 1e-6
    steps = step * np.eye(len(at))
    columns = [(gradient(at + one) - gradient(at - one)) / (2 * step) for one in steps]
    information = jit(model.information)(prior, evidence, at)
    np.testing.assert_allclose(-np.stack(columns), information, rtol=1e-3, atol=1e-3 * float(jnp.max(information)))
