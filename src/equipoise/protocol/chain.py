"""A log in which nothing can be changed, left out or put in between without it showing.

Every event holds the digest of the one before it. Whoever has seen the digest of an event, in a receipt for instance,
can tell whether the log it is shown later still has the same past.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from equipoise.canonical import canonical_json, sha256_hex
from equipoise.errors import VerificationError

BEGINNING = "0" * 64
FIELDS = ("sequence", "time", "actor", "kind", "round", "details", "previous")


def event_digest(event: Mapping[str, Any]) -> str:
    """SHA-256 of an event's canonical form, the digest before it included and its own left out."""
    return sha256_hex(canonical_json({name: event[name] for name in FIELDS}))


def check_chain(events: Iterable[Mapping[str, Any]], *, previous: str = BEGINNING, first: int = 1) -> str:
    """Refuse a log that was tampered with; the digest of its last event otherwise."""
    for number, event in enumerate(events, start=first):
        try:
            intact = event["sequence"] == number and event["previous"] == previous
            intact = intact and event_digest(event) == event["digest"]
        except (KeyError, TypeError, ValueError) as error:
            raise VerificationError(f"event {number} of the log cannot be read ({error!r})") from error
        if not intact:
            raise VerificationError(
                f"the log was altered at event {number}: an event was changed, left out or put in there"
            )
        previous = str(event["digest"])
    return previous
