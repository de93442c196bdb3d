"""What travels, as JSON. Bodies refuse fields they do not know; times are milliseconds since 1970."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field

from equipoise.models.schema import PARTY_NAME, PartyName
from equipoise.models.section import Hex64

if TYPE_CHECKING:
    from equipoise.service.rules.people import PersonView
    from equipoise.service.rules.rounds import RoundView

LARGEST = 2**53 - 1  # whole number that every reader of JSON understands
Count = Annotated[int, Field(ge=0, le=LARGEST)]
Time = Annotated[int, Field(ge=0, le=LARGEST, examples=[1767225600000])]
Round = Annotated[str, Path(pattern=r"^[a-z0-9]{4,40}$", description="The id of a round.", examples=["k3v9q2m7x1ab"])]
Person = Annotated[int, Path(ge=1, le=LARGEST, description="The id of a person.")]
Fingerprint = Annotated[str, Field(min_length=32, max_length=80, pattern=r"^[0-9A-Fa-f -]+$")]


class Answer(BaseModel):
    """What the service says."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class Question(BaseModel):
    """What it is asked."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Mistake(Answer):
    """`code` for programs, `message` for people."""

    code: str
    message: str


class Problem(Answer):
    """Every error."""

    error: Mistake


class ServiceShape(Answer):
    """Which service this is."""

    name: Literal["equipoise"] = "equipoise"
    version: str
    public_key: Hex64
    fingerprint: str
    time: Time


class Health(Answer):
    """Whether it works."""

    state: Literal["ready"] = "ready"


class PersonShape(Answer):
    """Somebody with a key, and what was decided about them."""

    id: int
    name: str
    role: Literal["operator", "party", "auditor"]
    state: Literal["requested", "approved", "refused", "revoked"]
    public_key: str | None
    fingerprint: str | None
    note: str
    requested: Time
    decided: Time | None

    @classmethod
    def of(cls, view: "PersonView") -> Self:
        """From what the rules say."""
        return cls.model_validate(view)


class People(Answer):
    """Everybody who asked."""

    people: list[PersonShape]


class JoinRequest(Question):
    """Who asks to join; the key is the one that signed the request."""

    name: PartyName
    role: Literal["operator", "party", "auditor"]
    note: Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""


class Decision(Question):
    """The fingerprint that whoever asked read to the operator."""

    fingerprint: Fingerprint


class Clearing(Question):
    """Which requests to join to drop: those made before this time."""

    before: Time


class Cleared(Answer):
    """How many were dropped."""

    dropped: int


class FirstOperator(Question):
    """The one-time secret that was printed when the service started."""

    secret: Annotated[str, Field(min_length=20, max_length=100, pattern=r"^[A-Za-z0-9_-]+$")]
    name: PartyName


class TokenShape(Answer):
    """A token, shown once."""

    token: str
    expires: Time


class Welcome(TokenShape):
    """The first operator's token."""

    person: PersonShape


class SignInLink(Answer):
    """A link that signs a browser in, once."""

    url: str
    expires: Time


class SeatShape(Answer):
    """A party of the agreement; ε and rows are its own, the operator's and the auditor's to know.

    `left_out` says that the operator started the settlement without it, whatever it submitted.
    """

    party: str
    invited: Time | None
    submitted: Time | None
    epsilon: float | None
    rows: int | None
    fingerprint: str | None
    left_out: bool


class RoundShape(Answer):
    """A round, as who asks may see it."""

    id: str
    title: str
    state: Literal["open", "settling", "settled", "closed"]
    identity: Hex64
    created: Time
    settled: Time | None
    decisions: Hex64 | None
    seats: list[SeatShape]

    @classmethod
    def of(cls, view: "RoundView") -> Self:
        """From what the rules say, without the agreement, which may be long."""
        return cls.model_validate(view)


class Rounds(Answer):
    """All that who asks may see."""

    rounds: list[RoundShape]


class NewRound(Question):
    """The agreement as TOML text, and whether all its parties are invited at once."""

    agreement: Annotated[str, Field(min_length=1, max_length=4 * 2**20)]
    invite: bool = True


class AgreementShape(Answer):
    """The agreement, and the SHA-256 of its canonical form."""

    identity: Hex64
    agreement: dict[str, Any]


class Invitation(Question):
    """Whom to invite."""

    party: Annotated[str, Field(pattern=PARTY_NAME)]


class ProgressShape(Answer):
    """How far a settlement is; `planned` and `left_s` are not known at first."""

    state: Literal["open", "settling", "settled", "closed"]
    job_state: Literal["waiting", "running", "done", "failed", "cancelled"] | None
    stage: str | None
    done: int
    planned: int | None
    began: Time | None
    elapsed_s: float | None
    left_s: float | None
    problem: str | None


class FindingShape(Answer):
    """One promise, and whether it was kept; reasons are the operator's and the auditor's to know."""

    code: str
    promise: str
    verdict: str
    reason: str


class Findings(Answer):
    """The audit."""

    findings: list[FindingShape]


class EventShape(Answer):
    """What happened, chained to what happened before by digests."""

    sequence: int
    time: Time
    actor: str
    kind: str
    round: str | None
    details: dict[str, Any]
    salt: str | None = None
    previous: Hex64
    digest: Hex64


class Events(Answer):
    """A part of the log."""

    events: list[EventShape]


class LinkShape(Answer):
    """An event without what it says; of events of versions up to 0.7 all but the digests is null."""

    sequence: int
    previous: Hex64
    mark: Hex64 | None
    person: int | None
    content: Hex64 | None
    digest: Hex64


class Links(Answer):
    """A part of the chain."""

    links: list[LinkShape]


class EventsQuery(BaseModel):
    """Which part: so many events after a certain one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: Count = 0
    limit: Annotated[int, Field(ge=1, le=1_000)] = 500
