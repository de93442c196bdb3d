"""Workers: what they settle is what `mediate` settles, whoever helps, whatever is cancelled; failures are told."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

import equipoise as eq
from equipoise.errors import MediationError
from equipoise.mediation import mediator
from equipoise_service import embedded
from equipoise_service.context import Context
from equipoise_service.db import event_log
from equipoise_service.db.tables import Answer, Job, Round
from equipoise_service.jobs import queue, runner, worker
from equipoise_service.jobs.journal import DatabaseJournal
from equipoise_service.jobs.lease import LeaseMonitor
from equipoise_service.options import Options
from equipoise_service.rules import settlements
from service.working import OPERATOR, decided, kept, ready_round, small
from tiers import needs_engine

OPTIONS = Options(draws=400, precision=0.5)

Everything = tuple[eq.Agreement, list[eq.Submission], tuple[str, dict[str, str]]]


@pytest.fixture(scope="module")
@needs_engine("bernoulli")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Everything:
    """An agreement, its submissions, and what `mediate` decides."""
    agreed, sent = small("bernoulli", tmp_path_factory.mktemp("parties"), 3)
    return agreed, sent, decided(eq.mediate(agreed, sent, draws=400, precision=0.5, processes=1, progress=False))


@pytest.fixture
def context(tmp_path: Path) -> Iterator[Context]:
    opened = Context.open(tmp_path / "data")
    yield opened
    opened.close()


@pytest.fixture
def started(context: Context, everything: Everything) -> str:
    """A round whose settlement waits for a worker."""
    agreed, sent, _ = everything
    round_id = ready_round(context, "round1", agreed, sent)
    settlements.start(context, OPERATOR, round_id, OPTIONS)
    return round_id


def work(context: Context) -> None:
    worker.run(context, stop=threading.Event(), once=True)


def number_of_answers(context: Context) -> int:
    with context.database.reading() as session:
        return session.scalars(select(func.count()).select_from(Answer)).one()


def kinds_of_events(context: Context) -> list[str]:
    with context.database.reading() as session:
        return [event["kind"] for event in event_log.documents(session)]


@pytest.mark.engine
def test_a_worker_settles_as_the_mediator_does(context: Context, started: str, everything: Everything) -> None:
    work(context)
    assert kept(context, started) == everything[2]
    progress = settlements.progress(context, OPERATOR, started)
    assert (progress.state, progress.job_state, progress.problem) == ("settled", "done", None)
    with context.database.reading() as session:
        states = set(session.scalars(select(Job.state).where(Job.kind == "batch")))
    assert states == {"done"}
    assert kinds_of_events(context)[-1] == "settled"
    work(context)  # there is nothing more to do
    assert kinds_of_events(context).count("settled") == 1


def test_two_workers_share_a_settlement(
    context: Context,
    started: str,
    everything: Everything,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "equipoise.worker")
    helped, stop = threading.Event(), threading.Event()
    real = queue.claim

    def claim(*args: Any, **options: Any) -> queue.Claim | None:
        if options.get("round_id"):
            helped.wait(30)  # whoever drives lets the other one begin
        claim = real(*args, **options)
        if claim is not None and claim.kind == "batch":
            helped.set()
        return claim

    monkeypatch.setattr(queue, "claim", claim)
    workers = [
        threading.Thread(target=worker.run, args=(context,), kwargs={"stop": stop, "idle": 0.05}) for _ in range(2)
    ]
    for one in workers:
        one.start()
    wait_for(lambda: state_of(context, started) == "settled", 60)
    stop.set()
    for one in workers:
        one.join()
    assert kept(context, started) == everything[2]
    answered = {one.threadName for one in caplog.records if one.getMessage().startswith("finished batch")}
    assert len(answered) == 2


def test_a_cancelled_settlement_goes_on_where_it_was(
    context: Context, started: str, everything: Everything, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DatabaseJournal.put
    put: list[str] = []

    def counted(self: DatabaseJournal, key: dict[str, Any], result: Any) -> None:
        real(self, key, result)
        put.append(str(key))
        if len(put) == 3:
            settlements.cancel(context, OPERATOR, started)

    monkeypatch.setattr(DatabaseJournal, "put", counted)
    work(context)
    assert state_of(context, started) == "open"
    assert number_of_answers(context) == 3  # what was found after it was cancelled is not kept
    settlements.start(context, OPERATOR, started, OPTIONS)
    work(context)
    assert kept(context, started) == everything[2]
    assert len(put) == len(set(put)) == number_of_answers(context)  # nothing was sampled for a second answer


def test_a_failure_is_told_and_the_round_is_open_again(
    context: Context, started: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: Any, **_options: Any) -> None:
        raise MediationError("no targets can be set")

    monkeypatch.setattr(mediator, "settle", fail)
    work(context)
    progress = settlements.progress(context, OPERATOR, started)
    assert (progress.state, progress.job_state, progress.problem) == ("open", "failed", "no targets can be set")
    assert kinds_of_events(context)[-1] == "settlement-failed"
    settlements.start(context, OPERATOR, started, OPTIONS)  # as often as wanted


def test_an_unexpected_failure_is_in_the_log_alone(
    context: Context, started: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_args: Any, **_options: Any) -> None:
        raise RuntimeError("a detail of this machine")

    monkeypatch.setattr(mediator, "settle", fail)
    work(context)
    problem = settlements.progress(context, OPERATOR, started).problem
    assert problem is not None
    assert "detail" not in problem
    assert problem.split()[-1] in caplog.text
    assert "a detail of this machine" in caplog.text


def test_a_batch_that_always_fails_ends_the_settlement(
    context: Context, started: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fail(_task: Any, requests: Any, *_args: Any, **_options: Any) -> None:
        tried.append(tuple(requests))
        raise MediationError("not enough of something")

    monkeypatch.setattr(mediator, "appraise", fail)
    work(context)
    progress = settlements.progress(context, OPERATOR, started)
    assert (progress.state, progress.problem) == ("open", "not enough of something")
    assert max(tried.count(one) for one in tried) == queue.MAX_ATTEMPTS
    with context.database.reading() as session:
        states = set(session.scalars(select(Job.state)))
    assert states <= {"failed", "cancelled"}


def test_a_settlement_that_loses_its_workers_is_given_up(context: Context, started: str) -> None:
    with context.database.writing() as session:
        session.execute(update(Job).values(attempts=queue.MAX_LOSSES))
    work(context)
    progress = settlements.progress(context, OPERATOR, started)
    assert (progress.state, progress.problem) == ("open", queue.LOST)


def test_who_stops_hands_back_even_while_it_is_busy(
    context: Context, started: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, free, stop = threading.Event(), threading.Event(), threading.Event()

    def settle(_task: Any, journal: Any, **_options: Any) -> None:
        busy.set()
        free.wait(30)
        journal.put({"a": 1}, 2)
        raise AssertionError("a job that was handed back takes no answers")

    monkeypatch.setattr(mediator, "settle", settle)
    thread = threading.Thread(target=worker.run, args=(context,), kwargs={"stop": stop})
    thread.start()
    assert busy.wait(30)
    stop.set()
    wait_for(lambda: job_state(context) == "waiting")
    free.set()
    thread.join()
    assert job_state(context) == "waiting"
    assert number_of_answers(context) == 0


def test_a_batch_for_other_versions_is_left_to_others(context: Context, started: str) -> None:
    state = runner.WorkerState(context, threading.Event())
    driver = queue.claim(context, LeaseMonitor())
    assert driver is not None
    requests = [{"coalition": ["north"], "draws": 400, "noise_seed": 0, "seed": seed} for seed in range(4)]
    batches = queue.begin_stage(context, driver, "valuing", "cd" * 32, requests, share=True)
    claim = queue.claim(context, LeaseMonitor())
    assert claim is not None
    runner.run_job(state, claim)
    assert state.declined == {claim.id}
    assert {state for state, _ in queue.states(context, batches).values()} == {"waiting"}
    other = queue.claim(context, LeaseMonitor(), avoid=state.declined)
    assert other is not None
    assert other.id != claim.id


@pytest.mark.process
def test_a_worker_without_work_loads_no_sampler(tmp_path: Path) -> None:
    script = (
        "import sys, threading; from pathlib import Path; from equipoise_service.jobs import worker;"
        "from equipoise_service.context import Context;"
        "worker.run(Context.open(Path(sys.argv[1])), stop=threading.Event(), once=True);"
        "print(any(name.startswith('equipoise.inference') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "data"], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.process
def test_the_embedded_worker_is_started_again_and_ends_when_told(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "MIN_PAUSE", 0.05)
    companion = embedded.EmbeddedWorker(context.folder)
    companion.start()
    first = companion.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: companion.pid not in {None, first})
    companion.stop()
    assert companion.pid is None


@pytest.mark.process
def test_the_embedded_worker_ends_with_its_server(context: Context) -> None:
    script = (
        "import sys, time; from pathlib import Path; from equipoise_service.embedded import EmbeddedWorker;"
        "companion = EmbeddedWorker(Path(sys.argv[1])); companion.start(); print(companion.pid, flush=True);"
        "time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, context.folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        assert server.stderr is not None
        child = int(server.stdout.readline())
        assert "is ready" in server.stderr.readline()
        server.kill()
    wait_for(lambda: not is_alive(child))


def state_of(context: Context, round_id: str) -> str:
    with context.database.reading() as session:
        return session.get_one(Round, round_id).state


def job_state(context: Context) -> str:
    with context.database.reading() as session:
        return session.scalars(select(Job.state).where(Job.kind == "settlement")).one()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
