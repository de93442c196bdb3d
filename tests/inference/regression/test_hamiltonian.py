"""Hamiltonian chains against what is known: a normal posterior, slopes by differences, and importance sampling."""

import numpy as np
import pytest

from equipoise.inference import sampling
from equipoise.inference.hamiltonian import sample_chains
from equipoise.inference.pooling import Releases
from equipoise.inference.regression import posterior
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.problem import build_problem
from regressions import agree, draw_rows, draw_targets, model_of, sums_of

WEIGHTS = np.array([0.3, -0.2, 0.25, 0.15, -0.1, 0.05])


def released(kind: str, rows: int = 800, noise: float = 25.0) -> tuple[RegressionModel, Releases]:
    model, rng = model_of(agree(kind)), np.random.default_rng(7)
    table = draw_rows(rows, rng)
    weights = WEIGHTS if kind == "linear" else 5 * WEIGHTS
    sums = sums_of(model, table, draw_targets(kind, table, weights, 0.25, rng))
    noised = sums + np.sqrt(noise) * rng.normal(size=len(sums))
    return model, Releases(noised[None], np.array([float(rows)]), np.array([noise]), np.ones(len(sums)))


@pytest.mark.statistical
def test_a_normal_posterior_is_sampled() -> None:
    dimension, rng = 15, np.random.default_rng(0)
    root = rng.normal(size=(dimension, dimension)) / 4 + np.eye(dimension)
    precision, mean = np.linalg.inv(root @ root.T), rng.normal(size=dimension)

    def slopes(points: np.ndarray) -> np.ndarray:
        return np.asarray((mean - points) @ precision)

    def log_density(points: np.ndarray) -> np.ndarray:
        return np.asarray(0.5 * np.sum(slopes(points) * (points - mean), axis=1))

    starts = mean + rng.normal(size=(64, dimension))
    found = sample_chains(log_density, slopes, starts, np.eye(dimension), rng, 4_000)
    assert found.diagnostics.converged, found.diagnostics
    draws = found.draws.reshape(-1, dimension)
    deviations = np.sqrt(np.diagonal(root @ root.T))
    assert np.abs((draws.mean(axis=0) - mean) / deviations).max() < 0.1
    assert np.abs(draws.std(axis=0) / deviations - 1).max() < 0.1


def test_slopes_of_a_linear_regression_are_differences() -> None:
    model, releases = released("linear")
    problem, mode = build_problem(model, releases)
    points = mode.centre + 2 * np.random.default_rng(1).normal(size=(5, model.dimension)) @ mode.root.T
    slopes = problem.slopes(points)
    np.testing.assert_allclose(problem.slopes(points, single=True), slopes, rtol=1e-3, atol=1e-2)
    steps = 1e-6 * np.eye(model.dimension)
    differences = [problem.log_posterior(points + one) - problem.log_posterior(points - one) for one in steps]
    np.testing.assert_allclose(slopes, np.stack(differences, axis=1) / 2e-6, rtol=1e-4, atol=1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["linear", pytest.param("logistic", marks=pytest.mark.slow)])
def test_chains_and_importance_weights_agree(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where chains move on a chart, as in logistic regression."""
    model, releases = released(kind)
    weighted = posterior.sample_posterior(model, releases, np.random.default_rng(2), 4_000)
    for name in ("MOST_WEIGHTED", "MOST_WEIGHTED_LABELS"):
        monkeypatch.setattr(posterior, name, 0)
    chains = posterior.sample_posterior(model, releases, np.random.default_rng(3), 1_500)
    assert weighted.divergence is not None
    assert chains.divergence is None
    assert weighted.diagnostics.converged
    assert chains.diagnostics.converged, chains.diagnostics
    deviations = weighted.coordinates.std(axis=0)
    assert np.abs((chains.coordinates.mean(axis=0) - weighted.coordinates.mean(axis=0)) / deviations).max() < 0.15
    assert np.abs(chains.coordinates.std(axis=0) / deviations - 1).max() < 0.12


def test_the_chart_of_a_logistic_regression_shifts_the_bias_along_its_ridge() -> None:
    model, releases = released("logistic")
    problem, mode = build_problem(model, releases)
    chart = problem.chart
    assert chart is not None
    rng = np.random.default_rng(4)
    points = chart.from_coordinates(mode.centre[None]) + rng.normal(size=(6, model.dimension)) @ mode.root.T
    coordinates = chart.to_coordinates(points)
    np.testing.assert_allclose(chart.from_coordinates(coordinates), points, atol=1e-12)
    # Shifting one coordinate given the others keeps volumes.
    np.testing.assert_array_equal(coordinates[:, :-1], points[:, :-1])
    shifts = coordinates - points
    higher = points + np.eye(model.dimension)[-1]
    np.testing.assert_allclose(chart.to_coordinates(higher) - higher, shifts, atol=1e-12)
    identity = np.broadcast_to(np.eye(model.dimension), (6, model.dimension, model.dimension))
    for point, slopes in zip(points, identity, strict=True):
        found = chart.pull_back(np.broadcast_to(point, slopes.shape), slopes)
        steps = 1e-6 * np.eye(model.dimension)
        expected = (chart.to_coordinates(point + steps) - chart.to_coordinates(point - steps)) / 2e-6
        np.testing.assert_allclose(found, expected.T, atol=1e-7)
    # Where only the other weights move, on the chart labels stay about as frequent as they are.
    moves = np.column_stack([rng.normal(size=(50, model.dimension - 1)), np.zeros(50)])

    def share(coordinates: np.ndarray) -> np.ndarray:
        return problem.observations[0].normals(coordinates).mean[:, -1]

    on_chart = share(chart.to_coordinates(chart.from_coordinates(mode.centre[None]) + moves))
    assert on_chart.std() < 0.5 * share(mode.centre + moves).std()


@pytest.mark.parametrize(("rows", "noise"), [(800, 25.0), (40, 400.0)])
def test_slopes_on_the_chart_are_differences(rows: int, noise: float) -> None:
    """Also far from the mode, and where noise leaves feature moments that no rows have."""
    model, releases = released("logistic", rows, noise)
    problem, mode = build_problem(model, releases)
    chart = problem.chart
    assert chart is not None
    points = chart.from_coordinates(mode.centre + 1.5 * np.random.default_rng(6).normal(size=(8, model.dimension)))

    def density(at: np.ndarray) -> np.ndarray:
        return problem.log_posterior(chart.to_coordinates(at))

    found = chart.pull_back(points, problem.slopes(chart.to_coordinates(points)))
    steps = 1e-3 * np.eye(model.dimension)
    expected = np.stack([density(points + one) - density(points - one) for one in steps], axis=1) / 2e-3
    # Labels of synthetic rows are in single precision.
    np.testing.assert_allclose(found, expected, rtol=5e-3, atol=2e-2)


def test_chains_do_not_begin_where_next_to_no_density_is() -> None:
    model, releases = released("linear")
    problem, mode = build_problem(model, releases)
    wide = mode._replace(root=30 * mode.root)
    starts = sampling._draw_starts(problem, wide, np.random.default_rng(5))
    densities = problem.log_posterior(np.concatenate([mode.centre[None], starts]))
    assert (densities[1:] > densities[0] - model.dimension - sampling.LOW - 1e-9).all()
    assert np.linalg.matrix_rank(starts - mode.centre) == model.dimension


def test_points_that_are_far_or_no_numbers_have_no_density() -> None:
    model, releases = released("linear")
    problem, _ = build_problem(model, releases)
    points = np.stack([np.full(model.dimension, value) for value in (np.nan, np.inf, 1e9, 0.0)])
    value, slopes = sampling._log_density(problem, points), problem.slopes(points)
    assert np.isneginf(value[:3]).all()
    assert np.isfinite(value[3])
    assert np.isfinite(slopes).all()
