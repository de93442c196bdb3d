"""The log of everything that changed something: appended to in the same transaction, chained by digests, never edited.

Whoever holds a receipt can tell from it whether the log was rewritten since (`equipoise.protocol.log`). The database
refuses to change or delete an event as well, which stops accidents, not who owns the database.
"""

import json
import secrets
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from equipoise._util.canonical import canonical_json
from equipoise.protocol.log import BEGINNING, check_chain, event_digest, link_of
from equipoise.service.db.database import wait_alone
from equipoise.service.db.tables import Event
from equipoise.service.rules.access import Actor, require, seat_of

if TYPE_CHECKING:
    from equipoise.service.context import Context

SERVICE = "service"  # the actor where no person is
MOST = 1_000  # events in one answer
_PIECE = 5_000


def record(session: Session, *, time: int, actor: str, kind: str, round_id: str | None = None, **details: Any) -> Event:
    """Append an event; it is there if and only if the transaction is kept. Details hold no secrets.

    Its time is not before that of the last one, even if the clock was set back.
    """
    wait_alone(session)
    columns = select(Event.sequence, Event.digest, Event.time).order_by(Event.sequence.desc()).limit(1)
    head = session.execute(columns).first()
    sequence, previous, last = (1, BEGINNING, 0) if head is None else (head.sequence + 1, head.digest, head.time)
    time, salt = max(time, last), secrets.token_hex(16)
    document = {
        "sequence": sequence,
        "time": time,
        "actor": actor,
        "kind": kind,
        "round": round_id,
        "details": details,
        "salt": salt,
        "previous": previous,
    }
    event = Event(
        sequence=sequence,
        time=time,
        actor=actor,
        kind=kind,
        round_id=round_id,
        details_json=canonical_json(details).decode("ascii"),
        previous=previous,
        digest=event_digest(document),
        salt=salt,
    )
    session.add(event)
    session.flush()  # the next one in this transaction follows it
    return event


def documents(session: Session, *, after: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
    """Events in order, as they are chained and exported."""
    statement = select(Event).where(Event.sequence > after).order_by(Event.sequence).limit(limit)
    return [
        {
            "sequence": event.sequence,
            "time": event.time,
            "actor": event.actor,
            "kind": event.kind,
            "round": event.round_id,
            "details": json.loads(event.details_json),
            **({} if event.salt is None else {"salt": event.salt}),
            "previous": event.previous,
            "digest": event.digest,
        }
        for event in session.scalars(statement)
    ]


def chain(
    context: "Context", actor: Actor | None, round_id: str, *, after: int = 0, limit: int = MOST
) -> list[dict[str, Any]]:
    """The log after a sequence number without what it says, for members of a round to look for their receipts in."""
    actor = require(actor, "see-chain")
    with context.database.reading() as session:
        seat_of(session, actor, round_id)
        return [link_of(one) for one in documents(session, after=min(max(after, 0), 2**62), limit=min(limit, MOST))]


def verified(context: "Context") -> str:
    """Check the whole log; the digest of its last event."""
    head, last = BEGINNING, 0
    with context.database.reading(snapshot=True) as session:
        while piece := documents(session, after=last, limit=_PIECE):
            head = check_chain(piece, previous=head, first=last + 1)
            last += len(piece)
            session.expunge_all()
    return head


def latest(
    context: "Context", actor: Actor | None, *, before: int | None = None, limit: int = 100
) -> tuple[list[dict[str, Any]], int]:
    """Events below a number (all, unless given), the newest first, and how many there are in all."""
    require(actor, "see-events")
    with context.database.reading() as session:
        number = session.scalar(select(func.max(Event.sequence))) or 0
        top = number + 1 if before is None else min(max(before, 1), number + 1)
        found = documents(session, after=max(0, top - 1 - limit), limit=limit)
    return [one for one in reversed(found) if one["sequence"] < top], number


def listed(context: "Context", actor: Actor | None, *, after: int = 0, limit: int = 500) -> list[dict[str, Any]]:
    """Events after a sequence number, at most 1,000 at once."""
    require(actor, "see-events")
    with context.database.reading() as session:
        return documents(session, after=min(max(after, 0), 2**62), limit=min(max(limit, 1), MOST))
