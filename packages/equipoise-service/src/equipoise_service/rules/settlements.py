"""Starting, watching and cancelling a settlement; workers do the work (`equipoise_service.jobs.worker`)."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from equipoise._util.canonical import canonical_json
from equipoise.errors import EquipoiseError, SubmissionError
from equipoise.mediation.settings import SettlementSettings
from equipoise.mediation.task import Task, task_of
from equipoise.protocol.submission import Submission
from equipoise_service.context import Context
from equipoise_service.db import event_log
from equipoise_service.db.tables import Job, Round, SubmissionRow
from equipoise_service.errors import Conflict, Invalid
from equipoise_service.options import Options
from equipoise_service.rules.access import Actor, get_round, get_seat, require, require_active
from equipoise_service.rules.rounds import path_secret, require_open


@dataclass(frozen=True)
class Progress:
    """How far a settlement is; `state` is the round's, `done` of `planned` belong to the stage, times are seconds.

    What the problem of a failed one was is for operators and auditors: it may be about single parties.
    """

    state: str
    job_state: str | None
    stage: str | None
    done: int
    planned: int | None
    began: int | None
    elapsed_s: float | None
    left_s: float | None
    problem: str | None


def start(context: Context, actor: Actor | None, round_id: str, options: Options) -> None:
    """Have a round settled with what was submitted so far; nothing more is taken from now on.

    What can be refused is refused now, not by a worker later. Submissions of those whom `options.without` names stay
    where they are, unused: one party's must not keep all others from a settlement. Seed and noise are the same whenever
    it is started with the same submissions.
    """
    actor = require(actor, "settle")
    with context.database.reading() as session:
        found = get_round(session, round_id)
        require_open(found)
        sent = _sent(session, found, options)
        secret = _noise_secret(context, session, found, options)
    _check_left_out(found, options)
    if not sent:
        who = "nobody else" if options.without else "nobody"
        raise Conflict(f"{who} has submitted to this round yet; wait for at least one party", code="no-submissions")
    try:
        task = _task(found, sent, options, secret)  # outside of the transaction: others need not wait for it
    except SubmissionError as error:
        raise Invalid(f"{error}; or start without that party (--without)") from error
    except EquipoiseError as error:
        raise Invalid(str(error)) from error
    with context.database.writing(exclusive=True) as session:
        require_active(session, actor)
        found = get_round(session, round_id)
        require_open(found)
        if _sent(session, found, options) != sent:
            raise Conflict("a submission arrived just now; look who takes part, then start again")
        now, chosen = context.clock(), options.to_json()
        found.state = "settling"
        if task.mechanism == "noise":
            found.noise_secret = found.noise_secret or secret
        found.options_json = canonical_json(chosen).decode("ascii")
        session.add(
            Job(
                round_id=found.id,
                kind="settlement",
                digest=secrets.token_hex(32),  # every start is a job of its own
                payload_json=found.options_json,
                state="waiting",
                created=now,
            )
        )
        event_log.append(
            session,
            time=now,
            actor=actor.name,
            kind="settlement-started",
            round_id=found.id,
            person=actor.person_id,
            options=chosen,
            seed=task.seed,
        )


def cancel(context: Context, actor: Actor | None, round_id: str) -> None:
    """Stop a settlement; the round is open again, and what was computed stays for the next start."""
    actor = require(actor, "settle")
    with context.database.writing(exclusive=True) as session:
        require_active(session, actor)
        found = get_round(session, round_id)
        if found.state != "settling":
            raise Conflict(f"the round is {found.state}; there is no settlement to cancel", code="not-settling")
        now = context.clock()
        for kind in ("settlement", "batch"):  # in this order, as workers lock them
            session.execute(
                update(Job)
                .where(Job.round_id == found.id, Job.kind == kind, Job.state.in_(("waiting", "running")))
                .values(state="cancelled", owner=None, ended=now)
            )
        found.state = "open"
        event_log.append(
            session, time=now, actor=actor.name, kind="settlement-cancelled", round_id=found.id, person=actor.person_id
        )


def progress(context: Context, actor: Actor | None, round_id: str) -> Progress:
    """How far the settlement is that was started last."""
    actor = require(actor, "see-progress")
    with context.database.reading() as session:
        found, _ = get_seat(session, actor, round_id)
        latest = select(Job).where(Job.round_id == found.id, Job.kind == "settlement").order_by(Job.id.desc()).limit(1)
        job = session.scalars(latest).one_or_none()
    if job is None:
        return Progress(found.state, None, None, 0, None, None, None, None, None)
    problem = job.problem
    if problem is not None and actor.role == "party":
        problem = "the settlement failed; the operator can see why"
    now = job.ended or context.clock()
    return Progress(
        state=found.state,
        job_state=job.state,
        stage=job.stage,
        done=job.finished_of_planned,
        planned=job.planned,
        began=job.began,
        elapsed_s=None if job.began is None else max(now - job.began, 0) / 1000,
        left_s=_left(job, now) if job.state == "running" else None,
        problem=problem,
    )


def task_for(context: Context, round_id: str) -> Task:
    """The task of a round that is being settled, for a worker."""
    with context.database.reading() as session:
        found = get_round(session, round_id)
        chosen = json.loads(found.options_json or "{}")
        seed = chosen.pop("seed", None)  # of a settlement that a version up to 0.7 started
        options = Options.read(chosen)
        sent = _sent(session, found, options)
        secret = _noise_secret(context, session, found, options)
    return _task(found, sent, options, secret, seed)


def _sent(session: Session, found: Round, options: Options) -> Sequence[bytes]:
    """The submissions to a round that count: those of parties that are not left out."""
    statement = (
        select(SubmissionRow.party, SubmissionRow.content)
        .where(SubmissionRow.round_id == found.id)
        .order_by(SubmissionRow.party)
    )
    return [content for party, content in session.execute(statement) if party not in options.without]


def _check_left_out(found: Round, options: Options) -> None:
    names = found.agreement.party_names
    if unknown := [party for party in options.without if party not in names]:
        raise Invalid(
            f"{unknown[0]!r} is no party of this round's agreement, so that nothing can be started without it; its "
            f"parties are {', '.join(names)}"
        )


def _noise_secret(context: Context, session: Session, found: Round, options: Options) -> str | None:
    """Return the secret that rewards' noise is drawn from, if the mechanism adds any."""
    mechanism = options.mechanism or found.agreement.reward.mechanism
    if mechanism == "degraded":
        return path_secret(context, session, found.identity)
    if mechanism != "noise":
        return None
    return found.noise_secret or secrets.token_hex(16)  # rounds that a version up to 0.7 made have none at first


def _task(found: Round, sent: Sequence[bytes], options: Options, secret: str | None, seed: int | None = None) -> Task:
    # Partial: an operator sees who has not submitted, and says on the command line that it is meant.
    settings = SettlementSettings.of(options, {"seed": seed, "noise_secret": secret, "partial": True})
    return task_of(found.agreement, [Submission.parse(data) for data in sent], settings)


def _left(job: Job, now: int) -> float | None:
    """Return the seconds that the rest of a stage takes, if it goes on as so far; None if that is not known.

    It is not known before something is finished, nor once all that was planned is: what goes on then was not planned.
    """
    if not job.planned or job.stage_began is None or not 0 < job.finished_of_planned < job.planned:
        return None
    for_each = max(now - job.stage_began, 0) / 1000 / job.finished_of_planned
    return for_each * (job.planned - job.finished_of_planned)
