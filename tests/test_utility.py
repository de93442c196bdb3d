"""Mean negative log probability, against numbers worked out by hand and by another library."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import log_loss

import engine_setup  # noqa: F401
import rounds
from equipoise.errors import MediationError
from equipoise.inference.infer import infer
from equipoise.utility import mean_negative_log_probability, scaled_rows


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


def test_classification_is_the_cross_entropy(tmp_path: Path) -> None:
    agreed = rounds.agreement("logistic")
    posterior = infer(agreed, rounds.submissions(agreed, tmp_path, (50.0,)), draws=1_000)
    table = rounds.table("logistic", 60, 5)
    found = mean_negative_log_probability(posterior, scaled_rows(agreed, table["x"][:, None], table["y"]))
    slope, bias = posterior.draws["weights"].T
    probability = (1 / (1 + np.exp(-(slope[:, None] * table["x"] / 2 + bias[:, None])))).mean(axis=0)
    assert found == pytest.approx(log_loss(np.array(table["y"]) == "yes", probability), rel=1e-9)


def test_rows_that_do_not_fit_are_refused() -> None:
    agreed = rounds.agreement("logistic")
    with pytest.raises(MediationError, match="'maybe' is neither 'no' nor 'yes'"):
        scaled_rows(agreed, [[1.0]], ["maybe"])
    with pytest.raises(MediationError, match="columns: x"):
        scaled_rows(agreed, [[1.0, 2.0]], ["no"])
    with pytest.raises(MediationError, match="for regression and classification"):
        scaled_rows(rounds.agreement("poisson"), [[1.0]], [1.0])
