"""Ctrl-C while something computes: the process ends there and then, and nothing is raised.

NumPy and JAX call Python from C, where a KeyboardInterrupt is lost, becomes another exception, or crashes; and while a
program is compiled or runs, none is raised at all. So a thread waits for the signal in place of the main one. No
`finally` runs: only for commands that keep what they finish at once, as journals do.
"""

import os
import shutil
import signal
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from equipoise._util.text import visible

INTERRUPTED = 130
SHOW_CURSOR = "\x1b[?25h"  # which a progress bar hides


@contextmanager
def ending_at_once(said: str = "") -> Iterator[None]:
    """On Ctrl-C, say so, and end this process and those that compute for it."""
    from equipoise.inference.processes import kill_processes  # loads JAX, as does what is computed here

    if threading.current_thread() is not threading.main_thread():  # which alone may ask for signals
        yield
        return
    width = max(40, shutil.get_terminal_size().columns)
    text = textwrap.fill(visible(f"Interrupted. {said}".strip()), width, break_on_hyphens=False) + "\n"
    waiting, told = os.pipe()
    os.set_blocking(told, False)
    threading.Thread(target=_wait, args=(waiting, text, kill_processes), name="interrupt", daemon=True).start()
    before = signal.signal(signal.SIGINT, _do_nothing)
    fd_before = signal.set_wakeup_fd(told)
    try:
        yield
    finally:
        signal.set_wakeup_fd(fd_before)
        signal.signal(signal.SIGINT, before)
        os.close(told)  # and the thread ends


def _wait(waiting: int, text: str, kill_processes: Callable[[], None]) -> None:
    """Python writes the number of each signal as it comes, whatever the main thread is at."""
    while number := os.read(waiting, 1):
        if number[0] == signal.SIGINT:
            with suppress(OSError):  # nobody may be listening
                os.write(2, (f"\n{SHOW_CURSOR}{text}" if os.isatty(2) else text).encode())
            try:
                kill_processes()
            finally:
                os._exit(INTERRUPTED)
    os.close(waiting)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """In place of raising KeyboardInterrupt."""
