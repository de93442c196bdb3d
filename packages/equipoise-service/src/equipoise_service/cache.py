"""A single-flight LRU cache for values that are expensive to compute."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass
class _Flight:
    """A value that is being computed now, and the number of threads that wait for it or compute it."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    threads: int = 0


class SingleFlightCache(Generic[Value]):
    """A cache of at most `max_size` values by key, which evicts the least recently used value first.

    Threads that ask for the same missing key wait for the one thread that computes it. Threads that ask for other keys
    do not wait.
    """

    def __init__(self, max_size: int) -> None:
        self.max_size = max_size
        # Guards the two dictionaries below. It is never held while a value is computed.
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        # A flight is removed when its last thread leaves, so there are never more flights than threads.
        self._flights: dict[Hashable, _Flight] = {}

    def get(self, key: Hashable, compute: Callable[[], Value]) -> Value:
        """Return the value of this key, after computing it if it is not cached."""
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
            # The thread that held the flight's lock before may have computed the value.
            if key in self._values:
                return self._values[key]
        value = compute()
        with self._lock:
            self._values[key] = value
            while len(self._values) > self.max_size:
                self._values.popitem(last=False)
        return value
