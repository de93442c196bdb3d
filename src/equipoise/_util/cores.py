"""Cores that this process may use, and BLAS that keeps to one of them."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


def usable_cores() -> int:
    """Cores this process may run on: fewer than the machine has, where its affinity mask says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Users:
    """Blocks that are under way, which all want BLAS single-threaded."""

    lock = threading.Lock()
    number = 0
    limits: threadpool_limits | None = None


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Run BLAS single-threaded within the block, and as before once the last of overlapping blocks has ended.

    The limit is one of the process: blocks that each put back what they met would leave it set for good.
    """
    with _Users.lock:
        _Users.number += 1
        if _Users.number == 1:
            _Users.limits = threadpool_limits(1)
    try:
        yield
    finally:
        with _Users.lock:
            _Users.number -= 1
            if _Users.number == 0 and _Users.limits is not None:
                _Users.limits.restore_original_limits()
                _Users.limits = None
