"""Wide models: chains on approximate slopes, an oracle for 40 terms, few releases against many, and sizes refused."""

from functools import partial

import numpy as np
import pytest

from equipoise.errors import InferenceError
from equipoise.inference import pooling, sampling
from equipoise.inference.hamiltonian import sample_chains
from equipoise.inference.pooling import Releases, pool
from equipoise.inference.regression import model as regression_model
from equipoise.inference.regression import posterior
from equipoise.inference.regression.problem import build_problem
from regressions import agree, draw_rows, draw_targets, model_of, sums_of

WEIGHTS = np.array([0.3, -0.2, 0.25, 0.15, -0.1, 0.05])


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_wrong_slopes_leave_the_distribution_as_it_is(kind: str) -> None:
    """Slopes in single precision, bent by a tenth besides, give what importance sampling gives."""
    agreed = agree(kind, '{ name = "age", bounds = [-1, 1] }, { name = "bmi", bounds = [-1, 1] }')
    model, rng = model_of(agreed), np.random.default_rng(7)
    table = draw_rows(800, rng)[:, [0, 3, 5]]
    weights = WEIGHTS[[0, 2, 3]] * (1 if kind == "linear" else 5)
    sums = sums_of(model, table, draw_targets(kind, table, weights, 0.25, rng))
    releases = Releases(
        (sums + 5 * rng.normal(size=len(sums)))[None], np.array([800.0]), np.array([25.0]), np.ones(len(sums))
    )
    problem, mode = build_problem(model, releases)
    weighted = posterior.sample_posterior(model, releases, rng, 8_000)
    assert weighted.divergence is not None

    def slopes(points: np.ndarray) -> np.ndarray:
        return problem.slopes(points, single=True) * np.linspace(0.9, 1.1, model.dimension) + 0.1

    starts = mode.centre + rng.normal(size=(64, model.dimension)) @ mode.root.T
    chains = sample_chains(partial(sampling._log_density, problem), slopes, starts, mode.root, rng, 8_000)
    assert chains.diagnostics.converged, chains.diagnostics
    draws, deviations = chains.draws.reshape(-1, model.dimension), weighted.coordinates.std(axis=0)
    assert np.abs((draws.mean(axis=0) - weighted.coordinates.mean(axis=0)) / deviations).max() < 0.1
    assert np.abs(draws.std(axis=0) / deviations - 1).max() < 0.08


@pytest.mark.statistical
def test_forty_terms_with_hardly_any_noise_are_least_squares() -> None:
    """With many rows, hardly any noise and weak priors the posterior is that of rows: (XᵀX)⁻¹ Xᵀy and σ² (XᵀX)⁻¹."""
    width, number, rng = 40, 20_000, np.random.default_rng(4)
    names = ", ".join(f'{{ name = "x{k}", bounds = [-1, 1], typical = [-0.6, 0.6] }}' for k in range(width))
    model = model_of(agree("linear", names))
    normal = 0.5 * rng.normal(size=(number, 1)) + 0.8 * rng.normal(size=(number, width))
    table = np.column_stack([0.3 * normal, np.ones(number)])
    weights = np.append(0.1 * rng.normal(size=width), 0.1)
    target = table @ weights + 0.2 * rng.normal(size=number)
    sums = sums_of(model, table, target)
    releases = Releases(sums[None], np.array([float(number)]), np.ones(1), np.full(len(sums), 0.1))
    sample = posterior.sample_posterior(model, releases, rng, 1_280)
    assert sample.diagnostics.converged, sample.diagnostics
    found = model.parameters(sample.coordinates)
    gram = table.T @ table
    expected = np.linalg.solve(gram, table.T @ target)
    residual = target - table @ expected
    deviations = np.sqrt(residual @ residual / number * np.diagonal(np.linalg.inv(gram)))
    assert np.abs((found.weights.mean(axis=0) - expected) / deviations).max() < 0.25
    assert np.abs(found.weights.std(axis=0) / deviations - 1).max() < 0.15
    assert abs(found.variance.mean() / (residual @ residual / number) - 1) < 0.02


def test_few_releases_are_pooled_as_many_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    root = rng.normal(size=(30, 12))
    covariance, shape = root.T @ root / 30, rng.uniform(0.5, 2, 12)
    releases = Releases(rng.normal(size=(4, 12)), np.array([50.0, 80, 80, 50]), np.array([1.0, 3, 3, 2]), shape)
    few = pool(releases, covariance, sampling=2.0)
    monkeypatch.setattr(pooling, "MOST_INVERTED", 0)
    many = pool(releases, covariance, sampling=2.0)
    np.testing.assert_allclose(few.precision, many.precision, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(few.natural, many.natural, rtol=1e-9, atol=1e-12)


def test_too_many_terms_are_refused_before_anything_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regression_model, "MOST_TERMS", 4)
    with pytest.raises(InferenceError, match="5 terms; more than 4 would fill the memory"):
        model_of(agree("linear"))
