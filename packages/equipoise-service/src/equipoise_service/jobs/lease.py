"""Leases of jobs, and retries while the database is unavailable.

The worker that holds a job increments its beat. Another worker may take the job over once it has itself seen the same
beat for a whole lease, by its own monotonic clock. No times of day are compared. So a clock that jumps, on any machine,
neither takes a job from a live worker nor keeps it with a dead one.
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
    """Observer of the beats of running jobs, which tells one worker whose leases have expired."""

    def __init__(self, lease: float = LEASE, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.lease = lease
        self._clock = clock
        self._seen: dict[int, tuple[str | None, int, float]] = {}

    def stalled(self, running: Iterable[tuple[int, str | None, int]]) -> list[int]:
        """Return the ids of those running jobs (id, owner, beat) whose beat has not changed for a whole lease.

        The monitor forgets jobs that are not among them any more.
        """
        now = self._clock()
        seen: dict[int, tuple[str | None, int, float]] = {}
        for job, owner, beat in running:
            before = self._seen.get(job)
            since = before[2] if before is not None and before[:2] == (owner, beat) else now
            seen[job] = (owner, beat, since)
        self._seen = seen
        return [job for job, (_, _, since) in seen.items() if now - since >= self.lease]


def retry(action: Callable[[], Result], stop: threading.Event) -> Result:
    """Retry an action while the database is unavailable, with growing pauses, until told to stop.

    A result in memory thus survives a restart of the database or a disk that is full for a while.
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
