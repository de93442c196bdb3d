"""The density of released moments against normal distributions written out in full."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import linalg, stats

from equipoise.inference.normals import normal_log_density
from equipoise.inference.pooling import Releases, pool
from equipoise.inference.regression import logistic
from equipoise.inference.regression.expected_labels import ExpectedLabels, expected_derivatives
from equipoise.inference.regression.likelihood import LinearLikelihood, Parameters
from equipoise.inference.regression.observation import FeaturePrior, TargetObservation, observe_targets
from equipoise.inference.regression.population import simulate, weigh
from equipoise.inference.regression.row_covariance import row_covariance
from regressions import agree, draw_rows, model_of, sums_of


def test_moments_stand_where_the_layout_has_them() -> None:
    agreed = agree("linear")
    model = model_of(agreed)
    rows = draw_rows(50, np.random.default_rng(0))
    target = np.linspace(-1, 1, 50)
    whole = np.column_stack([rows[:, :-1], target])
    statistic = [
        (whole[:, one.first] * (1.0 if one.second is None else whole[:, one.second])).sum()
        for one in agreed.layout.entries
    ]
    moments = model.moments
    np.testing.assert_allclose(moments.ordered(statistic), sums_of(model, rows, target))
    features = moments.ordered(statistic)[: moments.features] / 50
    np.testing.assert_allclose(moments.second_moments(features), rows.T @ rows / 50, atol=1e-15)


@pytest.mark.parametrize("power", [1.0, 0.3])
def test_pooled_and_integrated_it_is_the_joint_density(power: float) -> None:
    """Two parties' sums and all feature moments are jointly normal given the parameters of a linear regression."""
    model = model_of(agree("linear"))
    moments, rng = model.moments, np.random.default_rng(1)
    entries, split = moments.features + moments.targets, moments.features
    features = moments.second_moments(rng.uniform(0, 0.2, split))
    covariance = row_covariance(moments, features, rng.uniform(-0.1, 0.1, len(features)), 0.3)
    shape, rows, scale = rng.uniform(0.5, 1, entries), np.array([300.0, 500.0]), np.array([30.0, 80.0])
    sums = 10 * rng.normal(size=(2, entries)) + 0.1 * rows[:, None]
    prior = FeaturePrior(np.full(split, 0.1), np.full(split, 0.04))
    pooled = pool(Releases(sums, rows, scale, shape), covariance)
    likelihood = LinearLikelihood(moments, observe_targets(moments, pooled, prior, power=power))
    weights, variances = 0.5 * rng.normal(size=(6, moments.width + 1)), rng.uniform(0.1, 1, 6)

    def mean(features: np.ndarray, theta: np.ndarray, variance: float) -> np.ndarray:
        products = moments.second_moments(features) @ theta
        return np.concatenate([features, products, [theta @ products + variance]])

    def joint(theta: np.ndarray, variance: float) -> float:
        constant = mean(np.zeros(split), theta, variance)
        slopes = np.stack([mean(one, theta, variance) - constant for one in np.eye(split)], axis=1)
        both, spread = np.concatenate([n * slopes for n in rows]), np.zeros((2 * entries, 2 * entries))
        for k in range(2):
            place = slice(k * entries, (k + 1) * entries)
            spread[place, place] = (rows[k] * covariance + scale[k] * np.diag(shape)) / power
        spread += (both * prior.variance) @ both.T
        centre = np.concatenate([n * constant for n in rows]) + both @ prior.mean
        return float(stats.multivariate_normal.logpdf(sums.ravel(), centre, spread))

    found = likelihood.log_density(Parameters(weights, variances))
    expected = np.array([joint(*one) for one in zip(weights, variances, strict=True)])
    np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-6)


def test_impossible_covariances_have_no_density_and_spoil_no_other() -> None:
    covariances = np.stack([np.eye(2), np.array([[1.0, 2.0], [2.0, 1.0]]), np.full((2, 2), np.nan), 4 * np.eye(2)])
    found = normal_log_density(np.ones((4, 2)), covariances)
    assert np.isneginf(found[1:3]).all()
    np.testing.assert_allclose(found[[0, 3]], [-1.0, -0.25 - 2 * np.log(2)])


def test_a_point_s_density_is_the_same_in_any_company() -> None:
    nearly = np.array([[1.0, 1 - 5e-16], [1 - 5e-16, 1.0]])
    impossible = np.array([[1.0, 2.0], [2.0, 1.0]])
    alone = normal_log_density(np.ones((1, 2)), nearly[None])
    together = normal_log_density(np.ones((2, 2)), np.stack([nearly, impossible]))
    assert alone[0] == together[0] == -np.inf


def test_expected_derivatives_are_those_of_quadrature() -> None:
    nodes, shares = np.polynomial.hermite_e.hermegauss(80)
    at = 0.7 + np.sqrt(2.0) * nodes
    f = np.tanh(at / 2)
    first = (1 - f**2) / 2
    second = -f * first
    third = -(first**2 + f * second)
    fourth = -(3 * first * second + f * third)
    fifth = -(3 * second**2 + 4 * first * third + f * fourth)
    found = expected_derivatives(np.array([0.7]), np.array([2.0]), 6)
    for one, exact in zip(found, (f, first, second, third, fourth, fifth), strict=True):
        np.testing.assert_allclose(one[0], shares @ exact / shares.sum(), atol=1e-8)


def differences(of: Callable[[np.ndarray], np.ndarray], weights: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences by the weights [points, terms + 1]."""
    steps = step * np.eye(weights.shape[1])
    return np.stack([(of(weights + one) - of(weights - one)) / (2 * step) for one in steps], axis=1)


@pytest.mark.parametrize("size", [1.0, 30.0])
def test_slopes_of_expected_labels_are_differences(size: float) -> None:
    moments, rng = model_of(agree("logistic")).moments, np.random.default_rng(2)
    rows = draw_rows(4_000, rng)
    second_moments = rows.T @ rows / len(rows)
    number = len(second_moments)
    weights = size * rng.normal(size=(5, number))
    by_mean, by_jacobian = rng.normal(size=(5, number)), rng.normal(size=(5, number, 2 * number - 1))

    def expand(weights: np.ndarray) -> ExpectedLabels:
        return ExpectedLabels(weights, second_moments, moments.levels, derivatives=6)

    closed = expand(weights)
    expected = differences(lambda at: np.sum(by_mean * expand(at).mean, axis=1), weights)
    np.testing.assert_allclose(closed.slopes_of_mean(by_mean), expected, atol=1e-8)
    expected = differences(lambda at: np.sum(by_jacobian * expand(at).jacobian, axis=(1, 2)), weights)
    np.testing.assert_allclose(closed.pull_back(by_jacobian), expected, atol=1e-8)


@pytest.mark.parametrize("rows", [0, 4_096])
def test_slopes_of_the_density_are_differences(rows: int) -> None:
    """With noisy moments that no rows have, and with or without synthetic rows of about these moments."""
    model = model_of(agree("logistic"))
    moments, rng = model.moments, np.random.default_rng(5)
    real = draw_rows(4_000, rng)
    i, j = moments.feature_pairs.T
    features = (real[:, i] * real[:, j]).mean(axis=0) + 0.05 * rng.normal(size=moments.features)
    carried = 0.3 * rng.normal(size=(moments.targets, moments.features))
    observation = TargetObservation(
        0.2 * rng.normal(size=moments.targets),
        features,
        2.5e-3 * np.eye(moments.features),
        carried,
        1e-3 * np.eye(moments.targets),
    )
    weights = 1.5 * rng.normal(size=(4, moments.width + 1))
    made = simulate(moments, model.blocks, moments.second_moments(features))[:rows]
    population = weigh(moments, made, features, observation.feature_covariance) if rows else None
    assert (population is not None) == bool(rows)
    likelihood = logistic.LogisticLikelihood(moments, observation, population, 0.05, weights[0])
    found, of_variance = likelihood.slopes(Parameters(weights, np.ones(4)))
    expected = differences(lambda at: likelihood.log_density(Parameters(at, np.ones(4))), weights, 1e-3)
    assert not of_variance.any()
    # Labels of synthetic rows are in single precision.
    np.testing.assert_allclose(found, expected, atol=2e-3 if rows else 1e-4, rtol=2e-3 if rows else 1e-4)


def test_expected_labels_move_with_feature_moments_as_differences_do() -> None:
    model = model_of(agree("logistic"))
    moments, rng = model.moments, np.random.default_rng(2)
    rows = draw_rows(4_000, rng)
    i, j = moments.feature_pairs.T
    features = (rows[:, i] * rows[:, j]).mean(axis=0)
    nothing = np.zeros((moments.targets, moments.features))
    weights = rng.normal(size=(4, moments.width + 1))

    def likelihood(features: np.ndarray) -> logistic.LogisticLikelihood:
        spread = 1e-4 * np.eye(len(features))
        observation = TargetObservation(np.zeros(moments.targets), features, spread, nothing, np.eye(moments.targets))
        return logistic.LogisticLikelihood(moments, observation, None, 0.0, weights[0])

    # What J C Jᵀ is by differences of the mean: the covariance less that of the observation itself.
    steps = 1e-6 * np.eye(len(features))
    slopes = (
        np.stack(
            [
                likelihood(features + one).moments_at(Parameters(weights, np.ones(4))).mean
                - likelihood(features - one).moments_at(Parameters(weights, np.ones(4))).mean
                for one in steps
            ]
        )
        / 2e-6
    )
    found = likelihood(features).moments_at(Parameters(weights, np.ones(4))).covariance - np.eye(moments.targets)
    np.testing.assert_allclose(found, 1e-4 * np.einsum("kna,knb->nab", slopes, slopes), atol=1e-9)


def test_skewness_moves_labels_as_integrals_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derivatives of E[y u] by how far two correlated numbers are bent, by quadrature over the normal variables."""
    columns = ", ".join(f'{{ name = "{name}", bounds = [-1, 1] }}' for name in ("a", "b"))
    moments = model_of(agree("logistic", columns)).moments
    nodes, shares = np.polynomial.hermite_e.hermegauss(60)
    t, v = (part.ravel() for part in np.meshgrid(nodes, nodes))
    share = np.outer(shares, shares).ravel() / shares.sum() ** 2
    normal = np.stack([t, 0.6 * t + 0.8 * v])
    rows = np.column_stack([*(np.array([[0.1], [-0.2]]) + np.array([[0.5], [0.3]]) * normal), np.ones(len(t))])
    weights = np.array([1.2, -0.8, 0.3])
    label = np.tanh(rows @ weights / 2)
    moved = np.zeros((2, 3))
    for j, deviation in enumerate((0.5, 0.3)):
        bend = normal[j] ** 2 - 1
        moved[j] = share @ (rows * (0.5 * (1 - label**2) * weights[j] * deviation * bend)[:, None])
        moved[j, j] += share @ (label * deviation * bend)
    i, j = moments.feature_pairs.T
    features = share @ (rows[:, i] * rows[:, j])
    nothing, none = np.zeros((3, moments.features)), np.zeros((moments.features, moments.features))
    observation = TargetObservation(np.zeros(3), features, none, nothing, np.zeros((3, 3)))
    tiny = 1e-6  # so that all else that shapes may do is out of sight
    monkeypatch.setattr(logistic, "SKEWNESS_PER_SPREAD", 6 / tiny)
    likelihood = logistic.LogisticLikelihood(moments, observation, None, tiny, weights)
    # It is held fixed, at whatever weights the density is asked for.
    found = likelihood.moments_at(Parameters(np.stack([weights, 5 * weights]), np.ones(2))).covariance
    np.testing.assert_allclose(found[0], moved.T @ moved, atol=2e-7)
    np.testing.assert_array_equal(found[1], found[0])


def test_synthetic_rows_have_the_moments_and_the_labels_of_real_ones() -> None:
    model = model_of(agree("logistic"))
    moments, rng = model.moments, np.random.default_rng(3)
    rows = draw_rows(400_000, rng)
    i, j = moments.feature_pairs.T
    features = (rows[:, i] * rows[:, j]).mean(axis=0)
    made = simulate(moments, model.blocks, moments.second_moments(features))
    levels = made[:, np.append(moments.levels, False)]
    assert set(np.unique(levels)) == {0.0, 1.0}
    assert not np.any(made[:, 1] * made[:, 2])
    assert not np.any(made[:, 3] * made[:, 4])
    assert np.abs(made).max() <= 1
    population = weigh(moments, made, features, 1e-8 * np.eye(len(features)))
    assert population is not None
    np.testing.assert_allclose(population.moments, features, atol=1e-5)
    for weights in 1.5 * rng.normal(size=(5, moments.width + 1)):
        expected = np.tanh(rows @ weights / 2) @ rows / len(rows)
        found = (population.weights * np.tanh(made @ weights / 2)) @ made
        np.testing.assert_allclose(found, expected, atol=0.01)
    # A row's covariance, label and all, against that of real rows, whose numbers were clipped: within a fifth.
    label = np.where(rng.uniform(size=len(rows)) < 1 / (1 + np.exp(-rows @ weights)), 1.0, -1.0)
    pairs = moments.pairs.T
    whole = np.column_stack([rows, label])
    real = np.cov((whole[:, pairs[0]] * whole[:, pairs[1]]).T)
    scale = np.sqrt(np.outer(np.diagonal(real), np.diagonal(real)))
    assert np.abs((population.row_covariance(weights, None) - real) / scale).max() < 0.2


def test_the_error_of_synthetic_rows_is_what_other_rows_would_make() -> None:
    """Populations of other random rows differ by as much as is said, in every direction."""
    model = model_of(agree("logistic"))
    moments, rng = model.moments, np.random.default_rng(6)
    real = draw_rows(100_000, rng)
    i, j = moments.feature_pairs.T
    features = (real[:, i] * real[:, j]).mean(axis=0)
    weights = 1.5 * rng.normal(size=moments.width + 1)
    means, errors = [], []
    for _ in range(60):
        chosen = real[rng.choice(len(real), 2_000, replace=False)]
        population = weigh(moments, chosen, features, 1e-8 * np.eye(moments.features))
        assert population is not None
        means.append((population.weights * np.tanh(chosen @ weights / 2)) @ chosen)
        errors.append(population.label_error(weights))
    ratios = linalg.eigh(np.cov(np.transpose(means)), np.mean(errors, axis=0), eigvals_only=True)
    # Of ten directions and 60 repetitions the ratios of variances spread by a factor of two, however right they are.
    assert ratios.min() > 0.3
    assert ratios.max() < 2.5
    assert 0.8 < ratios.mean() < 1.3


def test_weights_exist_however_impossible_the_moments_are() -> None:
    """Noise may leave moments that no rows have; the weighted rows stay within what is uncertain."""
    model = model_of(agree("logistic"))
    moments, rng = model.moments, np.random.default_rng(4)
    features = rng.normal(size=moments.features)
    made = simulate(moments, model.blocks, moments.second_moments(features))
    population = weigh(moments, made, features, 0.5 * np.eye(moments.features))
    assert population is not None
    assert np.isfinite(population.weights).all()
    assert np.linalg.eigvalsh(moments.second_moments(population.moments)).min() > 0
