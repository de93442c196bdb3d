"""What every table of an agreement is made of: strict sections, and numbers that are numbers."""

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Hex64 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Section(BaseModel):
    """A table of the agreement: unknown keys are mistakes, and nothing changes once agreed.

    Keys in `added_later` were not there when the format was made. One that has its default is left out of everything
    that is written, so that agreements which do not use it, and settlements of them, keep their identities.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    added_later: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_unused_keys(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = dump(self)
        for name in self.added_later & document.keys():
            if getattr(self, name) == type(self).model_fields[name].default:
                del document[name]
        return document
