"""The log of all changes: each event is appended in the transaction of its change, chained by digests, never edited.

The holder of a receipt can tell whether the log was rewritten since (`equipoise.protocol.log`). The database also
refuses to change or delete events; that prevents accidents, but does not stop the owner of the database.
"""

import json
import secrets
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from equipoise._util.canonical import canonical_json
from equipoise.protocol.log import BEGINNING, event_digest
from equipoise_service.db.database import lock_exclusively
from equipoise_service.db.tables import Event

# The actor of events that no person caused.
SERVICE = "service"


def append(session: Session, *, time: int, actor: str, kind: str, round_id: str | None = None, **details: Any) -> Event:
    """Append an event to the log; it is kept if and only if the transaction commits. Details hold no secrets.

    Its time is never before that of the previous event, even if the clock was set back.
    """
    lock_exclusively(session)
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
    # The next event in this transaction must be chained to this one.
    session.flush()
    return event


def documents(session: Session, *, after: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the events after a sequence number, in order, in the form that is chained and exported."""
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
