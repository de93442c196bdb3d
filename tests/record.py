"""`pytest --record FILE`: write down when each test last ran and what it found, for runs that are too long for CI.

The file has a line for each test. A run rewrites the lines of the tests it ran, so that a long run may be made in
parts; a test that was chosen and did not run is written down as not run, unless an earlier run has a line for it.
"""

import datetime
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import run_folder
from equipoise._version import __version__
from tiers import GROUPS

ROOT = Path(__file__).parents[1]
HEAD = """# The last exhaustive runs

Written by `make exhaustive`, which runs before a release what takes too long for CI. `make release-check` wants every
line to have passed with the version that is released.

| result | version | date | commit | seconds | test |
|---|---|---|---|---|---|
"""
_LINE = re.compile(r"^\| ([a-z ]+) \| .* \| `(.*)` \|$", re.M)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", type=Path, metavar="FILE", help="write date, result and duration of each test there")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("record") is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(config.getoption("record")))


class _Recorder:
    def __init__(self, path: Path) -> None:
        self._path = path
        describe = ["git", "describe", "--always", "--dirty"]  # before the run: the tree may go on meanwhile
        self._commit = subprocess.run(describe, cwd=ROOT, capture_output=True, text=True).stdout.strip()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        found = {}
        for result, name in (("passed", "passed"), ("skipped", "skipped"), ("failed", "failed"), ("failed", "error")):
            for report in terminalreporter.stats.get(name, []):
                found[report.nodeid] = (result, report.duration)
        groups = run_folder.path() / GROUPS  # names of all that were chosen
        chosen = json.loads(groups.read_text(encoding="utf-8")) if groups.exists() else found
        before = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        self._path.write_text(page(before, chosen, found, self._commit), encoding="utf-8")


def page(before: str, chosen: Any, found: dict[str, tuple[str, float]], commit: str) -> str:
    """What is written down: earlier lines, and over them what was found of those that were chosen."""
    lines = {match[2]: match[0] for match in _LINE.finditer(before)}
    for name in chosen:
        lines.setdefault(name, f"| not run | – | – | – | – | `{name}` |")
    today = datetime.datetime.now(datetime.UTC).date()
    for name, (result, seconds) in found.items():
        lines[name] = f"| {result} | {__version__} | {today} | {commit} | {seconds:.0f} | `{name}` |"
    return HEAD + "\n".join(lines[name] for name in sorted(lines)) + "\n"
