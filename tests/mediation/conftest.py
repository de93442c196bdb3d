"""One settled round for all tests that only look at it."""

from pathlib import Path
from typing import Any

import pytest

import equipoise as eq
import rounds
from tiers import needs_engine

EPSILONS = (8.0, 2.0, 0.5)
QUICK: dict[str, Any] = {"draws": 1_200, "precision": 0.2, "processes": 1, "progress": False}


@pytest.fixture(scope="session")
def agreed() -> eq.Agreement:
    return rounds.agreement("linear")


@pytest.fixture(scope="session")
def sent(agreed: eq.Agreement, tmp_path_factory: pytest.TempPathFactory) -> list[eq.Submission]:
    return rounds.submissions(agreed, tmp_path_factory.mktemp("ledgers"), EPSILONS)


@pytest.fixture(scope="session")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("out")


@pytest.fixture(scope="session")
@needs_engine("rounds")
def settled(agreed: eq.Agreement, sent: list[eq.Submission], out: Path) -> eq.Settlement:
    """Three parties, one feature, saved in `out`."""
    return eq.mediate(agreed, sent, seed=3, folder=out, **QUICK)
