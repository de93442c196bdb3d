"""Starting, watching and cancelling a settlement; workers compute it (`equipoise_service.jobs.worker`)."""

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
    """The progress of a settlement: `state` is the round's, `done` and `planned` count requests of the current stage.

    Durations are in seconds. Only operators and auditors see the problem of a failed settlement, because it may concern
    single parties.
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
    """Start the settlement of a round with the present submissions, and accept no more submissions from now on.

    Anything that can be refused is refused now, not later by a worker. Submissions of the parties in `options.without`
    stay stored but unused, so that one unusable submission cannot block the settlement. Seed and noise depend only on
    the submissions, so a restart with the same submissions repeats them.
    """
    actor = require(actor, "settle")
    with context.database.reading() as session:
        round_ = get_round(session, round_id)
        require_open(round_)
        sent = _sent(session, round_, options)
        secret = _noise_secret(context, session, round_, options)
    _check_left_out(round_, options)
    if not sent:
        who = "nobody else" if options.without else "nobody"
        raise Conflict(f"{who} has submitted to this round yet; wait for at least one party", code="no-submissions")
    try:
        # Parse outside of the transaction, so that other writers need not wait.
        task = _task(round_, sent, options, secret)
    except SubmissionError as error:
        raise Invalid(f"{error}; or start without that party (--without)") from error
    except EquipoiseError as error:
        raise Invalid(str(error)) from error
    with context.database.writing(exclusive=True) as session:
        require_active(session, actor)
        round_ = get_round(session, round_id)
        require_open(round_)
        if _sent(session, round_, options) != sent:
            raise Conflict("a submission arrived just now; look who takes part, then start again")
        now, chosen = context.clock(), options.to_json()
        round_.state = "settling"
        if task.mechanism == "noise":
            round_.noise_secret = round_.noise_secret or secret
        round_.options_json = canonical_json(chosen).decode("ascii")
        session.add(
            Job(
                round_id=round_.id,
                kind="settlement",
                digest=secrets.token_hex(32),  # every start is a job of its own
                payload_json=round_.options_json,
                state="waiting",
                created=now,
            )
        )
        event_log.append(
            session,
            time=now,
            actor=actor.name,
            kind="settlement-started",
            round_id=round_.id,
            person=actor.person_id,
            options=chosen,
            seed=task.seed,
        )


def cancel(context: Context, actor: Actor | None, round_id: str) -> None:
    """Stop a settlement; the round is open again, and what was computed stays for the next start."""
    actor = require(actor, "settle")
    with context.database.writing(exclusive=True) as session:
        require_active(session, actor)
        round_ = get_round(session, round_id)
        if round_.state != "settling":
            raise Conflict(f"the round is {round_.state}; there is no settlement to cancel", code="not-settling")
        now = context.clock()
        # Workers lock rows in this order, too.
        for kind in ("settlement", "batch"):
            session.execute(
                update(Job)
                .where(Job.round_id == round_.id, Job.kind == kind, Job.state.in_(("waiting", "running")))
                .values(state="cancelled", owner=None, ended=now)
            )
        round_.state = "open"
        event_log.append(
            session, time=now, actor=actor.name, kind="settlement-cancelled", round_id=round_.id, person=actor.person_id
        )


def progress(context: Context, actor: Actor | None, round_id: str) -> Progress:
    """Return the progress of the settlement that was started last."""
    actor = require(actor, "see-progress")
    with context.database.reading() as session:
        round_, _ = get_seat(session, actor, round_id)
        latest = select(Job).where(Job.round_id == round_.id, Job.kind == "settlement").order_by(Job.id.desc()).limit(1)
        job = session.scalars(latest).one_or_none()
    if job is None:
        return Progress(round_.state, None, None, 0, None, None, None, None, None)
    problem = job.problem
    if problem is not None and actor.role == "party":
        problem = "the settlement failed; the operator can see why"
    now = job.ended or context.clock()
    return Progress(
        state=round_.state,
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
    """Return the task of a round that is being settled, for a worker."""
    with context.database.reading() as session:
        round_ = get_round(session, round_id)
        chosen = json.loads(round_.options_json or "{}")
        # Only settlements that a version up to 0.7 started have a stored seed.
        seed = chosen.pop("seed", None)
        options = Options.read(chosen)
        sent = _sent(session, round_, options)
        secret = _noise_secret(context, session, round_, options)
    return _task(round_, sent, options, secret, seed)


def _sent(session: Session, round_: Round, options: Options) -> Sequence[bytes]:
    """Return the submissions to a round that count: those of parties that are not left out."""
    statement = (
        select(SubmissionRow.party, SubmissionRow.content)
        .where(SubmissionRow.round_id == round_.id)
        .order_by(SubmissionRow.party)
    )
    return [content for party, content in session.execute(statement) if party not in options.without]


def _check_left_out(round_: Round, options: Options) -> None:
    names = round_.agreement.party_names
    if unknown := [party for party in options.without if party not in names]:
        raise Invalid(
            f"{unknown[0]!r} is no party of this round's agreement, so that nothing can be started without it; its "
            f"parties are {', '.join(names)}"
        )


def _noise_secret(context: Context, session: Session, round_: Round, options: Options) -> str | None:
    """Return the secret that rewards' noise is drawn from, if the mechanism adds any."""
    mechanism = options.mechanism or round_.agreement.reward.mechanism
    if mechanism == "degraded":
        return path_secret(context, session, round_.identity)
    if mechanism != "noise":
        return None
    # Rounds that a version up to 0.7 made have no secret at first.
    return round_.noise_secret or secrets.token_hex(16)


def _task(round_: Round, sent: Sequence[bytes], options: Options, secret: str | None, seed: int | None = None) -> Task:
    # Partial, because the operator has already seen which submissions are missing and confirmed the start.
    settings = SettlementSettings.of(options, {"seed": seed, "noise_secret": secret, "partial": True})
    return task_of(round_.agreement, [Submission.parse(data) for data in sent], settings)


def _left(job: Job, now: int) -> float | None:
    """Return the expected seconds until the end of a stage, at its present pace; None if they cannot be estimated.

    There is no estimate before the first request is finished, nor once all planned requests are: what follows was not
    planned.
    """
    if not job.planned or job.stage_began is None or not 0 < job.finished_of_planned < job.planned:
        return None
    for_each = max(now - job.stage_began, 0) / 1000 / job.finished_of_planned
    return for_each * (job.planned - job.finished_of_planned)
