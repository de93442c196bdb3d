"""A reward in a few numbers: in own units, with odds ratios, and predictions that keep a frame's index."""

import numpy as np
import pandas as pd
import pytest

import equipoise as eq
from reward_posteriors import TARGETS, some_reward

FRAME = pd.DataFrame({"age": [50.0, 60.0], "bmi": [25.0, 30.0]}, index=["anna", "bert"])


@pytest.mark.parametrize("kind", TARGETS)
def test_every_model_has_a_summary(kind: str) -> None:
    reward = some_reward(kind)
    shown = reward.summary()
    assert [row[0] for row in shown.rows] == list(reward.agreement.model.own_units(reward.posterior.draws))
    assert "<svg" in reward._repr_html_()
    assert len(repr(reward).splitlines()) < 12


def test_odds_ratios_are_of_the_weights() -> None:
    reward = some_reward("logistic")
    own = reward.agreement.model.own_units(reward.posterior.draws)
    row = next(row for row in reward.summary().rows if row[0] == "weight[age]")
    assert str(row[3]).startswith(f"{np.exp(np.quantile(own['weight[age]'], 0.5)):.3g} (")
    assert "odds ratio" in reward.summary().headers[3]
    assert len(some_reward("linear").summary().headers) == 3


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_coefficients_are_in_own_units(kind: str) -> None:
    reward = some_reward(kind)
    own = reward.agreement.model.own_units(reward.posterior.draws)
    assert np.allclose(np.ravel(reward.coef_), [own["weight[age]"].mean(), own["weight[bmi]"].mean()])
    assert np.allclose(reward.intercept_, own["intercept"].mean())
    if kind == "linear":
        assert np.allclose(reward.predict(FRAME), FRAME @ reward.coef_ + reward.intercept_)
    with pytest.raises(AttributeError, match="a poisson model has no weights"):
        _ = some_reward("poisson").coef_


def test_a_frame_keeps_its_index() -> None:
    regression, classification = some_reward("linear"), some_reward("logistic")
    predicted = regression.predict(FRAME)
    assert list(predicted.index) == ["anna", "bert"]
    assert predicted.name == "progression"
    assert np.array_equal(predicted, regression.predict(FRAME.to_numpy()))
    labels, shares = classification.predict(FRAME), classification.predict_proba(FRAME)
    assert list(labels.index) == list(shares.index) == ["anna", "bert"]
    assert list(shares.columns) == list(classification.classes_)
    assert isinstance(regression.predict(FRAME.to_dict("list")), np.ndarray)


def test_a_parameter_that_is_not_there() -> None:
    with pytest.raises(eq.InferenceError, match="no parameter 'weight'; there are weights"):
        some_reward("linear").posterior.mean("weight")
