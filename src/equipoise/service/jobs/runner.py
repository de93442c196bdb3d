"""Doing a job: driving a settlement to its end, or answering a batch of its requests.

Whoever drives makes the decisions, posts the requests they need as batches, and answers batches like everybody else.
A driver that is lost is followed by another, who makes the same decisions from the answers that are there.
"""

import logging
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import select

from equipoise.errors import EquipoiseError, MediationError
from equipoise.mediation import mediator
from equipoise.mediation.appraisal import Request
from equipoise.mediation.settlement import Settlement
from equipoise.mediation.task import Task
from equipoise.service.context import Context
from equipoise.service.db import event_log
from equipoise.service.db.tables import Round
from equipoise.service.errors import Unavailable
from equipoise.service.jobs import queue as jobs
from equipoise.service.jobs.heartbeat import Holding
from equipoise.service.jobs.journal import DatabaseJournal
from equipoise.service.jobs.lease import LEASE, Patience, persistently
from equipoise.service.jobs.queue import Hold, LostJobError
from equipoise.service.rules import results, settlements

LOGGER = logging.getLogger("equipoise.worker")

FEWEST_SHARED = 4  # requests; draws of fewer are better kept by the driver, who may need them again
LOOK = 0.3  # seconds between looks at batches that others have
TASKS = 4  # kept, since reading one takes a while


@dataclass(frozen=True)
class Shift:
    """What a worker works with, from its start to its end."""

    context: Context
    stop: threading.Event
    lease: float = LEASE
    processes: int | None = 1
    tasks: dict[str, Task] = field(default_factory=dict)  # by the digest of their inputs
    declined: set[int] = field(default_factory=set)  # batches that this worker would answer otherwise


def perform(shift: Shift, hold: Hold) -> None:
    """Do a job that was claimed, whatever comes of it."""
    LOGGER.info("began %s %d of round %s", hold.kind, hold.id, hold.round_id)
    try:
        if hold.attempts > jobs.LOSSES:
            _fail(shift, hold, jobs.LOST)
            return
        with Holding(shift.context, hold, stop=shift.stop, lease=shift.lease) as holding:
            try:
                if hold.kind == "settlement":
                    _settle(shift, holding)
                else:
                    _answer(shift, holding)
            except (LostJobError, Unavailable):
                raise
            except EquipoiseError as error:
                _fail(shift, hold, str(error))
                return
            except Exception:
                reference = secrets.token_hex(4)
                LOGGER.exception("unexpected failure %s", reference)
                _fail(shift, hold, f"unexpected failure; the worker's log has it under the reference {reference}")
                return
        LOGGER.info("finished %s %d of round %s", hold.kind, hold.id, hold.round_id)
    except (LostJobError, Unavailable) as error:
        LOGGER.info("left %s %d of round %s: %s", hold.kind, hold.id, hold.round_id, error)


def _settle(shift: Shift, holding: Holding) -> None:
    context, hold = shift.context, holding.hold
    task = persistently(lambda: settlements.task_for(context, hold.round_id), shift.stop)
    journal = DatabaseJournal(context, holding, task.inputs)
    journal.read_all()
    patience = Patience(shift.lease)

    def share(what: str, requests: Sequence[Request]) -> None:
        documents = [request.to_json() for request in requests]
        shared = len(requests) >= FEWEST_SHARED
        batches = persistently(
            lambda: jobs.begin_stage(context, hold, what, task.inputs, documents, share=shared), shift.stop
        )
        if batches:
            _keep(shift, task)
            _see_to(shift, holding, patience, batches)
            journal.read(documents)

    settlement = mediator.settle(task, journal, processes=shift.processes, progress=False, share=share)
    files = results.files_of(settlement)  # while the database is free for others
    holding.check()
    persistently(lambda: _finish(context, hold, settlement, files), shift.stop)


def _see_to(shift: Shift, holding: Holding, patience: Patience, batches: Sequence[int]) -> None:
    """Answer batches until all are answered, by this worker and others."""
    context, round_id = shift.context, holding.hold.round_id
    while True:
        holding.check()
        batch = persistently(lambda: jobs.claim(context, patience, round_id=round_id), shift.stop)
        if batch is not None:
            perform(shift, batch)
            continue
        found = persistently(lambda: jobs.states(context, batches), shift.stop)
        for state, problem in found.values():
            if state == "failed":
                raise MediationError(problem or "a batch of the settlement failed")
        if not any(state in jobs.ACTIVE for state, _ in found.values()):
            return
        shift.stop.wait(LOOK)


def _answer(shift: Shift, holding: Holding) -> None:
    context, hold = shift.context, holding.hold
    inputs: str = hold.payload["inputs"]
    if inputs not in shift.tasks:
        _keep(shift, persistently(lambda: settlements.task_for(context, hold.round_id), shift.stop))
    if inputs not in shift.tasks:
        # Not for this worker: it has other versions than the driver, or the settlement was started anew otherwise.
        LOGGER.warning("batch %d is for workers with other versions; left to them", hold.id)
        shift.declined.add(hold.id)
        persistently(lambda: jobs.hand_back(context, hold), shift.stop)
        return
    requests = [Request.from_json(document) for document in hold.payload["requests"]]
    journal = DatabaseJournal(context, holding, inputs)
    journal.read(hold.payload["requests"])
    mediator.appraise(shift.tasks[inputs], requests, journal, processes=shift.processes, progress=False)
    persistently(lambda: jobs.finish_batch(context, hold), shift.stop)


def _finish(context: Context, hold: Hold, settlement: Settlement, files: dict[str, bytes]) -> None:
    """Everything at once, or nothing: of all who drove a round one finishes it, and none if it was cancelled."""
    now = context.clock()
    with context.database.writing(alone=True) as session:
        state = session.scalars(select(Round.state).where(Round.id == hold.round_id).with_for_update()).one()
        jobs.confirm(session, hold, state="done", owner=None, problem=None, ended=now)
        if state != "settling":
            raise LostJobError(f"round {hold.round_id} is {state}")
        jobs.cancel_batches(session, hold.round_id, now)
        results.keep(session, context, hold.round_id, settlement, files=files)


def _fail(shift: Shift, hold: Hold, problem: str) -> None:
    LOGGER.warning("failed %s %d of round %s: %s", hold.kind, hold.id, hold.round_id, problem)
    if hold.kind == "batch":
        tries = 0 if hold.attempts > jobs.LOSSES else jobs.TRIES
        persistently(lambda: jobs.fail_batch(shift.context, hold, problem, tries=tries), shift.stop)
    else:
        persistently(lambda: _give_up(shift.context, hold, problem), shift.stop)


def _give_up(context: Context, hold: Hold, problem: str) -> None:
    """A settlement failed: its round is open again, so that it can be started with other choices."""
    now = context.clock()
    with context.database.writing(alone=True) as session:
        round_ = session.scalars(select(Round).where(Round.id == hold.round_id).with_for_update()).one()
        jobs.confirm(session, hold, state="failed", owner=None, problem=problem, ended=now)
        jobs.cancel_batches(session, hold.round_id, now)
        if round_.state == "settling":
            round_.state = "open"
        event_log.append(
            session,
            time=now,
            actor=event_log.SERVICE,
            kind="settlement-failed",
            round_id=hold.round_id,
            problem=problem,
        )


def _keep(shift: Shift, task: Task) -> None:
    while len(shift.tasks) >= TASKS:
        del shift.tasks[next(iter(shift.tasks))]
    shift.tasks[task.inputs] = task
