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
from problems import simulate_linear, syn_prior

pytestmark = pytest.mark.engine


def test_prior_draws_follow_the_stated_prior() -> None:
    width = 2
    prior, model = syn_prior(width), LinearRegression(1, width, shared=True)
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
    """Entry by entry, the n × n matrix holds what the party's layout says."""
    agreement = builders.linear(4, norm_bound=norm_bound)
    layout = layout_of(agreement)
    model = LinearRegression(1, 4, shared=True)
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


def test_row_moments_are_those_of_simulated_rows() -> None:
    simulated = simulate_linear(3, counts=[400_000], epsilons=[1.0], shared=True)
    model, prior = simulated.problem.model, simulated.problem.prior
    mean, covariance = (part[0] for part in jit(model.row_moments)(prior, jnp.asarray(simulated.position)))
    table = simulated.rows[0]
    i, j = np.triu_indices(table.shape[1])
    rows = np.column_stack([table, table[:, i] * table[:, j]])
    np.testing.assert_allclose(rows.mean(axis=0), mean, atol=0.01)
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(np.cov(rows.T) / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=0.02)
