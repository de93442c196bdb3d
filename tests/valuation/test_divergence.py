"""KL estimators on distributions whose divergence from N(0, I) is known."""

from concurrent.futures import ThreadPoolExecutor
from typing import get_args
from unittest import mock

import numpy as np
import pytest
from scipy import stats

from equipoise.valuation import divergence as divergence_module
from equipoise.valuation.divergence import Estimator, divergence

ESTIMATORS = get_args(Estimator)
CHAINS, LENGTH = 16, 250


def normal_case(dimension: int, seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean, covariance root and KL of a correlated, narrow normal distribution."""
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=dimension)
    root = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0] * rng.uniform(0.05, 0.6, dimension)
    covariance = root @ root.T
    kl = 0.5 * (np.trace(covariance) + mean @ mean - dimension - np.linalg.slogdet(covariance)[1])
    return mean, root, float(kl)


@pytest.mark.statistical
@pytest.mark.parametrize("dimension", [1, 4, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("estimator", ["knn-entropy", "knn-copula", "knn-mixture", "gaussian-fit"])
def test_good_estimators_find_the_divergence_of_a_normal(estimator: Estimator, dimension: int) -> None:
    """Errors are as large as they say, over repetitions, and the mean of many is unbiased within its own error."""
    mean, root, truth = normal_case(dimension, dimension)
    rng = np.random.default_rng(1)
    found = [divergence(mean + rng.normal(size=(CHAINS, LENGTH, dimension)) @ root.T, estimator) for _ in range(40)]
    values, errors = np.array([f.value for f in found]), np.array([f.error for f in found])
    assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(40) + 0.01
    assert 0.6 < values.std() / errors.mean() < 1.5


def test_the_papers_estimator_comes_close() -> None:
    mean, root, truth = normal_case(3, 5)
    draws = mean + np.random.default_rng(1).normal(size=(CHAINS, LENGTH, 3)) @ root.T
    assert abs(divergence(draws, "knn").value - truth) < 0.15 * truth


@pytest.mark.statistical
@pytest.mark.slow
def test_the_classifier_works_for_close_distributions_only() -> None:
    """Half a deviation apart it is right; where the samples do not overlap it knows no scale."""
    rng = np.random.default_rng(2)
    close = rng.normal(size=(CHAINS, LENGTH, 2)) + 0.5
    assert divergence(close, "classifier").value == pytest.approx(0.25, abs=0.1)
    narrow = 0.01 * rng.normal(size=(CHAINS, LENGTH, 4)) + 2.0
    truth = 4 * (np.log(100) + 0.5 * (1e-4 + 4 - 1))
    assert abs(divergence(narrow, "classifier").value - truth) > 3
    assert divergence(narrow, "knn-entropy").value == pytest.approx(truth, abs=0.2)


def test_nearest_neighbours_see_what_a_normal_fit_does_not() -> None:
    """Two modes: the fit is off by nearly log 2."""
    rng = np.random.default_rng(3)
    draws = 0.1 * rng.normal(size=(CHAINS, LENGTH, 1)) + rng.choice([-2.0, 2.0], size=(CHAINS, LENGTH, 1))
    grid = np.linspace(-3, 3, 20_001)
    density = 0.5 * stats.norm.pdf(grid, -2, 0.1) + 0.5 * stats.norm.pdf(grid, 2, 0.1)
    integrand = density * (np.log(np.maximum(density, 1e-300)) - stats.norm.logpdf(grid))
    truth = float(np.trapezoid(integrand, grid))
    found = divergence(draws, "knn-entropy")
    assert abs(found.value - truth) < 4 * found.error + 0.02
    assert divergence(draws, "gaussian-fit").value < truth - 1


@pytest.mark.statistical
@pytest.mark.parametrize("spread", ["own", "triangular"])
def test_skewed_coordinates_are_seen_one_by_one(spread: str) -> None:
    """Eight coordinates of a gamma distribution: neighbours alone fall short, and say so by nothing."""
    shape, dimension = 4.0, 8
    mixing = np.diag(np.linspace(0.1, 0.5, dimension))
    if spread == "triangular":
        mixing = np.asarray(np.linalg.cholesky(mixing @ (0.5 * np.eye(dimension) + 0.5) @ mixing), float)
    entropy = dimension * (float(stats.gamma(shape).entropy()) - 0.5 * np.log(shape)) + np.linalg.slogdet(mixing)[1]
    truth = 0.5 * np.sum(mixing**2) + 0.5 * dimension * np.log(2 * np.pi) - entropy
    numbers = np.random.default_rng(4).gamma(shape, size=(CHAINS, 256, dimension))
    draws = (numbers - shape) / np.sqrt(shape) @ mixing.T
    copula, plain = divergence(draws, "knn-copula"), divergence(draws, "knn-entropy")
    assert abs(copula.value - truth) < 3 * copula.error + 0.02
    assert plain.value < truth - 4 * plain.error - 0.05


@pytest.mark.statistical
@pytest.mark.parametrize("estimator", ["knn-entropy", "knn-copula", "knn-mixture"])
def test_draws_of_the_prior_are_worth_nothing(estimator: Estimator) -> None:
    rng = np.random.default_rng(5)
    found = [divergence(rng.normal(size=(CHAINS, 128, 5)), estimator) for _ in range(20)]
    values = np.array([one.value for one in found])
    assert abs(values.mean()) < 4 * values.std() / np.sqrt(20) + 0.01


@pytest.mark.statistical
@pytest.mark.parametrize("dimension", [5, 12])
def test_heavy_tails_do_not_bias_a_mixture(dimension: int) -> None:
    """Draws of a multivariate t distribution: neighbours alone find too much, and their error does not say so."""
    sets, scale, freedom = 3, 0.2, 5
    entropy = float(stats.multivariate_t(shape=scale**2 * np.eye(dimension), df=freedom).entropy())
    second_moment = dimension * scale**2 * freedom / (freedom - 2)
    truth = 0.5 * second_moment + 0.5 * dimension * np.log(2 * np.pi) - entropy
    rng = np.random.default_rng(9)
    mixture, plain = [], []
    for _ in range(sets):
        spread = scale * np.sqrt(freedom / rng.chisquare(freedom, size=(CHAINS, 256, 1)))
        draws = spread * rng.normal(size=(CHAINS, 256, dimension))
        mixture.append(divergence(draws, "knn-mixture"))
        plain.append(divergence(draws, "knn-entropy"))
    stated = np.mean([one.error for one in mixture]) / np.sqrt(sets)
    assert abs(np.mean([one.value for one in mixture]) - truth) < 3 * stated
    if dimension == 12:
        assert np.mean([one.value for one in plain]) > truth + 8 * stated


def two_modes(width: float, seed: int) -> tuple[np.ndarray, float]:
    """Draws of two normal distributions at ±1.5 that do not overlap, in four coordinates, and their divergence."""
    rng = np.random.default_rng(seed)
    draws = width * rng.normal(size=(CHAINS, 256, 4))
    draws[:, :, 0] += rng.choice([-1.5, 1.5], size=(CHAINS, 256))
    return draws, float(-np.log(2) + 4 * (0.5 * width**2 - 0.5 - np.log(width)) + 0.5 * 1.5**2)


@pytest.mark.statistical
@pytest.mark.parametrize("width", [0.01, 0.2])
def test_separated_modes_do_not_bias_a_mixture(width: float) -> None:
    draws, truth = two_modes(width, 10)
    mixture, plain = divergence(draws, "knn-mixture"), divergence(draws, "knn-entropy")
    assert abs(mixture.value - truth) < 3 * mixture.error
    assert plain.value < truth - 4 * plain.error


@pytest.mark.parametrize(("chains", "length", "dimension"), [(4, 200, 12), (1, 32, 3)])
def test_draws_too_few_for_mixtures_are_estimated_without(chains: int, length: int, dimension: int) -> None:
    draws = np.random.default_rng(11).standard_t(5, size=(chains, length, dimension))
    assert divergence(draws, "knn-mixture") == divergence(draws, "knn-entropy")


@pytest.mark.parametrize("chains", [1, 3])
def test_few_chains_have_halves_too(chains: int) -> None:
    """One chain is cut in its middle, and the larger half of an odd number is one chain more."""
    draws, truth = two_modes(0.2, 12)
    found = divergence(draws.reshape(-1, 4)[:3_999].reshape(chains, -1, 4), "knn-mixture")
    assert abs(found.value - truth) < 4 * found.error


def test_scales_of_coordinates_do_not_matter_to_a_mixture() -> None:
    """A direction that hardly varies shifts the divergence by its logarithm, and nothing else."""
    draws = two_modes(0.2, 13)[0]
    narrow = draws * np.array([1, 1, 1e-7, 1])
    prior_share = 0.5 * np.mean(np.sum(draws**2 - narrow**2, axis=2))
    found, other = divergence(draws, "knn-mixture"), divergence(narrow, "knn-mixture")
    assert other.value - found.value == pytest.approx(7 * np.log(10) - prior_share, abs=1e-4)


@pytest.mark.statistical
def test_repeated_draws_do_not_bias_a_mixture() -> None:
    draws, truth = two_modes(0.2, 14)
    draws[:, 3::4] = draws[:, 2::4]
    found = divergence(draws, "knn-mixture")
    assert abs(found.value - truth) < 3 * found.error


def test_repeated_draws_do_not_bias_it() -> None:
    """As rejected proposals leave them: every fourth draw is the one before it again."""
    mean, root, truth = normal_case(4, 7)
    rng = np.random.default_rng(4)
    values = []
    for _ in range(20):
        draws = mean + rng.normal(size=(CHAINS, LENGTH, 4)) @ root.T
        draws[:, 3::4] = draws[:, 2::4][:, : draws[:, 3::4].shape[1]]
        values.append(divergence(draws).value)
    assert abs(np.mean(values) - truth) < 4 * np.std(values) / np.sqrt(20) + 0.01


def test_autocorrelated_draws_have_a_larger_error() -> None:
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(CHAINS, LENGTH, 2))
    walk = noise.copy()
    for step in range(1, LENGTH):
        walk[:, step] = 0.9 * walk[:, step - 1] + np.sqrt(1 - 0.81) * noise[:, step]
    scaled = 0.3 * walk + 1
    assert divergence(scaled).error > 2 * divergence(0.3 * noise + 1).error


@pytest.mark.statistical
@pytest.mark.parametrize(
    "estimator", [pytest.param(one, marks=pytest.mark.slow if one == "classifier" else ()) for one in ESTIMATORS]
)
def test_the_prior_itself_is_worth_nothing(estimator: Estimator) -> None:
    found = divergence(np.random.default_rng(6).normal(size=(CHAINS, LENGTH, 3)), estimator)
    assert abs(found.value) < 4 * found.error + 0.03


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_the_same_seed_gives_the_same_estimate(estimator: Estimator) -> None:
    draws = 0.2 * np.random.default_rng(7).normal(size=(4, 100, 2))
    assert divergence(draws, estimator, seed=3) == divergence(draws, estimator, seed=3)


def test_what_cannot_be_estimated_is_refused() -> None:
    with pytest.raises(ValueError, match="'parzen'"):
        divergence(np.zeros((4, 100, 2)), "parzen")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="too few"):
        divergence(np.zeros((2, 2, 4)))
    stuck = np.zeros((4, 100, 2))
    stuck[0, 0] = 1.0
    with pytest.raises(ValueError, match="hardly moved"):
        divergence(stuck, "knn")


@pytest.mark.parametrize(("number", "dimension"), [(512, 2), (4_096, 6), (1_024, 12)])
def test_the_table_of_errors_is_what_simulating_finds(number: int, dimension: int) -> None:
    """Made by `benchmarks/calibrate_neighbours.py`."""
    by_neighbours = divergence_module.log_density_by_neighbours
    known = divergence_module._table()[str(dimension)][str(number)]
    assert divergence_module.simulate_error.__wrapped__(by_neighbours, number, dimension) == pytest.approx(known, 1e-9)
    assert divergence_module._simulated_error(by_neighbours, number, dimension) == known


def test_what_is_not_in_the_table_is_simulated_once() -> None:
    by_neighbours = divergence_module.log_density_by_neighbours
    with mock.patch.object(divergence_module, "_table", return_value={}):
        before = divergence_module.simulate_error.cache_info().misses
        with ThreadPoolExecutor(4) as pool:
            found = set(pool.map(lambda _: divergence_module._simulated_error(by_neighbours, 256, 3), range(4)))
    assert len(found) == 1
    assert divergence_module.simulate_error.cache_info().misses == before + 1
