"""Predictions of a reward: against distributions that are known, through every kind of table."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import special, stats

import equipoise as eq
from equipoise.errors import MediationError, TableError
from reward_posteriors import agreement, reward, some_reward, some_rows


def scaled_terms(rows: Any) -> Any:
    """Terms in units of the agreed bounds; what lies beyond counts as the bound."""
    scaled = np.column_stack([(rows[:, 0] - 60) / 40, (rows[:, 1] - 30) / 15, np.ones(len(rows))])
    return np.clip(scaled, -1, 1)


def conjugate(number: int = 20_000) -> tuple[eq.Reward, Any]:
    """A linear reward with a normal-inverse-gamma posterior, and its predictive distribution (Student's t)."""
    rng = np.random.default_rng(0)
    mean, covariance = np.array([0.6, -0.4, 0.1]), np.array([[0.03, 0.01, 0], [0.01, 0.05, 0], [0, 0, 0.02]])
    variance = 0.4 / rng.gamma(10, size=number)
    spread = rng.normal(size=(number, 3)) @ np.linalg.cholesky(covariance).T
    made = reward(agreement("linear"), {"weights": mean + np.sqrt(variance)[:, None] * spread, "variance": variance})

    def predictive(rows: Any) -> Any:
        scaled = scaled_terms(rows)
        scale = np.sqrt(0.04 * (1 + np.einsum("ni,ij,nj->n", scaled, covariance, scaled)))
        return stats.t(20, loc=200 + 200 * scaled @ mean, scale=200 * scale)

    return made, predictive


def test_regression_is_the_known_predictive_distribution() -> None:
    made, predictive = conjugate()
    rows = some_rows(50)
    expected, interval = made.predict(rows, return_interval=0.9)
    truth = predictive(rows)
    np.testing.assert_allclose(expected, truth.mean(), atol=0.02 * truth.std().max())
    np.testing.assert_allclose(interval, np.column_stack(truth.interval(0.9)), atol=0.05 * truth.std().max())
    np.testing.assert_array_equal(expected, made.predict(rows))


@pytest.mark.statistical
@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say() -> None:
    made, predictive = conjugate()
    rows = some_rows(4_000)
    seen = predictive(rows).rvs(random_state=1)
    for share in (0.5, 0.9):
        _, interval = made.predict(rows, return_interval=share)
        inside = np.mean((interval[:, 0] <= seen) & (seen <= interval[:, 1]))
        assert abs(inside - share) < 4 * np.sqrt(share * (1 - share) / 4_000)


def test_a_rows_interval_does_not_depend_on_its_company(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = some_rows(30)
    made = some_reward("linear")
    _, together = made.predict(rows, return_interval=0.8)
    monkeypatch.setattr("equipoise.models.regression.CELLS_AT_ONCE", 3 * 2_000)
    np.testing.assert_allclose(made.predict(rows, return_interval=0.8)[1], together, rtol=1e-12)
    np.testing.assert_allclose(made.predict(rows[7:8], return_interval=0.8)[1], together[7:8], rtol=1e-12)


def test_probabilities_are_averaged_over_draws() -> None:
    made = some_reward("logistic")
    rows = some_rows(40)
    scaled = scaled_terms(rows)
    each = special.expit(made.posterior.draws["weights"] @ scaled.T)
    probabilities, interval = made.predict_proba(rows, return_interval=0.9)
    np.testing.assert_allclose(probabilities[:, 1], each.mean(axis=0))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_allclose(interval, np.quantile(each, [0.05, 0.95], axis=0).T)
    assert made.predict(rows).tolist() == np.where(each.mean(axis=0) > 0.5, "yes", "no").tolist()


@pytest.mark.parametrize(("labels", "order"), [('["yes", "no"]', ["no", "yes"]), ("[1, -1]", [-1, 1])])
def test_the_columns_of_probabilities_are_in_the_order_of_classes(labels: str, order: list[Any]) -> None:
    """The positive label is the agreed second one, which here comes first in NumPy's order."""
    rows = some_rows(10)
    usual, made = some_reward("logistic"), some_reward("logistic", labels)
    assert made.classes_.tolist() == order
    np.testing.assert_allclose(made.predict_proba(rows), usual.predict_proba(rows)[:, ::-1])
    np.testing.assert_array_equal(
        made.predict_proba(rows, return_interval=0.9)[1], usual.predict_proba(rows, return_interval=0.9)[1]
    )
    assert made.predict(rows).tolist() == [order[0] if label == "yes" else order[1] for label in usual.predict(rows)]


def test_simulated_observations_have_the_predictive_distribution() -> None:
    made, predictive = conjugate()
    rows = some_rows(3)
    drawn = made.sample_predictions(rows)
    assert drawn.shape == (20_000, 3)
    for place in range(3):
        assert stats.kstest(drawn[:, place], predictive(rows[place : place + 1]).cdf).pvalue > 1e-3
    np.testing.assert_array_equal(drawn, made.sample_predictions(rows))
    assert not np.array_equal(drawn, made.sample_predictions(rows, seed=1))
    labels = some_reward("logistic").sample_predictions(rows)
    shares = some_reward("logistic").predict_proba(rows)[:, 1]
    np.testing.assert_allclose(np.mean(labels == "yes", axis=0), shares, atol=0.05)


def test_families_simulate_without_rows() -> None:
    drawn = {kind: some_reward(kind).sample_predictions(size=50) for kind in ("poisson", "exponential", "gaussian")}
    assert drawn["poisson"].shape == (2_000, 50)
    assert np.mean(drawn["poisson"]) == pytest.approx(4.0, abs=0.05)
    assert np.mean(drawn["exponential"]) == pytest.approx(10.0, abs=0.2)
    assert np.mean(drawn["gaussian"]) == pytest.approx(170 + 30 * 0.1, abs=0.2)
    assert np.std(drawn["gaussian"]) == pytest.approx(30 * 0.3, rel=0.02)
    assert np.mean(some_reward("bernoulli").sample_predictions(size=50) == "yes") == pytest.approx(0.3, abs=0.01)
    wards = some_reward("categorical").sample_predictions(size=50)
    assert [np.mean(wards == ward) for ward in "ABC"] == pytest.approx([0.6, 0.3, 0.1], abs=0.01)
    assert some_reward("poisson").sample_predictions().shape == (2_000, 1)


def test_any_table_with_the_columns_will_do() -> None:
    made = some_reward("linear")
    rows = some_rows(8)
    expected = made.predict(rows)
    columns: dict[str, Any] = {"name": list("abcdefgh"), "bmi": rows[:, 1], "age": rows[:, 0]}
    frame = pd.DataFrame(columns, index=list("hgfedcba"))
    for table in (columns, frame, pl.DataFrame(columns), pa.table(columns), pa.table(columns).to_batches()[0]):
        np.testing.assert_array_equal(made.predict(table), expected)
    np.testing.assert_array_equal(made.predict(rows.tolist()), expected)
    whole = pd.DataFrame({"age": [30, 40], "bmi": [20, 30]})
    np.testing.assert_allclose(made.predict(whole), made.predict([[30, 20], [40, 30]]))


def test_tables_that_do_not_fit_are_refused() -> None:
    made = some_reward("linear")
    good = {"age": [50.0, 60.0], "bmi": [20.0, 30.0]}
    for table, says in (
        ({"age": [50.0], "Bmi": [20.0]}, "feature 'bmi' is not in the table; did you mean 'Bmi'"),
        ({"age": [50.0], "Bmi": [20.0]}, "columns are 'age', 'Bmi'; rename"),
        (good | {"bmi": [20.0, None]}, "feature 'bmi', row 2: the value is missing; fill in"),
        (pd.DataFrame(good | {"age": pd.array([50, None], "Int64")}), "feature 'age', row 2: the value is missing"),
        (pl.DataFrame(good | {"age": [None, 50]}), "feature 'age', row 1: the value is missing"),
        (good | {"bmi": [None, None]}, "feature 'bmi', row 1: the value is missing"),
        ([[50.0, 20.0], [np.inf, 20.0]], "feature 'age', row 2: the value is infinite"),
        (good | {"bmi": ["20", "30"]}, "column 'bmi' holds text where numbers are agreed"),
        (good | {"bmi": [20.0]}, "they have: age 2, bmi 1"),
        ({"age": [], "bmi": []}, "at least one"),
        (pd.DataFrame([[1, 2, 3]], columns=["age", "bmi", "bmi"]), "'bmi' appears 2 times"),
        (np.ones(2), r"shape \(2,\); give one row or more of 2 features, in this order: age, bmi"),
        (np.ones((0, 2)), "one row or more"),
        ([["old", "fat"]], "must be numbers"),
    ):
        with pytest.raises(TableError, match=says):
            made.predict(table)


def test_misuse_is_told_what_to_use_instead() -> None:
    rows = some_rows(2)
    misuses: list[tuple[str, Callable[[eq.Reward], Any], str]] = [
        ("poisson", lambda made: made.predict(rows), "no features to predict from; simulate new observations with"),
        ("poisson", lambda made: made.sample_predictions(rows), "leave the rows out"),
        ("poisson", lambda made: made.sample_predictions(size=0), "size = 0"),
        ("poisson", lambda made: made.score(rows, [1, 2]), "no features"),
        ("linear", lambda made: made.predict_proba(rows), "use predict"),
        ("linear", lambda made: made.sample_predictions(), "give rows"),
        ("linear", lambda made: made.predict(rows, return_interval=90), "return_interval = 90"),
        ("linear", lambda made: made.score(rows, [1.0]), "one target each"),
        ("logistic", lambda made: made.predict(rows, return_interval=0.9), "use predict_proba"),
        ("logistic", lambda made: made.score(rows, [0, 1]), "0 is neither 'no' nor 'yes'"),
        ("linear", lambda made: made.set_params(alpha=1), "not alpha"),
    ]
    for kind, use, says in misuses:
        with pytest.raises(MediationError, match=says):
            use(some_reward(kind))


def test_loss_is_in_the_targets_own_units() -> None:
    made, predictive = conjugate()
    rows = some_rows(2_000)
    seen = predictive(rows).rvs(random_state=2)
    truth = predictive(rows)
    assert made.loss(rows, seen) == pytest.approx(-stats.norm.logpdf(seen, truth.mean(), truth.std()).mean(), abs=0.01)
    assert some_reward("poisson").loss(None, [4, 5]) == pytest.approx(
        -stats.poisson(4.0).logpmf([4, 5]).mean(), abs=0.02
    )
