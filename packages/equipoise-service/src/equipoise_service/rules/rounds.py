"""Rounds: an agreement with a seat for each of its parties, which invited parties can see."""

import json
import secrets
import string
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, func, literal_column, select
from sqlalchemy.orm import Session, aliased

from equipoise._util.canonical import sha256_hex
from equipoise.agreement import Agreement
from equipoise.protocol.keys import fingerprint
from equipoise_service.cache import SingleFlightCache
from equipoise_service.context import Context
from equipoise_service.db import event_log
from equipoise_service.db.tables import (
    Event,
    Person,
    Round,
    Seat,
    SubmissionRow,
    parse_agreement,
    serialize_agreement,
)
from equipoise_service.errors import Conflict, Invalid, NotFound
from equipoise_service.rules.access import (
    NO_ROUND,
    Actor,
    check_round_id,
    get_round,
    is_meant,
    matches_key,
    require,
    require_active,
)

_LETTERS = string.ascii_lowercase + string.digits
_LENGTH = 12


@dataclass(frozen=True)
class SeatView:
    """A party of a round; its ε and rows are shown only to itself, operators and auditors.

    `fingerprint` is that of the key that submitted or, before that, of the key that may submit.
    """

    party: str
    invited: int | None
    submitted: int | None
    epsilon: float | None
    rows: int | None
    fingerprint: str | None
    left_out: bool = False  # its submission does not count: the operator started without it


@dataclass(frozen=True)
class RoundView:
    """A round as its viewer may see it; times are milliseconds since 1970."""

    id: str
    title: str
    state: str
    identity: str
    created: int
    settled: int | None
    decisions: str | None
    agreement: Agreement
    seats: tuple[SeatView, ...]


def create(context: Context, actor: Actor | None, agreement: Agreement, *, invite: bool = True) -> str:
    """Create a round and return its id; with `invite`, all parties may see it at once.

    Before anybody submits, the log commits to the secrets that the noise of rewards is drawn from (`noise`, and `path`
    for degraded rewards). Otherwise an operator could choose a secret for its effect on the rewards.
    """
    actor = require(actor, "create-rounds")
    if "\0" in agreement.title:
        raise Invalid("the agreement's title holds a NUL character; take it out")
    now = context.clock()
    round_id = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
    text, secret = serialize_agreement(agreement), secrets.token_hex(16)
    if parse_agreement(text).identity_digest != agreement.identity_digest:
        raise Invalid("the agreement changes when it is written as JSON; write its numbers and texts more plainly")
    with context.database.writing(exclusive=True) as session:
        require_active(session, actor)
        session.add(
            Round(
                id=round_id,
                title=agreement.title,
                agreement_json=text,
                identity=agreement.identity_digest,
                state="open",
                created=now,
                noise_secret=secret,
            )
        )
        session.flush()
        session.add_all(
            Seat(round_id=round_id, party=party, position=position, invited=now if invite else None)
            for position, party in enumerate(agreement.party_names)
        )
        event_log.append(
            session,
            time=now,
            actor=actor.name,
            kind="round-created",
            person=actor.person_id,
            round_id=round_id,
            agreement=agreement.identity_digest,
            title=agreement.title,
            invited="all" if invite else "none",
            noise=sha256_hex(secret.encode("ascii")),
            path=sha256_hex(path_secret(context, session, agreement.identity_digest).encode("ascii")),
        )
    return round_id


def path_secret(context: Context, session: Session, identity: str) -> str:
    """Derive the secret that determines the noise of degraded rewards in every round of an agreement.

    If a version up to 0.14 made a round of the agreement, that version's secret is kept: rewards of the same releases
    must never have two independent noises.
    """
    return context.path_secret(None if _shares_secret(session, identity) else identity)


def _shares_secret(session: Session, identity: str) -> bool:
    """Return True if an agreement keeps the one secret that versions up to 0.14 had for the whole service.

    Those versions wrote no commitment into the log.
    """
    created = (
        select(Event.details_json)
        .join(Round, Round.id == Event.round_id)
        .where(Round.identity == identity, Event.kind == "round-created")
    )
    return any("path" not in json.loads(details) for details in session.scalars(created))


def disclose_path_secret(context: Context, round_id: str, *, all_agreements: bool = False) -> str:
    """Return the secret of a round's degraded rewards for an auditor, and record the disclosure in the log.

    With the secret, the noise can be removed from every degraded reward of the agreement, so all readers of the log
    must learn of the disclosure. Agreements that a version up to 0.14 knew share one secret: with `all_agreements` the
    operator confirms to disclose the secret of all of them.
    """
    with context.database.writing(exclusive=True) as session:
        round_ = get_round(session, round_id)
        chosen = json.loads(round_.options_json or "{}").get("mechanism")
        if (mechanism := chosen or round_.agreement.reward.mechanism) != "degraded":
            raise Conflict(
                f'rewards of this round are made by "{mechanism}", and nothing about them is secret from whoever has '
                "an export of the round; `equipoise operator export` writes one"
            )
        shared = _shares_secret(session, round_.identity)
        if shared and not all_agreements:
            raise Conflict(
                "a version up to 0.14 made a round of this agreement, with one secret for all agreements of the "
                "service: whoever has it can take the noise off degraded rewards of all of them. If the auditor may, "
                "add --all-agreements"
            )
        event_log.append(
            session,
            time=context.clock(),
            actor=event_log.SERVICE,
            kind="noise-secret-disclosed",
            round_id=round_.id,
            reach="agreements that a version up to 0.14 knew" if shared else "this agreement",
        )
        return path_secret(context, session, round_.identity)


def invite(context: Context, actor: Actor | None, round_id: str, party: str) -> None:
    """Let a party of the agreement see the round and submit. Repeating this has no effect."""
    actor = require(actor, "invite")
    with context.database.writing(exclusive=True) as session:
        require_active(session, actor)
        round_ = get_round(session, round_id)
        names = round_.agreement.party_names
        if party not in names:
            raise NotFound(f"{party[:80]!r} is no party of this round's agreement; its parties are {', '.join(names)}")
        seat = session.get_one(Seat, (round_.id, party))
        if seat.invited is not None:
            return
        require_open(round_)
        seat.invited = context.clock()
        event_log.append(
            session,
            time=seat.invited,
            actor=actor.name,
            kind="party-invited",
            round_id=round_.id,
            party=party,
            person=actor.person_id,
        )


def close(context: Context, actor: Actor | None, round_id: str) -> None:
    """End a round that will not be settled. Repeating this has no effect."""
    actor = require(actor, "close-rounds")
    with context.database.writing(exclusive=True) as session:
        require_active(session, actor)
        round_ = get_round(session, round_id)
        if round_.state == "closed":
            return
        require_open(round_)
        round_.state = "closed"
        event_log.append(
            session,
            time=context.clock(),
            actor=actor.name,
            kind="round-closed",
            round_id=round_.id,
            person=actor.person_id,
        )


def list_visible(context: Context, actor: Actor | None) -> list[RoundView]:
    """List all rounds that an actor may see, the newest first."""
    actor = require(actor, "see-rounds")
    statement = select(Round).order_by(Round.created.desc(), Round.id)
    if actor.role == "party":
        statement = statement.join(Seat, Seat.round_id == Round.id).where(
            Seat.party == actor.name, Seat.invited.is_not(None)
        )
    with context.database.reading() as session:
        visible = [
            round_ for round_ in session.scalars(statement) if actor.role != "party" or matches_key(round_, actor)
        ]
        return _views(session, actor, visible)


def get(context: Context, actor: Actor | None, round_id: str) -> RoundView:
    """Return one round as an actor may see it; raise `NotFound` if the actor may not see it at all."""
    actor = require(actor, "see-rounds")
    check_round_id(round_id)
    seats = context.database.rows(_SEATS, {"round": round_id})
    if not seats:
        raise NotFound(NO_ROUND)
    agreement = _agreements.get((round_id, seats[0].identity), lambda: _agreement(context, round_id))
    invited = any(seat.party == actor.name and seat.invited is not None for seat in seats)
    if actor.role == "party" and not (invited and is_meant(agreement, actor)):
        raise NotFound(NO_ROUND)
    sent = {
        (round_id, row.party): _Sent(row.received, float(row.epsilon), row.rows, row.submitter)
        for row in seats
        if row.received is not None
    }
    return _view(actor, seats[0], agreement, seats, sent, {row.party: row.public_key for row in seats})


def _agreement(context: Context, round_id: str) -> Agreement:
    with context.database.reading() as session:
        return get_round(session, round_id).agreement


# A round's agreement never changes, and parsing a long one takes a while.
_agreements: SingleFlightCache[Agreement] = SingleFlightCache(256)

# One row for each seat of a round: the round's own columns except the agreement, the submission, and the key that may
# submit. The statement is built once, because building it takes longer than running it.
_submitter = aliased(Person)
_SEATS = (
    select(
        Round.id,
        Round.title,
        Round.state,
        Round.identity,
        Round.created,
        Round.settled,
        Round.decisions,
        Round.options_json,
        Seat.party,
        Seat.invited,
        SubmissionRow.received,
        SubmissionRow.epsilon,
        SubmissionRow.rows,
        _submitter.public_key.label("submitter"),
        Person.public_key,
    )
    .join(Seat, Seat.round_id == Round.id)
    .outerjoin(SubmissionRow, (SubmissionRow.round_id == Seat.round_id) & (SubmissionRow.party == Seat.party))
    .outerjoin(_submitter, _submitter.id == SubmissionRow.person_id)
    .outerjoin(
        Person,
        (func.lower(Person.name) == func.lower(Seat.party))  # uses the index on the names of approved people
        & (Person.state == literal_column("'approved'"))
        & (Person.name == Seat.party)
        & (Person.role == "party"),
    )
    .where(Round.id == bindparam("round"))
    .order_by(Seat.position)
)


def excluded_parties(round_: Any) -> tuple[str, ...]:
    """Return the parties that the operator left out of a settlement, which may nevertheless have submitted."""
    if round_.state not in ("settling", "settled"):
        return ()
    return tuple(json.loads(round_.options_json or "{}").get("without", ()))


def require_open(round_: Round) -> None:
    """Refuse an action that is possible only while a round is open."""
    if round_.state != "open":
        raise Conflict(f"the round is no longer open but {round_.state}{_WAY_OUT[round_.state]}", code="not-open")


_WAY_OUT = {
    "settling": "; wait until it is settled, or cancel the settlement first",
    "settled": "; make a new round",
    "closed": "; make a new round",
}


@dataclass(frozen=True)
class _Sent:
    received: int
    epsilon: float
    rows: int
    public_key: str | None


def _views(session: Session, actor: Actor, rounds: list[Round]) -> list[RoundView]:
    """Return rounds as an actor may see them, with three queries for any number of rounds and seats."""
    chosen = [round_.id for round_ in rounds] if len(rounds) <= 100 else None
    seats: dict[str, list[Seat]] = {round_.id: [] for round_ in rounds}
    statement = select(Seat).order_by(Seat.round_id, Seat.position)
    for seat in session.scalars(statement if chosen is None else statement.where(Seat.round_id.in_(chosen))):
        if seat.round_id in seats:
            seats[seat.round_id].append(seat)
    columns = (
        SubmissionRow.round_id,
        SubmissionRow.party,
        SubmissionRow.received,
        SubmissionRow.epsilon,
        SubmissionRow.rows,
    )
    submitted = select(*columns, Person.public_key).join(Person, Person.id == SubmissionRow.person_id)
    sent = {
        (round_.round_id, round_.party): _Sent(round_.received, float(round_.epsilon), round_.rows, round_.public_key)
        for round_ in session.execute(
            submitted if chosen is None else submitted.where(SubmissionRow.round_id.in_(chosen))
        )
    }
    approved = select(Person.name, Person.public_key).where(Person.state == "approved", Person.role == "party")
    names = {seat.party for some in seats.values() for seat in some}
    if len(names) <= 100:
        approved = approved.where(Person.name.in_(names))
    keys: dict[str, str | None] = {round_.name: round_.public_key for round_ in session.execute(approved)}
    return [_view(actor, round_, round_.agreement, seats[round_.id], sent, keys) for round_ in rounds]


def _view(
    actor: Actor,
    round_: Any,
    agreement: Agreement,
    seats: Iterable[Any],
    sent: dict[tuple[str, str], _Sent],
    keys: dict[str, str | None],
) -> RoundView:
    left_out = excluded_parties(round_)
    pinned = {party.name: party.public_key for party in agreement.parties}
    views = []
    for seat in seats:
        submission = sent.get((round_.id, seat.party))
        key = (submission and submission.public_key) or pinned[seat.party] or keys.get(seat.party)
        shown = actor.role != "party" or actor.name == seat.party
        views.append(
            SeatView(
                party=seat.party,
                invited=seat.invited,
                submitted=None if submission is None else submission.received,
                epsilon=submission.epsilon if submission is not None and shown else None,
                rows=submission.rows if submission is not None and shown else None,
                fingerprint=fingerprint(key) if key is not None and shown else None,
                left_out=seat.party in left_out,
            )
        )
    return RoundView(
        id=round_.id,
        title=round_.title,
        state=round_.state,
        identity=round_.identity,
        created=round_.created,
        settled=round_.settled,
        decisions=round_.decisions,
        agreement=agreement,
        seats=tuple(views),
    )
