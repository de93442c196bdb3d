"""How many cores this process may use."""

import os

THREADS_VARIABLE = "NPROC"  # of worker processes, which keep to one core; XLA reads it when it starts


def usable_cores() -> int:
    """Cores this process may run on: fewer than the machine has, where its affinity mask says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
