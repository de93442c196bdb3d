"""What a service answers, checked before any of it is used: the service may be hostile, or of another version."""

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from equipoise.errors import ServiceError
from equipoise.protocol.receipts import RoundName


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class Person(_Answer):
    """Who asks."""

    state: str


class Seat(_Answer):
    """A party of a round, and when it submitted."""

    party: str
    submitted: int | None


class Round(_Answer):
    """A round as a member sees it."""

    id: RoundName
    title: str
    state: str
    identity: str
    seats: list[Seat]
    decisions: str | None = None


class Rounds(_Answer):
    """All that a member may see."""

    rounds: list[Round]


class Settling(_Answer):
    """How far a settlement is."""

    job_state: str | None
    stage: str | None
    done: int
    planned: int | None
    elapsed_s: float | None
    left_s: float | None
    problem: str | None


def checked(kind: type[_Answer], document: Any) -> Any:
    """The document, if it is of this kind."""
    try:
        kind.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"])) or "all of it"
        raise ServiceError(
            f"the service answered otherwise than this version understands ({where}: {first['msg']}); ask the operator "
            "which version it has"
        ) from error
    return document
