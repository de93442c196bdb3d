"""The latest few of what takes long to make."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Kept(Generic[Made]):
    """At most so many, by key. They are made one at a time: many who ask for a new one would all make it at once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._made: OrderedDict[Hashable, Made] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The one with this key, made now if it is not there."""
        with self._lock:
            if key not in self._made:
                self._made[key] = make()
                while len(self._made) > self.most:
                    self._made.popitem(last=False)
            self._made.move_to_end(key)
            return self._made[key]
