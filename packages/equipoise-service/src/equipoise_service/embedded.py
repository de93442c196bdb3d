"""The worker that a server brings along: a process of its own, so that sampling does not slow the server down.

It ends with its server, however that ends: it reads from a pipe that only the server holds, and stops when the pipe is
closed. If it ends by itself it is started again, later and later if it keeps ending. What it needs to know comes
through the pipe, too: the address of a database may have a password in it, and command lines are seen by everybody.
"""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import IO

from equipoise.errors import EquipoiseError
from equipoise_service.context import Context
from equipoise_service.jobs.lease import LEASE
from equipoise_service.jobs.worker import run_until_signalled
from equipoise_service.logs import configure_logging

LOGGER = logging.getLogger("equipoise.worker")  # by name: as a program, this module is called otherwise

MIN_PAUSE, MAX_PAUSE = 1.0, 60.0  # seconds before it is started again
STEADY = 60.0  # seconds after which it counts as having started well
GRACE = 5.0  # seconds to end by itself
NICENESS = 10  # the server comes first


class EmbeddedWorker:
    """One worker process, kept alive from `start` to `stop`."""

    def __init__(self, folder: Path, url: str | None = None, *, lease: float = LEASE) -> None:
        self._order = json.dumps({"folder": str(folder), "database": url, "lease": lease}).encode() + b"\n"
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep_alive, name="embedded worker", daemon=True)

    @property
    def pid(self) -> int | None:
        """Id of the process, while there is one."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def start(self) -> None:
        """Start the process, and a thread that starts it again if it ends."""
        self._spawn()
        self._thread.start()

    def stop(self) -> None:
        """End the process; its job waits for another worker."""
        self._stop.set()
        with self._lock:
            process = self._process
        if process is not None:
            _close_pipe(process)
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._thread.ident is not None:
            self._thread.join()

    def _spawn(self) -> None:
        with self._lock:
            if self._stop.is_set():
                return
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "equipoise_service.embedded"],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
            assert process.stdin is not None
            with suppress(BrokenPipeError):  # if it ended at once, this is noticed where it is waited for
                process.stdin.write(self._order)
                process.stdin.flush()
            self._process = process

    def _keep_alive(self) -> None:
        pause = MIN_PAUSE
        while not self._stop.is_set():
            began = time.monotonic()
            assert self._process is not None
            status = self._process.wait()
            if self._stop.is_set():
                return
            _close_pipe(self._process)
            pause = MIN_PAUSE if time.monotonic() - began > STEADY else pause
            LOGGER.warning("the worker ended with status %d; it is started again in %.0f s", status, pause)
            self._stop.wait(pause)
            pause = min(2 * pause, MAX_PAUSE)
            self._spawn()


def _close_pipe(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.close()


def _child(orders: IO[bytes]) -> None:
    """Be the worker, as the first line of the pipe says."""
    order = json.loads(orders.readline())
    stop = threading.Event()

    def listen() -> None:
        while orders.read(1):
            pass
        stop.set()

    os.nice(NICENESS)
    configure_logging()
    LOGGER.setLevel(logging.INFO)
    threading.Thread(target=listen, name="pipe", daemon=True).start()
    status = 0
    try:
        context = Context.open(Path(order["folder"]), order["database"])
        run_until_signalled(context, stop=stop, lease=order["lease"])
    except EquipoiseError as error:
        LOGGER.error("%s", error)
        status = error.exit_code
    logging.shutdown()
    os._exit(status)  # the thread that listens holds the pipe, and would hold up the end


if __name__ == "__main__":
    _child(sys.stdin.buffer)
