"""BLAS is single-threaded while anybody wants it, and as before afterwards."""

import numpy as np  # noqa: F401  (loads BLAS)
from threadpoolctl import threadpool_info

from equipoise._util.cores import single_threaded_blas


def threads() -> list[int]:
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_overlapping_blocks_leave_things_as_they_were() -> None:
    before = threads()
    assert before
    first, second = single_threaded_blas(), single_threaded_blas()
    first.__enter__()
    second.__enter__()
    assert set(threads()) == {1}
    first.__exit__(None, None, None)
    assert set(threads()) == {1}
    second.__exit__(None, None, None)
    assert threads() == before
