"""What every table of an agreement is made of: strict sections, and numbers that are numbers."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Hex64 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Section(BaseModel):
    """A table of the agreement: unknown keys are mistakes, and nothing changes once agreed."""

    model_config = ConfigDict(frozen=True, extra="forbid")
