"""The settings an operator may choose when starting a settlement, as they travel and are kept."""

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from equipoise.agreement.schema import PartyName
from equipoise.mediation.settings import SettlementSettings
from equipoise_service.errors import Invalid

Team = Annotated[tuple[PartyName, ...], Field(min_length=1, max_length=10_000, strict=False)]

OFFERED = ("rho", "mechanism", "teams", "precision", "draws", "coalitions", "budget", "without", "deviate", "force")


class Options(SettlementSettings):
    """Settings for a settlement by a service; what is left out is the agreement's, or its default.

    Submissions of parties in `without` do not count, though they are there; the log and the settlement say so.
    There is no seed among them: it follows from the submissions (`equipoise.mediation.seeds`).
    """

    model_config = ConfigDict(strict=True)

    teams: Annotated[tuple[Team, ...], Field(min_length=1, max_length=10_000, strict=False)] | None = None
    precision: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)] = 0.05
    draws: Annotated[int, Field(ge=100, le=1_000_000)] = 4_000
    without: Annotated[tuple[PartyName, ...], Field(max_length=10_000, strict=False)] = ()

    @model_validator(mode="before")
    @classmethod
    def _offered(cls, document: Any) -> Any:
        others = set(document) - set(OFFERED) if isinstance(document, dict) else set()
        if others:
            known = sorted(others & set(SettlementSettings.model_fields))  # nothing else that was sent is repeated
            which = f"{', '.join(known)} cannot be chosen here; " if known else ""
            raise ValueError(f"{which}an operator chooses among {', '.join(OFFERED)}")
        return document

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        found = handler.resolve_ref_schema(handler(schema))
        found["properties"] = {name: found["properties"][name] for name in OFFERED}
        return found

    def to_json(self) -> dict[str, Any]:
        """What can be chosen, as plain values."""
        return self.model_dump(mode="json", include=set(OFFERED))

    @classmethod
    def read(cls, document: Any) -> Self:
        """Options from plain JSON; a mistake is refused by its name."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            key = ".".join(str(part) for part in first["loc"]) or "options"
            raise Invalid(f"the options of the settlement cannot be used: {key}: {first['msg']}") from error
