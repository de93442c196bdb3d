"""Reading the log of events, for operators and auditors, and its chain of digests, for members of a round."""

from typing import Any

from sqlalchemy import func, select

from equipoise.protocol.log import BEGINNING, check_chain, link_of
from equipoise_service.context import Context
from equipoise_service.db.event_log import documents
from equipoise_service.db.tables import Event
from equipoise_service.rules.access import Actor, get_seat, require

MAX_EVENTS = 1_000  # events in one answer
_CHUNK = 5_000


def chain(
    context: Context, actor: Actor | None, round_id: str, *, after: int = 0, limit: int = MAX_EVENTS
) -> list[dict[str, Any]]:
    """Return the log's links after a sequence number, without contents, so that members can look for their receipts."""
    actor = require(actor, "see-chain")
    with context.database.reading() as session:
        get_seat(session, actor, round_id)
        return [
            link_of(document)
            for document in documents(session, after=min(max(after, 0), 2**62), limit=min(limit, MAX_EVENTS))
        ]


def verify_chain(context: Context) -> str:
    """Verify the chain of the whole log; return the digest of its last event."""
    head, last = BEGINNING, 0
    with context.database.reading(snapshot=True) as session:
        while piece := documents(session, after=last, limit=_CHUNK):
            head = check_chain(piece, previous=head, first=last + 1)
            last += len(piece)
            session.expunge_all()
    return head


def latest(
    context: Context, actor: Actor | None, *, before: int | None = None, limit: int = 100
) -> tuple[list[dict[str, Any]], int]:
    """Return the latest events, below the number `before` if given, the newest first, and the number of all events."""
    require(actor, "see-events")
    with context.database.reading() as session:
        number = session.scalar(select(func.max(Event.sequence))) or 0
        top = number + 1 if before is None else min(max(before, 1), number + 1)
        events = documents(session, after=max(0, top - 1 - limit), limit=limit)
    return [event for event in reversed(events) if event["sequence"] < top], number


def list_events(context: Context, actor: Actor | None, *, after: int = 0, limit: int = 500) -> list[dict[str, Any]]:
    """Return events after a sequence number, at most 1,000 at once."""
    require(actor, "see-events")
    with context.database.reading() as session:
        return documents(session, after=min(max(after, 0), 2**62), limit=min(max(limit, 1), MAX_EVENTS))
