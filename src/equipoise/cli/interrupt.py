"""Ctrl-C while something computes: the process ends there and then, and nothing is raised.

NumPy and JAX call Python from C, where a KeyboardInterrupt is lost, becomes another exception, or crashes; and while a
program is compiled or runs, none is raised at all. So a thread waits for the signal in place of the main one. No
`finally` runs: only for commands that keep what they finish at once, as journals do.
"""

import os
import shutil
import signal
import socket
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType, ModuleType
from typing import Any

from equipoise._util.text import visible

INTERRUPTED = 130
SHOW_CURSOR = "\x1b[?25h"  # which a progress bar hides


@contextmanager
def ending_at_once(said: str = "") -> Iterator[None]:
    """On Ctrl-C, say so, and end this process and those that compute for it."""
    from joblib.externals.loky import reusable_executor  # here, since every command imports this module

    if threading.current_thread() is not threading.main_thread():  # which alone may ask for signals
        yield
        return
    width = max(40, shutil.get_terminal_size().columns)
    text = textwrap.fill(visible(f"Interrupted. {said}".strip()), width, break_on_hyphens=False) + "\n"
    waiting, told = socket.socketpair()  # Windows has no pipes for this
    told.setblocking(False)
    threading.Thread(target=_wait, args=(waiting, text, reusable_executor), name="interrupt", daemon=True).start()
    before = signal.signal(signal.SIGINT, _do_nothing)
    fd_before = signal.set_wakeup_fd(told.fileno())
    try:
        yield
    finally:
        signal.set_wakeup_fd(fd_before)
        signal.signal(signal.SIGINT, before)
        told.close()  # and the thread ends


def _wait(waiting: socket.socket, text: str, joblibs: ModuleType) -> None:
    """Python writes the number of each signal as it comes, whatever the main thread is at."""
    while number := waiting.recv(1):
        if number[0] == signal.SIGINT:
            with suppress(OSError):  # nobody may be listening
                os.write(2, (f"\n{SHOW_CURSOR}{text}" if os.isatty(2) else text).encode())
            try:
                _kill_workers(joblibs._executor)
            finally:
                os._exit(INTERRUPTED)
    waiting.close()


def _kill_workers(executor: Any) -> None:
    """Kill the processes that joblib keeps for the next call, if there are any."""
    for process in list(((executor and executor._processes) or {}).values()):
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """In place of raising KeyboardInterrupt."""
