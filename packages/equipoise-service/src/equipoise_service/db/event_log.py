"""The log of everything that changed something: appended to in the same transaction, chained by digests, never edited.

Whoever holds a receipt can tell from it whether the log was rewritten since (`equipoise.protocol.log`). The database
refuses to change or delete an event as well, which stops accidents, not who owns the database.
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

SERVICE = "service"  # the actor where no person is


def append(session: Session, *, time: int, actor: str, kind: str, round_id: str | None = None, **details: Any) -> Event:
    """Append an event to the log; it is there if and only if the transaction is kept. Details hold no secrets.

    Its time is not before that of the last one, even if the clock was set back.
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
    session.flush()  # the next one in this transaction follows it
    return event


def documents(session: Session, *, after: int = 0, limit: int | None = None) -> list[dict[str, Any]]:
    """Events after a sequence number, in order, as they are chained and exported."""
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
