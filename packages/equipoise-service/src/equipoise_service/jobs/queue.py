"""The job queue: which worker has claimed which job, and what became of it.

A "settlement" drives a round, a "batch" is some of the requests it makes. Every change is conditional on the state it
was decided on, so of two workers that want the same job one gets it, and a worker whose job was cancelled or taken over
cannot change anything any more: it finds out the next time it tries.
"""

import json
import secrets
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from sqlalchemy import CursorResult, Update, func, select, update
from sqlalchemy.orm import Session

from equipoise._util.canonical import canonical_json, sha256_hex
from equipoise_service.context import Context
from equipoise_service.db.tables import Job
from equipoise_service.jobs.lease import LeaseMonitor

MAX_ATTEMPTS = 3  # of a batch that fails
MAX_LOSSES = 5  # of the worker, with nothing found in between, before a job is given up
MAX_BATCH = 16  # requests; some seconds' work of usual models
MIN_BATCHES = 4  # so that several workers have something to do
LOST = (
    f"the worker was lost {MAX_LOSSES} times at the same place; is there enough memory? Give it more, or settle with "
    "fewer draws, then start again"
)

ACTIVE = ("waiting", "running")


class LostJobError(Exception):
    """The job was cancelled, taken over or finished by others: what this worker does for it no longer counts."""


@dataclass(frozen=True)
class Claim:
    """A job that this worker has claimed. `owner` is new for every claim."""

    id: int
    round_id: str
    kind: str
    owner: str
    attempts: int
    payload: dict[str, Any]


def claim(
    context: Context, monitor: LeaseMonitor, *, round_id: str | None = None, avoid: Container[int] = ()
) -> Claim | None:
    """Claim a job, if there is one: batches first, then settlements, the oldest first; of one round, its batches alone.

    A job that waits is preferred to one whose worker seems lost.
    """
    wanted = select(Job.id, Job.kind, Job.state, Job.owner, Job.beat).where(Job.state.in_(ACTIVE))
    if round_id is not None:
        wanted = wanted.where(Job.round_id == round_id, Job.kind == "batch")
    with context.database.reading() as session:
        found = [job for job in session.execute(wanted.order_by(Job.id)) if job.id not in avoid]
    stalled = set(monitor.stalled((job.id, job.owner, job.beat) for job in found if job.state == "running"))
    for kind in ("batch", "settlement"):
        for state in ACTIVE:
            for job in found:
                if (job.kind, job.state) == (kind, state) and (state == "waiting" or job.id in stalled):
                    claim = _try_claim(context, job.id, state, job.owner, job.beat)
                    if claim is not None:
                        return claim
    return None


def _try_claim(context: Context, job_id: int, state: str, owner: str | None, beat: int) -> Claim | None:
    """Claim a job that still is as it was seen; None if another worker was quicker."""
    token = secrets.token_hex(16)
    now = context.clock()
    with context.database.writing() as session:
        changed = _updates_one(
            session,
            update(Job)
            .where(Job.id == job_id, Job.state == state, Job.beat == beat)
            .where(Job.owner.is_(None) if owner is None else Job.owner == owner)
            .values(
                state="running",
                owner=token,
                beat=Job.beat + 1,
                attempts=Job.attempts + 1,
                began=func.coalesce(Job.began, now),
            ),
        )
        if not changed:
            return None
        job = session.execute(
            select(Job.id, Job.round_id, Job.kind, Job.attempts, Job.payload_json).where(Job.id == job_id)
        ).one()
    return Claim(job.id, job.round_id, job.kind, token, job.attempts, json.loads(job.payload_json))


def update_claimed(session: Session, claim: Claim, **values: Any) -> None:
    """Within a transaction: change a claimed job, which keeps it from others until the end; or `LostJobError`."""
    held = update(Job).where(Job.id == claim.id, Job.owner == claim.owner, Job.state == "running")
    if not _updates_one(session, held.values(beat=Job.beat + 1, **values)):
        raise LostJobError(f"job {claim.id} of round {claim.round_id} is no longer held")


def renew(context: Context, claim: Claim) -> None:
    """Renew the lease of a claimed job: it is still worked on."""
    with context.database.writing() as session:
        update_claimed(session, claim)


def release(context: Context, claim: Claim) -> None:
    """Release a claimed job, for others to have at once; that it was begun is not held against it."""
    with context.database.writing() as session:
        update_claimed(session, claim, state="waiting", owner=None, attempts=Job.attempts - 1)


def finish_batch(context: Context, claim: Claim) -> None:
    """Finish a batch: all its requests have answers."""
    with context.database.writing() as session:
        update_claimed(session, claim, state="done", owner=None, problem=None, ended=context.clock())


def fail_batch(context: Context, claim: Claim, problem: str, *, max_attempts: int = MAX_ATTEMPTS) -> None:
    """Fail a batch: it waits to be tried again, by any worker, unless this was its last attempt."""
    with context.database.writing() as session:
        update_claimed(session, claim, problem=problem)
        again = session.scalars(select(Job.attempts).where(Job.id == claim.id)).one() < max_attempts
        ended = None if again else context.clock()
        update_claimed(session, claim, state="waiting" if again else "failed", owner=None, ended=ended)


def begin_stage(
    context: Context, claim: Claim, what: str, inputs: str, requests: Sequence[dict[str, Any]], *, share: bool
) -> list[int]:
    """Begin a stage of a settlement, and enqueue its requests as batches, if it is to be shared.

    Batches with the same inputs that are there still, from a driver that was lost, are kept, and what they have is not
    enqueued twice. Returns the ids of all batches to wait for.
    """
    now = context.clock()
    with context.database.writing() as session:
        update_claimed(session, claim, stage=what[:200], stage_began=now, planned=len(requests), finished_of_planned=0)
        if not share:
            return []
        kept, covered = _active_batches(session, claim.round_id, inputs, now)
        missing = [request for request in requests if canonical_json(request) not in covered]
        return kept + [
            _enqueue(session, claim.round_id, canonical_json({"inputs": inputs, "requests": batch}), now)
            for batch in split_batches(missing)
        ]


def split_batches(requests: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Requests as batches; those of one batch are alike, since they are sampled together."""
    alike = sorted(requests, key=itemgetter("draws"))
    size = max(1, min(MAX_BATCH, -(-len(alike) // MIN_BATCHES)))
    return [alike[first : first + size] for first in range(0, len(alike), size)]


def cancel_batches(session: Session, round_id: str, now: int) -> None:
    """Within a transaction: cancel the batches of a round that wait or run."""
    session.execute(
        update(Job)
        .where(Job.round_id == round_id, Job.kind == "batch", Job.state.in_(ACTIVE))
        .values(state="cancelled", owner=None, ended=now)
    )


def states(context: Context, job_ids: Iterable[int]) -> dict[int, tuple[str, str | None]]:
    """State and problem of jobs, by their ids."""
    with context.database.reading() as session:
        found = session.execute(select(Job.id, Job.state, Job.problem).where(Job.id.in_(list(job_ids))))
        return {job: (state, problem) for job, state, problem in found}


def _active_batches(session: Session, round_id: str, inputs: str, now: int) -> tuple[list[int], set[bytes]]:
    """Batches of a round that wait or run, and their requests; those of other inputs are cancelled."""
    kept: list[int] = []
    covered: set[bytes] = set()
    there = select(Job).where(Job.round_id == round_id, Job.kind == "batch", Job.state.in_(ACTIVE)).with_for_update()
    for job in session.scalars(there.order_by(Job.id)):
        payload = json.loads(job.payload_json)
        if payload["inputs"] == inputs:
            kept.append(job.id)
            covered |= {canonical_json(request) for request in payload["requests"]}
        else:
            job.state, job.owner, job.ended = "cancelled", None, now
    return kept, covered


def _enqueue(session: Session, round_id: str, payload: bytes, now: int) -> int:
    """Enqueue one batch; one that was cancelled or failed earlier waits again. Returns its id."""
    digest = sha256_hex(payload)
    job = session.scalar(select(Job).where(Job.round_id == round_id, Job.kind == "batch", Job.digest == digest))
    if job is None:
        job = Job(round_id=round_id, kind="batch", digest=digest, payload_json=payload.decode("ascii"), created=now)
        session.add(job)
    job.state, job.owner, job.attempts, job.problem, job.ended = "waiting", None, 0, None, None
    session.flush()
    return job.id


def _updates_one(session: Session, statement: Update) -> bool:
    result = session.execute(statement.execution_options(synchronize_session=False))
    assert isinstance(result, CursorResult)
    return bool(result.rowcount == 1)
