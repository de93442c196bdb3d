"""Request and response schemas of the API. Requests refuse unknown fields; times are milliseconds since 1970."""

from typing import Annotated, Any, Literal, Self

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field

from equipoise._util.canonical import MAX_INTEGER
from equipoise.agreement.schema import PARTY_NAME, PartyName
from equipoise.models.section import Hex64
from equipoise_service.rules.people import PersonView
from equipoise_service.rules.rounds import RoundView

Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Time = Annotated[int, Field(ge=0, le=MAX_INTEGER, examples=[1767225600000])]
RoundId = Annotated[str, Path(pattern=r"^[a-z0-9]{4,40}$", description="The id of a round.", examples=["k3v9q2m7x1ab"])]
PersonId = Annotated[int, Path(ge=1, le=MAX_INTEGER, description="The id of a person.")]
Fingerprint = Annotated[str, Field(min_length=32, max_length=80, pattern=r"^[0-9A-Fa-f -]+$")]


class ResponseSchema(BaseModel):
    """Base class of responses, made from dataclasses of the rules or from keywords."""

    model_config = ConfigDict(frozen=True, from_attributes=True)


class RequestSchema(BaseModel):
    """Base class of request bodies: strict types, no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ErrorDetail(ResponseSchema):
    """An error: `code` for programs, `message` for people."""

    code: str
    message: str


class Problem(ResponseSchema):
    """The body of every error."""

    error: ErrorDetail


class ServiceSchema(ResponseSchema):
    """The service's version, key and clock."""

    name: Literal["equipoise"] = "equipoise"
    version: str
    public_key: Hex64
    fingerprint: str
    time: Time


class HealthSchema(ResponseSchema):
    """The statement that the service works."""

    state: Literal["ready"] = "ready"


class PersonSchema(ResponseSchema):
    """A person, and the decision about the person's request to join."""

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
    def of(cls, view: PersonView) -> Self:
        """Convert the rules' view of a person."""
        return cls.model_validate(view)


class PeopleList(ResponseSchema):
    """The list of everybody who asked to join."""

    people: list[PersonSchema]


class JoinRequest(RequestSchema):
    """A request to join; the key is the one that signs the request."""

    name: PartyName
    role: Literal["operator", "party", "auditor"]
    note: Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")] = ""


class DecisionRequest(RequestSchema):
    """The fingerprint that the person who asked to join read to the operator."""

    fingerprint: Fingerprint


class ClearRequest(RequestSchema):
    """The time before which requests to join are to be dropped."""

    before: Time


class ClearResponse(ResponseSchema):
    """The number of requests to join that were dropped."""

    dropped: int


class FirstOperatorRequest(RequestSchema):
    """The one-time secret that was printed when the service started."""

    secret: Annotated[str, Field(min_length=20, max_length=100, pattern=r"^[A-Za-z0-9_-]+$")]
    name: PartyName


class TokenSchema(ResponseSchema):
    """A token for programs, which is shown only once, and the time at which it expires."""

    token: str
    expires: Time


class FirstOperatorResponse(TokenSchema):
    """The first operator, with a token for further requests."""

    person: PersonSchema


class SignInLink(ResponseSchema):
    """A link that signs a browser in, once."""

    url: str
    expires: Time


class SeatSchema(ResponseSchema):
    """A party of the agreement; only the party itself, the operator and the auditor see its ε and rows.

    `left_out` says that the operator started the settlement without the party's submission.
    """

    party: str
    invited: Time | None
    submitted: Time | None
    epsilon: float | None
    rows: int | None
    fingerprint: str | None
    left_out: bool


class RoundSchema(ResponseSchema):
    """A round, as the person who asks may see it."""

    id: str
    title: str
    state: Literal["open", "settling", "settled", "closed"]
    identity: Hex64
    created: Time
    settled: Time | None
    decisions: Hex64 | None
    seats: list[SeatSchema]

    @classmethod
    def of(cls, view: RoundView) -> Self:
        """Convert the rules' view of a round, without the agreement, which may be long."""
        return cls.model_validate(view)


class RoundList(ResponseSchema):
    """The list of all rounds that the person who asks may see."""

    rounds: list[RoundSchema]


class NewRoundRequest(RequestSchema):
    """The agreement as TOML text, and whether all its parties are invited at once."""

    agreement: Annotated[str, Field(min_length=1, max_length=4 * 2**20)]
    invite: bool = True


class AgreementSchema(ResponseSchema):
    """The agreement, and the SHA-256 of its canonical form."""

    identity: Hex64
    agreement: dict[str, Any]


class InvitationRequest(RequestSchema):
    """The party to invite to a round."""

    party: Annotated[str, Field(pattern=PARTY_NAME)]


class ProgressSchema(ResponseSchema):
    """The progress of a settlement; `planned` and `left_s` are not known at first."""

    state: Literal["open", "settling", "settled", "closed"]
    job_state: Literal["waiting", "running", "done", "failed", "cancelled"] | None
    stage: str | None
    done: int
    planned: int | None
    began: Time | None
    elapsed_s: float | None
    left_s: float | None
    problem: str | None


class FindingSchema(ResponseSchema):
    """A promise and the verdict on it; only the operator and the auditor see the reason."""

    code: str
    promise: str
    verdict: str
    reason: str


class FindingList(ResponseSchema):
    """The audit of a settled round."""

    findings: list[FindingSchema]


class EventSchema(ResponseSchema):
    """An event, chained to the previous event by digests."""

    sequence: int
    time: Time
    actor: str
    kind: str
    round: str | None
    details: dict[str, Any]
    salt: str | None = None
    previous: Hex64
    digest: Hex64


class EventList(ResponseSchema):
    """A part of the log of events."""

    events: list[EventSchema]


class LinkSchema(ResponseSchema):
    """A link of the chain: an event without contents. In events of versions up to 0.7 all but the digests is null."""

    sequence: int
    previous: Hex64
    mark: Hex64 | None
    person: int | None
    content: Hex64 | None
    digest: Hex64


class LinkList(ResponseSchema):
    """A part of the log's chain of digests."""

    links: list[LinkSchema]


class EventsQuery(BaseModel):
    """The requested part of the log: at most `limit` events after the sequence number `after`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: Count = 0
    limit: Annotated[int, Field(ge=1, le=1_000)] = 500
