"""The program, run in this process (`run`) or as a process of its own (`spawn`): the same arguments, the same outcome.

In this process a command takes milliseconds instead of seconds. `tests/cli/test_processes.py` runs commands both ways
and compares, so that nothing rests on the short cut.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

Completed = subprocess.CompletedProcess[str]


class Terminal(io.StringIO):
    """Somebody who types, for `run`."""

    def isatty(self) -> bool:
        return True


def run(
    *arguments: object, cwd: Path, code: int = 0, typed: Terminal | None = None, **variables: str | None
) -> Completed:
    """Run a command in this process and check its exit code; `variables` change its environment."""
    from equipoise.cli import main

    words = [str(argument) for argument in arguments]
    with _as_a_process(["equipoise", *words], cwd, _environment(variables), typed or io.StringIO()) as (out, err):
        try:
            main()
            status: Any = 0
        except SystemExit as end:
            status = end.code or 0
    return _checked(Completed(words, status, out.getvalue(), err.getvalue()), code)


def spawn(*arguments: object, cwd: Path, code: int = 0, **variables: str | None) -> Completed:
    """Run a command as a process of its own and check its exit code."""
    command = [sys.executable, "-m", "equipoise", *(str(argument) for argument in arguments)]
    environment = _environment(variables)
    return _checked(subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment), code)


def equipoise(*arguments: object, cwd: Path, code: int = 0, columns: int = 120) -> str:
    """What a command says: on standard output, or on standard error if it is to fail."""
    result = run(*arguments, cwd=cwd, code=code, COLUMNS=str(columns))
    return result.stderr if code else result.stdout


def from_json(*arguments: object, cwd: Path) -> Any:
    """What a command says with `--json`."""
    return json.loads(equipoise(*arguments, "--json", cwd=cwd))


def _environment(variables: dict[str, str | None]) -> dict[str, str]:
    found = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", **variables}
    return {name: value for name, value in found.items() if value is not None}


def _checked(result: Completed, code: int) -> Completed:
    assert result.returncode == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    return result


@contextlib.contextmanager
def _as_a_process(
    argv: list[str], cwd: Path, environment: dict[str, str], stdin: io.StringIO
) -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Arguments, folder, environment, outputs and warnings as a new process has them."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.object(sys, "argv", argv),
        mock.patch.object(sys.modules["__main__"], "__package__", None, create=True),  # or the name is pytest's
        mock.patch.object(sys, "stdin", stdin),
        mock.patch.dict(os.environ, environment, clear=True),
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.resetwarnings()
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)
        yield out, err
