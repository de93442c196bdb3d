"""Ctrl-C during `equipoise mediate`: what is finished is kept, nothing goes on in the background, and it can go on."""

import json
import os
import pty
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import rounds
from equipoise.cli.interrupt import exit_on_interrupt
from program import from_json

LIMIT = 120.0  # seconds


@pytest.fixture(autouse=True)
def not_ignored() -> Iterator[None]:
    """Where this is run in the background, a shell may have it ignore Ctrl-C, which processes would inherit."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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
        out, err = process.communicate(timeout=LIMIT)  # workers hold the pipes, too: none is left
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


BUSY = {
    # where an exception would be dropped
    "garbage collection": """
import gc
gc.callbacks.append(lambda phase, info: signal.raise_signal(signal.SIGINT))
gc.collect()
""",
    # where none is raised, as in a compiled program
    "C": """
threading.Timer(0.5, signal.raise_signal, (signal.SIGINT,)).start()
hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
""",
}

COMMAND = """
import hashlib, signal, threading, time
from equipoise.cli.interrupt import exit_on_interrupt

with exit_on_interrupt("Nothing is kept."):
"""


@pytest.mark.process
@pytest.mark.parametrize("code", BUSY.values(), ids=BUSY)
def test_ctrl_c_ends_what_computes(code: str) -> None:
    code = COMMAND + textwrap.indent(f"{code}\ntime.sleep({LIMIT})", "    ")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "Interrupted. Nothing is kept.\n")


def test_afterwards_ctrl_c_raises_again() -> None:
    before = signal.getsignal(signal.SIGINT)
    with exit_on_interrupt():
        (waiting,) = (one for one in threading.enumerate() if one.name == "interrupt")
        assert signal.getsignal(signal.SIGINT) is not before
    assert signal.getsignal(signal.SIGINT) is before
    waiting.join(LIMIT)
    assert not waiting.is_alive()


@pytest.mark.process
def test_whoever_ignores_ctrl_c_goes_on() -> None:
    """As what a script starts in the background does."""
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)" + COMMAND
    code += "    signal.raise_signal(signal.SIGINT); time.sleep(0.2); print('went on')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert (found.returncode, found.stdout, found.stderr) == (0, "went on\n", "")


@pytest.mark.process
def test_a_terminal_is_left_in_order() -> None:
    """A progress bar hides the cursor."""
    ours, theirs = pty.openpty()
    code = COMMAND + "    signal.raise_signal(signal.SIGINT); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stderr=theirs):
        os.close(theirs)
        said = b""
        while b"kept." not in said:
            said += os.read(ours, 1000)
    os.close(ours)
    assert b"\x1b[?25h" in said
