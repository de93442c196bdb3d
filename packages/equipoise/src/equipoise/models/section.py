"""The base of every section of an agreement: strict keys, and numbers that are numbers."""

import re
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
)

Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Hex64 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

# Points of small order: for these, signatures that fit almost any text can be made without a private key.
_Y_OF_SMALL_ORDER = (
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
)
SMALL_ORDER = frozenset(y[:-2] + f"{int(y[-2:], 16) | sign:02x}" for y in _Y_OF_SMALL_ORDER for sign in (0x00, 0x80))


def validate_public_key(public_key: str) -> str:
    """Return the public key; refuse an invalid one, and one that anybody can sign with."""
    if not re.fullmatch("[0-9a-f]{64}", public_key):
        raise ValueError("a public key is 64 lower-case hexadecimal digits")
    if public_key in SMALL_ORDER:
        raise ValueError(f"{public_key[:16]}… is nobody's key: anyone can sign with it; make one of your own")
    return public_key


PublicKey = Annotated[Hex64, AfterValidator(validate_public_key)]


class Section(BaseModel):
    """A table of the agreement: unknown keys are mistakes, and nothing changes once agreed.

    Keys in `added_later` were not there when the format was made. Such a key is left out of everything that is written
    if it has its default, so that agreements that do not use it, and settlements of them, keep their identities.
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
