"""Draws in the columns' own units say the same as draws in scaled ones."""

import csv
from pathlib import Path

import numpy as np
import pytest

from reward_posteriors import agreement, some_reward, some_rows


def test_linear_weights_predict_the_same_in_own_units() -> None:
    reward = some_reward("linear")
    own = reward.agreement.model.own_units(reward.posterior.draws)
    assert list(own) == ["weight[age]", "weight[bmi]", "intercept", "residual_sd"]
    age, bmi = some_rows(20).T
    in_own = own["intercept"][:, None] + np.outer(own["weight[age]"], age) + np.outer(own["weight[bmi]"], bmi)
    scaled = np.column_stack([(age - 60) / 40, (bmi - 30) / 15, np.ones(20)])  # bounds 20 to 100, 15 to 45
    np.testing.assert_allclose(in_own, 200 + 200 * reward.posterior.draws["weights"] @ scaled.T, rtol=1e-12)
    np.testing.assert_allclose(own["residual_sd"], 200 * np.sqrt(reward.posterior.draws["variance"]))


def test_logistic_weights_are_log_odds_per_unit() -> None:
    own = agreement("logistic").model.own_units({"weights": np.array([[4.0, 3.0, 0.5]])})
    assert list(own) == ["weight[age]", "weight[bmi]", "intercept"]
    assert [float(values[0]) for values in own.values()] == pytest.approx([0.1, 0.2, 0.5 - 0.1 * 60 - 0.2 * 30])


def test_families() -> None:
    number = np.array([0.25])
    assert agreement("bernoulli").model.own_units({"probability": number}) == {"probability": number}
    assert agreement("poisson").model.own_units({"rate": number}) == {"rate": number}
    assert agreement("exponential").model.own_units({"rate": number}) == {"rate": number}
    shares = agreement("categorical").model.own_units({"probabilities": np.array([[0.5, 0.3, 0.2]])})
    assert {name: values.tolist() for name, values in shares.items()} == {
        "probability[A]": [0.5],
        "probability[B]": [0.3],
        "probability[C]": [0.2],
    }
    normal = agreement("gaussian").model.own_units({"mean": np.array([0.5]), "variance": np.array([0.04])})
    assert {name: values.tolist() for name, values in normal.items()} == {"mean": [185.0], "sd": [6.0]}


def test_draws_as_csv(tmp_path: Path) -> None:
    reward = some_reward("linear", number=10)
    (tmp_path / "draws.csv").write_text("an old file")
    reward.to_csv(tmp_path / "draws.csv")
    with (tmp_path / "draws.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["chain"], row["draw"]) for row in rows[4:6]] == [("0", "4"), ("1", "0")]
    expected = reward.agreement.model.own_units(reward.posterior.draws)["weight[bmi]"]
    assert [float(row["weight[bmi]"]) for row in rows] == expected.tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["draws.csv"]
