"""BLAS is single-threaded and threads take short turns while anybody wants it, and all is as before afterwards."""

import sys

import numpy as np  # noqa: F401  (loads BLAS)
import pytest
from threadpoolctl import threadpool_info

from equipoise._util.cores import TURN, one_core_each


def threads() -> list[int]:
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_overlapping_blocks_leave_things_as_they_were() -> None:
    before, interval = threads(), sys.getswitchinterval()
    assert before
    assert interval != TURN
    first, second = one_core_each(), one_core_each()
    first.__enter__()
    second.__enter__()
    assert set(threads()) == {1}
    first.__exit__(None, None, None)
    assert set(threads()) == {1}
    assert sys.getswitchinterval() == pytest.approx(TURN)
    second.__exit__(None, None, None)
    assert threads() == before
    assert sys.getswitchinterval() == pytest.approx(interval)
