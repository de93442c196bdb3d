"""The closed-form stand-in for values: near the sampled ones, and in the same order."""

import itertools
from pathlib import Path

import numpy as np
import pytest

import rounds
from equipoise.agreement import Agreement
from equipoise.inference.infer import infer_batch
from equipoise.inference.scenario import Scenario
from equipoise.protocol.submission import Submission
from equipoise.valuation.proxy import normal_proxy
from equipoise.valuation.surprise import surprise

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.group("rounds")]


def sampled_values(agreed: Agreement, sent: list[Submission], inside: np.ndarray) -> np.ndarray:
    """Value coalitions [coalitions, parties] by sampling."""
    coalitions = [[one.party for one, member in zip(sent, row, strict=True) if member] for row in inside]
    posteriors = infer_batch(agreed, sent, [Scenario(members) for members in coalitions], draws=2_000, processes=1)
    return np.array([surprise(agreed, posterior).value for posterior in posteriors])


def test_the_proxy_of_a_family_is_near_the_value_it_stands_for(tmp_path: Path) -> None:
    agreed = rounds.agreement("gaussian")
    sent = rounds.submissions(agreed, tmp_path, (20.0, 6.0, 2.0), rows=600)
    inside = np.array([row for row in itertools.product([False, True], repeat=3) if any(row)])
    values, cheap = sampled_values(agreed, sent, inside), normal_proxy(agreed, sent)(inside)
    assert np.corrcoef(values, cheap)[0, 1] > 0.97
    assert abs(cheap[-1] - values[-1]) < 0.15 * values[-1]


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_the_proxy_of_a_regression_leaves_little_of_what_coalitions_differ_by(kind: str, tmp_path: Path) -> None:
    agreed = rounds.agreement(kind, parties=5)
    sent = rounds.submissions(agreed, tmp_path, (6.0, 2.0, 1.0, 0.4, 3.0), rows=400)
    inside = np.array([row for row in itertools.product([False, True], repeat=5) if any(row)])
    values, cheap = sampled_values(agreed, sent, inside), normal_proxy(agreed, sent)(inside)
    assert np.corrcoef(values, cheap)[0, 1] > 0.97
    # Single parties are always sampled; an additive game is a control variate of its own.
    several = inside.sum(axis=1) > 1
    known = np.column_stack([cheap, inside, np.ones(len(inside))])[several]
    left = values[several] - known @ np.linalg.lstsq(known, values[several], rcond=None)[0]
    assert left.std() < 0.12 * values[several].std()
    assert abs(cheap[-1] - values[-1]) < 0.1 * values[-1]


@pytest.mark.parametrize("kind", ["gaussian", "linear"])
def test_the_order_of_submissions_does_not_matter(kind: str, tmp_path: Path) -> None:
    agreed = rounds.agreement(kind)
    sent = rounds.submissions(agreed, tmp_path, (4.0, 1.0, 0.2))
    first = normal_proxy(agreed, sent)(np.eye(3, dtype=bool))
    last = normal_proxy(agreed, sent[::-1])(np.eye(3, dtype=bool))
    np.testing.assert_allclose(first, last[::-1], rtol=1e-7)
    assert normal_proxy(agreed, sent)(np.zeros((1, 3), bool))[0] == pytest.approx(0, abs=1e-9)
