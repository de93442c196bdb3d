"""Cross-validation at home: who wins where it is known who should, and that rewards of a settlement can be compared."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import equipoise as eq
from at_home import NormalInverseGamma, in_own_units, rows_of, with_others
from equipoise.client.home.compare import BOTH, OWN
from equipoise.models.base import Rows
from equipoise.reward.scoring import losses_on

pytestmark = pytest.mark.statistical


def evidence(seed: int, rows: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    agreed = with_others("linear", None).agreement
    return NormalInverseGamma(agreed, *rows).coordinates(4_000, seed).reshape(16, 250, 4)


def test_evidence_of_many_helps_who_has_few_rows() -> None:
    reward = with_others("linear", evidence(1, rows_of(2_000, 2)))
    found = eq.compare(reward, in_own_units(*rows_of(12, 3)), folds=3, draws=800)
    assert found.losses[BOTH].value < found.losses[OWN].value
    assert found.gains[BOTH].value == pytest.approx(found.losses[OWN].value - found.losses[BOTH].value)
    assert "P4′" in repr(found)


def test_a_model_is_called_best_only_if_rows_can_tell() -> None:
    reward = with_others("linear", evidence(1, rows_of(30, 2)))
    many = eq.compare(reward, in_own_units(*rows_of(600, 3)), folds=2, draws=800)
    assert many.best is None
    assert "best cannot be told" in repr(many)
    misled = with_others("linear", evidence(4, rows_of(2_000, 5)) + 3.0)
    found = eq.compare(misled, in_own_units(*rows_of(600, 3)), folds=2, draws=800)
    assert found.best == OWN
    assert [row[-1] for row in found.summary().rows] == ["best", "", ""]


def test_rows_of_one_individual_are_held_out_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or what is held out has been seen. Errors are of individuals too: copies of rows make nothing surer."""
    reward = with_others("linear", evidence(1, rows_of(100, 2)))
    document = reward.agreement.model_dump(mode="json")
    document["privacy"] |= {"individual": "patient", "rows_per_individual": 4}
    reward = replace(reward, agreement=eq.Agreement.model_validate(document))
    seen: list[set[float]] = []

    def fitted(_reward: Any, _evidence: Any, rows: Rows, **_: Any) -> Any:
        seen.append(set(rows.target.tolist()))
        return reward.posterior, None

    def held(rows: Rows, draws: Any) -> np.ndarray:
        targets = set(rows.target.tolist())
        assert len(targets) == 12 or not seen[-1] & targets
        return losses_on(rows, draws) + rows.target * (len(seen) % 6)  # of six fits, so that they differ

    monkeypatch.setattr("equipoise.client.home.compare.posterior_at_home", fitted)
    monkeypatch.setattr("equipoise.client.home.compare.losses_on", held)
    one_each = in_own_units(*rows_of(12, 3)) | {"patient": np.arange(12)}
    copied = {name: np.tile(values, 4) for name, values in one_each.items()}
    found, expected = (eq.compare(reward, table, folds=3) for table in (copied, one_each))
    for name in expected.gains:
        assert found.gains[name].error == pytest.approx(expected.gains[name].error)
    with pytest.raises(eq.TableError, match="12 individuals are too few"):
        eq.compare(reward, copied, folds=13)


def test_wrong_evidence_fails_the_promise() -> None:
    """Others of whom the opposite is true: comparing tells."""
    features, target = rows_of(3_000, 4)
    reward = with_others("linear", evidence(5, (features, -target)))
    found = eq.compare(reward, in_own_units(*rows_of(60, 6)), folds=2, draws=800)
    assert found.verdict == "fails"
    assert found.best == OWN
