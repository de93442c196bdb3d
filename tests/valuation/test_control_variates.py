"""Values with control variates, on draws from NumPy whose density, score and divergence are known."""

from collections.abc import Callable

import numpy as np
import pytest
from equipoise.valuation.control_variates import DRAWS_EACH, controlled
from scipy import integrate, special, stats

from equipoise._util.arrays import Floats
from equipoise.valuation.divergence import divergence

CHAINS = 8
Density = tuple[Callable[[np.random.Generator, tuple[int, ...]], Floats], Callable[[Floats], Floats], float]


def normal() -> Density:
    """A narrow normal distribution away from the prior's centre."""
    mean, sd = 0.8, 0.2
    worth = -np.log(sd) + 0.5 * (sd**2 + mean**2 - 1)
    return lambda rng, shape: mean + sd * rng.normal(size=shape), lambda x: -(x - mean) / sd**2, float(worth)


def skewed() -> Density:
    """The logarithm of a Gamma(2) variable: skewed, with one heavy tail."""
    density = stats.loggamma(2)
    entropy, square = (
        integrate.quad(lambda x, f=f: f(x) * density.pdf(x), -30, 6, limit=200)[0] for f in (density.logpdf, np.square)
    )
    return (
        lambda rng, shape: np.log(rng.gamma(2.0, size=shape)),
        lambda x: 2 - np.exp(x),
        float(entropy + 0.5 * square + 0.5 * np.log(2 * np.pi)),
    )


def drawn(density: Density, rng: np.random.Generator, draws: int, dimension: int) -> tuple[Floats, Floats]:
    """Independent draws, in coordinates that are mixed, with scores in whitened ones that are mixed otherwise."""
    sample, score, _ = density
    x = sample(rng, (CHAINS, draws // CHAINS, dimension))
    centre, scale = x.mean(axis=(0, 1)).round(1), x.std(axis=(0, 1)).round(1)  # of a warm-up, so to say: not of these
    turn = special_orthogonal(dimension)
    return x, np.stack([((x - centre) / scale) @ turn, (score(x) * scale) @ turn], axis=2)


def special_orthogonal(dimension: int) -> Floats:
    """A rotation, always the same."""
    return np.eye(1) if dimension == 1 else np.asarray(stats.special_ortho_group(dimension, seed=1).rvs())


@pytest.mark.statistical
@pytest.mark.parametrize("dimension", [1, 3, 7])
def test_errors_of_normals_are_smaller_and_as_stated(dimension: int) -> None:
    density, draws = normal(), 1_280
    plain, better = [], []
    for seed in range(60):
        x, scores = drawn(density, np.random.default_rng(seed), draws, dimension)
        plain.append(divergence(x))
        better.append(divergence(x, scores=scores))
    worth = dimension * density[2]
    z = np.array([(one.value - worth) / one.error for one in better])
    assert 0.6 < z.std() < 1.3
    # Coefficients that know of the draws they are used for would take 0.025 off of seven coordinates.
    added = [one.value - other.value for one, other in zip(better, plain, strict=True)]
    assert abs(np.mean(added)) < 0.015
    ratio = np.mean([one.error for one in better]) / np.mean([one.error for one in plain])
    assert ratio < (1.0 if dimension == 1 else 0.75)


@pytest.mark.statistical
@pytest.mark.parametrize("dimension", [2, 5])
def test_errors_of_skewed_densities_are_as_stated_too(dimension: int) -> None:
    density, draws = skewed(), 2_560
    plain, better = [], []
    for seed in range(60):
        x, scores = drawn(density, np.random.default_rng(seed), draws, dimension)
        plain.append(divergence(x).value)
        better.append(divergence(x, scores=scores))
    found = np.array([one.value for one in better])
    errors = np.array([one.error for one in better])
    assert 0.7 < found.std(ddof=1) / errors.mean() < 1.35
    assert abs(found.mean() - np.mean(plain)) < 3.5 * np.std(found - plain) / np.sqrt(len(found))  # no bias is added
    assert abs(found.mean() - dimension * density[2]) < 0.03 * dimension  # that of neighbours, as without


@pytest.mark.statistical
def test_scores_make_errors_of_mixtures_smaller_and_as_stated() -> None:
    """A multivariate t distribution in four coordinates, of 5 degrees of freedom and covariance I / 15."""
    dimension, freedom, scale = 4, 5, 0.2
    entropy = float(stats.multivariate_t(shape=scale**2 * np.eye(dimension), df=freedom).entropy())
    truth = 0.5 * dimension / 15 + 0.5 * dimension * np.log(2 * np.pi) - entropy
    plain, better = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        spread = scale * np.sqrt(freedom / rng.chisquare(freedom, size=(CHAINS, 160, 1)))
        x = spread * rng.normal(size=(CHAINS, 160, dimension))
        score = -(freedom + dimension) * x / (freedom * scale**2 + np.sum(x**2, axis=2, keepdims=True))
        width = np.sqrt(1 / 15)
        plain.append(divergence(x, "knn-mixture"))
        better.append(divergence(x, "knn-mixture", scores=np.stack([x / width, score * width], axis=2)))
    values, stated = np.array([one.value for one in better]), np.mean([one.error for one in better])
    assert abs(values.mean() - truth) < 3 * stated / np.sqrt(8) + 0.01
    assert 0.4 < values.std(ddof=1) / stated < 1.8
    assert stated < 0.7 * np.mean([one.error for one in plain])


def test_scores_of_another_density_would_be_noticed() -> None:
    """What the test above would not forgive: means that are not 0."""
    density = normal()
    x, scores = drawn(density, np.random.default_rng(0), 2_560, 3)
    scores[:, :, 1] += 0.5
    wrong = divergence(x, scores=scores)
    assert abs(wrong.value - 3 * density[2]) > 5 * wrong.error


def test_few_draws_have_fewer_functions_or_none() -> None:
    rng = np.random.default_rng(0)

    def left(draws: int, terms: Callable[[Floats], Floats]) -> float:
        """The share of the variance that is left of terms that are functions of normal draws."""
        x = rng.normal(size=(CHAINS, draws // CHAINS, 4))
        found = controlled(terms(x), np.stack([x, -x], axis=2), lambda chains: terms(x[chains]))
        return float(np.var(found) / np.var(terms(x)))

    def squares(x: Floats) -> Floats:
        return np.asarray(np.sum(x**2, axis=-1))

    def products(x: Floats) -> Floats:
        return np.asarray(x[..., 0] * x[..., 1])

    assert left(DRAWS_EACH * 16, squares) < 1e-9
    assert left(DRAWS_EACH * 16, products) < 1e-9
    assert left(DRAWS_EACH * 10, squares) < 1e-9
    assert left(DRAWS_EACH * 10, products) > 0.8
    assert left(DRAWS_EACH * 4, squares) == 1


def test_one_chain_has_no_other_half_to_fit_to() -> None:
    x = np.random.default_rng(0).normal(size=(1, 500, 2))
    terms = np.sum(x**2, axis=-1)
    assert controlled(terms, np.stack([x, -x], axis=2), lambda chains: terms[chains]) is terms


def test_worth_of_the_skewed_density() -> None:
    """E log p of a loggamma(2) variable is 2 ψ(2) − 2 − log Γ(2)."""
    second = special.polygamma(1, 2) + special.digamma(2) ** 2
    expected = 2 * special.digamma(2) - 2 + 0.5 * second + 0.5 * np.log(2 * np.pi)
    assert skewed()[2] == pytest.approx(float(expected), abs=1e-9)
