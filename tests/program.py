"""The program as a real process, of which both outputs matter; `cli.test_cli` has the simpler ways to run it."""

import os
import subprocess
import sys
from pathlib import Path


def run(*arguments: object, cwd: Path, code: int = 0, **variables: str) -> "subprocess.CompletedProcess[str]":
    """Run the program and check its exit code; `variables` are added to its environment."""
    command = [sys.executable, "-m", "equipoise", *(str(argument) for argument in arguments)]
    environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", **variables}
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=environment)
    assert result.returncode == code, result.stderr + result.stdout
    assert "Traceback" not in result.stderr
    return result
