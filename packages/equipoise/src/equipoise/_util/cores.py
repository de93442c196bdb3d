"""The cores that this process may use, and a context in which each thread keeps to a single core."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

TURN = 2e-4  # seconds between switches of Python's threads


def usable_cores() -> int:
    """Return how many cores this process may use, which its affinity mask may limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Users:
    """The state that overlapping `one_core_each` blocks share, guarded by `lock`."""

    lock = threading.Lock()
    number = 0
    limits: threadpool_limits | None = None
    interval = 0.0


@contextmanager
def one_core_each() -> Iterator[None]:
    """Keep each thread to a single core until the last of overlapping blocks has ended.

    BLAS runs single-threaded. Python's threads switch every 0.2 ms instead of every 5 ms: calls on small matrices
    release the interpreter after some 0.1 ms, and would otherwise wait fifty times as long to get it back. Both are
    settings of the whole process. Blocks are therefore counted: if each restored the settings it met, overlapping
    blocks could leave ours in force for good.
    """
    with _Users.lock:
        _Users.number += 1
        if _Users.number == 1:
            _Users.limits = threadpool_limits(1)
            _Users.interval = sys.getswitchinterval()
            sys.setswitchinterval(TURN)
    try:
        yield
    finally:
        with _Users.lock:
            _Users.number -= 1
            if _Users.number == 0 and _Users.limits is not None:
                _Users.limits.restore_original_limits()
                _Users.limits = None
                sys.setswitchinterval(_Users.interval)
