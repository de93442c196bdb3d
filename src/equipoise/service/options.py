"""What an operator chooses when starting a settlement, as it travels and is kept."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from equipoise.schema import PartyName
from equipoise.service.refusals import Invalid

Team = Annotated[tuple[PartyName, ...], Field(min_length=1, max_length=10_000, strict=False)]


class Options(BaseModel):
    """Choices for a settlement, as `equipoise.mediate` has them; what is left out is the agreement's or its default.

    Submissions of parties in `without` do not count, though they are there; the log and the settlement say so.
    There is no seed among them: it follows from the submissions (`equipoise.protocol.seeds`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    rho: Annotated[float, Field(gt=0, le=1)] | Literal["max"] | None = None
    mechanism: Literal["tempering", "noise"] | None = None
    teams: Annotated[tuple[Team, ...], Field(min_length=1, max_length=10_000, strict=False)] | None = None
    precision: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = 0.05
    draws: Annotated[int, Field(ge=100, le=1_000_000)] = 4_000
    budget: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    without: Annotated[tuple[PartyName, ...], Field(max_length=10_000, strict=False)] = ()
    deviate: bool = False
    force: bool = False

    @classmethod
    def of(cls, document: Any) -> Self:
        """Read from plain JSON; a mistake is refused by its name."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            key = ".".join(str(part) for part in first["loc"]) or "options"
            raise Invalid(f"the options of the settlement cannot be used: {key}: {first['msg']}") from error
