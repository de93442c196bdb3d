"""Ctrl-C during `equipoise mediate`: what is finished is kept, nothing goes on in the background, and it can go on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rounds
from program import from_json

LIMIT = 120.0  # seconds


def prepared(folder: Path, parties: int) -> tuple[object, ...]:
    """A round's files, and the command that settles it."""
    (folder / "agreement.toml").write_text(rounds.agreement_text("bernoulli", parties))
    sent = rounds.submissions(rounds.agreement("bernoulli", parties), folder / "ledgers", (8.0, 2.0, 0.5)[:parties])
    for one in sent:
        one.save(folder / f"{one.party}.json")
    files = [f"{one.party}.json" for one in sent]
    return ("mediate", "agreement.toml", *files, "-o", "out", "--draws", 1000, "--precision", 0.1)


def interrupted(folder: Path, command: tuple[object, ...], after: int) -> tuple[int, str, str]:
    """Run a command and press Ctrl-C once so many results are kept, as a terminal does: every process is told."""
    words = [sys.executable, "-m", "equipoise", *map(str, command)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    journal, end = folder / "out" / "journal.jsonl", time.monotonic() + LIMIT
    with subprocess.Popen(words, cwd=folder, start_new_session=True, **pipes) as process:  # type: ignore[call-overload]
        while time.monotonic() < end and process.poll() is None:
            if journal.exists() and journal.read_bytes().count(b"\n") > after:
                break
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)
    return process.returncode, out, err


@pytest.mark.process
@pytest.mark.usefixtures("all_cores")
@pytest.mark.parametrize("parties", [2, pytest.param(3, marks=pytest.mark.slow)])  # of three, in processes
def test_what_is_finished_is_kept(parties: int, tmp_path: Path) -> None:
    command = prepared(tmp_path, parties)
    code, out, err = interrupted(tmp_path, command, after=1)
    assert (code, out) == (130, ""), err
    assert "Traceback" not in err
    assert err.startswith("This will take about")
    assert "What is finished is kept in out; the same command goes on." in " ".join(err.split())
    first = (tmp_path / "out" / "journal.jsonl").read_bytes().splitlines()[1]
    assert json.loads(first)["result"]
    assert not (tmp_path / "out" / "settlement.json").exists()


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.engine
@pytest.mark.usefixtures("all_cores")
def test_the_same_command_goes_on(tmp_path: Path) -> None:
    command = prepared(tmp_path, 3)
    assert interrupted(tmp_path, command, after=2)[0] == 130
    journal = tmp_path / "out" / "journal.jsonl"
    kept = journal.read_bytes()
    found = from_json(*command, cwd=tmp_path)
    assert journal.read_bytes().startswith(kept)
    (tmp_path / "out").rename(tmp_path / "earlier")
    assert from_json(*command, cwd=tmp_path)["shapley"] == found["shapley"]


COLLECTING = """
import gc, signal, time
from equipoise.cli import app

def pressed(phase, info):
    gc.callbacks.remove(pressed)
    signal.raise_signal(signal.SIGINT)

def work():
    gc.callbacks.append(pressed)
    gc.collect()
    time.sleep(60)
    print("went on")

app.app = work
app.main()
"""


@pytest.mark.process
def test_ctrl_c_during_a_garbage_collection_is_not_lost() -> None:
    found = subprocess.run([sys.executable, "-c", COLLECTING], capture_output=True, text=True, timeout=LIMIT)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "Interrupted.\n")
