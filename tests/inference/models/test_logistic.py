"""Logistic regression's exact moments, prior and statistic order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import builders
from engine_setup import jit
from equipoise.inference.models.logistic import LogisticPrior, LogisticRegression, logistic_prior
from equipoise.inference.models.logistic_moments import expected_derivatives
from equipoise.models import layout_of
from problems import linear_entries

pytestmark = pytest.mark.engine


def prior_of(width: int, mean_spread: float = 0.5) -> LogisticPrior:
    return logistic_prior(
        width=width,
        degrees_of_freedom=float(width),
        max_squared_norm=12.0,
        weight_scale=2.5,
        bias_scale=1.0,
        mean_spread=mean_spread,
        concentration=2.0,
        sd_mean=0.5,
        sd_spread=0.5,
        sd_max=1.0,
    )


@pytest.mark.parametrize(("mean", "deviation"), [(0.0, 0.1), (0.5, 1.0), (2.0, 0.01), (-1.0, 4.5), (3.0, 10.0)])
def test_expected_derivatives_equal_quadrature(mean: float, deviation: float) -> None:
    def f0(t: float) -> float:
        return float(np.tanh(t / 2))

    def f1(t: float) -> float:
        return 0.5 * (1 - f0(t) ** 2)

    def f2(t: float) -> float:
        return -f0(t) * f1(t)

    def f3(t: float) -> float:
        return -(f1(t) ** 2 + f0(t) * f2(t))

    computed = expected_derivatives(jnp.asarray(mean), jnp.asarray(deviation**2))
    for value, function in zip(computed, (f0, f1, f2, f3), strict=True):
        exact = integrate.quad(
            lambda z, function=function: function(mean + deviation * z) * stats.norm.pdf(z),
            -12,
            12,
            epsabs=1e-12,
            limit=500,
            points=[float(np.clip(-mean / deviation, -12, 12))],
        )[0]
        assert float(value) == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize(
    ("width", "centred"), [(1, False), *(pytest.param(3, one, marks=pytest.mark.slow) for one in (False, True))]
)
def test_row_moments_equal_those_of_simulated_rows(width: int, centred: bool) -> None:
    model, prior = LogisticRegression(width, 1, shared=True, centred=centred), prior_of(width)
    rng = np.random.default_rng(5)
    position = jnp.asarray(rng.normal(size=model.dimension))
    moments = jit(model.row_moments)(prior, position)
    parameters = {name: np.asarray(value) for name, value in model.parameters(prior, position).items()}
    assert np.any(parameters["feature_mean"] != 0) != centred
    number = 300_000
    x = rng.multivariate_normal(parameters["feature_mean"], parameters["feature_covariance"], size=number)
    chance = 1 / (1 + np.exp(-x @ parameters["weights"][:-1] - parameters["weights"][-1]))
    y = np.where(rng.random(number) < chance, 1.0, -1.0)
    table = np.column_stack([x, y])
    i, j = np.triu_indices(width + 1)
    statistics = np.column_stack([table, (table[:, i] * table[:, j])[:, :-1]])
    np.testing.assert_allclose(moments.mean[0], statistics.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(moments.covariance[0], np.cov(statistics.T), atol=0.02)
    np.testing.assert_allclose(linear_entries(table)[:-1] / number, statistics.mean(axis=0), rtol=1e-9)


def test_entries_are_in_the_agreed_order() -> None:
    """The simulated statistic above is in the order of the party's layout."""
    layout = layout_of(builders.logistic(3))
    i, j = np.triu_indices(4)
    products = list(zip(i.tolist(), j.tolist(), strict=True))[:-1]
    assert [(entry.first, entry.second) for entry in layout.entries] == [(k, None) for k in range(4)] + products
    assert LogisticRegression(3, 1, shared=True).entries == len(layout)


def test_covariance_is_positive_semi_definite_far_out() -> None:
    model, prior = LogisticRegression(3, 1, shared=True), prior_of(3)
    positions = 3 * jax.random.normal(jax.random.key(6), (500, model.dimension))
    moments = jit(jax.vmap(lambda at: model.row_moments(prior, at)))(positions)
    covariance = np.asarray(moments.covariance[:, 0])
    assert np.all(np.linalg.eigvalsh(covariance)[:, 0] > -1e-12 * np.trace(covariance, axis1=1, axis2=2))


@pytest.mark.parametrize("width", [1, *(pytest.param(one, marks=pytest.mark.slow) for one in (2, 4))])
def test_prior_draws_follow_the_stated_prior(width: int) -> None:
    model, prior = LogisticRegression(width, 1, shared=True), prior_of(width)
    positions = jax.random.normal(jax.random.key(width), (40_000, model.dimension))
    draws = jit(jax.vmap(lambda at: model.parameters(prior, at)))(positions)
    theta = np.asarray(draws["weights"]) / np.array([2.5] * width + [1.0])
    law = stats.chi2(width)
    square = np.sum(theta**2, axis=1)
    assert square.max() <= 12.0 * (1 + 1e-9)
    assert stats.kstest(square, lambda q: np.minimum(law.cdf(q) / law.cdf(12.0), 1)).pvalue > 1e-3
    direction = theta[:, -1] / np.sqrt(square)  # one coordinate of a uniform direction: (1 + t)/2 ~ Beta(w/2, w/2)
    assert stats.kstest((1 + direction) / 2, stats.beta(width / 2, width / 2).cdf).pvalue > 1e-3
    covariance = np.asarray(draws["feature_covariance"])
    deviation = np.sqrt(np.einsum("nii->ni", covariance))
    normal = stats.truncnorm(-1, 1, 0.5, 0.5)
    assert min(stats.kstest(deviation[:, k], normal.cdf).pvalue for k in range(width)) > 1e-3
    # Each correlation under LKJ(c) is 2 Beta(b, b) − 1 with b = c + (w − 2)/2.
    shape = 2 + (width - 2) / 2
    for i in range(width):
        for j in range(i):
            correlation = covariance[:, i, j] / deviation[:, i] / deviation[:, j]
            assert stats.kstest((1 + correlation) / 2, stats.beta(shape, shape).cdf).pvalue > 1e-3
    mean = np.asarray(draws["feature_mean"]) / 0.5
    assert min(stats.kstest(mean[:, k], "norm").pvalue for k in range(width)) > 1e-3


def test_gradients_are_finite_at_the_prior_mode_and_far_out() -> None:
    model, prior = LogisticRegression(3, 1, shared=True), prior_of(3)

    @jit
    def gradient(at: jax.Array) -> jax.Array:
        return jax.grad(lambda x: jnp.sum(model.row_moments(prior, x).mean))(at)

    for size in (0.0, 1.0, 8.0):
        at = size * jax.random.normal(jax.random.key(1), (model.dimension,))
        assert np.all(np.isfinite(gradient(at)))
