"""From coordinates to parameters, against quantiles of the stated priors; how probable rows are."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

import coded
import reward_posteriors
from equipoise._util.arrays import Floats
from equipoise.agreement import Agreement
from equipoise.agreement.templates import example_agreement
from equipoise.models import KINDS
from equipoise.models.base import Family, Rows
from equipoise.models.linear import LinearModel
from equipoise.models.regression import Regression

AGREEMENTS: dict[str, Callable[[], Agreement]] = {
    **{kind: partial(Agreement.parse, example_agreement(kind)) for kind in KINDS},
    "linear, paper's prior": partial(reward_posteriors.agreement, "linear"),
    "logistic, paper's prior": partial(reward_posteriors.agreement, "logistic"),
    "linear with levels": partial(coded.agreement, "linear"),
    "logistic with levels": partial(coded.agreement, "logistic"),
}
every_agreement = pytest.mark.parametrize("name", AGREEMENTS)


@cache
def agreed(name: str) -> Agreement:
    return AGREEMENTS[name]()


def by_quantiles(model: Any, z: Floats) -> dict[str, Floats]:
    """Parameters at coordinates [draws, d], from SciPy's quantile functions of the stated prior."""
    prior, level = model.prior, np.asarray(stats.norm.cdf(z))
    if model.kind == "bernoulli":
        return {"probability": stats.beta.ppf(level[:, 0], prior.positive, prior.negative)}
    if model.kind in ("poisson", "exponential"):
        return {"rate": stats.gamma.ppf(level[:, 0], prior.shape, scale=1 / model.prior_rate)}
    if model.kind == "categorical":
        concentration = np.broadcast_to(prior.concentration, z.shape[1] + 1)
        after = np.cumsum(concentration[::-1])[::-1][1:]
        shares = np.asarray(stats.beta.ppf(level, concentration[:-1], after))
        left = np.cumprod(np.column_stack([np.ones(len(z)), 1 - shares]), axis=1)
        return {"probabilities": np.column_stack([shares, np.ones(len(z))]) * left}
    # The first coordinate is that of a precision, which falls as a variance grows.
    variance = stats.invgamma.isf(level[:, 0], prior.shape, scale=prior.scale)
    if model.kind == "gaussian":
        return {"mean": prior.mean + np.sqrt(variance / prior.mean_strength) * z[:, 1], "variance": variance}
    root = np.linalg.inv(np.linalg.cholesky(model.weight_precision)).T
    return {"weights": np.sqrt(variance)[:, None] * (z[:, 1:] @ root.T), "variance": variance}


@pytest.mark.parametrize(
    "name", ["linear, paper's prior", *(kind for kind in KINDS if kind not in ("linear", "logistic"))]
)
def test_parameters_are_quantiles_of_the_prior(name: str) -> None:
    model = agreed(name).model
    positions = 1.2 * np.random.default_rng(3).normal(size=(50, len(model.coordinate_names())))
    found, expected = model.at_coordinates(positions), by_quantiles(model, positions)
    assert set(found) == set(expected) == set(model.parameters)
    for parameter, values in found.items():
        np.testing.assert_allclose(values, expected[parameter], rtol=1e-8, atol=1e-12)


@every_agreement
def test_parameters_are_possible_far_into_the_tails(name: str) -> None:
    model = agreed(name).model
    far = np.random.default_rng(4).choice([-9.0, 0.0, 9.0], size=(50, len(model.coordinate_names())))
    for parameter, values in model.at_coordinates(far).items():
        support = model.parameters[parameter]
        assert values.shape[1:] == support.shape
        assert np.all((values >= support.lower) & (values <= support.upper))


@pytest.mark.parametrize("name", [name for name in AGREEMENTS if name.startswith(("linear", "logistic"))])
def test_weights_go_back_to_their_coordinates(name: str) -> None:
    model = agreed(name).model
    assert isinstance(model, Regression)
    coordinates = 1.5 * np.random.default_rng(5).normal(size=(60, len(model.coordinate_names())))
    coordinates[0] = 0.0
    weights = model.at_coordinates(coordinates)["weights"]
    residual = coordinates[:, 0] if "variance" in model.parameters else None
    np.testing.assert_allclose(model.weight_coordinates(weights, residual), coordinates, atol=2e-6)


@pytest.mark.parametrize("name", [name for name in AGREEMENTS if name.startswith("linear")])
def test_slopes_are_pulled_back_to_coordinates(name: str) -> None:
    model = agreed(name).model
    assert isinstance(model, LinearModel)
    rng = np.random.default_rng(6)
    coordinates = 1.5 * rng.normal(size=(20, len(model.coordinate_names())))
    slopes, of_variance = rng.normal(size=(20, coordinates.shape[1] - 1)), rng.normal(size=20)

    def total(points: Floats) -> Floats:
        found = model.at_coordinates(points)
        return np.asarray(np.sum(slopes * found["weights"], axis=1) + of_variance * found["variance"])

    steps = 1e-5 * np.eye(coordinates.shape[1])
    expected = np.stack([(total(coordinates + one) - total(coordinates - one)) / 2e-5 for one in steps], axis=1)
    np.testing.assert_allclose(model.pull_back(coordinates, slopes, of_variance), expected, rtol=2e-5, atol=1e-5)


@every_agreement
def test_rows_are_as_probable_together_as_one_by_one(name: str) -> None:
    model = agreed(name).model
    draws = model.at_coordinates(0.3 * np.random.default_rng(5).normal(size=(4, len(model.coordinate_names()))))
    singly = [{key: values[[place]] for key, values in draws.items()} for place in range(4)]
    rng = np.random.default_rng(6)
    if isinstance(model, Regression):
        terms = rng.uniform(-1, 1, size=(60, len(model.coding.terms)))
        rows = model.imagine(singly[0], np.column_stack([terms, np.ones(60)]), rng)
    else:
        assert isinstance(model, Family)
        rows = model.imagine(singly[0], 60, rng)
    expected = [model.log_probability(one, rows.features, rows.target).sum() for one in singly]
    np.testing.assert_allclose(model.likelihood_of(rows)(draws), expected, rtol=1e-9)


def test_likelihood_of_a_regression_is_that_of_its_residuals() -> None:
    model = agreed("linear").model
    rng = np.random.default_rng(6)
    terms = len(model.coordinate_names()) - 2
    features = np.column_stack([rng.uniform(-1, 1, size=(40, terms)), np.ones(40)])
    rows = Rows(features, rng.uniform(-1, 1, 40), 1.0, model)
    weights, variance = rng.normal(size=(3, terms + 1)), np.array([0.1, 0.2, 0.3])
    expected = [
        stats.norm.logpdf(rows.target, features @ one, np.sqrt(two)).sum()
        for one, two in zip(weights, variance, strict=True)
    ]
    np.testing.assert_allclose(model.likelihood_of(rows)({"weights": weights, "variance": variance}), expected)
