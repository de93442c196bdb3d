"""What is cached: made once, in nobody's way, and not for ever."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from equipoise_service.cache import SingleFlightCache


def test_different_ones_are_made_side_by_side() -> None:
    cache: SingleFlightCache[str] = SingleFlightCache(4)
    cache.get("there", lambda: "cached")
    both = threading.Barrier(2, timeout=5)

    def slow() -> str:
        both.wait()  # until the other is being made as well
        assert cache.get("there", lambda: "made again") == "cached"
        both.wait()
        return "made"

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda key: cache.get(key, slow), "ab")) == ["made", "made"]


def test_the_same_one_is_made_once() -> None:
    cache: SingleFlightCache[int] = SingleFlightCache(4)
    asked = threading.Barrier(4, timeout=5)
    begun = threading.Event()
    made = []

    def make() -> int:
        made.append(1)
        begun.wait(0.1)  # the others come in the meantime
        return len(made)

    def get(_: int) -> int:
        asked.wait()
        return cache.get("a", make)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(get, range(4))) == [1] * 4
    assert not cache._flights


def test_what_was_not_asked_for_longest_is_let_go() -> None:
    cache: SingleFlightCache[int] = SingleFlightCache(2)
    for key in ("a", "b", "a", "c"):
        cache.get(key, lambda: 1)
    assert [cache.get(key, lambda: 2) for key in ("a", "c", "b")] == [1, 1, 2]


def test_a_failure_is_not_cached() -> None:
    cache: SingleFlightCache[float] = SingleFlightCache(2)
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 / 0)
    assert cache.get("a", lambda: 1.0) == 1.0
    assert not cache._flights
