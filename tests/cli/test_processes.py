"""Commands as processes of their own do what they do in the tests' process: outputs, files and exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli.test_cli import RELEASE
from program import Completed, run, spawn

pytestmark = pytest.mark.process


def heard(result: Completed) -> list[object]:
    """What it says, with its name as people type it."""
    said = (text.replace("python -m equipoise", "equipoise") for text in (result.stdout, result.stderr))
    return [result.returncode, *said]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("agreement", "check", "agreement.toml", "--epsilon", 0.2), 0),
        (("--help",), 0),
        (("party",), 2),
        (("agreement", "check", "none.toml"), 3),
        ((*RELEASE, "--epsilon", "much"), 2),
        ((*RELEASE, "--epsilon", 0), 5),
        (("mediate", "agreement.toml", "none.json", "-o", "out"), 6),
    ],
)
def test_both_ways_say_the_same(arguments: tuple[object, ...], code: int, home: Path) -> None:
    there = spawn(*arguments, cwd=home, code=code)
    assert heard(run(*arguments, cwd=home, code=code)) == heard(there)
    assert there.stdout or there.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full, a disk that is always full")
def test_a_disk_that_is_full_is_said_without_a_trace(home: Path) -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "equipoise", "agreement", "check", "agreement.toml"]
        done = subprocess.run(command, cwd=home, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == "Error: the disk is full (No space left on device); free some room, and run it again\n"


def test_a_release_by_either_is_read_by_the_other(home: Path) -> None:
    """Its warning included; noise is drawn anew each time."""
    text = (
        (home / "agreement.toml").read_text().replace("typical = [18, 40], bounds = [15, 60] }", "typical = [20, 25] }")
    )
    (home / "agreement.toml").write_text(text)
    said = spawn(*RELEASE, "--epsilon", 0.2, "--allow-clipping", cwd=home).stderr
    warning = said[said.index("Warning:") :]
    assert warning.startswith("Warning: 74% of the first values of 'bmi'")
    shown = json.loads(run("party", "ledger", "north.ledger", "--json", cwd=home).stdout)
    assert shown["total"]["zcdp"] == 0.1
    again = [word.replace("north.ledger", "other.ledger") for word in RELEASE]
    assert run(*again, "--epsilon", 0.2, "--allow-clipping", "-o", "other.json", cwd=home).stderr.endswith(warning)
    check = ("party", "ledger", "other.ledger", "--check", "other.json", "--json")
    assert json.loads(spawn(*check, cwd=home).stdout)["spends"][0]["finished"]
