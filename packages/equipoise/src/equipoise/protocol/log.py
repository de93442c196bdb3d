"""An event log in which no event can be changed, left out or inserted unnoticed.

The digest of an event covers the digest of the one before it, the round or person it is about, and the digest of its
content. Anyone who has seen the digest of an event, in a receipt for instance, can tell whether a log shown later still
has the same past.

An event can be shown as a link (`link_of`), without its content, and the chain can still be checked; salt keeps readers
of the link from guessing the content. A link has the number of the person it is about, or a mark: readers who know a
round's name can see from the mark that the event is about that round, others see nothing. Hence no event of a round, or
of a person in it, can be hidden by being shown as a link.

Events of versions up to 0.7 have no salt. Their digest needs the whole content, so they are shown whole.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from equipoise._util.canonical import canonical_json, sha256_hex
from equipoise.errors import VerificationError

BEGINNING = "0" * 64
LINK = ("sequence", "previous", "mark", "person", "content")
SAID = ("time", "actor", "kind", "round", "details", "salt")
LET_IN = ("person-approved", "operator-created")
UP_TO_0_7 = ("sequence", "time", "actor", "kind", "round", "details", "previous")


def mark_of(previous: str, round_id: str) -> str:
    """Return the mark of an event about a round that follows the digest `previous`."""
    return sha256_hex(canonical_json([previous, round_id]))


def event_digest(event: Mapping[str, Any]) -> str:
    """Return the SHA-256 of an event, which covers the digest before it but not its own."""
    if "content" not in event and event.get("salt") is None:
        return _digest(event, UP_TO_0_7)
    return _digest(event if "content" in event else link_of(event), LINK)


def link_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event without its content; of one without salt, only its position and digests."""
    link = {name: event.get(name) for name in ("sequence", "previous", "digest")}
    if event.get("salt") is None:
        return link | dict.fromkeys(("mark", "person", "content"))
    round_id = event["round"]
    about = {
        "mark": None if round_id is None else mark_of(event["previous"], round_id),
        "person": event["details"].get("person") if round_id is None else None,
    }
    return link | about | {"content": _digest(event, SAID)}


def concerned(events: Iterable[Mapping[str, Any]], round_id: str) -> set[Any]:
    """Return the numbers of the people who acted in a round, of those who let them in, and so on.

    Links tell nothing. Logs of versions up to 0.7 show everybody's events, which does not make them people of this
    round.
    """
    waiting: list[Any] = []
    # Names of the people who let somebody in, by that person's number.
    let_in_by: dict[Any, set[Any]] = {}
    # Numbers of people, by name.
    known_as: dict[Any, set[Any]] = {}
    for event in events:
        if "content" in event or not isinstance(details := event["details"], Mapping) or details.get("person") is None:
            continue
        person = details["person"]
        if event["round"] == round_id:
            waiting.append(person)
        elif event["kind"] in LET_IN:
            let_in_by.setdefault(person, set()).add(event["actor"])
            known_as.setdefault(details.get("name"), set()).add(person)
    people: set[Any] = set()
    while waiting:
        if (person := waiting.pop()) not in people:
            people.add(person)
            waiting += [number for name in let_in_by.get(person, ()) for number in known_as.pop(name, ())]
    return people


def check_chain(events: Iterable[Mapping[str, Any]], *, previous: str = BEGINNING, first: int = 1) -> str:
    """Refuse a log that was tampered with; return the digest of its last event. Some events may be links."""
    salted = False
    for number, event in enumerate(events, start=first):
        try:
            has_salt = "content" in event or event.get("salt") is not None
            intact = event["sequence"] == number and event["previous"] == previous and has_salt >= salted
            intact = intact and event_digest(event) == event["digest"]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise VerificationError(f"event {number} of the log cannot be read ({error!r})") from error
        if not intact:
            raise VerificationError(
                f"the log was altered at event {number}: an event was changed, left out or put in there"
            )
        previous, salted = str(event["digest"]), has_salt
    return previous


def check_links(links: Sequence[Mapping[str, Any]], *, first: int) -> None:
    """Refuse links that are no chain; events of versions up to 0.7, which come first, show only their digests."""
    before: Mapping[str, Any] | None = None
    for number, link in enumerate(links, start=first):
        intact = link["sequence"] == number and (before is None or link["previous"] == before["digest"])
        if link["content"] is None:
            intact = intact and (before is None or before["content"] is None)
        elif _digest(link, LINK) != link["digest"]:
            intact = False
        if not intact:
            raise VerificationError(
                f"the service's chain of events is broken at event {number}: an event was changed, left out or put in"
            )
        before = link


def _digest(event: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return sha256_hex(canonical_json({name: event[name] for name in names}))
