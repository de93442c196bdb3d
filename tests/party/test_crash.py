"""Kill a release at every step: never an unrecorded release, never a damaged ledger."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent


def sweep(folder: Path, stride: int, *variant: str) -> subprocess.CompletedProcess[str]:
    """Run `crash_sweep.py`."""
    command = [sys.executable, str(Path(__file__).with_name("crash_sweep.py")), str(folder), str(stride), *variant]
    paths = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths})


def outcomes(folder: Path, stride: int) -> dict[str, int]:
    """What a sweep of the real release saw."""
    done = sweep(folder, stride)
    assert done.returncode == 0, done.stderr
    seen: dict[str, int] = json.loads(done.stdout)
    return seen


@pytest.mark.process
@pytest.mark.slow
def test_killed_at_every_step(tmp_path: Path) -> None:
    """Every single step, and the ledger stays usable after each."""
    seen = outcomes(tmp_path, stride=1)
    assert seen["steps"] > 150
    assert {"nothing", "spent", "stored", "sent"} <= set(seen)


@pytest.mark.process
def test_killed_at_some_steps(tmp_path: Path) -> None:
    """A quick sweep of the same kind, a few steps apart."""
    assert {"nothing", "spent", "sent"} <= set(outcomes(tmp_path, stride=7))


@pytest.mark.process
def test_the_sweep_notices_a_release_that_records_too_late(tmp_path: Path) -> None:
    """The same sweep fails for a release that draws noise first and puts the spend on disk afterwards."""
    done = sweep(tmp_path, 7, "careless")
    assert done.returncode == 1
    assert "AssertionError: noise was drawn without a recorded spend" in done.stderr
