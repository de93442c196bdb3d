"""Ctrl-C during a computation: the process ends at once, and no exception is raised.

NumPy and SciPy call Python from C, where a KeyboardInterrupt is lost, becomes another exception, or crashes; while they
compute, none is raised at all. A thread therefore waits for the signal instead of the main one. No `finally` block
runs, so this is only for commands that store each finished result at once, as journals do.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from equipoise._util.text import paragraph

INTERRUPTED = 130
SHOW_CURSOR = "\x1b[?25h"  # a progress bar hides the cursor


@contextmanager
def exit_on_interrupt(said: str = "") -> Iterator[None]:
    """On Ctrl-C, print a message, then end this process and its worker processes."""
    # Only the main thread may ask for signals.
    in_main_thread = threading.current_thread() is threading.main_thread()
    # Somebody else handles the signal, or ignores it, as nohup does.
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    text = paragraph(f"Interrupted. {said}".strip()) + "\n"
    # Windows cannot use pipes as wake-up descriptors.
    waiting, told = socket.socketpair()
    # Closing this end makes the thread end.
    with told:
        told.setblocking(False)
        threading.Thread(target=_wait, args=(waiting, text), name="interrupt", daemon=True).start()
        before = signal.set_wakeup_fd(told.fileno())
        signal.signal(signal.SIGINT, _do_nothing)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.set_wakeup_fd(before)


def _wait(waiting: socket.socket, text: str) -> None:
    """Wait for the number that Python writes when a signal arrives, even if the main thread is busy; then end."""
    with waiting:
        while number := waiting.recv(1):
            if number[0] == signal.SIGINT:
                try:
                    # Nobody may be reading standard error.
                    with suppress(OSError):
                        os.write(2, (f"\n{SHOW_CURSOR}{text}" if os.isatty(2) else text).encode())
                    _kill_workers()
                finally:
                    os._exit(INTERRUPTED)


def _kill_workers() -> None:
    """Kill the processes that joblib keeps for the next call, if it is loaded and has any."""
    loky: Any = sys.modules.get("joblib.externals.loky.reusable_executor")
    executor = loky and loky._executor
    for process in list(((executor and executor._processes) or {}).values()):
        # The process may have ended.
        with suppress(OSError):
            os.kill(process.pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Handle the signal without raising KeyboardInterrupt."""
