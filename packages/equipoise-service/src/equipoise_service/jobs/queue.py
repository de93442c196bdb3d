"""The job queue: jobs, the workers that have claimed them, and their states.

A "settlement" drives a round; a "batch" holds some of the requests that the settlement makes. Every update is
conditional on the state that was read before it. So only one of two competing workers gets a job, and a worker whose
job was cancelled or taken over cannot change anything: its next update fails with `LostJobError`.
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

# Attempts at a failing batch.
MAX_ATTEMPTS = 3
# A job fails after it has lost its worker this often without any answer in between.
MAX_LOSSES = 5
# Requests in a batch, which take some seconds for usual models.
MAX_BATCH = 16
# Batches that requests are split into at least, so that several workers can share them.
MIN_BATCHES = 4
LOST = (
    f"the worker was lost {MAX_LOSSES} times at the same place; is there enough memory? Give it more, or settle with "
    "fewer draws, then start again"
)

ACTIVE = ("waiting", "running")


class LostJobError(Exception):
    """A job that this worker no longer holds: it was cancelled, or another worker took it over or finished it."""


@dataclass(frozen=True)
class Claim:
    """A job that this worker has claimed. Every claim has a new `owner`."""

    id: int
    round_id: str
    kind: str
    owner: str
    attempts: int
    payload: dict[str, Any]


def claim(
    context: Context, monitor: LeaseMonitor, *, round_id: str | None = None, avoid: Container[int] = ()
) -> Claim | None:
    """Claim the oldest job, if there is one: batches first, then settlements. With `round_id`, only its batches.

    Waiting jobs come before jobs whose worker seems lost.
    """
    wanted = select(Job.id, Job.kind, Job.state, Job.owner, Job.beat).where(Job.state.in_(ACTIVE))
    if round_id is not None:
        wanted = wanted.where(Job.round_id == round_id, Job.kind == "batch")
    with context.database.reading() as session:
        jobs = [job for job in session.execute(wanted.order_by(Job.id)) if job.id not in avoid]
    stalled = set(monitor.stalled((job.id, job.owner, job.beat) for job in jobs if job.state == "running"))
    for kind in ("batch", "settlement"):
        for state in ACTIVE:
            for job in jobs:
                if (job.kind, job.state) == (kind, state) and (state == "waiting" or job.id in stalled):
                    claim = _try_claim(context, job.id, state, job.owner, job.beat)
                    if claim is not None:
                        return claim
    return None


def _try_claim(context: Context, job_id: int, state: str, owner: str | None, beat: int) -> Claim | None:
    """Claim a job if its state, owner and beat are unchanged; return None if another worker was quicker."""
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
    """Update a claimed job within a transaction, which locks its row; raise `LostJobError` if it is not held."""
    held = update(Job).where(Job.id == claim.id, Job.owner == claim.owner, Job.state == "running")
    if not _updates_one(session, held.values(beat=Job.beat + 1, **values)):
        raise LostJobError(f"job {claim.id} of round {claim.round_id} is no longer held")


def renew(context: Context, claim: Claim) -> None:
    """Renew the lease of a claimed job."""
    with context.database.writing() as session:
        update_claimed(session, claim)


def release(context: Context, claim: Claim) -> None:
    """Release a claimed job, so that others can claim it at once. This attempt is not counted."""
    with context.database.writing() as session:
        update_claimed(session, claim, state="waiting", owner=None, attempts=Job.attempts - 1)


def finish_batch(context: Context, claim: Claim) -> None:
    """Mark a batch as done, because all its requests have answers."""
    with context.database.writing() as session:
        update_claimed(session, claim, state="done", owner=None, problem=None, ended=context.clock())


def fail_batch(context: Context, claim: Claim, problem: str, *, max_attempts: int = MAX_ATTEMPTS) -> None:
    """Record the failure of a batch, which any worker may try again unless this was the last attempt."""
    with context.database.writing() as session:
        update_claimed(session, claim, problem=problem)
        again = session.scalars(select(Job.attempts).where(Job.id == claim.id)).one() < max_attempts
        ended = None if again else context.clock()
        update_claimed(session, claim, state="waiting" if again else "failed", owner=None, ended=ended)


def begin_stage(
    context: Context, claim: Claim, what: str, inputs: str, requests: Sequence[dict[str, Any]], *, share: bool
) -> list[int]:
    """Begin a stage of a settlement and, with `share`, enqueue its requests as batches; return the ids to wait for.

    Active batches with the same inputs, which a lost driver left behind, are kept, and their requests are not enqueued
    twice.
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
    """Split requests into batches. The requests of one batch have similar sizes, because they are sampled together."""
    alike = sorted(requests, key=itemgetter("draws"))
    size = max(1, min(MAX_BATCH, -(-len(alike) // MIN_BATCHES)))
    return [alike[first : first + size] for first in range(0, len(alike), size)]


def cancel_batches(session: Session, round_id: str, now: int) -> None:
    """Cancel, within a transaction, the waiting and running batches of a round."""
    session.execute(
        update(Job)
        .where(Job.round_id == round_id, Job.kind == "batch", Job.state.in_(ACTIVE))
        .values(state="cancelled", owner=None, ended=now)
    )


def states(context: Context, job_ids: Iterable[int]) -> dict[int, tuple[str, str | None]]:
    """Return the state and problem of jobs, by their ids."""
    with context.database.reading() as session:
        rows = session.execute(select(Job.id, Job.state, Job.problem).where(Job.id.in_(list(job_ids))))
        return {job: (state, problem) for job, state, problem in rows}


def _active_batches(session: Session, round_id: str, inputs: str, now: int) -> tuple[list[int], set[bytes]]:
    """Return the ids of a round's active batches and their requests; cancel active batches with other inputs."""
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
    """Enqueue one batch, or re-enqueue it if it was cancelled or failed earlier; return its id."""
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
