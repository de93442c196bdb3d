"""`pytest --record FILE`: write down what a run found, for runs that are too long to be repeated at every change."""

import datetime
import platform
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from equipoise._version import __version__
from equipoise.cores import usable_cores

ROOT = Path(__file__).parents[1]
PAGE = """# The last exhaustive run

Written by `make exhaustive`, which runs before a release what takes too long for CI: commit it with the release.

| version | date | commit | machine | minutes | passed | failed | skipped | result |
|---|---|---|---|---|---|---|---|---|
| {version} | {date} | {commit} | {machine} | {minutes:.0f} | {passed} | {failed} | {skipped} | {result} |

| seconds | test |
|---|---|
{tests}
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, metavar="FILE", help="write result, date and durations to this file")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("record") is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(config.getoption("record")))


class _Recorder:
    def __init__(self, path: Path) -> None:
        self._path, self._began = path, time.monotonic()

    def pytest_terminal_summary(self, terminalreporter: Any, exitstatus: int) -> None:
        stats = terminalreporter.stats
        counts = {
            "passed": len(stats.get("passed", [])),
            "failed": len(stats.get("failed", [])) + len(stats.get("error", [])),
            "skipped": len(stats.get("skipped", [])),
        }
        minutes = (time.monotonic() - self._began) / 60
        seconds = {report.nodeid.split("@")[0]: report.duration for report in stats.get("passed", [])}
        self._path.write_text(page(counts, exitstatus, minutes, seconds), encoding="utf-8")


def page(counts: dict[str, int], exitstatus: int, minutes: float, seconds: dict[str, float]) -> str:
    """What is written down; only a run in which everything ran and nothing failed has passed."""
    if exitstatus or counts["failed"]:
        result = "failed"
    else:
        result = "passed" if counts["passed"] and not counts["skipped"] else "incomplete"
    longest = sorted(seconds.items(), key=lambda one: -one[1])
    return PAGE.format(
        version=__version__,
        date=datetime.datetime.now(datetime.UTC).date(),
        commit=_commit(),
        machine=f"{platform.machine()}, {usable_cores()} cores",
        minutes=minutes,
        result=result,
        tests="\n".join(f"| {time:.0f} | `{name}` |" for name, time in longest),
        **counts,
    )


def _commit() -> str:
    found = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() or "unknown"
