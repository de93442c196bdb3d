"""Importance sampling where the posterior is known."""

import numpy as np
import pytest
from scipy import stats

from equipoise.errors import InferenceError
from equipoise.inference.importance import sample, smooth
from equipoise.inference.mode import Observation, Problem, find_mode
from equipoise.inference.normals import Normals
from regressions import agree, model_of


def no_slopes(points: np.ndarray) -> np.ndarray:
    raise AssertionError("importance sampling needs no slopes")


def linear_problem(observed: np.ndarray, matrix: np.ndarray, spread: np.ndarray) -> Problem:
    def normals(points: np.ndarray) -> Normals:
        return Normals(points @ matrix.T, np.broadcast_to(spread, (len(points), *spread.shape)))

    return Problem([Observation(observed, normals)], lambda points: points, lambda points: points, no_slopes)


@pytest.mark.statistical
@pytest.mark.parametrize("dimension", [2, 6])
def test_a_normal_posterior_is_found_with_its_divergence(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    matrix = rng.normal(size=(dimension, dimension))
    spread = 0.05 * np.eye(dimension)
    observed = rng.normal(size=dimension)
    precision = matrix.T @ np.linalg.inv(spread) @ matrix + np.eye(dimension)
    covariance = np.linalg.inv(precision)
    mean = covariance @ matrix.T @ np.linalg.inv(spread) @ observed
    problem = linear_problem(observed, matrix, spread)
    mode = find_mode(problem, np.zeros(dimension))
    np.testing.assert_allclose(mode.centre, mean, atol=1e-3)
    np.testing.assert_allclose(mode.root @ mode.root.T, covariance, rtol=1e-4, atol=1e-6)
    found = sample(problem, mode, rng, 8_000)
    assert found.reliable
    draws = found.resample(rng, 4_000)
    deviations = np.sqrt(np.diagonal(covariance))
    assert np.abs((draws.mean(axis=0) - mean) / deviations).max() < 0.1
    assert np.abs(draws.std(axis=0) / deviations - 1).max() < 0.1
    truth = 0.5 * (np.trace(covariance) + mean @ mean - dimension - np.linalg.slogdet(covariance)[1])
    divergence = found.divergence()
    assert divergence.error < 0.05
    assert abs(divergence.value - truth) < 4 * divergence.error


@pytest.mark.statistical
def test_two_modes_are_both_found() -> None:
    """The square of the first coordinate is observed: its sign is not."""

    def normals(points: np.ndarray) -> Normals:
        return Normals(
            np.column_stack([points[:, 0] ** 2, points[:, 1]]), np.broadcast_to(0.1 * np.eye(2), (len(points), 2, 2))
        )

    problem = Problem(
        [Observation(np.array([1.5, 0.0]), normals)], lambda points: points, lambda points: points, no_slopes
    )
    rng = np.random.default_rng(0)
    found = sample(problem, find_mode(problem, np.array([0.5, 0.5])), rng, 8_000)
    assert found.reliable
    assert abs(np.mean(found.resample(rng, 4_000)[:, 0] > 0) - 0.5) < 0.06


def test_a_posterior_far_from_every_point_is_never_reliable() -> None:
    problem = linear_problem(np.full(2, np.nan), np.eye(2), np.eye(2))
    mode = find_mode(linear_problem(np.zeros(2), np.eye(2), np.eye(2)), np.zeros(2))
    found = sample(problem, mode, np.random.default_rng(0), 1_000)
    assert not found.reliable
    with pytest.raises(InferenceError, match="no point of the sample has any weight"):
        found.divergence()


@pytest.mark.parametrize("shape", [-0.3, 0.2, 0.6, 1.0])
def test_the_shape_of_a_tail_is_found(shape: float) -> None:
    """Weights of a Pareto distribution have its shape, but for the prior that leans towards one half."""
    draws = stats.genpareto(shape).rvs(size=40_000, random_state=np.random.default_rng(1)) + 1
    smoothed, found = smooth(np.log(draws))
    assert abs(found - shape) < 0.15
    assert np.exp(smoothed).max() <= draws.max() * (1 + 1e-9)
    np.testing.assert_array_equal(np.sort(smoothed)[:30_000], np.sort(np.log(draws))[:30_000])


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_volumes_are_determinants_of_differences(kind: str) -> None:
    model = model_of(agree(kind))
    coordinates = np.random.default_rng(0).normal(size=(3, model.dimension))
    steps = 1e-5 * np.eye(model.dimension)
    differences = [model.flatten(coordinates + one) - model.flatten(coordinates - one) for one in steps]
    determinants = np.linalg.slogdet(np.stack(differences, axis=2) / 2e-5)[1]
    np.testing.assert_allclose(model.log_volume(coordinates), determinants, atol=1e-6)


@pytest.mark.statistical
def test_a_ridge_that_is_bent_in_coordinates_is_covered_by_flat_proposals() -> None:
    """The sum of two hyperbolic sines is known to 1 %: the first one has the density below."""
    spread = 1e-4 * np.eye(1)

    def flatten(points: np.ndarray) -> np.ndarray:
        return np.asarray(np.sinh(2 * points))

    def unflatten(points: np.ndarray) -> np.ndarray:
        return np.asarray(np.arcsinh(points) / 2)

    def normals(points: np.ndarray) -> Normals:
        return Normals(flatten(points).sum(axis=1, keepdims=True), np.broadcast_to(spread, (len(points), 1, 1)))

    def log_volume(points: np.ndarray) -> np.ndarray:
        return np.asarray(np.sum(np.log(2 * np.cosh(2 * points)), axis=1))

    problem = Problem([Observation(np.array([3.0]), normals)], flatten, unflatten, no_slopes, log_volume)
    rng = np.random.default_rng(0)
    found = sample(problem, find_mode(problem, np.zeros(2)), rng, 8_000)
    assert found.reliable
    assert found.effective > 2_000  # without flat proposals it is below 100
    draws = flatten(found.resample(rng, 4_000))[:, 0]
    grid = np.linspace(-100, 103, 400_001)
    parts = unflatten(np.stack([grid, 3 - grid], axis=1))
    density = np.exp(np.sum(stats.norm.logpdf(parts), axis=1) - log_volume(parts))
    for low, high in ((-1e9, 0.0), (0.0, 1.5), (1.5, 3.0), (3.0, 1e9)):
        expected = density[(grid > low) & (grid < high)].sum() / density.sum()
        assert abs(np.mean((draws > low) & (draws < high)) - expected) < 0.03
