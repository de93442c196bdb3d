"""Mean negative log probability, against numbers worked out by hand and by another library."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss, mean_squared_error

import rounds
from equipoise.errors import MediationError, TableError
from equipoise.inference.diagnostics import independent
from equipoise.inference.infer import infer
from equipoise.inference.posterior import Posterior
from equipoise.inference.released_features import rows_like
from equipoise.inference.scenario import Scenario
from equipoise.reward.scoring import (
    ErrorCurve,
    error_curve,
    loss_on,
    mean_negative_log_probability,
    scaled_rows,
    typical_errors,
)

pytestmark = [pytest.mark.engine, pytest.mark.group("rounds")]


def test_regression_is_in_the_targets_own_units(tmp_path: Path) -> None:
    """The predictive distribution of y itself, from draws of weights that are in scaled units."""
    agreed = rounds.agreement("linear")
    posterior = infer(agreed, rounds.submissions(agreed, tmp_path, (50.0,)), draws=1_000)
    table = rounds.table("linear", 40, 5)
    found = mean_negative_log_probability(posterior, scaled_rows(agreed, table["x"][:, None], table["y"]))
    slope, bias = posterior.draws["weights"].T
    each = 3 * (slope[:, None] * table["x"] / 2 + bias[:, None])  # x in [−2, 2], y in [−3, 3]
    variance = 9 * posterior.draws["variance"].mean() + each.var(axis=0)
    expected = -stats.norm.logpdf(table["y"], each.mean(axis=0), np.sqrt(variance)).mean()
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_classification_is_the_cross_entropy(tmp_path: Path) -> None:
    agreed = rounds.agreement("logistic")
    posterior = infer(agreed, rounds.submissions(agreed, tmp_path, (50.0,)), draws=1_000)
    table = rounds.table("logistic", 60, 5)
    found = mean_negative_log_probability(posterior, scaled_rows(agreed, table["x"][:, None], table["y"]))
    slope, bias = posterior.draws["weights"].T
    probability = (1 / (1 + np.exp(-(slope[:, None] * np.clip(table["x"] / 2, -1, 1) + bias[:, None])))).mean(axis=0)
    assert found == pytest.approx(log_loss(np.array(table["y"]) == "yes", probability), rel=1e-9)


def test_rows_that_do_not_fit_are_refused() -> None:
    agreed = rounds.agreement("logistic")
    with pytest.raises(MediationError, match="'maybe' is neither 'no' nor 'yes'"):
        scaled_rows(agreed, [[1.0]], ["maybe"])
    with pytest.raises(TableError, match="in this order: x"):
        scaled_rows(agreed, [[1.0, 2.0]], ["no"])
    with pytest.raises(MediationError, match="has no features; give None"):
        scaled_rows(rounds.agreement("poisson"), [[1.0]], [1.0])
    for kind, target, says in (
        ("poisson", 1.5, "1.5 is impossible: it must be a count"),
        ("exponential", -2.0, "-2 is impossible: it must be 0 or more"),
        ("categorical", "d", "'d' is none of 'a', 'b', 'c'"),
        ("gaussian", "tall", "must be numbers"),
        ("gaussian", np.nan, "not finite"),
    ):
        with pytest.raises(MediationError, match=says):
            scaled_rows(rounds.agreement(kind), None, [target])


def test_families_average_probabilities_over_draws_in_the_targets_own_units() -> None:
    """The posterior predictive of a conjugate family is known: here the draws are from the conjugate posterior."""
    rng = np.random.default_rng(0)
    gamma = rng.gamma(50, 1 / 10, 200_000)
    precision = rng.gamma(20, 1 / 2, 200_000)  # of y in scaled units, where y = 3 z
    mean = 0.2 + rng.normal(size=200_000) / np.sqrt(30 * precision)
    student = stats.t(40, loc=0.6, scale=3 * np.sqrt((2 / 20) * (1 + 1 / 30)))
    for kind, draws, target, expected in (
        ("poisson", {"rate": gamma}, [3, 7], stats.nbinom(50, 10 / 11).logpmf([3, 7])),
        ("exponential", {"rate": gamma}, [0.1, 0.4], stats.lomax(50, scale=10).logpdf([0.1, 0.4])),
        ("gaussian", {"mean": mean, "variance": 1 / precision}, [0.0, 2.5], student.logpdf([0.0, 2.5])),
        ("bernoulli", {"probability": rng.beta(3, 7, 200_000)}, [1, 0], np.log([0.3, 0.7])),
        ("categorical", {"probabilities": rng.dirichlet([6, 3, 1], 200_000)}, ["b", "c"], np.log([0.3, 0.1])),
    ):
        posterior = Posterior(draws, independent(200_000, 1), Scenario(("north",)), "exact", "power", 0, 0, 1)
        found = mean_negative_log_probability(posterior, scaled_rows(rounds.agreement(kind), None, target))
        assert found == pytest.approx(-np.mean(expected), abs=0.005), kind


def test_the_error_of_a_loss_is_that_of_which_rows_are_tested() -> None:
    """A gaussian with known mean and variance: a row's loss is ½ log 2πv + ½ z², whose deviation is √½."""
    agreed = rounds.agreement("gaussian")
    rng = np.random.default_rng(3)
    draws = {"mean": np.zeros(2), "variance": np.full(2, 0.04)}
    target = 3 * 0.2 * rng.normal(size=5_000)  # scaled units are thirds
    found = loss_on(scaled_rows(agreed, None, target), draws)
    assert found.error == pytest.approx(np.sqrt(0.5 / 5_000), rel=0.05)
    truth = 0.5 * np.log(2 * np.pi * 0.04) + 0.5 + np.log(3)
    assert abs((found.value - truth) / found.error) < 4
    assert loss_on(scaled_rows(agreed, None, target[:1]), draws).error == 0


def test_errors_on_test_rows_are_those_that_others_measure(tmp_path: Path) -> None:
    agreed = rounds.agreement("linear")
    posterior = infer(agreed, rounds.submissions(agreed, tmp_path, (50.0,)), draws=1_000)
    table = rounds.table("linear", 40, 5)
    rows = scaled_rows(agreed, table["x"][:, None], table["y"])
    drawn = dict.fromkeys(("alone", "reward", "team"), posterior.draws)
    found = typical_errors(agreed.model, drawn, rows, None)
    slope, bias = posterior.draws["weights"].mean(axis=0)
    expected = np.sqrt(mean_squared_error(table["y"], 3 * (slope * table["x"] / 2 + bias)))
    assert found == {name: pytest.approx(expected, rel=1e-12) for name in drawn}


def test_errors_to_expect_are_those_of_rows_simulated_from_the_reward(tmp_path: Path) -> None:
    """By another road: rows from the feature's distribution, targets from the reward, predictions from each."""
    agreed = rounds.agreement("linear")
    sent = rounds.submissions(agreed, tmp_path, (50.0, 5.0))
    alone, reward = (infer(agreed, sent, coalition=who, draws=2_000).draws for who in (("north",), ("north", "south")))
    likely = rows_like(agreed, sent[0], 5_000, np.random.default_rng(0))
    found = typical_errors(agreed.model, {"alone": alone, "reward": reward, "team": reward}, None, likely)
    assert set(found) == {"alone", "reward"}  # others' posterior is nobody's to see
    assert found["reward"] <= found["alone"]
    rng = np.random.default_rng(1)
    true = rng.integers(2_000, size=20_000)
    mean, square = (sent[0].values(agreed)[place] / sent[0].count for place in (0, 2))
    x = np.clip(rng.normal(mean, np.sqrt(square - mean**2), size=20_000), -1, 1)
    y = reward["weights"][true, 0] * x + reward["weights"][true, 1]
    y = np.clip(y + np.sqrt(reward["variance"][true]) * rng.normal(size=20_000), -1, 1)
    for name, draws in (("alone", alone), ("reward", reward)):
        slope, bias = draws["weights"].mean(axis=0)
        assert found[name] == pytest.approx(3 * np.sqrt(np.mean((y - slope * x - bias) ** 2)), rel=0.05)
    assert typical_errors(agreed.model, {"reward": reward, "team": reward}, None, likely) == {}


def test_an_error_curve_has_one_yardstick(tmp_path: Path) -> None:
    agreed = rounds.agreement("linear")
    sent = rounds.submissions(agreed, tmp_path, (50.0, 5.0))
    alone, whole = (infer(agreed, sent, coalition=who, draws=1_000).draws for who in (("north",), ("north", "south")))
    likely = rows_like(agreed, sent[0], 100, np.random.default_rng(0))
    curve = error_curve(agreed.model, alone, [(3.0, whole), (1.0, alone)], whole, None, likely)
    if_right = typical_errors(agreed.model, {"alone": alone, "reward": whole}, None, likely)
    assert {"alone": curve.alone, "reward": curve.at(3.0)} == if_right
    assert curve.at(2.0) == pytest.approx((curve.alone + if_right["reward"]) / 2)
    assert curve.at(0.0) == curve.alone
    with pytest.raises(ValueError, match="no number"):
        ErrorCurve(1.0, ((0.0, math.nan),))


def test_wrong_labels_are_counted() -> None:
    agreed = rounds.agreement("logistic")
    weights = np.tile([[4.0, 0.0]], (10, 1))
    rows = scaled_rows(agreed, [[-2.0], [-1.0], [1.0], [2.0]], ["yes"] * 4)
    found = agreed.model.measured_error({"weights": weights}, rows)
    assert found == 0.5
    assert agreed.model.errors_are_shares
    features = np.array([[1.0, 1.0], [-1.0, 1.0]])
    expected = agreed.model.expected_error({"weights": -weights}, {"weights": weights}, features)
    assert expected == pytest.approx(1 / (1 + np.exp(-4.0)))  # the label that is never the more probable
