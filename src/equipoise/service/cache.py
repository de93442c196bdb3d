"""The latest few of what takes long to make."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Made = TypeVar("Made")


@dataclass
class _Making:
    """One that is being made now, and how many are in here for it."""

    turn: threading.Lock = field(default_factory=threading.Lock)
    present: int = 0


class Kept(Generic[Made]):
    """At most so many, by key. Many who ask for the same new one do not all make it; nobody waits for another key."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()  # of what is below, never held while something is made
        self._made: OrderedDict[Hashable, Made] = OrderedDict()
        self._making: dict[Hashable, _Making] = {}  # only while somebody is there, so no more than threads

    def get(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The one with this key, made now if it is not there."""
        with self._lock:
            if key in self._made:
                self._made.move_to_end(key)
                return self._made[key]
            making = self._making.setdefault(key, _Making())
            making.present += 1
        try:
            with making.turn:
                return self._made_once(key, make)
        finally:
            with self._lock:
                making.present -= 1
                if not making.present:
                    del self._making[key]

    def _made_once(self, key: Hashable, make: Callable[[], Made]) -> Made:
        with self._lock:
            if key in self._made:  # by whoever had the turn before
                return self._made[key]
        made = make()
        with self._lock:
            self._made[key] = made
            while len(self._made) > self.most:
                self._made.popitem(last=False)
        return made
