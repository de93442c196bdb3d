"""Cores that this process may use, and threads that keep to one each."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

TURN = 2e-4  # seconds


def usable_cores() -> int:
    """Cores this process may run on: fewer than the machine has, where its affinity mask says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Users:
    """Blocks that are under way."""

    lock = threading.Lock()
    number = 0
    limits: threadpool_limits | None = None
    interval = 0.0


@contextmanager
def one_core_each() -> Iterator[None]:
    """Let threads keep to one core each, until the last of overlapping blocks has ended.

    BLAS runs single-threaded. Threads of Python take turns every 0.2 ms in place of 5: calls on small matrices let go
    of the interpreter after some 0.1 ms, and would then wait for it for fifty times as long. These are settings of the
    process: blocks that each put back what they met would leave them set for good.
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
