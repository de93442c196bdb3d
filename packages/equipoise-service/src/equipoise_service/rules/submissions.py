"""Submissions: checked on arrival, stored byte for byte, and acknowledged by a receipt; one for each seat.

A party that does not know whether its submission arrived can send it again, and gets the same receipt.
"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from equipoise._util.canonical import sha256_hex
from equipoise.errors import SubmissionError
from equipoise.models import layout_of
from equipoise.protocol.receipts import Receipt
from equipoise.protocol.submission import Submission, max_submission_bytes
from equipoise_service.context import Context
from equipoise_service.db import event_log
from equipoise_service.db.tables import Round, SubmissionRow
from equipoise_service.errors import Conflict, Forbidden, Invalid, NotFound, TooLarge
from equipoise_service.rules.access import Actor, get_round, get_seat, require, require_active
from equipoise_service.rules.rounds import require_open


def accept(context: Context, actor: Actor | None, round_id: str, data: bytes) -> tuple[Receipt, bool]:
    """Store a submission; return its receipt, and True if it is new. On return, the submission is on disk."""
    actor = require(actor, "submit")
    with context.database.reading() as session:
        round_, _ = get_seat(session, actor, round_id)
        if (known := _existing_receipt(session, round_, actor, data)) is not None:
            return known, False
        require_open(round_)
    # Check outside of the transaction, so that other writers need not wait.
    submission = _checked(round_, actor, data)
    with context.database.writing(exclusive=True) as session:
        require_active(session, actor)
        round_, _ = get_seat(session, actor, round_id)
        if (known := _existing_receipt(session, round_, actor, data)) is not None:
            return known, False
        require_open(round_)
        _check_unused(session, submission, data)
        return _store(session, context, actor, round_, submission, data), True


def own_submission(context: Context, actor: Actor | None, round_id: str) -> bytes:
    """Return a party's own submission to a round, byte for byte."""
    return _own(context, actor, round_id).content


def receipt(context: Context, actor: Actor | None, round_id: str) -> Receipt:
    """Return the receipt of a party's own submission to a round."""
    return Receipt.parse(_own(context, actor, round_id).receipt)


def _own(context: Context, actor: Actor | None, round_id: str) -> SubmissionRow:
    actor = require(actor, "see-own-submission")
    with context.database.reading() as session:
        round_, _ = get_seat(session, actor, round_id)
        kept = session.get(SubmissionRow, (round_.id, actor.name))
    if kept is None:
        raise NotFound(f"{actor.name!r} has not submitted to this round yet")
    return kept


def _existing_receipt(session: Session, round_: Round, actor: Actor, data: bytes) -> Receipt | None:
    """Return the receipt if this very submission is stored already; refuse a different one."""
    kept = session.get(SubmissionRow, (round_.id, actor.name))
    if kept is None:
        return None
    if kept.digest != sha256_hex(data):
        raise Conflict(
            f"{actor.name!r} has submitted to this round already, with other content; what was received counts, and "
            "cannot be replaced"
        )
    return Receipt.parse(kept.receipt)


def _checked(round_: Round, actor: Actor, data: bytes) -> Submission:
    agreed = round_.agreement
    if len(data) > (most := max_submission_bytes(len(layout_of(agreed)))):
        raise TooLarge(f"a submission to this round has at most {most:,} bytes, not {len(data):,}")
    try:
        submission = Submission.parse(data)
        if submission.party != actor.name:
            raise Forbidden(f"this is the submission of {submission.party!r}; {actor.name!r} sends its own")
        submission.check(agreed)
    except SubmissionError as error:
        raise Invalid(str(error)) from error
    # Otherwise receipt, log and settlement would name the submission by different digests.
    if data != submission.to_json():
        raise Invalid(
            f"the submission of {submission.party!r} was written anew, with other spaces, order or digits than a "
            "release has; send it with `equipoise submit`, or unchanged"
        )
    if submission.public_key != actor.public_key:
        raise Forbidden(
            f"the submission is signed with the key {submission.public_key[:16]}…, not the one that {actor.name!r} is "
            "approved with; release with that key"
        )
    return submission


def receipts(context: Context, actor: Actor | None, round_id: str) -> list[Receipt]:
    """Return all receipts of a round as they were issued, in the order of arrival, for operators and auditors."""
    require(actor, "see-events")
    with context.database.reading() as session:
        statement = select(SubmissionRow.receipt).where(SubmissionRow.round_id == get_round(session, round_id).id)
        return [
            Receipt.parse(data)
            for data in session.scalars(statement.order_by(SubmissionRow.received, SubmissionRow.party))
        ]


def _check_unused(session: Session, submission: Submission, data: bytes) -> None:
    """Refuse a release that was received before, in any round, with other content or from another party."""
    columns = select(SubmissionRow.party, SubmissionRow.digest).where(SubmissionRow.submission_id == submission.id)
    if any(tuple(row) != (submission.party, sha256_hex(data)) for row in session.execute(columns)):
        raise Conflict(
            f"a submission with the id {submission.id[:12]}… was received before, with other content or from another "
            "party; release anew",
            code="replayed",
        )


def _store(
    session: Session, context: Context, actor: Actor, round_: Round, submission: Submission, data: bytes
) -> Receipt:
    now, digest = context.clock(), sha256_hex(data)
    event = event_log.append(
        session,
        time=now,
        actor=actor.name,
        kind="submission-accepted",
        round_id=round_.id,
        party=submission.party,
        submission=submission.id,
        digest=digest,
        person=actor.person_id,
    )
    receipt = Receipt.signed(
        context.key,
        round=round_.id,
        agreement=round_.identity,
        party=submission.party,
        submission=submission.id,
        digest=digest,
        received=now,
        event=event.sequence,
        event_digest=event.digest,
    )
    session.add(
        SubmissionRow(
            round_id=round_.id,
            party=submission.party,
            person_id=actor.person_id,
            submission_id=submission.id,
            digest=digest,
            rows=submission.count,
            epsilon=repr(submission.guarantee.epsilon),
            content=data,
            receipt=receipt.to_json(),
            received=now,
        )
    )
    return receipt
