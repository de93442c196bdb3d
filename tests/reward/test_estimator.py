"""A reward stands where scikit-learn's estimators stand, although it is fitted already."""

from dataclasses import FrozenInstanceError

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.calibration import calibration_curve
from sklearn.impute import SimpleImputer
from sklearn.inspection import permutation_importance
from sklearn.metrics import accuracy_score, get_scorer, r2_score, roc_auc_score
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from reward_posteriors import some_reward, some_rows


def test_what_scikit_learn_asks_of_an_estimator() -> None:
    linear, logistic, poisson = some_reward("linear"), some_reward("logistic"), some_reward("poisson")
    assert is_regressor(linear)
    assert not is_classifier(linear)
    assert is_classifier(logistic)
    assert not is_regressor(poisson)
    assert not is_classifier(poisson)
    assert linear.n_features_in_ == 2
    assert linear.feature_names_in_.tolist() == ["age", "bmi"]
    assert not hasattr(linear, "classes_")
    assert clone(linear) is linear
    assert linear.fit([[1]], [2]) is linear
    assert linear.set_params(**linear.get_params()) is linear
    check_is_fitted(linear)
    with pytest.raises(FrozenInstanceError, match="party"):
        linear.party = "south"


def test_the_last_step_of_a_pipeline() -> None:
    reward = some_reward("linear")
    rows = some_rows(200)
    seen = reward.sample_predictions(rows)[0]
    pipeline = make_pipeline(SimpleImputer(), reward).fit(rows, seen)
    np.testing.assert_array_equal(pipeline.predict(rows), reward.predict(rows))
    assert pipeline.score(rows, seen) == reward.score(rows, seen) == r2_score(seen, reward.predict(rows))
    weights = np.arange(200.0)
    weighted = r2_score(seen, reward.predict(rows), sample_weight=weights)
    assert reward.score(rows, seen, sample_weight=weights) == weighted


def test_cross_validation() -> None:
    reward = some_reward("linear")
    rows = some_rows(200)
    seen = reward.sample_predictions(rows)[0]
    scores = cross_val_score(reward, rows, seen, cv=4)
    assert scores[0] == reward.score(rows[:50], seen[:50])
    classifier = some_reward("logistic")
    labels = classifier.sample_predictions(rows)[0]
    found = cross_val_predict(classifier, rows, labels, cv=4, method="predict_proba")
    np.testing.assert_allclose(found, classifier.predict_proba(rows))
    assert classifier.score(rows, labels) == accuracy_score(labels, classifier.predict(rows))
    assert cross_val_score(classifier, rows, labels, cv=4, scoring="neg_log_loss").mean() == pytest.approx(
        -classifier.loss(rows, labels)
    )


def test_permutation_importance_of_a_frame() -> None:
    reward = some_reward("linear")
    rows = pd.DataFrame(some_rows(200), columns=["age", "bmi"])
    seen = reward.sample_predictions(rows)[0]
    importance = permutation_importance(reward, rows, seen, n_repeats=3, random_state=0)["importances_mean"]
    assert importance[0] > importance[1] > 0


@pytest.mark.statistical
@pytest.mark.parametrize("labels", ['["no", "yes"]', '["yes", "no"]', "[0, 1]", "[1, 0]", "[-1, 1]"])
def test_no_metric_is_flipped(labels: str) -> None:
    """Whatever the agreed order, the area under the curve is that of a good classifier, and it is calibrated."""
    reward = some_reward("logistic", labels)
    rows = some_rows(4_000)
    seen = reward.sample_predictions(rows)[0]
    probability = reward.predict_proba(rows)[:, 1]
    area = get_scorer("roc_auc")(reward, rows, seen)
    assert area == roc_auc_score(seen, probability) > 0.8
    observed, stated = calibration_curve(seen, probability, n_bins=5, pos_label=reward.classes_[1])
    np.testing.assert_allclose(observed, stated, atol=0.07)
