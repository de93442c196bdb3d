"""Progress of long work: how far it is, the time left, a bar on a terminal and lines elsewhere."""

import io
from collections.abc import Iterator
from contextlib import redirect_stderr
from unittest import mock

import pytest

from equipoise.inference import progress
from equipoise.inference.progress import Meter, meter, phase_of


class Clock:
    """A clock that is put forward by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Iterator[Clock]:
    found = Clock()
    with mock.patch.object(progress, "monotonic", found):
        yield found


def test_time_left_is_told_from_what_was_sampled(clock: Clock) -> None:
    """Ten scenarios of 2 rounds: compiled in 50 s, then a second each; two that were kept take none."""
    seen: list[str] = []
    found = Meter(20, lambda one: seen.append(one.words))
    found.skip(2, 4)
    with found.phase("valuing", 4, 2) as tick:
        clock.now += 50
        tick(2)
        assert (found.words, found.left) == ("valuing: 3 of 6", None)
        for _ in range(3):
            clock.now += 1
            tick(2)
    assert found.left == pytest.approx(4.0)  # 4 of 10 are left
    assert (found.done, found.planned) == (12, 20)
    assert seen[0] == "valuing: 2 of 6"
    clock.now += 1_000  # between phases nothing is sampled
    assert found.left == pytest.approx(4.0)
    found.expect(2)
    assert found.left == pytest.approx(1.0)


def test_more_work_than_planned_is_planned_then() -> None:
    found = Meter(10, lambda _: None)
    with found.phase("valuing", 8, 2) as tick:
        assert found.planned == 16
        for _ in range(20):  # chains that did not agree at once
            tick(1)
            assert found.done <= found.planned
            assert found.finished <= 8
    assert found.done == found.planned == 16


def test_time_left_is_not_told_once_a_phase_takes_longer_than_planned(clock: Clock) -> None:
    """In version 0.14 "about 1 second left" stood for the five minutes that chains took to agree."""
    said = io.StringIO()
    with redirect_stderr(said), meter(True, 10) as found:
        assert found is not None
        with found.phase("valuing", 10, 1) as tick:
            for _ in range(10):
                clock.now += 1
                tick(1)
            assert not found.is_late
            for _ in range(4):
                clock.now += 100
                tick(1)
                assert found.left is None
        assert not found.is_late
    assert "second left" not in said.getvalue()
    assert said.getvalue().splitlines()[-1].endswith("gone, longer than planned: some chains do not agree yet")


def test_lines_where_there_is_no_terminal(clock: Clock) -> None:
    said = io.StringIO()
    with redirect_stderr(said), meter(True, 40) as found:
        assert found is not None
        with found.phase("valuing", 30, 1) as tick:
            for _ in range(30):
                clock.now += 5
                tick(1)
        with found.phase("rewards", 10, 1) as tick:
            for _ in range(10):
                clock.now += 1
                tick(1)
    lines = said.getvalue().splitlines()
    assert lines[0] == "valuing"
    assert lines[1] == "valuing: 6 of 30, 30 seconds gone, about 3 minutes left"
    assert len(lines) == 1 + 5 + 1  # a phase's first, every half minute, the next phase's first
    assert lines[-1] == "rewards, about 50 seconds left"


def test_nothing_is_said_unless_wanted() -> None:
    said = io.StringIO()
    with redirect_stderr(said):
        for wanted in (None, False):
            with meter(wanted, 1) as found:
                assert found is None
            with phase_of(wanted, "valuing", 1, 1) as tick:
                assert tick is None
    assert said.getvalue() == ""


def test_a_bar_on_a_terminal() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    said = Terminal()
    with (
        redirect_stderr(said),
        mock.patch.dict("os.environ", {"TERM": "xterm", "COLUMNS": "80"}),
        phase_of(None, "valuing 3 coalitions", 3, 1) as tick,
    ):
        assert tick is not None
        tick(1)
    assert "valuing 3 coalitions: 1 of 3" in said.getvalue()
