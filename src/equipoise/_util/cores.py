"""How many cores this process may use."""

import os


def usable_cores() -> int:
    """Cores this process may run on: fewer than the machine has, where its affinity mask says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
