"""Best of several runs; comparisons are ratios within one run, because the machines are noisy."""

import time
from collections.abc import Callable


def best_seconds(action: Callable[[], object], repeats: int = 7) -> float:
    """Shortest of several wall-clock times."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)
