"""Importance sampling where the posterior is known."""

import numpy as np
import pytest
from scipy import stats

from equipoise.errors import InferenceError
from equipoise.inference.regression.importance import sample, smooth
from equipoise.inference.regression.likelihood import Normals
from equipoise.inference.regression.mode import Problem, find_mode


def no_slopes(points: np.ndarray) -> np.ndarray:
    raise AssertionError("importance sampling needs no slopes")


def linear_problem(observed: np.ndarray, matrix: np.ndarray, spread: np.ndarray) -> Problem:
    def normals(points: np.ndarray) -> Normals:
        return Normals(points @ matrix.T, np.broadcast_to(spread, (len(points), *spread.shape)))

    return Problem(observed, normals, lambda points: points, lambda points: points, no_slopes)


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

    problem = Problem(np.array([1.5, 0.0]), normals, lambda points: points, lambda points: points, no_slopes)
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
