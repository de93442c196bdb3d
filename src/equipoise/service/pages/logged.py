"""What pages read from the event log: its latest events, and those of submissions."""

from typing import Any

from sqlalchemy import func, select

from equipoise.service import events
from equipoise.service.access import Actor, require
from equipoise.service.context import Context
from equipoise.service.tables import Event, Received


def length(context: Context, actor: Actor | None) -> int:
    """How many events there are."""
    require(actor, "see-events")
    with context.database.reading() as session:
        return session.scalar(select(func.max(Event.sequence))) or 0


def before(context: Context, actor: Actor | None, sequence: int, *, limit: int) -> list[dict[str, Any]]:
    """Events below a number, the newest first."""
    first = max(0, sequence - 1 - limit)
    found = events.listed(context, actor, after=first, limit=limit)
    return [one for one in reversed(found) if one["sequence"] < sequence]


def received(context: Context, actor: Actor | None, round_id: str) -> list[dict[str, Any]]:
    """What receipts of a round say: who sent what, when, and which event recorded it."""
    require(actor, "see-events")
    with context.database.reading() as session:
        rows = session.execute(
            select(Received.party, Received.digest, Received.received, Received.receipt)
            .where(Received.round_id == round_id)
            .order_by(Received.received, Received.party)
        )
        return [{"party": row[0], "digest": row[1], "received": row[2], **_event(row[3])} for row in rows]


def _event(receipt: bytes) -> dict[str, Any]:
    from equipoise.protocol.receipts import Receipt

    read = Receipt.parse(receipt)
    return {"event": read.event, "event_digest": read.event_digest}
