"""The heartbeat of a claimed job: renews its lease, detects its loss, and releases it when told to stop."""

import logging
import threading
import time
from types import TracebackType
from typing import Self

from equipoise_service.context import Context
from equipoise_service.errors import Unavailable
from equipoise_service.jobs import queue
from equipoise_service.jobs.lease import LEASE
from equipoise_service.jobs.queue import Claim, LostJobError

LOGGER = logging.getLogger("equipoise.worker")
POLL = 0.1  # seconds between checks whether to stop


class Heartbeat:
    """A context manager that keeps a claimed job, by a thread of its own, while the block runs.

    When told to stop, the thread releases the job at once. The block may be in a long computation then; it learns of
    the release when it next stores an answer or calls `check`.
    """

    def __init__(self, context: Context, claim: Claim, *, stop: threading.Event, lease: float = LEASE) -> None:
        self.claim, self.stop = claim, stop
        self._context, self._lease = context, lease
        self._over = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"job {claim.id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        """Raise `LostJobError` if the job is known to be lost, or if the worker was told to stop."""
        if self._lost.is_set() or self.stop.is_set():
            raise LostJobError(f"job {self.claim.id} of round {self.claim.round_id} is no longer held")

    def _beat(self) -> None:
        due = time.monotonic() + self._lease / 3
        while not self._over.wait(POLL):
            try:
                if self.stop.is_set():
                    queue.release(self._context, self.claim)
                    LOGGER.info("handed back %s of round %s", self.claim.kind, self.claim.round_id)
                    self._lost.set()
                elif time.monotonic() >= due:
                    queue.renew(self._context, self.claim)
                    due = time.monotonic() + self._lease / 3
            except LostJobError:
                self._lost.set()
            except Unavailable as error:
                # The next iteration tries again.
                LOGGER.warning("%s", error)
                self._over.wait(1.0)
            if self._lost.is_set():
                return
