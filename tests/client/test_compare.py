"""Cross-validation at home: who wins where it is known who should, and that rewards of a settlement can be compared."""

import numpy as np
import pytest

import equipoise as eq
from at_home import NormalInverseGamma, in_own_units, rows_of, with_others
from equipoise.client.home.compare import BOTH, OWN

pytestmark = pytest.mark.statistical


def evidence(seed: int, rows: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    agreed = with_others("linear", None).agreement
    return NormalInverseGamma(agreed, *rows).coordinates(4_000, seed).reshape(16, 250, 4)


def test_evidence_of_many_helps_who_has_few_rows() -> None:
    reward = with_others("linear", evidence(1, rows_of(2_000, 2)))
    found = eq.compare(reward, in_own_units(*rows_of(12, 3)), folds=3, draws=800)
    assert found.losses[BOTH].value < found.losses[OWN].value
    assert found.best == BOTH
    assert found.gains[BOTH].value == pytest.approx(found.losses[OWN].value - found.losses[BOTH].value)
    assert "P4′" in repr(found)


def test_wrong_evidence_fails_the_promise() -> None:
    """Others of whom the opposite is true: comparing tells."""
    features, target = rows_of(3_000, 4)
    reward = with_others("linear", evidence(5, (features, -target)))
    found = eq.compare(reward, in_own_units(*rows_of(60, 6)), folds=2, draws=800)
    assert found.verdict == "fails"
    assert found.best == OWN
