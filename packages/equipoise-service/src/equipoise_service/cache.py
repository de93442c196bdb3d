"""A single-flight LRU cache: the latest few values that take long to compute."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass
class _Flight:
    """One value that is being computed now, and how many threads are in here for it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    threads: int = 0


class SingleFlightCache(Generic[Value]):
    """At most `max_size` values, by key; the one that was not asked for longest goes first.

    Threads that ask for the same new value wait for the one that computes it; nobody waits for another key.
    """

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        self._lock = threading.Lock()  # of what is below, never held while something is computed
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._flights: dict[Hashable, _Flight] = {}  # only while a thread is there, so no more than threads

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """The value of this key, computed now if it is not there."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            flight = self._flights.setdefault(key, _Flight())
            flight.threads += 1
        try:
            with flight.lock:
                return self._compute_once(key, compute)
        finally:
            with self._lock:
                flight.threads -= 1
                if not flight.threads:
                    del self._flights[key]

    def _compute_once(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        with self._lock:
            if key in self._values:  # from the thread that had the lock before
                return self._values[key]
        value = compute()
        with self._lock:
            self._values[key] = value
            while len(self._values) > self.max_size:
                self._values.popitem(last=False)
        return value
