"""People: they ask to join with a key of their own, and an operator approves them by the key's fingerprint.

Anybody can ask, with as many keys as they like. So the number of waiting requests from one address is limited. If too
many requests wait in all, the oldest request of the address with most of them is dropped, so that requests from other
addresses still find room.

A name belongs to at most one approved person. Once that person is revoked, for instance because a party lost its key,
the operator may approve another key under the name. The new key then has the seats of that name, except where the
agreement names a key.

The first operator signs in by a one-time link and needs no key. Operators get a key by asking to join under their own
name and approving themselves.
"""

import hmac
import re
from collections import Counter
from dataclasses import dataclass

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from equipoise.agreement.schema import PARTY_NAME
from equipoise.models.section import validate_public_key
from equipoise.protocol.keys import fingerprint, same_fingerprint
from equipoise_service.context import Context
from equipoise_service.db import event_log
from equipoise_service.db.tables import ROLES, Person, Secret
from equipoise_service.errors import Conflict, Invalid, NotFound, NotSignedIn, TooMany
from equipoise_service.rules.access import Actor, require, require_active
from equipoise_service.rules.authentication import hashed, new_secret

MAX_WAITING = 1_000
# Waiting requests from one address.
MAX_PER_ADDRESS = 20
MAX_NOTE_LENGTH = 200
FIRST_OPERATOR_MS = 24 * 3_600_000
_FIRST = "first operator"


@dataclass(frozen=True)
class PersonView:
    """A person as shown to operators, auditors and the person itself; times are milliseconds since 1970."""

    id: int
    name: str
    role: str
    state: str
    public_key: str | None
    fingerprint: str | None
    note: str
    requested: int
    decided: int | None


def ask_to_join(
    context: Context, *, name: str, role: str, public_key: str, note: str = "", address: str | None = None
) -> PersonView:
    """Record a request to be approved. Asking again with the same key changes nothing and returns the present state.

    The caller must have verified that the person owns the key (`authentication.verify_signature`). A hash of `address`
    is kept until an operator decides.
    """
    _check_name(name)
    _check_key(public_key)
    if role not in ROLES:
        raise Invalid(f"there is no role {role!r}; choose one of {', '.join(ROLES)}")
    if len(note) > MAX_NOTE_LENGTH or not note.isprintable():
        raise Invalid(f"a note has at most {MAX_NOTE_LENGTH} letters, on one line")
    with context.database.writing(exclusive=True) as session:
        known = _by_key(session, public_key)
        if known is not None:
            if (known.name, known.role) != (name, role):
                raise Conflict(
                    f"this key asked to join as {known.role} {known.name!r} before; make another key for another name"
                )
            return _view(known)
        origin = None if address is None else _hashed_address(context, address)
        _make_room(session, origin)
        person = Person(
            name=name,
            role=role,
            state="requested",
            public_key=public_key,
            note=note,
            requested=context.clock(),
            origin=origin,
        )
        session.add(person)
        session.flush()
        # The actor is the service, because nobody has checked yet that the name is the person's own.
        _record(session, context, event_log.SERVICE, "join-requested", person)
        return _view(person)


def has_operator(context: Context) -> bool:
    """Return True if there is an operator, who can approve others."""
    with context.database.reading() as session:
        return _operators(session) > 0


def first_operator_secret(context: Context) -> str:
    """Create a secret that makes its bearer an operator, once, within 24 hours. Earlier ones become invalid."""
    secret = new_secret()
    with context.database.writing(exclusive=True) as session:
        session.execute(delete(Secret).where(Secret.purpose == _FIRST))
        session.add(Secret(hash=hashed(secret), purpose=_FIRST, expires=context.clock() + FIRST_OPERATOR_MS))
    return secret


def claim_first_operator(context: Context, secret: str, *, name: str, public_key: str | None = None) -> Actor:
    """Use up the one-time secret, and return the operator, who is created if nobody has the name.

    An existing operator of that name without a key is signed in, and gets the key if one is given. If the request is
    refused for another reason, the secret stays valid.
    """
    _check_name(name)
    if public_key is not None:
        _check_key(public_key)
    with context.database.writing(exclusive=True) as session:
        used = session.get(Secret, hashed(secret))
        if used is None or used.purpose != _FIRST or used.expires <= context.clock():
            raise NotSignedIn(
                "this one-time link was used, replaced or is too old; print a new one with "
                "`equipoise serve --operator-link`"
            )
        session.delete(used)
        person = _first_operator(session, context, name, public_key)
        return Actor(person.id, person.name, person.role, person.public_key)


def decide(context: Context, actor: Actor | None, person_id: int, *, approve: bool, fingerprint: str) -> PersonView:
    """Approve or refuse a person's request; `fingerprint` is the one that the operator was told."""
    actor = require(actor, "decide-people")
    with context.database.writing(exclusive=True) as session:
        require_active(session, actor)
        person = _person(session, person_id)
        if person.public_key is None or not same_fingerprint(fingerprint, _fingerprint(person) or ""):
            raise Conflict(
                f"the fingerprint is not that of request {person_id}; compare it with {person.name!r} by telephone or "
                "in person, and do not approve another",
                code="fingerprint",
            )
        wanted = "approved" if approve else "refused"
        if person.state == wanted:
            return _view(person)
        if person.state == "revoked" or not (approve or person.state == "requested"):
            raise Conflict(f"{person.name!r} is {person.state} already; " + _WAY_OUT[person.state])
        if approve and (own := _keyless(session, actor, person)) is not None:
            return _enrol_key(session, context, own, person)
        if approve:
            _check_free(session, person)
        person.state, person.decided, person.origin = wanted, context.clock(), None
        _record(session, context, actor.name, f"person-{wanted}", person)
        return _view(person)


def drop_requests(context: Context, actor: Actor | None, *, before: int) -> int:
    """Drop all waiting requests made before a time, and return their number. The people may ask again."""
    actor = require(actor, "decide-people")
    with context.database.writing(exclusive=True) as session:
        require_active(session, actor)
        old = delete(Person).where(Person.state == "requested", Person.requested < before)
        dropped = len(session.execute(old.returning(Person.id)).all())
        if dropped:
            event_log.append(
                session,
                time=context.clock(),
                actor=actor.name,
                kind="requests-cleared",
                person=actor.person_id,
                number=dropped,
            )
    return dropped


def revoke(context: Context, actor: Actor | None, person_id: int) -> PersonView:
    """End a person's access at once, on all devices."""
    actor = require(actor, "revoke-people")
    with context.database.writing(exclusive=True) as session:
        require_active(session, actor)
        person = _person(session, person_id)
        if person.state == "revoked":
            return _view(person)
        if person.state != "approved":
            raise Conflict(f"{person.name!r} is not approved but {person.state}, so there is nothing to revoke")
        if person.role == "operator" and _operators(session) == 1:
            raise Conflict(f"{person.name!r} is the only operator; approve another one first")
        session.execute(delete(Secret).where(Secret.person_id == person.id))
        person.state, person.decided = "revoked", context.clock()
        _record(session, context, actor.name, "person-revoked", person)
        return _view(person)


def list_people(context: Context, actor: Actor | None) -> list[PersonView]:
    """List all people who asked to join: waiting requests first, then in the order of their ids."""
    require(actor, "see-people")
    with context.database.reading() as session:
        people = session.scalars(select(Person).order_by(Person.state != "requested", Person.id))
        return [_view(person) for person in people]


def me(context: Context, actor: Actor | None) -> PersonView:
    """Return the actor's own record."""
    actor = require(actor, "see-self")
    with context.database.reading() as session:
        return _view(_person(session, actor.person_id))


def _keyless(session: Session, actor: Actor, person: Person) -> Person | None:
    """Return the deciding operator, if it has no key and the request is for its own name; None otherwise."""
    own = _person(session, actor.person_id)
    same = (own.name, own.role, own.public_key) == (person.name, person.role, None)
    return own if same and person.state == "requested" else None


def _enrol_key(session: Session, context: Context, own: Person, request: Person) -> PersonView:
    """Move the key of an operator's own request to the operator, who has none, and delete the request."""
    public_key = request.public_key
    session.delete(request)
    # Keys are unique, so the request must be gone before the operator gets its key.
    session.flush()
    own.public_key = public_key
    _record(session, context, own.name, "person-approved", own)
    return _view(own)


def _make_room(session: Session, origin: str | None) -> None:
    """Refuse an address at its limit. If too many requests wait, delete the oldest of the address with most of them."""
    # Order by id, because times are out of order after the clock was set back.
    waiting = session.execute(
        select(Person.id, Person.origin).where(Person.state == "requested").order_by(Person.id)
    ).all()
    # Requests made before addresses were recorded count as from an address of their own each.
    each = Counter(request.origin or str(request.id) for request in waiting)
    if origin is not None and each[origin] >= MAX_PER_ADDRESS:
        raise TooMany(
            f"{each[origin]} requests to join from this address are waiting; the operator must decide on some first"
        )
    if len(waiting) >= MAX_WAITING:
        most = max(each.values())
        oldest = next(request.id for request in waiting if each[request.origin or str(request.id)] == most)
        session.execute(delete(Person).where(Person.id == oldest))


def _hashed_address(context: Context, address: str) -> str:
    """Return a keyed hash of an address, which serves for counting and is useless without the service's key."""
    return hmac.new(context.key.private_bytes_raw(), address.encode(), "sha256").hexdigest()


_WAY_OUT = {
    "revoked": "ask for a request with a new key",
    "approved": "revoke the person instead",
}


def _first_operator(session: Session, context: Context, name: str, public_key: str | None) -> Person:
    person = session.scalars(
        select(Person).where(func.lower(Person.name) == name.lower(), Person.state == "approved")
    ).one_or_none()
    owner = None if public_key is None else _by_key(session, public_key)
    if (
        owner is not None
        and person is None
        and (owner.name, owner.role, owner.state) == (name, "operator", "requested")
    ):
        # The person asked to join before opening the one-time link.
        owner.state, owner.decided = "approved", context.clock()
        _record(session, context, name, "operator-created", owner)
        return owner
    if owner is not None and owner is not person:
        raise Conflict(f"this key belongs to the request of {owner.role} {owner.name!r}; use another key")
    if person is None:
        now = context.clock()
        person = Person(
            name=name, role="operator", state="approved", public_key=public_key, note="", requested=now, decided=now
        )
        session.add(person)
        session.flush()
        _record(session, context, name, "operator-created", person)
        return person
    if person.role != "operator" or person.name != name or person.public_key not in (None, public_key):
        raise Conflict(f"the name {name!r} is taken; choose another")
    person.public_key = public_key
    _record(session, context, name, "signed-in", person)
    return person


def _check_name(name: str) -> None:
    if name.casefold() == event_log.SERVICE:
        raise Invalid(f"the name {name!r} is the service's own in the log; choose another")
    if not re.fullmatch(PARTY_NAME, name) or name.endswith("\n"):
        raise Invalid(
            f"the name {name[:80]!r} cannot be used: 1 to 64 letters, digits, dots, dashes or underscores, beginning "
            "with a letter or digit"
        )


def _check_key(public_key: str) -> None:
    try:
        validate_public_key(public_key)
    except ValueError as error:
        raise Invalid(str(error)) from error


def _check_free(session: Session, person: Person) -> None:
    taken = select(Person.id).where(func.lower(Person.name) == person.name.lower(), Person.state == "approved")
    if session.scalar(taken) is not None:
        raise Conflict(f"the name {person.name!r} is taken by an approved person; revoke that one first, or refuse")


def _person(session: Session, person_id: int) -> Person:
    person = session.get(Person, person_id) if 0 < person_id < 2**63 else None
    if person is None:
        raise NotFound(f"there is no person {person_id}")
    return person


def _by_key(session: Session, public_key: str) -> Person | None:
    return session.scalars(select(Person).where(Person.public_key == public_key)).one_or_none()


def _operators(session: Session) -> int:
    return session.scalar(select(func.count()).where(Person.role == "operator", Person.state == "approved")) or 0


def _record(session: Session, context: Context, by: str, kind: str, person: Person) -> None:
    event_log.append(
        session,
        time=context.clock(),
        actor=by,
        kind=kind,
        person=person.id,
        name=person.name,
        role=person.role,
        fingerprint=_fingerprint(person),
    )


def _fingerprint(person: Person) -> str | None:
    return None if person.public_key is None else fingerprint(person.public_key)


def _view(person: Person) -> PersonView:
    return PersonView(
        id=person.id,
        name=person.name,
        role=person.role,
        state=person.state,
        public_key=person.public_key,
        fingerprint=_fingerprint(person),
        note=person.note,
        requested=person.requested,
        decided=person.decided,
    )
