"""Running a job: driving a settlement to its end, or answering a batch of its requests.

The driver of a settlement makes the decisions, enqueues the requests that they need as batches, and answers batches
like any other worker. If the driver is lost, another worker takes over and makes the same decisions from the stored
answers.
"""

import logging
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import select

from equipoise.errors import EquipoiseError, MediationError
from equipoise.mediation import mediator
from equipoise.mediation.requests import Request
from equipoise.mediation.settlement import Settlement
from equipoise.mediation.task import Task
from equipoise_service.context import Context
from equipoise_service.db import event_log
from equipoise_service.db.tables import Round
from equipoise_service.errors import Unavailable
from equipoise_service.jobs import queue
from equipoise_service.jobs.heartbeat import Heartbeat
from equipoise_service.jobs.journal import DatabaseJournal
from equipoise_service.jobs.lease import LEASE, LeaseMonitor, retry
from equipoise_service.jobs.queue import Claim, LostJobError
from equipoise_service.rules import results, settlements

LOGGER = logging.getLogger("equipoise.worker")

# Fewer requests than this stay with the driver, which keeps their draws in memory and may need them again.
MIN_SHARED = 4
# Seconds between two queries for the states of batches that other workers hold.
POLL = 0.3
# Tasks kept in memory, because reading one takes a while.
MAX_TASKS = 4


@dataclass(frozen=True)
class WorkerState:
    """The state of one worker: its settings, the tasks that it has read, and the batches that it has declined."""

    context: Context
    stop: threading.Event
    lease: float = LEASE
    processes: int | None = 1
    tasks: dict[str, Task] = field(default_factory=dict)  # by the digest of their inputs
    declined: set[int] = field(default_factory=set)  # batches that this worker's versions would answer differently


def run_job(worker: WorkerState, claim: Claim) -> None:
    """Run a claimed job, and record its success or failure."""
    LOGGER.info("began %s %d of round %s", claim.kind, claim.id, claim.round_id)
    try:
        if claim.attempts > queue.MAX_LOSSES:
            _fail(worker, claim, queue.LOST)
            return
        with Heartbeat(worker.context, claim, stop=worker.stop, lease=worker.lease) as heartbeat:
            try:
                if claim.kind == "settlement":
                    _run_settlement(worker, heartbeat)
                else:
                    _run_batch(worker, heartbeat)
            except (LostJobError, Unavailable):
                raise
            except EquipoiseError as error:
                _fail(worker, claim, str(error))
                return
            except Exception:
                reference = secrets.token_hex(4)
                LOGGER.exception("unexpected failure %s", reference)
                _fail(worker, claim, f"unexpected failure; the worker's log has it under the reference {reference}")
                return
        LOGGER.info("finished %s %d of round %s", claim.kind, claim.id, claim.round_id)
    except (LostJobError, Unavailable) as error:
        LOGGER.info("left %s %d of round %s: %s", claim.kind, claim.id, claim.round_id, error)


def _run_settlement(worker: WorkerState, heartbeat: Heartbeat) -> None:
    context, claim = worker.context, heartbeat.claim
    task = retry(lambda: settlements.task_for(context, claim.round_id), worker.stop)
    journal = DatabaseJournal(context, heartbeat, task.inputs_digest)
    journal.read_all()
    monitor = LeaseMonitor(worker.lease)

    def dispatch(what: str, requests: Sequence[Request]) -> None:
        documents = [request.to_json() for request in requests]
        shared = len(requests) >= MIN_SHARED
        batches = retry(
            lambda: queue.begin_stage(context, claim, what, task.inputs_digest, documents, share=shared), worker.stop
        )
        if batches:
            _cache_task(worker, task)
            _drain(worker, heartbeat, monitor, batches)
            journal.read(documents)

    settlement = mediator.settle(task, journal, processes=worker.processes, progress=False, dispatch=dispatch)
    # Serialize the results before the transaction, so that other writers need not wait for it.
    files = results.result_files(settlement)
    heartbeat.check()
    retry(lambda: _finish(context, claim, settlement, files), worker.stop)


def _drain(worker: WorkerState, heartbeat: Heartbeat, monitor: LeaseMonitor, batches: Sequence[int]) -> None:
    """Run batches, alongside other workers, until all are done."""
    context, round_id = worker.context, heartbeat.claim.round_id
    while True:
        heartbeat.check()
        batch = retry(lambda: queue.claim(context, monitor, round_id=round_id), worker.stop)
        if batch is not None:
            run_job(worker, batch)
            continue
        states = retry(lambda: queue.states(context, batches), worker.stop)
        for state, problem in states.values():
            if state == "failed":
                raise MediationError(problem or "a batch of the settlement failed")
        if not any(state in queue.ACTIVE for state, _ in states.values()):
            return
        worker.stop.wait(POLL)


def _run_batch(worker: WorkerState, heartbeat: Heartbeat) -> None:
    context, claim = worker.context, heartbeat.claim
    inputs: str = claim.payload["inputs"]
    if inputs not in worker.tasks:
        _cache_task(worker, retry(lambda: settlements.task_for(context, claim.round_id), worker.stop))
    if inputs not in worker.tasks:
        # The driver runs other versions than this worker, or the settlement was restarted with other options.
        LOGGER.warning("batch %d is for workers with other versions; left to them", claim.id)
        worker.declined.add(claim.id)
        retry(lambda: queue.release(context, claim), worker.stop)
        return
    requests = [Request.from_json(document) for document in claim.payload["requests"]]
    journal = DatabaseJournal(context, heartbeat, inputs)
    journal.read(claim.payload["requests"])
    mediator.appraise(worker.tasks[inputs], requests, journal, processes=worker.processes, progress=False)
    retry(lambda: queue.finish_batch(context, claim), worker.stop)


def _finish(context: Context, claim: Claim, settlement: Settlement, files: dict[str, bytes]) -> None:
    """Store the results in one transaction. Only the worker that still holds the job of a settling round succeeds."""
    now = context.clock()
    with context.database.writing(exclusive=True) as session:
        state = session.scalars(select(Round.state).where(Round.id == claim.round_id).with_for_update()).one()
        queue.update_claimed(session, claim, state="done", owner=None, problem=None, ended=now)
        if state != "settling":
            raise LostJobError(f"round {claim.round_id} is {state}")
        queue.cancel_batches(session, claim.round_id, now)
        results.store(session, context, claim.round_id, settlement, files=files)


def _fail(worker: WorkerState, claim: Claim, problem: str) -> None:
    LOGGER.warning("failed %s %d of round %s: %s", claim.kind, claim.id, claim.round_id, problem)
    if claim.kind == "batch":
        attempts = 0 if claim.attempts > queue.MAX_LOSSES else queue.MAX_ATTEMPTS
        retry(lambda: queue.fail_batch(worker.context, claim, problem, max_attempts=attempts), worker.stop)
    else:
        retry(lambda: _fail_settlement(worker.context, claim, problem), worker.stop)


def _fail_settlement(context: Context, claim: Claim, problem: str) -> None:
    """Record that a settlement failed, and reopen its round, so that it can be started with other options."""
    now = context.clock()
    with context.database.writing(exclusive=True) as session:
        round_ = session.scalars(select(Round).where(Round.id == claim.round_id).with_for_update()).one()
        queue.update_claimed(session, claim, state="failed", owner=None, problem=problem, ended=now)
        queue.cancel_batches(session, claim.round_id, now)
        if round_.state == "settling":
            round_.state = "open"
        event_log.append(
            session,
            time=now,
            actor=event_log.SERVICE,
            kind="settlement-failed",
            round_id=claim.round_id,
            problem=problem,
        )


def _cache_task(worker: WorkerState, task: Task) -> None:
    while len(worker.tasks) >= MAX_TASKS:
        del worker.tasks[next(iter(worker.tasks))]
    worker.tasks[task.inputs_digest] = task
