"""The density of released moments against normal distributions written out in full."""

import numpy as np
import pytest
from scipy import stats

from equipoise.inference.normals import normal_log_density
from equipoise.inference.pooling import Releases, pool
from equipoise.inference.regression import logistic
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
    found = logistic.expected_derivatives(np.array([0.7]), np.array([2.0]))
    for one, exact in zip(found, (f, first, second, third, fourth), strict=True):
        np.testing.assert_allclose(one[0], shares @ exact / shares.sum(), atol=1e-8)


def test_slopes_of_expected_labels_are_differences() -> None:
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
