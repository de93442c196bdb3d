"""The service's tables.

Times are whole milliseconds since 1970. Text columns named `…json` hold canonical JSON. No column ever holds a pickle.
"""

from functools import lru_cache

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from equipoise._util.canonical import canonical_json, strict_json
from equipoise.agreement import Agreement

# Constraints have names, so that migrations can name them.
NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

ROLES = ("operator", "party", "auditor")
PERSON_STATES = ("requested", "approved", "refused", "revoked")
PURPOSES = ("first operator", "sign in", "token", "session")
ROUND_STATES = ("open", "settling", "settled", "closed")
JOB_KINDS = ("settlement", "batch")
JOB_STATES = ("waiting", "running", "done", "failed", "cancelled")

_MAX_AGREEMENT_BYTES = 64 * 2**20

# SQLite increments keys automatically only if their type is INTEGER.
Number = BigInteger().with_variant(Integer(), "sqlite")


def _one_of(column: str, values: tuple[str, ...]) -> CheckConstraint:
    return CheckConstraint(f"{column} IN ({', '.join(repr(value) for value in values)})", name=column)


def serialize_agreement(agreement: Agreement) -> str:
    """Return an agreement as the canonical JSON that `Round.agreement_json` holds."""
    return canonical_json(agreement.model_dump(mode="json")).decode("ascii")


@lru_cache(maxsize=64)
def parse_agreement(text: str) -> Agreement:
    """Parse an agreement from the JSON that `serialize_agreement` wrote."""
    return Agreement.model_validate(strict_json(text.encode("ascii"), max_bytes=_MAX_AGREEMENT_BYTES))


class Base(DeclarativeBase):
    """Base class of all tables."""

    metadata = MetaData(naming_convention=NAMES)


class Person(Base):
    """A person with a key, or an operator who signed in by the one-time link and has no key yet.

    A name belongs to at most one approved person. Several requests may share a name; otherwise a stranger could keep
    the true owner out by asking first. The operator tells them apart by fingerprint.
    """

    __tablename__ = "people"
    __table_args__ = (
        _one_of("role", ROLES),
        _one_of("state", PERSON_STATES),
        Index("uq_people_approved_name", text("lower(name)"), unique=True, sqlite_where=text("state = 'approved'"),
              postgresql_where=text("state = 'approved'")),
    )  # fmt: skip

    id: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(String(64))
    role: Mapped[str] = mapped_column(String(16))
    state: Mapped[str] = mapped_column(String(16))
    public_key: Mapped[str | None] = mapped_column(String(64), unique=True)
    note: Mapped[str] = mapped_column(String(200))
    requested: Mapped[int] = mapped_column(Number)
    decided: Mapped[int | None] = mapped_column(Number)
    origin: Mapped[str | None] = mapped_column(String(64))  # keyed hash of a request's address, until it is decided


class Secret(Base):
    """The hash of a one-time link's, token's or session's secret."""

    __tablename__ = "secrets"
    __table_args__ = (_one_of("purpose", PURPOSES),)

    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    purpose: Mapped[str] = mapped_column(String(16))
    person_id: Mapped[int | None] = mapped_column(ForeignKey("people.id"))
    expires: Mapped[int] = mapped_column(Number, index=True)


class Nonce(Base):
    """The nonce of a signed request, kept until the request would be refused as too old."""

    __tablename__ = "nonces"

    public_key: Mapped[str] = mapped_column(String(64), primary_key=True)
    nonce: Mapped[str] = mapped_column(String(32), primary_key=True)
    expires: Mapped[int] = mapped_column(Number, index=True)


class Round(Base):
    """A round: one agreement, to be settled once. `options_json` holds the options of the latest start, if any."""

    __tablename__ = "rounds"
    __table_args__ = (_one_of("state", ROUND_STATES),)

    id: Mapped[str] = mapped_column(String(40), primary_key=True)
    title: Mapped[str] = mapped_column(String(200))
    agreement_json: Mapped[str] = mapped_column(Text)
    identity: Mapped[str] = mapped_column(String(64), index=True)
    state: Mapped[str] = mapped_column(String(16))
    created: Mapped[int] = mapped_column(Number, index=True)
    options_json: Mapped[str | None] = mapped_column(Text)
    noise_secret: Mapped[str | None] = mapped_column(String(32))
    settled: Mapped[int | None] = mapped_column(Number)
    decisions: Mapped[str | None] = mapped_column(String(64))

    @property
    def agreement(self) -> Agreement:
        """The agreement of the round. Parsed agreements are cached, because parsing takes a while."""
        return parse_agreement(self.agreement_json)


class Seat(Base):
    """A party of a round's agreement; `invited` is the time since which it may see the round and submit."""

    __tablename__ = "seats"

    round_id: Mapped[str] = mapped_column(ForeignKey("rounds.id"), primary_key=True)
    party: Mapped[str] = mapped_column(String(64), primary_key=True)
    position: Mapped[int] = mapped_column(Integer)
    invited: Mapped[int | None] = mapped_column(Number)


class SubmissionRow(Base):
    """An accepted submission, byte for byte, with its receipt; each seat has at most one."""

    __tablename__ = "submissions"
    __table_args__ = (
        ForeignKeyConstraint(["round_id", "party"], ["seats.round_id", "seats.party"]),
        Index(None, "submission_id"),
    )

    round_id: Mapped[str] = mapped_column(String(40), primary_key=True)
    party: Mapped[str] = mapped_column(String(64), primary_key=True)
    person_id: Mapped[int] = mapped_column(ForeignKey("people.id"))
    submission_id: Mapped[str] = mapped_column(String(64))
    digest: Mapped[str] = mapped_column(String(64))
    rows: Mapped[int] = mapped_column(Number)
    epsilon: Mapped[str] = mapped_column(String(32))  # repr of the number, exact
    content: Mapped[bytes] = mapped_column(LargeBinary)
    receipt: Mapped[bytes] = mapped_column(LargeBinary)
    received: Mapped[int] = mapped_column(Number)


class Job(Base):
    """Work for a worker. The worker that holds it increments `beat`; if `beat` stands still, others may take over."""

    __tablename__ = "jobs"
    __table_args__ = (
        _one_of("kind", JOB_KINDS),
        _one_of("state", JOB_STATES),
        UniqueConstraint("round_id", "kind", "digest"),
        Index(None, "state", "kind", "id"),
    )

    id: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=True)
    round_id: Mapped[str] = mapped_column(ForeignKey("rounds.id"))
    kind: Mapped[str] = mapped_column(String(16))
    digest: Mapped[str] = mapped_column(String(64))
    payload_json: Mapped[str] = mapped_column(Text)
    state: Mapped[str] = mapped_column(String(16))
    owner: Mapped[str | None] = mapped_column(String(64))
    beat: Mapped[int] = mapped_column(Number, default=0)
    attempts: Mapped[int] = mapped_column(Integer, default=0)
    problem: Mapped[str | None] = mapped_column(Text)
    stage: Mapped[str | None] = mapped_column(String(200))
    planned: Mapped[int | None] = mapped_column(Integer)
    finished_of_planned: Mapped[int] = mapped_column(Integer, default=0)
    stage_began: Mapped[int | None] = mapped_column(Number)
    created: Mapped[int] = mapped_column(Number)
    began: Mapped[int | None] = mapped_column(Number)
    ended: Mapped[int | None] = mapped_column(Number)


class Answer(Base):
    """The answer to one request of a settlement with these inputs; see `equipoise.mediation.journal`."""

    __tablename__ = "answers"

    round_id: Mapped[str] = mapped_column(ForeignKey("rounds.id"), primary_key=True)
    inputs: Mapped[str] = mapped_column(String(64), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64), primary_key=True)  # SHA-256 of the key
    key_json: Mapped[str] = mapped_column(Text)
    result_json: Mapped[str] = mapped_column(Text)


class Result(Base):
    """A file of a settled round: `settlement.json`, `rewards/NAME.nc`."""

    __tablename__ = "results"

    round_id: Mapped[str] = mapped_column(ForeignKey("rounds.id"), primary_key=True)
    name: Mapped[str] = mapped_column(String(100), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    content: Mapped[bytes] = mapped_column(LargeBinary)


class Event(Base):
    """An event of the log, chained by digests (`equipoise.protocol.log`), which the database never lets change."""

    __tablename__ = "events"

    sequence: Mapped[int] = mapped_column(Number, primary_key=True, autoincrement=False)
    time: Mapped[int] = mapped_column(Number)
    actor: Mapped[str] = mapped_column(String(100))
    kind: Mapped[str] = mapped_column(String(40))
    round_id: Mapped[str | None] = mapped_column(String(40), index=True)
    details_json: Mapped[str] = mapped_column(Text)
    previous: Mapped[str] = mapped_column(String(64))
    digest: Mapped[str] = mapped_column(String(64))
    salt: Mapped[str | None] = mapped_column(String(32))  # None in events of versions up to 0.7
