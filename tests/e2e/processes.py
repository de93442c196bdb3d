"""The service and its people as real processes, each in a folder of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ENVIRONMENT = {"COLUMNS": "120", "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"}


def command(*arguments: object) -> list[str]:
    """The program with arguments."""
    return [sys.executable, "-m", "equipoise", *(str(argument) for argument in arguments)]


class Process:
    """A process that ends with the block, if it has not ended before."""

    def __init__(
        self, arguments: list[str], log: Path, *, cwd: Path, variables: Mapping[str, str] | None = None
    ) -> None:
        self._log = log
        with log.open("a", encoding="utf-8") as errors:
            self.process = subprocess.Popen(
                arguments,
                cwd=cwd,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **ENVIRONMENT, **(variables or {})},
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> int:
        """Ask it to end, and wait."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return self.process.returncode

    def kill(self) -> None:
        """As a power cut would: nothing of it, children included, gets to do anything more."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=60)

    def said(self) -> str:
        """What it wrote to standard error."""
        return self._log.read_text(encoding="utf-8")


class Server(Process):
    """`equipoise serve`, listening."""

    def __init__(
        self,
        folder: Path,
        *options: object,
        port: int = 0,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        arguments = command("serve", "--data", folder / "data", "--port", port, "--json", *options)
        super().__init__(arguments, folder / "server.log", cwd=folder, variables=variables)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.said()
        document = json.loads(line)
        self.url: str = document["url"]
        self.operator_link: str | None = document.get("operator_link")

    @property
    def port(self) -> int:
        """Where it listens, for the next one to listen at the same place."""
        return int(self.url.rsplit(":", 1)[1])


class Worker(Process):
    """`equipoise worker`."""

    def __init__(self, folder: Path, *options: object) -> None:
        super().__init__(command("worker", "--data", folder / "data", *options), folder / "worker.log", cwd=folder)


class Home:
    """Somebody's folder, and commands typed there."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def do(self, *arguments: object, code: int = 0) -> Any:
        """Run a command with --json; what it printed."""
        done = subprocess.run(
            command(*arguments, "--json"),
            cwd=self.folder,
            capture_output=True,
            text=True,
            env={**os.environ, **ENVIRONMENT},
            timeout=300,
        )
        assert done.returncode == code, f"{arguments}: {done.stderr}{done.stdout}"
        assert "Traceback" not in done.stderr
        return json.loads(done.stdout) if done.stdout and code == 0 else done.stderr

    def begin(self, script: str) -> "subprocess.Popen[str]":
        """Start a shell script in the background."""
        return subprocess.Popen(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **ENVIRONMENT, "equipoise": " ".join(command())},
        )


def until(what: Any, seconds: float, why: str, pause: float = 0.2) -> Any:
    """The first true answer of a question that is asked again and again. A command that asks takes a core's second."""
    end = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < end, f"not within {seconds} s: {why}"
        time.sleep(pause)
