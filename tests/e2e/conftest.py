"""Rounds of a small model, for real processes."""

from pathlib import Path

import pytest

import rounds
from e2e.stage import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path, rounds.agreement("gaussian"))
