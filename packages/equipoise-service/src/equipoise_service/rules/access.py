"""Who may do what: one table, asked before every rule.

Whether a party may see a certain round is not a matter of roles; `get_seat` says it.
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
    """Whoever makes a request: a person who is signed in and approved."""

    person_id: int
    name: str
    role: str
    public_key: str | None


def require(actor: Actor | None, action: str) -> Actor:
    """Refuse an actor whose role does not allow an action; returns the actor otherwise."""
    if actor is None:
        raise NotSignedIn("nobody is signed in; sign the request with your key, or sign in first")
    if actor.role not in ACTIONS[action]:
        roles = " or ".join(sorted(ACTIONS[action]))
        raise Forbidden(f"{actor.name!r} is signed in as {actor.role}; this is for the {roles}")
    return actor


def require_active(session: Session, actor: Actor) -> None:
    """Within a transaction that changes something: refuse somebody whose access ended since the request was let in."""
    person = session.get(Person, actor.person_id)
    if person is None or person.state != "approved":
        raise NotSignedIn(f"the access of {actor.name!r} has ended; ask the operator")


def get_round(session: Session, round_id: str) -> Round:
    """A round by its id, whoever asks; `NotFound` if there is none."""
    check_round_id(round_id)
    found = session.get(Round, round_id)
    if found is None:
        raise NotFound(NO_ROUND)
    return found


def check_round_id(round_id: str) -> None:
    """Refuse what cannot be a round's id: whatever else an address holds need not reach the database."""
    if not _ROUND.fullmatch(round_id):
        raise NotFound(NO_ROUND)


def get_seat(session: Session, actor: Actor, round_id: str) -> tuple[Round, Seat | None]:
    """The round, with the seat a party has in it (None for others).

    A round that a party is not invited to is to it as one that does not exist. Where the agreement names a key, only
    its owner has the seat: another person may later be approved under the same name.
    """
    found = get_round(session, round_id)
    if actor.role != "party":
        return found, None
    seat = session.get(Seat, (found.id, actor.name))
    if seat is None or seat.invited is None or not matches_key(found, actor):
        get_round(session, "")  # the same refusal
    return found, seat


def matches_key(round_: Round, actor: Actor) -> bool:
    """Whether the agreement means this party's key, or any, by the party's name."""
    return is_meant(round_.agreement, actor)


def is_meant(agreement: Agreement, actor: Actor) -> bool:
    """Whether an agreement means this party's key, or any, by the party's name."""
    pinned = agreement.party(actor.name).public_key
    return pinned is None or pinned == actor.public_key
