"""Authentication: by a signed request, by a token, or by a browser's session.

A signed request is accepted once: its nonce is kept until long after the request would be refused as too old. A clock
that jumps ahead may expire nonces early and, once it is set back, make their requests acceptable again. So when nonces
are deleted, the periods that they came from are kept, and no request signed in such a period is accepted any more,
whatever the clock says. Of the secrets of tokens, sessions and sign-in links only hashes are stored.
"""

import datetime
import secrets
from typing import Literal

from sqlalchemy import bindparam, delete, select
from sqlalchemy.orm import Session

from equipoise._util.canonical import sha256_hex
from equipoise.errors import VerificationError
from equipoise.protocol.requests import WINDOW, SignedRequest
from equipoise_service.context import Context
from equipoise_service.db import event_log
from equipoise_service.db.database import insert_or_ignore
from equipoise_service.db.tables import Nonce, Person, Secret
from equipoise_service.errors import Conflict, NotSignedIn, WrongClock
from equipoise_service.rules.access import Actor, require

TOKEN_MS = 3_600_000
SIGN_IN_MS = 600_000
SESSION_MS = 12 * 3_600_000
# Longer than the window of signed requests, so that requests refused because of deleted nonces are too old anyway.
NONCE_MS = 3_600_000
# Takes the place of a key in rows that hold a period, from `nonce` to `expires`, whose nonces were deleted.
_FORGOTTEN = "forgotten"

_UNKNOWN = "is not known, or no longer good; sign in again"

# The statements that every request needs are built once, because building one takes longer than running it.
_ACTOR = (Person.id, Person.name, Person.role, Person.public_key)
_BY_SECRET = (
    select(*_ACTOR)
    .join(Secret, Secret.person_id == Person.id)
    .where(
        Secret.hash == bindparam("hash"),
        Secret.purpose == bindparam("purpose"),
        Secret.expires > bindparam("now"),
        Person.state == "approved",
    )
)
_BY_KEY = select(*_ACTOR, Person.state).where(Person.public_key == bindparam("key"))


def actor_of_key(context: Context, public_key: str) -> Actor:
    """Return the approved person with a public key."""
    rows = context.database.rows(_BY_KEY, {"key": public_key})
    if not rows:
        raise NotSignedIn("nobody with this key has asked to join; ask with `equipoise join`")
    person = rows[0]
    if person.state != "approved":
        raise NotSignedIn(f"{person.name!r} is not approved: {_WHY_NOT[person.state]}")
    return Actor(person.id, person.name, person.role, person.public_key)


def authenticate(context: Context, signed: SignedRequest, *, method: str, target: str, body: bytes) -> Actor:
    """Return the signer of a request. Refuse one that was altered, replayed, is too old or for another service."""
    _check(context, signed, method=method, target=target, body=body)
    actor = actor_of_key(context, signed.public_key)
    _spend_nonce(context, signed)
    return actor


def check_head(context: Context, signed: SignedRequest, *, known: bool) -> None:
    """Refuse a signed request, before its body is read, if its time is wrong or, with `known`, its key is unknown.

    This check does not verify the signature.
    """
    _check_time(context, signed)
    if known:
        actor_of_key(context, signed.public_key)


def verify_signature(context: Context, signed: SignedRequest, *, method: str, target: str, body: bytes) -> str:
    """Verify a request's signature, and return its key, whose owner need not be known."""
    _check(context, signed, method=method, target=target, body=body)
    _spend_nonce(context, signed)
    return signed.public_key


def new_token(context: Context, actor: Actor | None) -> tuple[str, int]:
    """Create a token for programs; return it and the time at which it expires."""
    actor = require(actor, "sign-in")
    return _new_secret(context, actor, "token", TOKEN_MS)


def new_sign_in_secret(context: Context, actor: Actor | None) -> str:
    """Create the secret of a link that signs its bearer's browser in, once, within ten minutes."""
    actor = require(actor, "sign-in")
    return _new_secret(context, actor, "sign in", SIGN_IN_MS)[0]


def redeem(context: Context, secret: str) -> tuple[str, Actor]:
    """Use up a sign-in link; return the secret of the new session, and its owner."""
    with context.database.writing(exclusive=True) as session:
        used = session.get(Secret, hashed(secret))
        person = None if used is None or used.person_id is None else session.get(Person, used.person_id)
        good = used is not None and used.purpose == "sign in" and used.expires > context.clock()
        if used is None or person is None or not good or person.state != "approved":
            raise NotSignedIn("this sign-in link was used or is too old; make a new one with `equipoise login`")
        session.delete(used)
        actor, session_secret = _actor(person), new_secret()
        session.add(_secret_row(context, session_secret, actor, "session", SESSION_MS))
        event_log.append(session, time=context.clock(), actor=actor.name, kind="signed-in", person=actor.person_id)
    return session_secret, actor


def start_session(context: Context, actor: Actor) -> str:
    """Create a session for an actor who has just been authenticated; return its secret."""
    return _new_secret(context, actor, "session", SESSION_MS)[0]


def actor_of(context: Context, secret: str, purpose: Literal["token", "session"]) -> Actor:
    """Return the approved person who owns a token or a session."""
    asked = {"hash": hashed(secret), "purpose": purpose, "now": context.clock()}
    rows = context.database.rows(_BY_SECRET, asked)
    if not rows:
        raise NotSignedIn(f"this {purpose} {_UNKNOWN}")
    return Actor(*rows[0])


def sign_out(context: Context, secret: str) -> None:
    """End a token or a session."""
    with context.database.writing() as session:
        session.execute(delete(Secret).where(Secret.hash == hashed(secret), Secret.purpose.in_(("token", "session"))))


def delete_expired(context: Context) -> None:
    """Delete secrets and nonces that have expired.

    Requests to join never expire, because a clock that jumps ahead would delete them all. Their number is limited
    (`people.MAX_WAITING`).
    """
    now = context.clock()
    with context.database.writing(exclusive=True) as session:
        _delete_nonces(session, now)
        session.execute(delete(Secret).where(Secret.expires <= now))


_WHY_NOT = {
    "requested": "the operator has not decided yet; tell it your fingerprint",
    "refused": "the operator refused the request; ask it why",
    "revoked": "the operator ended its access; ask it why",
}


def _check(context: Context, signed: SignedRequest, *, method: str, target: str, body: bytes) -> None:
    _check_time(context, signed)
    try:
        signed.check(audience=context.public_key, method=method, target=target, body=body)
    except VerificationError as error:
        raise NotSignedIn(str(error)) from error


def _check_time(context: Context, signed: SignedRequest) -> None:
    now = context.clock()
    if abs(signed.time * 1000 - now) > WINDOW * 1000:
        raise WrongClock(
            f"the request was signed at {_format_time(signed.time)} by your clock, and it is "
            f"{_format_time(now // 1000)} by the service's; they may be {WINDOW // 60} minutes apart: set your clock"
        )


def _spend_nonce(context: Context, signed: SignedRequest) -> None:
    expires = max(signed.time * 1000, context.clock()) + NONCE_MS
    with context.database.writing() as session:
        fresh = insert_or_ignore(session, Nonce, public_key=signed.public_key, nonce=signed.nonce, expires=expires)
        if fresh and any(first <= signed.time * 1000 <= last for first, last in _expired_windows(session)):
            raise WrongClock(
                f"the request was signed at {_format_time(signed.time)}, and ones of that time are no longer told "
                "from those that were made before: has the service's clock jumped? Sign it again, later"
            )
    if not fresh:
        raise Conflict("this very request was made before; sign it again to repeat it", code="replayed")


def _expired_windows(session: Session) -> list[tuple[int, int]]:
    rows = session.execute(select(Nonce.nonce, Nonce.expires).where(Nonce.public_key == _FORGOTTEN))
    return sorted((int(first), last) for first, last in rows)


def _delete_nonces(session: Session, now: int) -> None:
    old = (Nonce.expires <= now, Nonce.public_key != _FORGOTTEN)
    gone = session.scalars(select(Nonce.expires).where(*old)).all()
    if not gone:
        return
    session.execute(delete(Nonce).where(*old))
    # A nonce expires `NONCE_MS` after the later of signing and arrival, which differ by at most a window.
    times = [(expires - NONCE_MS - WINDOW * 1000, expires - NONCE_MS) for expires in gone]
    joined: list[tuple[int, int]] = []
    for first, last in sorted(times + _expired_windows(session)):
        if joined and first <= joined[-1][1] + NONCE_MS:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    session.execute(delete(Nonce).where(Nonce.public_key == _FORGOTTEN))
    session.add_all(Nonce(public_key=_FORGOTTEN, nonce=str(first), expires=last) for first, last in joined)


def _new_secret(context: Context, actor: Actor, purpose: str, lasts: int) -> tuple[str, int]:
    secret = new_secret()
    row = _secret_row(context, secret, actor, purpose, lasts)
    with context.database.writing() as session:
        session.add(row)
    return secret, row.expires


def _secret_row(context: Context, secret: str, actor: Actor, purpose: str, lasts: int) -> Secret:
    return Secret(hash=hashed(secret), purpose=purpose, person_id=actor.person_id, expires=context.clock() + lasts)


def _actor(person: Person) -> Actor:
    return Actor(person.id, person.name, person.role, person.public_key)


def _format_time(seconds: int) -> str:
    try:
        return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"{seconds} seconds after 1970"


def new_secret() -> str:
    """Return a new secret for a link, a token or a session: 43 letters, digits, - and _."""
    return secrets.token_urlsafe(32)


def hashed(secret: str) -> str:
    """Return the hash that is stored of a secret. A plain hash is enough, because a secret has 256 random bits."""
    return sha256_hex(secret.encode("utf-8", "surrogatepass"))
