"""Fits in the prior's family: parameters found again, divergences against quadrature, known posteriors."""

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import equipoise as eq
import rounds
from equipoise.inference.conjugate import dirichlet_divergence, fit_dirichlet, fit_gamma, gamma_divergence
from equipoise.inference.models import conjugate_of
from equipoise.inference.models.base import Conjugate
from equipoise.valuation.divergence import divergence
from equipoise.valuation.surprise import conjugate_fit

RNG = np.random.default_rng


def conjugate(kind: str, prior: str) -> Conjugate[Any]:
    """Return inference's half of a model with a given prior; the regression has two features."""
    text = rounds.agreement_text(kind).replace("[privacy]", f"prior = {{ {prior} }}\n[privacy]", 1)
    text = text.replace(
        '{ name = "x", bounds = [-2, 2] }', '{ name = "x", bounds = [-2, 2] }, { name = "z", bounds = [-2, 2] }'
    )
    return conjugate_of(eq.Agreement.parse(text).model)


@pytest.mark.parametrize(("shape", "rate"), [(0.3, 2.0), (5.0, 0.1), (800.0, 30.0)])
def test_gamma_parameters_are_found_again(shape: float, rate: float) -> None:
    found = fit_gamma(RNG(0).gamma(shape, 1 / rate, 200_000))
    np.testing.assert_allclose(found, [shape, rate], rtol=0.02)


@pytest.mark.parametrize("concentrations", [[0.3, 0.5], [4.0, 1.0, 90.0], [300.0, 200.0, 1000.0]])
def test_dirichlet_parameters_are_found_again(concentrations: list[float]) -> None:
    found = fit_dirichlet(RNG(0).dirichlet(concentrations, 100_000))
    np.testing.assert_allclose(found, concentrations, rtol=0.03)


def test_gamma_divergence_is_its_integral() -> None:
    first, second = stats.gamma(3.0, scale=1 / 2.0), stats.gamma(1.5, scale=1 / 0.4)
    integral, _ = integrate.quad(lambda x: first.pdf(x) * (first.logpdf(x) - second.logpdf(x)), 1e-9, 30)
    assert gamma_divergence(3.0, 2.0, 1.5, 0.4) == pytest.approx(integral, rel=1e-6)
    assert gamma_divergence(3.0, 2.0, 3.0, 2.0) == pytest.approx(0, abs=1e-12)


def test_dirichlet_divergence_is_that_of_beta_distributions() -> None:
    first, second = stats.beta(3.0, 2.0), stats.beta(0.7, 1.4)
    integral, _ = integrate.quad(lambda x: first.pdf(x) * (first.logpdf(x) - second.logpdf(x)), 0, 1)
    assert dirichlet_divergence(np.array([3.0, 2.0]), np.array([0.7, 1.4])) == pytest.approx(integral, rel=1e-6)


def test_a_normal_inverse_gamma_posterior() -> None:
    """Known parameters, so that the divergence is known too; and nearest neighbours in the coordinates agree."""
    model = conjugate("linear", "shape = 5.0, scale = 0.1, weight_precision = 0.025")
    rng = RNG(1)
    shape, scale = 55.0, 1.1
    mean, spread = np.array([0.3, -0.2, 0.1]), np.diag([0.02, 0.01, 0.005])
    variance = scale / rng.gamma(shape, size=(16, 2_000))
    normal = rng.normal(size=(16, 2_000, 3)) * np.sqrt(np.diag(spread))
    weights = mean + np.sqrt(variance)[..., None] * normal
    precision = 0.025 * np.eye(3)
    quadratic = shape / scale * mean @ precision @ mean
    log_ratio = -np.linalg.slogdet(precision)[1] - np.linalg.slogdet(spread)[1]
    truth = 0.5 * (np.trace(precision @ spread) - 3 + log_ratio + quadratic) + gamma_divergence(shape, scale, 5.0, 0.1)
    found = conjugate_fit(model, {"weights": weights, "variance": variance})
    assert found.error < 0.05
    assert abs(found.value - truth) < 4 * found.error + 0.005

    # The same distribution in coordinates with a prior of N(0, I).
    uniform = stats.gamma(5.0).cdf(0.1 / variance)
    first = stats.norm.ppf(np.clip(uniform, 1e-300, 1 - 1e-16))
    rest = weights / np.sqrt(variance)[..., None] * np.sqrt(0.025)
    by_neighbours = divergence(np.concatenate([first[..., None], rest], axis=-1))
    assert abs(by_neighbours.value - truth) < 4 * by_neighbours.error + 0.05


def test_counts_and_rates() -> None:
    rng = RNG(2)
    bernoulli = {"probability": rng.beta(30.0, 10.0, size=(16, 1_000))}
    found = conjugate_fit(conjugate("bernoulli", "positive = 1.0, negative = 1.0"), bernoulli)
    truth = dirichlet_divergence(np.array([30.0, 10.0]), np.ones(2))
    assert abs(found.value - truth) < 4 * found.error + 0.002

    categories = {"probabilities": rng.dirichlet([5.0, 9.0, 2.0], size=(16, 1_000))}
    found = conjugate_fit(conjugate("categorical", "concentration = 1.0"), categories)
    assert abs(found.value - dirichlet_divergence(np.array([5.0, 9.0, 2.0]), np.ones(3))) < 4 * found.error + 0.002

    rate = {"rate": rng.gamma(50.0, 1 / 20.0, size=(16, 1_000))}
    for kind in ("poisson", "exponential"):
        found = conjugate_fit(conjugate(kind, "shape = 1.0, rate = 0.5"), rate)
        assert abs(found.value - gamma_divergence(50.0, 20.0, 1.0, 0.5)) < 4 * found.error + 0.002


def test_the_error_is_that_of_repetitions() -> None:
    rng = RNG(3)
    model = conjugate("exponential", "shape = 1.0, rate = 0.5")
    found = [conjugate_fit(model, {"rate": rng.gamma(50.0, 1 / 20.0, size=(16, 250))}) for _ in range(200)]
    ratio = np.std([one.value for one in found]) / np.mean([one.error for one in found])
    assert 0.8 < ratio < 1.25
