"""What was worked out lately, found again by its name."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Found = TypeVar("Found")


class Recent(Generic[Found]):
    """Keep the results that were last asked for; two threads that ask for one at once both work it out."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[Hashable, Found] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, name: Hashable, make: Callable[[], Found]) -> Found:
        """Return the result of that name, made now if it is not kept."""
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
