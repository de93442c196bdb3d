"""Leases of jobs, and retries of what the database cannot do just now.

Whoever holds a job counts its beat up. Another worker may take a job over once it has itself seen the same beat for a
whole lease, by its own steady clock. Times of day are not compared anywhere, so a clock that jumps, on whatever
machine, neither takes a job from somebody who works on it nor keeps it with somebody who is gone.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from equipoise_service.errors import Unavailable

LOGGER = logging.getLogger("equipoise.worker")

Result = TypeVar("Result")

LEASE = 30.0  # seconds
MIN_PAUSE, MAX_PAUSE = 0.1, 5.0  # seconds before asking a database again


class LeaseMonitor:
    """Tells which running jobs have an expired lease, from what one worker has seen of their beats."""

    def __init__(self, lease: float = LEASE, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.lease = lease
        self._clock = clock
        self._seen: dict[int, tuple[str | None, int, float]] = {}

    def stalled(self, running: Iterable[tuple[int, str | None, int]]) -> list[int]:
        """Of all running jobs (id, owner, beat), those whose beat has not moved for a lease; others are forgotten."""
        now = self._clock()
        seen: dict[int, tuple[str | None, int, float]] = {}
        for job, owner, beat in running:
            before = self._seen.get(job)
            since = before[2] if before is not None and before[:2] == (owner, beat) else now
            seen[job] = (owner, beat, since)
        self._seen = seen
        return [job for job, (_, _, since) in seen.items() if now - since >= self.lease]


def retry(action: Callable[[], Result], stop: threading.Event) -> Result:
    """Retry an action while the database cannot be used, with growing pauses, until told to stop.

    Whatever the action has in hand is thus not lost when the database restarts or the disk is full for a while.
    """
    pause = MIN_PAUSE
    while True:
        try:
            return action()
        except Unavailable as error:
            LOGGER.warning("%s; waiting %.1f s", error, pause)
            if stop.wait(pause):
                raise
            pause = min(2 * pause, MAX_PAUSE)
