"""Moments of clipped rows against brute force, their gradients, and priors against their textbook quantiles."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equipoise.inference.collapsed import CollapsedModel
from equipoise.inference.observations import Observed
from jax import Array
from numpy.typing import NDArray
from scipy import stats

from engine_setup import jit
from equipoise.inference import moment_likelihood
from equipoise.inference.models.bernoulli import Bernoulli, bernoulli_prior
from equipoise.inference.models.categorical import Categorical, categorical_prior
from equipoise.inference.models.exponential import Exponential
from equipoise.inference.models.gaussian import Gaussian, gaussian_prior
from equipoise.inference.models.poisson import Poisson
from equipoise.inference.models.rate import rate_prior

pytestmark = pytest.mark.engine

Floats = NDArray[np.float64]
Family = Bernoulli | Categorical | Poisson | Exponential | Gaussian


class Case(NamedTuple):
    """A model with a prior."""

    model: Family
    prior: Any


CASES = {
    "bernoulli": Case(Bernoulli(2), bernoulli_prior(1.0, 2.5)),
    "bernoulli, sparse": Case(Bernoulli(2), bernoulli_prior(0.05, 0.02)),
    "bernoulli, firm and lopsided": Case(Bernoulli(2), bernoulli_prior(20.0, 400.0)),
    "categorical": Case(Categorical(2, 4), categorical_prior([1.0, 0.5, 3.0, 2.0])),
    "categorical, sparse": Case(Categorical(2, 4), categorical_prior([0.05, 0.1, 0.05, 0.2])),
    "categorical, firm and lopsided": Case(Categorical(2, 4), categorical_prior([0.5, 100.0, 1.0, 2000.0])),
    "poisson": Case(Poisson(2, 0, 20), rate_prior(1.0, 0.1, 0, 20)),
    "poisson, from 3": Case(Poisson(2, 3, 7), rate_prior(0.3, 0.2, 3, 7)),
    "poisson, large and vague": Case(Poisson(2, 9_900, 10_000), rate_prior(0.3, 1e-4, 9_900, 10_000)),
    "poisson, large and narrow": Case(Poisson(2, 9_900, 10_000), rate_prior(30.0, 3e-3, 9_900, 10_000)),
    "poisson, vague": Case(Poisson(2, 0, 20), rate_prior(0.01, 1e-6, 0, 20)),
    "exponential": Case(Exponential(2), rate_prior(1.0, 5.0, 0.0, 10.0)),
    "exponential, from 2": Case(Exponential(2), rate_prior(0.3, 1.0, 2.0, 2.5)),
    "exponential, vague": Case(Exponential(2), rate_prior(0.01, 1e-6, 0.0, 1e-3)),
    "gaussian": Case(Gaussian(2), gaussian_prior(3.0, 0.5, 0.0, 0.25)),
    "gaussian, needle": Case(Gaussian(2), gaussian_prior(20.0, 1e-5, 0.9, 4.0)),
    "gaussian, wide": Case(Gaussian(2), gaussian_prior(0.4, 1e-5, -0.3, 1.0)),
    "gaussian, vague": Case(Gaussian(2), gaussian_prior(0.01, 1.0, 0.5, 1e-3)),
}
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def cases_of(*families_wanted: type[Family]) -> pytest.MarkDecorator:
    chosen = {name: case for name, case in CASES.items() if isinstance(case.model, families_wanted)}
    return pytest.mark.parametrize("case", chosen.values(), ids=chosen.keys())


def positions(dimension: int, limit: float, count: int) -> Floats:
    """Points of a grid if one or two coordinates are wanted, else its diagonal and scattered points."""
    line = np.linspace(-limit, limit, count)
    if dimension <= 2:
        return np.stack(np.meshgrid(*[line] * dimension), axis=-1).reshape(-1, dimension)
    scattered = np.random.default_rng(1).uniform(-limit, limit, size=(5 * count, dimension))
    return np.concatenate([np.tile(line[:, None], dimension), scattered])


def observed(case: Case) -> Observed:
    """Two parties' statistics, with rows and noise of their own."""
    entries = case.model.entries
    generator = np.random.default_rng(2)
    rows = np.array([400.0, 90.0])
    statistic, noise = generator.normal(30, 5, (2, entries)), generator.uniform(1, 9, (2, entries))
    return Observed(*(jnp.asarray(part) for part in (statistic, rows, 2 * rows, noise, np.ones(2))))


class Evaluation(NamedTuple):
    """All that a model says at a batch of positions, with a leading axis of points."""

    mean: Any
    covariance: Any
    parameters: dict[str, Any]
    likelihood: Any
    mean_slope: Any
    covariance_slope: Any
    likelihood_slope: Any
    information: Any


@partial(jit, static_argnames="model", compiler_options={"xla_backend_optimization_level": 0})
@partial(jax.vmap, in_axes=(None, None, None, 0))
def evaluate_batch(model: Family, prior: Any, seen: Observed, position: Array) -> Evaluation:
    def row_moments(at: Array) -> tuple[Array, Array]:
        moments = model.row_moments(prior, at)
        assert moments.mean.shape == (1, model.entries)
        assert moments.covariance.shape == (1, model.entries, model.entries)
        return moments.mean[0], moments.covariance[0]

    def likelihood(at: Array) -> Array:
        return model.log_likelihood(prior, seen, at)

    mean, covariance = row_moments(position)
    mean_slope, covariance_slope = jax.jacfwd(row_moments)(position)
    return Evaluation(
        mean,
        covariance,
        model.parameters(prior, position),
        likelihood(position),
        mean_slope,
        covariance_slope,
        jax.jacrev(likelihood)(position),
        model.information(prior, seen, position),
    )


BATCH = 256
DRAWS = 24 * BATCH


def evaluate(case: Case, at: Floats) -> Evaluation:
    """In batches of one size, so that each model is compiled once for all tests."""
    padded = np.concatenate([at, np.zeros((-len(at) % BATCH, case.model.dimension))])
    seen = observed(case)
    parts = [evaluate_batch(case.model, case.prior, seen, part) for part in padded.reshape(-1, BATCH, at.shape[1])]
    whole: Evaluation = jax.tree.map(lambda *pieces: np.concatenate(pieces)[: len(at)], *parts)
    return whole


def moments_and_parameters(case: Case, at: Floats) -> tuple[Floats, Floats, dict[str, Floats]]:
    """Means [points, entries], covariances [points, entries, entries] and parameters."""
    return evaluate(case, at)[:3]


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


def test_each_family_is_a_collapsed_model() -> None:
    models: list[CollapsedModel] = [case.model for case in CASES.values()]
    for model, case in zip(models, CASES.values(), strict=True):
        assert model.slots == 2
        assert model.focus == model.dimension
        seen = observed(case)
        assert model.prepare(seen) is seen
        assert hash(model) == hash(type(case.model)(**vars(case.model)))
    assert [Categorical(3, 5).dimension, Categorical(3, 5).entries] == [4, 5]
    assert [Gaussian(3).dimension, Gaussian(3).entries] == [2, 2]


@cases_of(Bernoulli, Categorical)
def test_moments_of_labels_are_those_of_one_hot_rows(case: Case) -> None:
    means, covariances, parameters = moments_and_parameters(case, positions(case.model.dimension, 8.0, 25))
    for mean, covariance, *parameter in zip(means, covariances, *parameters.values(), strict=True):
        if isinstance(case.model, Categorical):
            rows, weights = np.eye(case.model.categories), parameter[0]
        else:
            rows, weights = np.array([[0.0, 1.0]]), np.array([1 - parameter[0], parameter[0]])
        assert weights.sum() == pytest.approx(1.0, abs=1e-13)
        expected_mean, expected_covariance = discrete_moments(rows, weights)
        np.testing.assert_allclose(mean, expected_mean, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(covariance, expected_covariance, rtol=1e-12, atol=1e-15)


@cases_of(Poisson)
def test_poisson_moments_equal_the_exact_sums(case: Case) -> None:
    assert isinstance(case.model, Poisson)
    lower, upper = case.model.lower, case.model.upper
    counts = np.arange(upper + 1.0)
    scaled = np.append((np.clip(counts, lower, upper) - (lower + upper) / 2) / ((upper - lower) / 2), 1.0)
    means, covariances, parameters = moments_and_parameters(case, positions(1, 7.9, 40))
    for mean, covariance, rate in zip(means, covariances, parameters["rate"], strict=True):
        weights = np.append(stats.poisson.pmf(counts, rate), stats.poisson.sf(upper, rate))
        expected_mean, expected_covariance = discrete_moments(scaled[None], weights)
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-11)
        np.testing.assert_allclose(covariance, expected_covariance, rtol=1e-9, atol=1e-12)
        assert covariance >= 0


def test_poisson_covers_rates_from_nearly_none_to_far_above_the_bounds() -> None:
    case = CASES["poisson, vague"]
    means, covariances, parameters = moments_and_parameters(case, positions(1, 8.0, 161))
    rates, variances = parameters["rate"], covariances[:, 0, 0]
    low, high = rates < 1e-8, rates > 1e3
    assert low.any()
    assert high.any()
    np.testing.assert_allclose(means[low, 0], -1 + rates[low] / 10, rtol=0, atol=1e-15)
    np.testing.assert_allclose(variances[low], rates[low] / 100, rtol=1e-7, atol=1e-100)
    np.testing.assert_allclose(means[high, 0], 1.0, rtol=0, atol=1e-15)
    np.testing.assert_allclose(variances[high], 0.0, rtol=0, atol=1e-15)


@cases_of(Exponential)
def test_exponential_moments_equal_integrals(case: Case) -> None:
    lower, upper = float(case.prior.lower), float(case.prior.upper)
    means, covariances, parameters = moments_and_parameters(case, positions(1, 8.0, 81))
    for mean, covariance, rate in zip(means, covariances, parameters["rate"], strict=True):
        # Over e = rate · x ~ Exponential(1), between the rates' images of the bounds; beyond 750 nothing is left.
        start, end = min(rate * lower, 750.0), min(rate * upper, 750.0)
        inside = np.arange(np.ceil(start), end)
        edges = np.unique(np.concatenate([[start], inside, [end]]))
        points, weights = fine_rule(lambda e: np.exp(-e), edges)
        values = np.concatenate([[-1.0], 2 * (points / max(rate, 1e-300) - lower) / (upper - lower) - 1, [1.0]])
        weights = np.concatenate([[-np.expm1(-rate * lower)], weights, [np.exp(-rate * upper)]])
        expected_mean, expected_covariance = discrete_moments(values[None], weights)
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=1e-13)
        np.testing.assert_allclose(covariance, expected_covariance, rtol=1e-10, atol=1e-100)


@pytest.mark.parametrize("lower", [0.0, 1.0])
def test_exponential_limits(lower: float) -> None:
    case = Case(Exponential(2), rate_prior(0.01, 1.0, lower, lower + 2))
    means, covariances, parameters = moments_and_parameters(case, positions(1, 8.0, 161))
    rates, variances = parameters["rate"], covariances[:, 0, 0]
    slow = (rates < 1e-9) & (rates > 1e-100)
    assert slow.any()
    np.testing.assert_allclose(means[slow, 0], 1.0, rtol=0, atol=1e-8)
    # Rows are 1 but for a share rate · 2 spread evenly over [−1, 1] and a share rate · lower at −1.
    np.testing.assert_allclose(variances[slow], rates[slow] * (2 * 4 / 3 + 4 * lower), rtol=1e-7)
    fast = Case(Exponential(2), rate_prior(3.0, 1e-6, lower, lower + 2))
    means, covariances, parameters = moments_and_parameters(fast, positions(1, 3.0, 21))
    assert parameters["rate"].min() > 1e3
    np.testing.assert_allclose(means[:, 0], -1 + (lower == 0) / parameters["rate"], rtol=0, atol=1e-15)
    np.testing.assert_allclose(covariances[:, 0, 0], (lower == 0) / parameters["rate"] ** 2, rtol=1e-12, atol=1e-300)


@cases_of(Gaussian)
def test_gaussian_moments_equal_integrals(case: Case) -> None:
    means, covariances, parameters = moments_and_parameters(case, positions(2, 7.0, 15))
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
    reached = [moments_and_parameters(case, positions(2, 7.0, 15))[2] for name, case in CASES.items() if "gau" in name]
    deviations = np.sqrt(np.concatenate([parameters["variance"] for parameters in reached]))
    centres = np.concatenate([parameters["mean"] for parameters in reached])
    assert deviations.min() < 1e-3
    assert deviations.max() > 30
    assert (np.abs(centres) < 0.5).any()
    assert ((np.abs(centres) > 1.5) & (np.abs(centres) < 5) & (deviations < 1)).any()


def test_a_needle_keeps_its_digits() -> None:
    """Unclipped N(m, s²): Var z = s², Cov(z, z²) = 2ms², Var z² = 4m²s² + 2s⁴, however small s is."""
    case = Case(Gaussian(2), gaussian_prior(50.0, 1e-10, 0.25, 1.0))
    means, covariances, parameters = moments_and_parameters(case, positions(2, 3.0, 9))
    for mean, covariance, m, variance in zip(means, covariances, *parameters.values(), strict=True):
        expected = variance * np.array([[1, 2 * m], [2 * m, 4 * m**2 + 2 * variance]])
        np.testing.assert_allclose(mean, [m, m**2 + variance], rtol=0, atol=1e-15)
        np.testing.assert_allclose(covariance, expected, rtol=1e-9)


@each_case
def test_covariances_are_positive_semi_definite(case: Case) -> None:
    means, covariances, _ = moments_and_parameters(case, positions(case.model.dimension, 8.0, 25))
    assert np.isfinite(means).all()
    np.testing.assert_array_equal(covariances, covariances.swapaxes(1, 2))
    smallest = np.linalg.eigvalsh(covariances)[:, 0]
    assert (smallest >= -1e-15 * np.trace(covariances, axis1=1, axis2=2)).all()


@each_case
def test_values_and_gradients_are_finite_everywhere(case: Case) -> None:
    for part in jax.tree.leaves(evaluate(case, positions(case.model.dimension, 10.0, 25))):
        assert np.isfinite(part).all()


@each_case
def test_gradients_equal_finite_differences(case: Case) -> None:
    # Half-way between the knots of the tables, across which second derivatives jump.
    at, step = np.round(positions(case.model.dimension, 4.0, 13) * 32) / 32 + 1 / 64, 1e-5
    slopes = evaluate(case, at)
    steepest = 0.0
    for coordinate in range(case.model.dimension):
        move = step * np.eye(case.model.dimension)[coordinate]
        after, before = evaluate(case, at + move), evaluate(case, at - move)
        for name, tolerance in {"mean": 1e-9, "covariance": 1e-9, "likelihood": 1e-6}.items():
            difference = (getattr(after, name) - getattr(before, name)) / (2 * step)
            slope = getattr(slopes, f"{name}_slope")[..., coordinate]
            # The difference of log likelihoods far from the data is rounded the most.
            size = np.abs(getattr(after, name)).max() if name == "likelihood" else 1.0
            np.testing.assert_allclose(slope, difference, rtol=1e-5, atol=tolerance * size, err_msg=name)
            steepest = max(steepest, np.abs(difference).max())
    assert steepest > 0.1


@each_case
def test_likelihood_is_normal_with_the_rows_moments_and_the_noise(case: Case) -> None:
    seen = jax.tree.map(np.asarray, observed(case))
    at = np.linspace(-0.5, 0.7, case.model.dimension)[None]
    found = jax.tree.map(lambda part: part[0], evaluate(case, at))
    information = np.zeros((case.model.dimension, case.model.dimension))
    for party in range(2):
        covariance = float(seen.sampling[party]) * found.covariance + np.diag(seen.variance[party])
        residual = np.asarray(seen.statistic[party]) - float(seen.rows[party]) * found.mean
        expected = stats.multivariate_normal(np.zeros(len(residual)), covariance).logpdf(residual)
        assert float(found.likelihood[party]) == pytest.approx(float(expected), rel=1e-9)
        columns = float(seen.rows[party]) * found.mean_slope
        information += columns.T @ np.linalg.solve(covariance, columns)
    np.testing.assert_allclose(found.information, information, rtol=1e-9, atol=1e-12)


def textbook(case: Case) -> dict[str, Any]:
    """The prior of each parameter that depends on the first coordinate alone, by another implementation."""
    prior = case.prior
    if isinstance(case.model, Bernoulli):
        return {"probability": stats.beta(prior.positive, prior.negative)}
    if isinstance(case.model, Categorical):
        first = float(prior.concentrations[0])
        return {"probabilities": stats.beta(first, float(prior.concentrations.sum()) - first)}
    if isinstance(case.model, Gaussian):
        return {"variance": stats.invgamma(prior.shape, scale=prior.scale)}
    return {"rate": stats.gamma(prior.shape, scale=1 / prior.rate)}


@each_case
def test_first_coordinate_has_the_quantiles_of_the_prior(case: Case) -> None:
    line = np.linspace(-5.0, 5.0, 41)
    at = np.zeros((41, case.model.dimension))
    at[:, 0] = line
    _, _, parameters = moments_and_parameters(case, at)
    for name, distribution in textbook(case).items():
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
    case = CASES[name]
    draws = np.random.default_rng(3).normal(size=(DRAWS, case.model.dimension))
    probabilities = moments_and_parameters(case, draws)[2]["probabilities"]
    concentrations = np.asarray(case.prior.concentrations)
    total = concentrations.sum()
    for category, concentration in enumerate(concentrations):
        marginal = stats.beta(concentration, total - concentration)
        # At levels rather than by a Kolmogorov-Smirnov test: a sparse prior's largest draws all round to the same 1.
        for level in np.linspace(0.01, 0.99, 15):
            expected = marginal.cdf(level)
            share = np.mean(probabilities[:, category] <= level)
            assert share == pytest.approx(expected, abs=4.5 * np.sqrt(expected * (1 - expected) / DRAWS))
    # Marginals do not determine a Dirichlet; −c_i c_j / (total² (total + 1)) is how its parts compete.
    expected_covariance = (np.diag(concentrations) * total - np.outer(concentrations, concentrations)) / (
        total**2 * (total + 1)
    )
    np.testing.assert_allclose(np.cov(probabilities.T), expected_covariance, atol=0.01)


def test_normal_positions_give_the_joint_prior_of_mean_and_variance() -> None:
    shape, scale, mean, strength = 3.0, 0.5, 0.2, 0.25
    case = Case(Gaussian(2), gaussian_prior(shape, scale, mean, strength))
    draws = np.random.default_rng(4).normal(size=(DRAWS, 2))
    _, _, parameters = moments_and_parameters(case, draws)
    student = stats.t(2 * shape, loc=mean, scale=np.sqrt(scale / (shape * strength)))
    assert stats.kstest(parameters["mean"], student.cdf).pvalue > 1e-3
    assert stats.kstest(parameters["variance"], stats.invgamma(shape, scale=scale).cdf).pvalue > 1e-3
    standardised = (parameters["mean"] - mean) / np.sqrt(parameters["variance"] / strength)
    np.testing.assert_allclose(standardised, draws[:, 1], rtol=1e-9, atol=1e-12)


def test_priors_keep_their_hyper_parameters() -> None:
    assert [float(part) for part in bernoulli_prior(2.0, 3.0)[:2]] == [2.0, 3.0]
    assert categorical_prior([1.0, 2.0, 3.0]).concentrations.tolist() == [1.0, 2.0, 3.0]
    assert [float(part) for part in rate_prior(2.0, 3.0, 4.0, 5.0)[:4]] == [2.0, 3.0, 4.0, 5.0]
    assert [float(part) for part in gaussian_prior(2.0, 3.0, 4.0, 5.0)[:4]] == [2.0, 3.0, 4.0, 5.0]


@pytest.mark.slow
def test_the_categorical_short_cut_equals_the_dense_density() -> None:
    model, prior = Categorical(2, 5), categorical_prior([0.5, 1.0, 2.0, 3.0, 0.7])
    rng = np.random.default_rng(3)
    observed = Observed(
        jnp.asarray(rng.normal(20, 9, (2, 5))),
        jnp.array([100.0, 70.0]),
        jnp.array([200.0, 70.0]),
        jnp.asarray(rng.uniform(1, 9, (2, 5))),
        jnp.array([1.0, 0.4]),
    )
    position = jnp.asarray(rng.normal(size=4))
    dense = moment_likelihood.log_likelihood(model.row_moments(prior, position), observed)
    np.testing.assert_allclose(model.log_likelihood(prior, observed, position), dense, rtol=1e-12)
    dense = moment_likelihood.information(lambda at: model.row_moments(prior, at), observed, position)
    np.testing.assert_allclose(model.information(prior, observed, position), dense, rtol=1e-9)
