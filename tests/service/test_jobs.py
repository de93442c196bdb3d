"""Jobs: one worker has one at a time, lost workers are followed by others, and who lost a job changes nothing."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from equipoise_service.context import Context
from equipoise_service.db.tables import Answer, Job, Round
from equipoise_service.errors import Unavailable
from equipoise_service.jobs import queue
from equipoise_service.jobs.heartbeat import Heartbeat
from equipoise_service.jobs.journal import DatabaseJournal
from equipoise_service.jobs.lease import LeaseMonitor, retry
from equipoise_service.jobs.queue import Claim, LostJobError

INPUTS = "ab" * 32
ROUND = "round1"


class Clock:
    """A steady clock that tests move."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    opened = Context.open(tmp_path / "data")
    with opened.database.writing() as session:
        for name in (ROUND, "round2"):
            session.add(Round(id=name, title="", agreement_json="{}", identity="0" * 64, state="settling", created=1))
    yield opened
    opened.close()


def add(context: Context, kind: str, number: int, round_id: str = ROUND) -> int:
    with context.database.writing() as session:
        job = Job(
            round_id=round_id, kind=kind, digest=f"{number:064d}", payload_json="{}", state="waiting", created=number
        )
        session.add(job)
        session.flush()
        return job.id


def row(context: Context, job: int) -> Job:
    with context.database.reading() as session:
        return session.scalars(select(Job).where(Job.id == job)).one()


def claimed(context: Context, monitor: LeaseMonitor | None = None) -> Claim:
    claim = queue.claim(context, monitor or LeaseMonitor())
    assert claim is not None
    return claim


def requests(number: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"coalition": ["a"], "draws": 100, "noise_seed": 0, "seed": first + place} for place in range(number)]


def test_a_job_that_moves_is_left_alone_and_one_that_does_not_is_not() -> None:
    clock = Clock()
    monitor = LeaseMonitor(30.0, clock=clock)
    assert monitor.stalled([(1, "a", 5), (2, "b", 7)]) == []
    clock.now += 29
    assert monitor.stalled([(1, "a", 6), (2, "b", 7)]) == []
    clock.now += 1
    assert monitor.stalled([(1, "a", 6), (2, "b", 7)]) == [2]
    assert monitor.stalled([(1, "a", 6), (2, "c", 7)]) == []  # somebody else has it now
    clock.now += 29
    assert monitor.stalled([(1, "a", 6)]) == [1]
    assert monitor.stalled([]) == []
    clock.now += 60
    assert monitor.stalled([(1, "a", 6)]) == []  # it was away in between: a new sight


def test_batches_come_first_and_the_oldest_of_them(context: Context) -> None:
    settlement = add(context, "settlement", 1)
    batches = [add(context, "batch", number, "round2") for number in (2, 3)]
    taken = [claimed(context).id for _ in range(3)]
    assert taken == [*batches, settlement]
    assert queue.claim(context, LeaseMonitor()) is None


def test_who_helps_a_round_takes_its_batches_alone(context: Context) -> None:
    add(context, "settlement", 1)
    add(context, "batch", 2, "round2")
    mine = add(context, "batch", 3)
    claim = queue.claim(context, LeaseMonitor(), round_id=ROUND)
    assert claim is not None
    assert claim.id == mine
    assert queue.claim(context, LeaseMonitor(), round_id=ROUND) is None


def test_of_many_workers_one_gets_a_job(context: Context) -> None:
    number = 20
    for place in range(number):
        add(context, "batch", place)

    def work() -> list[int]:
        found = []
        monitor = LeaseMonitor()
        while (claim := queue.claim(context, monitor)) is not None:
            found.append(claim.id)
        return found

    with ThreadPoolExecutor(4) as workers:
        taken = [job for future in [workers.submit(work) for _ in range(4)] for job in future.result()]
    assert sorted(taken) == sorted(set(taken))
    assert len(taken) == number


def test_a_job_is_taken_over_after_a_lease_and_its_first_worker_can_do_nothing_more(context: Context) -> None:
    job = add(context, "batch", 1)
    first = claimed(context)
    clock = Clock()
    monitor = LeaseMonitor(30.0, clock=clock)
    assert queue.claim(context, monitor) is None
    clock.now += 29.9
    queue.renew(context, first)
    assert queue.claim(context, monitor) is None
    clock.now += 29.9
    assert queue.claim(context, monitor) is None
    clock.now += 0.1
    second = claimed(context, monitor)
    assert (second.id, second.attempts) == (job, 2)
    actions: list[Callable[[], None]] = [
        lambda: queue.renew(context, first),
        lambda: queue.finish_batch(context, first),
        lambda: queue.fail_batch(context, first, "no"),
        lambda: queue.release(context, first),
    ]
    for action in actions:
        with pytest.raises(LostJobError):
            action()
    assert (row(context, job).state, row(context, job).owner) == ("running", second.owner)
    queue.finish_batch(context, second)
    assert row(context, job).state == "done"


def test_clocks_of_day_that_jump_take_no_job_away(context: Context) -> None:
    add(context, "batch", 1)
    claimed(context)
    years_later = Context(context.database, context.key, context.folder, lambda: 10**14)
    assert queue.claim(years_later, LeaseMonitor(30.0, clock=Clock())) is None


def test_a_job_that_is_handed_back_is_as_new(context: Context) -> None:
    job = add(context, "batch", 1)
    for _ in range(queue.MAX_LOSSES + 2):
        claim = claimed(context)
        assert claim.attempts == 1
        queue.release(context, claim)
    assert row(context, job).state == "waiting"


def test_a_batch_that_fails_is_tried_again_and_then_failed(context: Context) -> None:
    job = add(context, "batch", 1)
    for time_of in range(1, queue.MAX_ATTEMPTS + 1):
        assert row(context, job).state == "waiting"
        claim = claimed(context)
        queue.fail_batch(context, claim, f"failure {time_of}")
    assert queue.states(context, [job]) == {job: ("failed", f"failure {queue.MAX_ATTEMPTS}")}


def test_requests_are_posted_once_whoever_drives(context: Context) -> None:
    settlement = add(context, "settlement", 1)
    claim = claimed(context)
    first = queue.begin_stage(context, claim, "valuing", INPUTS, requests(7), share=True)
    assert len(first) == 4
    assert (row(context, settlement).planned, row(context, settlement).stage) == (7, "valuing")
    again = queue.begin_stage(context, claim, "valuing", INPUTS, requests(9), share=True)
    assert again[:4] == first  # and two more for the new requests
    assert len(again) == 6
    assert queue.begin_stage(context, claim, "x", INPUTS, requests(5), share=False) == []


def test_batches_of_other_inputs_are_cancelled_and_cancelled_ones_wait_again(context: Context) -> None:
    add(context, "settlement", 1)
    claim = claimed(context)
    first = queue.begin_stage(context, claim, "valuing", INPUTS, requests(4), share=True)
    other = queue.begin_stage(context, claim, "valuing", "cd" * 32, requests(4), share=True)
    assert not set(first) & set(other)
    assert {state for state, _ in queue.states(context, first).values()} == {"cancelled"}
    assert sorted(queue.begin_stage(context, claim, "valuing", INPUTS, requests(4), share=True)) == first
    assert {state for state, _ in queue.states(context, first).values()} == {"waiting"}


def test_batches_are_of_one_kind_and_not_too_large() -> None:
    many = [request | {"draws": 100 if place % 2 else 400} for place, request in enumerate(requests(100))]
    batches = queue.split_batches(many)
    assert max(map(len, batches)) == queue.MAX_BATCH
    assert sum(map(len, batches)) == 100
    assert [request["draws"] for batch in batches for request in batch] == [100] * 50 + [400] * 50
    assert queue.split_batches([]) == []


def test_requests_are_put_in_order_of_their_draws_whatever_their_noise() -> None:
    """Of a round whose rewards are made by noise: noise 0 is a number, that of recipients 32 digits."""
    secret = [one | {"noise_seed": letter * 32} for letter in "ba" for one in requests(2)]
    asked = [one | {"draws": draws} for draws, one in zip((2, 1, 2, 1, 1, 2), [*secret, *requests(2)], strict=True)]
    batches = queue.split_batches(asked)
    found = [(one["draws"], one["noise_seed"]) for batch in batches for one in batch]
    assert [draws for draws, _ in found] == [1, 1, 1, 2, 2, 2]
    assert sorted(found, key=str) == sorted(((one["draws"], one["noise_seed"]) for one in asked), key=str)


def test_the_first_answer_is_kept_and_counted_once(context: Context) -> None:
    settlement = add(context, "settlement", 1)
    driver = claimed(context)
    queue.begin_stage(context, driver, "valuing", INPUTS, requests(4), share=True)
    stop = threading.Event()
    one, two = (DatabaseJournal(context, Heartbeat(context, claimed(context), stop=stop), INPUTS) for _ in range(2))
    key = requests(1)[0]
    one.put(key, {"value": 0.1})
    two.put(key, {"value": 0.2})
    assert one[key] == two[key] == {"value": 0.1}
    assert row(context, settlement).finished_of_planned == 1
    third = DatabaseJournal(context, Heartbeat(context, driver, stop=stop), INPUTS)
    assert key not in third
    third.read([key])
    assert third[key] == {"value": 0.1}
    third.put(requests(2)[1], 1)
    fourth = DatabaseJournal(context, Heartbeat(context, driver, stop=stop), INPUTS)
    fourth.read_all()
    assert len(fourth) == 2


def test_an_answer_of_a_job_that_was_cancelled_is_not_kept(context: Context) -> None:
    add(context, "settlement", 1)
    journal = DatabaseJournal(context, Heartbeat(context, claimed(context), stop=threading.Event()), INPUTS)
    with context.database.writing() as session:
        session.execute(update(Job).values(state="cancelled"))
    with pytest.raises(LostJobError):
        journal.put({"a": 1}, 2)
    with context.database.reading() as session:
        assert session.scalars(select(Answer)).all() == []


def test_losses_count_only_while_nothing_is_found(context: Context) -> None:
    job = add(context, "settlement", 1)
    clock = Clock()
    monitor = LeaseMonitor(30.0, clock=clock)

    def lose() -> Claim:
        claim = queue.claim(context, monitor)
        while claim is None:
            clock.now += 30.0
            claim = queue.claim(context, monitor)
        return claim

    attempts = [lose().attempts for _ in range(3)]
    assert attempts == [1, 2, 3]
    journal = DatabaseJournal(context, Heartbeat(context, lose(), stop=threading.Event()), INPUTS)
    journal.put({"a": 1}, 2)
    assert row(context, job).attempts == 1


def test_who_is_told_to_stop_hands_the_job_back_at_once(context: Context) -> None:
    job = add(context, "settlement", 1)
    stop = threading.Event()
    with Heartbeat(context, claimed(context), stop=stop, lease=30.0) as heartbeat:
        heartbeat.check()
        stop.set()
        wait_for(lambda: row(context, job).state == "waiting")
        with pytest.raises(LostJobError):
            heartbeat.check()


def test_a_beat_finds_out_that_the_job_is_gone(context: Context) -> None:
    job = add(context, "settlement", 1)
    with Heartbeat(context, claimed(context), stop=threading.Event(), lease=0.6) as heartbeat:
        before = row(context, job).beat
        wait_for(lambda: row(context, job).beat > before)
        with context.database.writing() as session:
            session.execute(update(Job).values(state="cancelled"))
        wait_for(lambda: _is_lost(heartbeat))


def test_a_database_that_is_away_is_asked_again() -> None:
    times = iter(range(3))

    def action() -> int:
        if (time_of := next(times)) < 2:
            raise Unavailable("away")
        return time_of

    assert retry(action, threading.Event()) == 2


def test_who_is_told_to_stop_no_longer_waits_for_a_database() -> None:
    stop = threading.Event()
    stop.set()

    def action() -> None:
        raise Unavailable("away")

    with pytest.raises(Unavailable):
        retry(action, stop)


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def _is_lost(heartbeat: Heartbeat) -> bool:
    try:
        heartbeat.check()
    except LostJobError:
        return True
    return False
