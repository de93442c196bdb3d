"""Kill a release at every step and look at what is left; run by `test_crash.py`, as a process of its own.

    python crash_sweep.py FOLDER STRIDE [careless]

Its own, because it forks for each step, and the tests' own process has threads that forking would cut off.

A child process runs a release and writes its submission, as the command line does, under a trace function that counts
every line executed in Equipoise's own release, ledger, mechanism, key and output code, and kills the process (SIGKILL:
no clean-up, no `finally`) at the n-th one. n runs from the first step to the last.
"""

import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import equipoise.party.release as release_module
from builders import linear
from equipoise.cli.party import write_submission
from equipoise.party.ledger import Ledger
from equipoise.party.mechanism import perturb
from equipoise.party.release import release, resend
from equipoise.protocol.submission import Submission

AGREED = linear(1)
TABLE = np.ones((10, 2))
WATCHED = (
    "party/release.py",
    "party/chain.py",
    "party/ledger.py",
    "party/mechanism.py",
    "protocol/keys.py",
    "_util/files.py",
    "cli/party.py",
)


def run_release(folder: Path) -> None:
    submission = release(AGREED, TABLE, party="north", epsilon=0.2, ledger=folder / "l", cap_zcdp=10.0)
    write_submission(submission, folder / "out.json")


def killed_at(step: int, folder: Path) -> bool:
    """Run a release in a child that is killed at a step; tell whether it was (rather than finishing first)."""
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)  # a child that hangs is a failure, not a long wait
            _count_down(step, folder)
            run_release(folder)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def _count_down(step: int, folder: Path) -> None:
    left = step

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(WATCHED):
            return None
        if event == "line":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    def noise_was_drawn(*arguments: Any, **options: Any) -> list[int]:
        noisy = perturb(*arguments, **options)
        (folder / "noise-drawn").touch()
        return noisy

    setattr(release_module, "perturb", noise_was_drawn)  # noqa: B010  (the module does not export it)
    sys.settrace(trace)


def check_aftermath(folder: Path) -> str:
    """Whatever happened: readable ledger; anything that got out is recorded; what is stored can be sent again."""
    ledger = Ledger(folder / "l")
    begun = (folder / "l").exists() and (folder / "l").stat().st_size > 0
    spends = ledger.read().spends if begun else []
    assert len(spends) <= 1
    if (folder / "noise-drawn").exists():
        assert spends, "noise was drawn without a recorded spend"
    if (folder / "out.json").exists():
        submission = Submission.load(folder / "out.json")
        submission.check(AGREED)
        assert ledger.accounts_for(submission), "a submission got out that the ledger does not know"
        assert resend(AGREED, party="north", ledger=folder / "l") == submission
        return "sent"
    if spends and spends[0].finished:
        resend(AGREED, party="north", ledger=folder / "l").check(AGREED)
        return "stored"
    return "spent" if spends else "nothing"


def sweep(tmp_path: Path, stride: int) -> dict[str, int]:
    """Run to the end, checking what every kill leaves behind; how often each outcome was seen, and the steps."""
    # Everything is imported and warm before the fork, so the children's steps are the release's own.
    (tmp_path / "warm").mkdir()
    run_release(tmp_path / "warm")
    seen: dict[str, int] = {"steps": 0}
    for step in range(1, 100_000, stride):
        folder = tmp_path / str(step)
        folder.mkdir()
        killed = killed_at(step, folder)
        outcome = check_aftermath(folder)
        seen[outcome] = seen.get(outcome, 0) + 1
        if not killed:
            assert outcome == "sent"
            seen["steps"] = step
            return seen
        # Another attempt works after any crash, and costs what it costs: twice the spend if the first was recorded.
        again = release(
            AGREED,
            TABLE,
            party="north",
            epsilon=0.2,
            ledger=folder / "l",
            again=True,
            cap_zcdp=None if (folder / "l").exists() else 10.0,
        )
        assert Ledger(folder / "l").accounts_for(again)
        assert Ledger(folder / "l").read().total_zcdp == pytest.approx(0.1 if outcome == "nothing" else 0.2)
    raise AssertionError("the release never finished")


def careless(*arguments: Any, **options: Any) -> Submission:
    """A release that draws noise first and puts the spend on disk afterwards."""
    getattr(release_module, "perturb")([0], sensitivity=2**32, zcdp=0.1)  # noqa: B009
    return release_module.release(*arguments, **options)


if __name__ == "__main__":
    if sys.argv[3:] == ["careless"]:
        release = careless
    sys.stdout.write(json.dumps(sweep(Path(sys.argv[1]), int(sys.argv[2]))))
