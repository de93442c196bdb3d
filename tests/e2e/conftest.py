"""Rounds of a small model, for real processes."""

from pathlib import Path

import pytest

import engine_setup  # noqa: F401  (what is settled here for comparison, is settled with these settings)
import rounds
from e2e.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, rounds.agreement("gaussian"))
