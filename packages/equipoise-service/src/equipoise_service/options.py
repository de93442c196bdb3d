"""The settings that an operator may choose when starting a settlement, as sent and stored."""

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
    """Settings of a settlement by a service; a setting left out is taken from the agreement, or has its default.

    Submissions of parties in `without` are kept but ignored; the log and the settlement record this. There is no seed,
    because it is derived from the submissions (`equipoise.mediation.seeds`).
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
            # The message repeats only names that we know, because the rest of what was sent may be secret.
            known = sorted(others & set(SettlementSettings.model_fields))
            which = f"{', '.join(known)} cannot be chosen here; " if known else ""
            raise ValueError(f"{which}an operator chooses among {', '.join(OFFERED)}")
        return document

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        resolved = handler.resolve_ref_schema(handler(schema))
        resolved["properties"] = {name: resolved["properties"][name] for name in OFFERED}
        return resolved

    def to_json(self) -> dict[str, Any]:
        """Return the settings that an operator can choose, as plain values."""
        return self.model_dump(mode="json", include=set(OFFERED))

    @classmethod
    def read(cls, document: Any) -> Self:
        """Parse options from plain JSON. The refusal of an invalid document names the first wrong option."""
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            key = ".".join(str(part) for part in first["loc"]) or "options"
            raise Invalid(f"the options of the settlement cannot be used: {key}: {first['msg']}") from error
