"""Permissions: one table of roles by action, which every rule consults first.

Roles do not decide which rounds a party may see; `get_seat` does.
"""

import re
from dataclasses import dataclass

from sqlalchemy.orm import Session

from equipoise.agreement import Agreement
from equipoise_service.db.tables import Person, Round, Seat
from equipoise_service.errors import Forbidden, NotFound, NotSignedIn

_OPERATOR = frozenset({"operator"})
_PARTY = frozenset({"party"})
_OVERSEERS = frozenset({"operator", "auditor"})
_EVERYBODY = frozenset({"operator", "party", "auditor"})

_ROUND = re.compile("[a-z0-9]{4,40}")
NO_ROUND = "there is no such round, or you are not invited to it; `equipoise status` lists yours"

ACTIONS: dict[str, frozenset[str]] = {
    "see-self": _EVERYBODY,
    "sign-in": _EVERYBODY,
    "see-people": _OVERSEERS,
    "decide-people": _OPERATOR,
    "revoke-people": _OPERATOR,
    "create-rounds": _OPERATOR,
    "invite": _OPERATOR,
    "close-rounds": _OPERATOR,
    "see-rounds": _EVERYBODY,
    "submit": _PARTY,
    "see-own-submission": _PARTY,
    "settle": _OPERATOR,
    "see-progress": _EVERYBODY,
    "see-settlement": _OVERSEERS,
    "see-own-result": _PARTY,
    "fetch-reward": _PARTY,
    "see-summary": _EVERYBODY,
    "see-audit": _EVERYBODY,
    "export": _OPERATOR,
    "see-events": _OVERSEERS,
    "see-chain": _EVERYBODY,
}


@dataclass(frozen=True)
class Actor:
    """An approved person who is signed in and makes a request."""

    person_id: int
    name: str
    role: str
    public_key: str | None


def require(actor: Actor | None, action: str) -> Actor:
    """Refuse an actor whose role does not allow an action; otherwise return the actor."""
    if actor is None:
        raise NotSignedIn("nobody is signed in; sign the request with your key, or sign in first")
    if actor.role not in ACTIONS[action]:
        roles = " or ".join(sorted(ACTIONS[action]))
        raise Forbidden(f"{actor.name!r} is signed in as {actor.role}; this is for the {roles}")
    return actor


def require_active(session: Session, actor: Actor) -> None:
    """Refuse, within a transaction that changes something, an actor whose access has ended since authentication."""
    person = session.get(Person, actor.person_id)
    if person is None or person.state != "approved":
        raise NotSignedIn(f"the access of {actor.name!r} has ended; ask the operator")


def get_round(session: Session, round_id: str) -> Round:
    """Return a round by its id, without checking permissions; raise `NotFound` if there is none."""
    check_round_id(round_id)
    round_ = session.get(Round, round_id)
    if round_ is None:
        raise NotFound(NO_ROUND)
    return round_


def check_round_id(round_id: str) -> None:
    """Refuse a text that cannot be a round's id, before it reaches the database."""
    if not _ROUND.fullmatch(round_id):
        raise NotFound(NO_ROUND)


def get_seat(session: Session, actor: Actor, round_id: str) -> tuple[Round, Seat | None]:
    """Return a round and the actor's seat in it (None for operators and auditors).

    A round that a party is not invited to is refused as if it did not exist. If the agreement names a key for the
    party, only the owner of that key has the seat: another person may later be approved under the same name.
    """
    round_ = get_round(session, round_id)
    if actor.role != "party":
        return round_, None
    seat = session.get(Seat, (round_.id, actor.name))
    if seat is None or seat.invited is None or not matches_key(round_, actor):
        # This raises the same refusal as for a round that does not exist.
        get_round(session, "")
    return round_, seat


def matches_key(round_: Round, actor: Actor) -> bool:
    """Return True if the round's agreement names this party's key for its name, or no key at all."""
    return is_meant(round_.agreement, actor)


def is_meant(agreement: Agreement, actor: Actor) -> bool:
    """Return True if an agreement names this party's key for its name, or no key at all."""
    pinned = agreement.party(actor.name).public_key
    return pinned is None or pinned == actor.public_key
