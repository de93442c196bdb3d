"""A cache of the most recently used results."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Found = TypeVar("Found")


class Recent(Generic[Found]):
    """A cache of the `most` recently used results. Two threads that ask for a missing result both compute it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, Found] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, name: Hashable, make: Callable[[], Found]) -> Found:
        """Return the result under a name; compute it with `make` if it is not cached."""
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
                return self._kept[name]
        made = make()
        with self._lock:
            self._kept[name] = made
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return made
