"""Moments of clipped rows against brute force, priors against textbooks, and the density of released statistics."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from equipoise.agreement import Agreement
from equipoise.inference.models.base import Family
from equipoise.inference.models.posterior import Statistics, build_problem
from equipoise.inference.pooling import Releases
from equipoise.inference.released import family_of
from equipoise.models.base import Family as Agreed

Floats = NDArray[np.float64]


def agree(kind: str, target: str, prior: str) -> Family[Any]:
    agreement = Agreement.parse(
        f'format = 2\n[model]\nkind = "{kind}"\ntarget = {{ name = "y", {target} }}\n[model.prior]\n{prior}\n'
        '[privacy]\nmax_epsilon = 4.0\n[[parties]]\nname = "north"\n'
    )
    return family_of(agreement.model)


def rate(kind: str, shape: float, rate: float, lower: float, upper: float) -> Family[Any]:
    return agree(kind, f"bounds = [{lower}, {upper}]", f"shape = {shape}\nrate = {rate}")


def gaussian(shape: float, scale: float, mean: float, strength: float) -> Family[Any]:
    prior = f"shape = {shape}\nscale = {scale}\nmean = {mean}\nmean_strength = {strength}"
    return agree("gaussian", "bounds = [-1, 1]", prior)


def bernoulli(positive: float, negative: float) -> Family[Any]:
    return agree("bernoulli", "labels = [0, 1]", f"positive = {positive}\nnegative = {negative}")


def categorical(*concentrations: float) -> Family[Any]:
    names = [f"c{number}" for number in range(len(concentrations))]
    return agree("categorical", f"categories = {names}".replace("'", '"'), f"concentration = {list(concentrations)}")


CASES = {
    "bernoulli": bernoulli(1.0, 2.5),
    "bernoulli, sparse": bernoulli(0.05, 0.02),
    "bernoulli, firm and lopsided": bernoulli(20.0, 400.0),
    "categorical": categorical(1.0, 0.5, 3.0, 2.0),
    "categorical, sparse": categorical(0.05, 0.1, 0.05, 0.2),
    "categorical, firm and lopsided": categorical(0.5, 100.0, 1.0, 2000.0),
    "poisson": rate("poisson", 1.0, 0.1, 0, 20),
    "poisson, from 3": rate("poisson", 0.3, 0.2, 3, 7),
    "poisson, large and vague": rate("poisson", 0.3, 1e-4, 9_900, 10_000),
    "poisson, large and narrow": rate("poisson", 30.0, 3e-3, 9_900, 10_000),
    "poisson, vague": rate("poisson", 0.01, 1e-6, 0, 20),
    "exponential": rate("exponential", 1.0, 5.0, 0.0, 10.0),
    "exponential, from 2": rate("exponential", 0.3, 1.0, 2.0, 2.5),
    "exponential, vague": rate("exponential", 0.01, 1e-6, 0.0, 1e-3),
    "gaussian": gaussian(3.0, 0.5, 0.0, 0.25),
    "gaussian, needle": gaussian(20.0, 1e-5, 0.9, 4.0),
    "gaussian, wide": gaussian(0.4, 1e-5, -0.3, 1.0),
    "gaussian, vague": gaussian(0.01, 1.0, 0.5, 1e-3),
}
each_case = pytest.mark.parametrize("family", CASES.values(), ids=CASES.keys())


def cases_of(*kinds: str) -> pytest.MarkDecorator:
    chosen = {name: family for name, family in CASES.items() if family.agreed.kind in kinds}
    return pytest.mark.parametrize("family", chosen.values(), ids=chosen.keys())


def dimension_of(family: Family[Any]) -> int:
    return len(family.agreed.coordinate_names())


def positions(dimension: int, limit: float, count: int) -> Floats:
    """Points of a grid if one or two coordinates are wanted, else its diagonal and scattered points."""
    line = np.linspace(-limit, limit, count)
    if dimension <= 2:
        return np.stack(np.meshgrid(*[line] * dimension), axis=-1).reshape(-1, dimension)
    scattered = np.random.default_rng(1).uniform(-limit, limit, size=(5 * count, dimension))
    return np.concatenate([np.tile(line[:, None], dimension), scattered])


class Found(NamedTuple):
    """Means [points, entries], covariances [points, entries, entries] and parameters, at some coordinates."""

    mean: Floats
    covariance: Floats
    parameters: dict[str, Floats]


def evaluate(family: Family[Any], at: Floats) -> Found:
    parameters = family.agreed.at_coordinates(at)
    return Found(*family.row_moments(parameters), parameters)


def discrete_moments(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Mean and covariance of points `values` [entries, points], about the heaviest one so that nothing cancels."""
    reference = values[:, np.argmax(weights)]
    shift = (values - reference[:, None]) @ weights
    centred = values - (reference + shift)[:, None]
    return reference + shift, (centred * weights) @ centred.T


def fine_rule(density: Callable[[Floats], Floats], edges: Floats) -> tuple[Floats, Floats]:
    """Points and weights of a brute-force integral: twenty Gauss-Legendre nodes between each two edges."""
    nodes, weights = np.polynomial.legendre.leggauss(20)
    half = np.diff(edges)[:, None] / 2
    points = edges[:-1, None] + half * (1 + nodes)
    return points.ravel(), (half * weights * density(points)).ravel()


@cases_of("bernoulli", "categorical")
def test_moments_of_labels_are_those_of_one_hot_rows(family: Family[Any]) -> None:
    means, covariances, parameters = evaluate(family, positions(dimension_of(family), 8.0, 25))
    (values,) = parameters.values()
    for mean, covariance, parameter in zip(means, covariances, values, strict=True):
        if family.agreed.kind == "categorical":
            rows, weights = np.eye(len(parameter)), parameter
        else:
            rows, weights = np.array([[0.0, 1.0]]), np.array([1 - parameter, parameter])
        assert weights.sum() == pytest.approx(1.0, abs=1e-13)
        expected_mean, expected_covariance = discrete_moments(rows, weights)
        np.testing.assert_allclose(mean, expected_mean, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(covariance, expected_covariance, rtol=1e-12, atol=1e-13)


@cases_of("poisson")
def test_poisson_moments_equal_the_exact_sums(family: Family[Any]) -> None:
    lower, upper = map(int, family.agreed.target.bounds)
    counts = np.arange(upper + 1.0)
    scaled = np.append((np.clip(counts, lower, upper) - (lower + upper) / 2) / ((upper - lower) / 2), 1.0)
    means, covariances, parameters = evaluate(family, positions(1, 7.9, 40))
    for mean, covariance, value in zip(means, covariances, parameters["rate"], strict=True):
        weights = np.append(stats.poisson.pmf(counts, value), stats.poisson.sf(upper, value))
        expected_mean, expected_covariance = discrete_moments(scaled[None], weights)
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-11)
        np.testing.assert_allclose(covariance, expected_covariance, rtol=1e-9, atol=1e-12)
        assert covariance >= 0


def test_poisson_covers_rates_from_nearly_none_to_far_above_the_bounds() -> None:
    means, covariances, parameters = evaluate(CASES["poisson, vague"], positions(1, 8.0, 161))
    rates, variances = parameters["rate"], covariances[:, 0, 0]
    low, high = rates < 1e-8, rates > 1e3
    assert low.any()
    assert high.any()
    np.testing.assert_allclose(means[low, 0], -1 + rates[low] / 10, rtol=0, atol=1e-15)
    np.testing.assert_allclose(variances[low], rates[low] / 100, rtol=1e-7, atol=1e-100)
    np.testing.assert_allclose(means[high, 0], 1.0, rtol=0, atol=1e-15)
    np.testing.assert_allclose(variances[high], 0.0, rtol=0, atol=1e-15)


@cases_of("exponential")
def test_exponential_moments_equal_integrals(family: Family[Any]) -> None:
    lower, upper = map(float, family.agreed.target.bounds)
    means, covariances, parameters = evaluate(family, positions(1, 8.0, 81))
    for mean, covariance, value in zip(means, covariances, parameters["rate"], strict=True):
        # Over e = rate · x ~ Exponential(1), between the rates' images of the bounds; beyond 750 nothing is left.
        start, end = min(value * lower, 750.0), min(value * upper, 750.0)
        inside = np.arange(np.ceil(start), end)
        edges = np.unique(np.concatenate([[start], inside, [end]]))
        points, weights = fine_rule(lambda e: np.exp(-e), edges)
        values = np.concatenate([[-1.0], 2 * (points / max(value, 1e-300) - lower) / (upper - lower) - 1, [1.0]])
        weights = np.concatenate([[-np.expm1(-value * lower)], weights, [np.exp(-value * upper)]])
        expected_mean, expected_covariance = discrete_moments(values[None], weights)
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-13)
        np.testing.assert_allclose(covariance, expected_covariance, rtol=1e-10, atol=1e-100)


@pytest.mark.parametrize("lower", [0.0, 1.0])
def test_exponential_limits(lower: float) -> None:
    means, covariances, parameters = evaluate(rate("exponential", 0.01, 1.0, lower, lower + 2), positions(1, 8.0, 161))
    rates, variances = parameters["rate"], covariances[:, 0, 0]
    slow = (rates < 1e-9) & (rates > 1e-100)
    assert slow.any()
    np.testing.assert_allclose(means[slow, 0], 1.0, rtol=0, atol=1e-8)
    # Rows are 1 but for a share rate · 2 spread evenly over [−1, 1] and a share rate · lower at −1.
    np.testing.assert_allclose(variances[slow], rates[slow] * (2 * 4 / 3 + 4 * lower), rtol=1e-7)
    means, covariances, parameters = evaluate(rate("exponential", 3.0, 1e-6, lower, lower + 2), positions(1, 3.0, 21))
    assert parameters["rate"].min() > 1e3
    np.testing.assert_allclose(means[:, 0], -1 + (lower == 0) / parameters["rate"], rtol=0, atol=1e-15)
    np.testing.assert_allclose(covariances[:, 0, 0], (lower == 0) / parameters["rate"] ** 2, rtol=1e-12, atol=1e-300)


@cases_of("gaussian")
def test_gaussian_moments_equal_integrals(family: Family[Any]) -> None:
    means, covariances, parameters = evaluate(family, positions(2, 7.0, 15))
    for mean, covariance, centre, variance in zip(means, covariances, *parameters.values(), strict=True):
        deviation = np.sqrt(variance)
        low, high = np.clip((np.array([-1.0, 1.0]) - centre) / deviation, -38, 38)
        inside = np.arange(np.ceil(low), high)
        edges = np.unique(np.concatenate([[low], inside, [high]]))
        points, weights = fine_rule(stats.norm.pdf, edges)
        z = np.concatenate([[-1.0], centre + deviation * points, [1.0]])
        weights = np.concatenate(
            [[stats.norm.cdf((-1 - centre) / deviation)], weights, [stats.norm.sf((1 - centre) / deviation)]]
        )
        expected_mean, expected_covariance = discrete_moments(np.stack([z, z**2]), weights)
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=2e-14)
        np.testing.assert_allclose(covariance, expected_covariance, rtol=1e-8, atol=2e-14)


def test_gaussian_cases_reach_needles_and_floods() -> None:
    """What the comparison above covers: deviations of 1e-3 and 30, means inside and far outside."""
    reached = [evaluate(family, positions(2, 7.0, 15)).parameters for name, family in CASES.items() if "gau" in name]
    deviations = np.sqrt(np.concatenate([parameters["variance"] for parameters in reached]))
    centres = np.concatenate([parameters["mean"] for parameters in reached])
    assert deviations.min() < 1e-3
    assert deviations.max() > 30
    assert (np.abs(centres) < 0.5).any()
    assert ((np.abs(centres) > 1.5) & (np.abs(centres) < 5) & (deviations < 1)).any()


def test_a_needle_keeps_its_digits() -> None:
    """Unclipped N(m, s²): Var z = s², Cov(z, z²) = 2ms², Var z² = 4m²s² + 2s⁴, however small s is."""
    means, covariances, parameters = evaluate(gaussian(50.0, 1e-10, 0.25, 1.0), positions(2, 3.0, 9))
    for mean, covariance, m, variance in zip(means, covariances, *parameters.values(), strict=True):
        expected = variance * np.array([[1, 2 * m], [2 * m, 4 * m**2 + 2 * variance]])
        np.testing.assert_allclose(mean, [m, m**2 + variance], rtol=0, atol=1e-15)
        np.testing.assert_allclose(covariance, expected, rtol=1e-9)


@each_case
def test_covariances_are_positive_semi_definite_and_finite_everywhere(family: Family[Any]) -> None:
    means, covariances, _ = evaluate(family, positions(dimension_of(family), 10.0, 25))
    assert np.isfinite(means).all()
    np.testing.assert_array_equal(covariances, covariances.swapaxes(1, 2))
    smallest = np.linalg.eigvalsh(covariances)[:, 0]
    assert (smallest >= -1e-15 * np.trace(covariances, axis1=1, axis2=2)).all()


def releases_like(family: Family[Any], at: Floats) -> Releases:
    """Statistics of two parties near what a point makes likely, with noise of their own."""
    mean = evaluate(family, at[None]).mean[0]
    rng, rows = np.random.default_rng(2), np.array([400.0, 90.0])
    statistic = rows[:, None] * mean + rng.normal(0, 3, (2, len(mean)))
    return Releases(statistic, rows, np.array([1.0, 2.5]), rng.uniform(1, 9, len(mean)))


@each_case
@pytest.mark.parametrize("sampling", [1.0, 4.0])
def test_density_is_normal_with_the_rows_moments_and_the_noise(family: Family[Any], sampling: float) -> None:
    at = np.stack([np.linspace(-0.5, 0.7, dimension_of(family)), np.linspace(0.1, -0.4, dimension_of(family))])
    releases, found = releases_like(family, at[0]), evaluate(family, at)
    expected = np.zeros(2)
    for statistic, rows, scale in zip(*releases[:3], strict=True):
        for place in range(2):
            covariance = sampling * rows * found.covariance[place] + scale * np.diag(releases.shape)
            residual = statistic - rows * found.mean[place]
            expected[place] += stats.multivariate_normal(np.zeros(len(residual)), covariance).logpdf(residual)
    densities = Statistics(family, releases, 0.5, sampling).log_density(at)  # up to a constant
    assert densities[1] - densities[0] == pytest.approx(0.5 * (expected[1] - expected[0]), rel=1e-9, abs=1e-9)


@each_case
def test_the_mode_is_near_the_highest_point(family: Family[Any]) -> None:
    """Points are drawn around it, so that it need not be more than near."""
    truth = np.linspace(-0.5, 0.7, dimension_of(family))
    problem, mode = build_problem(family, releases_like(family, truth))
    around = np.random.default_rng(3).normal(size=(400, len(truth))) @ (2 * mode.root.T) + mode.centre
    values = problem.log_posterior(np.concatenate([mode.centre[None], around]))
    assert values[0] > values.max() - 1.5


@each_case
def test_slopes_are_those_of_the_density(family: Family[Any]) -> None:
    truth = np.linspace(-0.5, 0.7, dimension_of(family))
    problem, mode = build_problem(family, releases_like(family, truth))
    steps = 1e-3 * mode.root
    at = mode.centre + mode.root.sum(axis=1)
    slopes = problem.slopes(at[None])[0]
    ahead, behind = (problem.log_posterior(at + sign * steps.T) for sign in (1, -1))
    np.testing.assert_allclose(slopes @ steps, (ahead - behind) / 2, rtol=2e-3, atol=1e-6)


def textbook(agreed: Agreed) -> dict[str, Any]:
    """The prior of each parameter that depends on the first coordinate alone, by another implementation."""
    prior: Any = agreed.prior
    if agreed.kind == "bernoulli":
        return {"probability": stats.beta(prior.positive, prior.negative)}
    if agreed.kind == "categorical":
        return {"probabilities": stats.beta(prior.concentration[0], sum(prior.concentration[1:]))}
    if agreed.kind == "gaussian":
        return {"variance": stats.invgamma(prior.shape, scale=prior.scale)}
    return {"rate": stats.gamma(prior.shape, scale=1 / prior.rate)}


@each_case
def test_first_coordinate_has_the_quantiles_of_the_prior(family: Family[Any]) -> None:
    line = np.linspace(-5.0, 5.0, 41)
    at = np.zeros((41, dimension_of(family)))
    at[:, 0] = line
    parameters = family.agreed.at_coordinates(at)
    for name, distribution in textbook(family.agreed).items():
        values = parameters[name].reshape(41, -1)[:, 0]
        assert np.isfinite(values).all()
        # A variance falls as its coordinate, that of the precision, grows.
        tail = distribution.sf if name == "variance" else distribution.cdf
        other = distribution.cdf if name == "variance" else distribution.sf
        # A sparse prior's quantiles may be 0 or 1 to the last digit; those say nothing.
        telling = (values > 1e-290) & (values < (1 - 1e-9 if "probabilit" in name else 1e100))
        assert telling.sum() >= 10
        low, high = telling & (line <= 0), telling & (line > 0)
        np.testing.assert_allclose(tail(values[low]), stats.norm.cdf(line[low]), rtol=1e-6)
        np.testing.assert_allclose(other(values[high]), stats.norm.sf(line[high]), rtol=1e-6)


@pytest.mark.parametrize("name", ["categorical", "categorical, sparse"])
def test_normal_positions_give_dirichlet_probabilities(name: str) -> None:
    agreed, number = CASES[name].agreed, 6_144
    draws = np.random.default_rng(3).normal(size=(number, 3))
    probabilities = agreed.at_coordinates(draws)["probabilities"]
    concentrations = np.asarray(agreed.prior.concentration)
    total = concentrations.sum()
    for category, concentration in enumerate(concentrations):
        marginal = stats.beta(concentration, total - concentration)
        # At levels rather than by a Kolmogorov-Smirnov test: a sparse prior's largest draws all round to the same 1.
        for level in np.linspace(0.01, 0.99, 15):
            expected = marginal.cdf(level)
            share = np.mean(probabilities[:, category] <= level)
            assert share == pytest.approx(expected, abs=4.5 * np.sqrt(expected * (1 - expected) / number))
    # Marginals do not determine a Dirichlet; −c_i c_j / (total² (total + 1)) is how its parts compete.
    expected_covariance = (np.diag(concentrations) * total - np.outer(concentrations, concentrations)) / (
        total**2 * (total + 1)
    )
    np.testing.assert_allclose(np.cov(probabilities.T), expected_covariance, atol=0.01)


def test_normal_positions_give_the_joint_prior_of_mean_and_variance() -> None:
    shape, scale, mean, strength = 3.0, 0.5, 0.2, 0.25
    draws = np.random.default_rng(4).normal(size=(6_144, 2))
    parameters = gaussian(shape, scale, mean, strength).agreed.at_coordinates(draws)
    student = stats.t(2 * shape, loc=mean, scale=np.sqrt(scale / (shape * strength)))
    assert stats.kstest(parameters["mean"], student.cdf).pvalue > 1e-3
    assert stats.kstest(parameters["variance"], stats.invgamma(shape, scale=scale).cdf).pvalue > 1e-3
    standardised = (parameters["mean"] - mean) / np.sqrt(parameters["variance"] / strength)
    np.testing.assert_allclose(standardised, draws[:, 1], rtol=1e-9, atol=1e-12)
