"""Holding a job while it is worked on: beating, noticing that it is lost, handing it back when told to stop."""

import logging
import threading
import time
from types import TracebackType
from typing import Self

from equipoise.service.context import Context
from equipoise.service.errors import Unavailable
from equipoise.service.jobs import queue as jobs
from equipoise.service.jobs.lease import LEASE
from equipoise.service.jobs.queue import Hold, LostJobError

LOGGER = logging.getLogger("equipoise.worker")
LOOK = 0.1  # seconds between looks at whether to stop


class Holding:
    """A job that is beaten for by a thread of its own, as long as the block runs.

    When told to stop, the thread hands the job back at once. What works on the job may be deep in a compiled program;
    it finds out the next time it has an answer, or when it calls `check`.
    """

    def __init__(self, context: Context, hold: Hold, *, stop: threading.Event, lease: float = LEASE) -> None:
        self.hold, self.stop = hold, stop
        self._context, self._lease = context, lease
        self._over = threading.Event()
        self._lost = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"job {hold.id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def check(self) -> None:
        """Raise `LostJobError` if it is known to be lost, or if there is no more time for it."""
        if self._lost.is_set() or self.stop.is_set():
            raise LostJobError(f"job {self.hold.id} of round {self.hold.round_id} is no longer held")

    def _beat(self) -> None:
        due = time.monotonic() + self._lease / 3
        while not self._over.wait(LOOK):
            try:
                if self.stop.is_set():
                    jobs.hand_back(self._context, self.hold)
                    LOGGER.info("handed back %s of round %s", self.hold.kind, self.hold.round_id)
                    self._lost.set()
                elif time.monotonic() >= due:
                    jobs.beat(self._context, self.hold)
                    due = time.monotonic() + self._lease / 3
            except LostJobError:
                self._lost.set()
            except Unavailable as error:
                LOGGER.warning("%s", error)  # again at the next look
                self._over.wait(1.0)
            if self._lost.is_set():
                return
