"""Linear regression with the conjugate prior: coordinates, layout of a statistic, posteriors of exact sums."""

import numpy as np
import pytest
from scipy import stats

import builders
from equipoise.inference.models.base import Released
from equipoise.inference.models.linear import ConjugateRegression
from equipoise.models import layout_of
from problems import simulate_linear


def test_coordinates_follow_the_stated_prior_and_are_found_again() -> None:
    model = simulate_linear(1).model
    coordinates = np.random.default_rng(0).normal(size=(40_000, 4))
    draws = model.agreed.at_coordinates(coordinates)
    variance = draws["variance"]
    assert stats.kstest(variance, stats.invgamma(5, scale=0.1).cdf).pvalue > 1e-3
    weights = draws["weights"] / np.sqrt(variance)[:, None] * np.sqrt(0.025)
    assert min(stats.kstest(weights[:, k], "norm").pvalue for k in range(3)) > 1e-3
    np.testing.assert_allclose(model.own_of_draws(draws), coordinates, atol=1e-7)


@pytest.mark.parametrize("norm_bound", [None, 1.25])
def test_the_matrix_reads_the_agreed_statistic(norm_bound: float | None) -> None:
    """Entry by entry, the n × n matrix holds what the party's layout says."""
    agreement = builders.linear(4, norm_bound=norm_bound)
    layout = layout_of(agreement)
    model = ConjugateRegression(agreement.model)  # type: ignore[arg-type]
    places = model.matrices(np.arange(len(layout), dtype=float), np.asarray(-1.0)).astype(int)
    column_of = [0, 1, 2, 3, None, 4]  # features, bias, target
    for i, first in enumerate(column_of):
        for j, second in enumerate(column_of):
            if first is None and second is None:
                assert places[i, j] == -1
                continue
            entry = layout.entries[places[i, j]]
            expected = sorted(k for k in (first, second) if k is not None)
            assert [k for k in (entry.first, entry.second) if k is not None] == expected


@pytest.mark.parametrize("shared", [True, False])
def test_exact_sums_of_many_rows_tell_the_truth(shared: bool) -> None:
    simulated = simulate_linear(3, counts=[40_000, 60_000], epsilons=[1.0, 1.0], shared=shared)
    released = Released(simulated.exact, simulated.sums.rows, np.ones(2, bool), 1.0, repair=False)
    draws = simulated.model.conjugate_draws(np.random.default_rng(0), released, 4_000)
    assert set(draws) == set(simulated.truth)
    for name, values in draws.items():
        assert np.all(np.abs(values.mean(axis=0) - simulated.truth[name]) < 5 * values.std(axis=0)), name
        assert np.all(values.std(axis=0) < 0.02), name
