"""The embedded worker: a child process of the server, so that sampling does not slow the server down.

The worker reads from a pipe whose other end only the server holds. When the server ends, for whatever reason, the pipe
closes and the worker stops. If the worker ends by itself, the server restarts it, with growing pauses if it keeps
ending. The server also sends the worker's settings through the pipe: a database URL may contain a password, and every
user of the machine can see command lines.
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

# Not `__name__`, because that is `__main__` when this module runs as a program.
LOGGER = logging.getLogger("equipoise.worker")

# Seconds to wait before a restart.
MIN_PAUSE, MAX_PAUSE = 1.0, 60.0
# A worker that ran for this many seconds started successfully, so the pause is reset.
STEADY = 60.0
# Seconds that a worker has to end by itself before it is killed.
GRACE = 5.0
# Lowers the worker's priority, so that the server stays responsive.
NICENESS = 10


class EmbeddedWorker:
    """A worker process that is kept alive from `start` to `stop`."""

    def __init__(self, folder: Path, url: str | None = None, *, lease: float = LEASE) -> None:
        self._order = json.dumps({"folder": str(folder), "database": url, "lease": lease}).encode() + b"\n"
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep_alive, name="embedded worker", daemon=True)

    @property
    def pid(self) -> int | None:
        """The id of the process, or None if none is running."""
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def start(self) -> None:
        """Start the process, and a thread that restarts it if it ends."""
        self._spawn()
        self._thread.start()

    def stop(self) -> None:
        """End the process. Its job then waits for another worker."""
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
            # If the process ended at once, `_keep_alive` notices that.
            with suppress(BrokenPipeError):
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
    """Run the worker with the settings in the first line of the pipe."""
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
    # A normal exit would wait for the listening thread, which is blocked reading from the pipe.
    os._exit(status)


if __name__ == "__main__":
    _child(sys.stdin.buffer)
