"""A member's own note of what it joined: where, as whom, with which key, and the key of the service it trusts.

It holds no secret, only where the key is; yet it is readable by its owner alone, because whoever could change it could
send the member elsewhere. Paths in it are relative to its folder, so that the folder can be moved as a whole.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from equipoise._util.canonical import StrictJSONError, read_limited, strict_json
from equipoise._util.files import replaced_file
from equipoise.client.address import Place, place_of
from equipoise.errors import ServiceError
from equipoise.models.schema import PartyName
from equipoise.models.section import Hex64, PublicKey
from equipoise.protocol.public_keys import fingerprint

FORMAT: Literal["equipoise-membership"] = "equipoise-membership"
FILE = Path("equipoise.json")

Role = Literal["party", "auditor", "operator"]
Text = Annotated[str, Field(min_length=1, max_length=4096)]


class _Document(BaseModel):
    """The file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    format: Literal["equipoise-membership"]
    version: Literal[1]
    place: Text
    service: PublicKey | None
    name: PartyName
    role: Role
    key: Text
    ledger: Text | None
    agreement: Hex64 | None
    ca: Text | None


@dataclass(frozen=True)
class Membership:
    """Who is a member of what. `service` is the pinned public key; `agreement` an identity that rounds must have."""

    place: Place
    service: str | None
    name: str
    role: Role
    key: Path
    ledger: Path | None = None
    agreement: str | None = None
    ca: Path | None = None

    @property
    def url(self) -> str:
        """Address of the service; a folder has none."""
        if self.place.url is None:
            raise ServiceError(
                f"{self.name!r} joined the folder {str(self.place.folder)!r}, where no service answers; this needs one"
            )
        return self.place.url

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read one; paths in it become paths from here."""
        try:
            found = _Document.model_validate(strict_json(read_limited(path)))
        except FileNotFoundError:
            raise ServiceError(
                f"there is no {str(path)!r} here; join with `equipoise join PLACE --party NAME`, or say where it is "
                "with --membership"
            ) from None
        except (OSError, StrictJSONError) as error:
            raise ServiceError(f"cannot read the membership {str(path)!r}: {error}") from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            key = ".".join(str(part) for part in first["loc"]) or "document"
            raise ServiceError(f"{str(path)!r} is not a membership: {key}: {first['msg']}; join again") from error
        base = path.parent
        place = place_of(found.place)
        if place.folder is not None:
            place = replace(place, folder=base / place.folder)
        elif found.service is None:
            raise ServiceError(f"{str(path)!r} names no key of its service; join again")
        return cls(
            place=place,
            service=found.service,
            name=found.name,
            role=found.role,
            key=base / found.key,
            ledger=None if found.ledger is None else base / found.ledger,
            agreement=found.agreement,
            ca=None if found.ca is None else base / found.ca,
        )

    def save(self, path: Path) -> None:
        """Write it; what was there stays until the new one is whole."""
        import json

        try:
            with replaced_file(path, mode=0o600) as partial:
                partial.write_text(json.dumps(self._document(path), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise ServiceError(f"cannot write the membership {str(path)!r}: {error.strerror or error}") from error

    def _document(self, path: Path) -> dict[str, Any]:
        def from_there(one: Path | None) -> str | None:
            return None if one is None else _relative(one, path.parent)

        return {
            "format": FORMAT,
            "version": 1,
            "place": self.place.url or from_there(self.place.folder),
            "service": self.service,
            "name": self.name,
            "role": self.role,
            "key": from_there(self.key),
            "ledger": from_there(self.ledger),
            "agreement": self.agreement,
            "ca": from_there(self.ca),
        }

    def to_json(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "place": self.place.url or str(self.place.folder),
            "name": self.name,
            "role": self.role,
            "key": str(self.key),
            "ledger": None if self.ledger is None else str(self.ledger),
            "service": None if self.service is None else fingerprint(self.service),
        }


def _relative(path: Path, folder: Path) -> str:
    """A path as seen from a folder; one on another drive stays as it is."""
    try:
        return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()
    except ValueError:
        return str(path.absolute())
