"""The membership file: a member's note of its place, name, role and key, and the key of the service it trusts.

The place is the address of a service, a one-time link of one, or a shared folder (`Place`).

The file holds no secret, only the path of the key. Yet its owner alone has access, because anybody who could change it
could send the member elsewhere. Paths in it are relative to its folder, so that the folder can be moved as a whole.
"""

import ipaddress
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from equipoise._util.canonical import StrictJSONError, read_limited, strict_json
from equipoise._util.files import replaced_file
from equipoise.agreement.schema import PartyName
from equipoise.errors import ServiceError
from equipoise.models.section import Hex64, PublicKey
from equipoise.protocol.keys import fingerprint

FORMAT: Literal["equipoise-membership"] = "equipoise-membership"
FILE = Path("equipoise.json")

Role = Literal["party", "auditor", "operator"]
Text = Annotated[str, Field(min_length=1, max_length=4096)]
# The path of the link that makes the first operator.
FIRST = "/first"


@dataclass(frozen=True)
class Place:
    """A service by its address, or a folder by its path. `secret` is that of a one-time link."""

    url: str | None = None
    folder: Path | None = None
    secret: str | None = None


class _Document(BaseModel):
    """The membership file, as it is read and written."""

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
    """A membership. `service` is the pinned public key; `agreement` is the identity that rounds must have."""

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
        """The address of the service; a folder has none."""
        if self.place.url is None:
            raise ServiceError(
                f"{self.name!r} joined the folder {str(self.place.folder)!r}, where no service answers; this needs one"
            )
        return self.place.url

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a membership; its paths become relative to the working directory."""
        try:
            document = _Document.model_validate(strict_json(read_limited(path)))
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
        place = place_of(document.place)
        if place.folder is not None:
            place = replace(place, folder=base / place.folder)
        elif document.service is None:
            raise ServiceError(f"{str(path)!r} names no key of its service; join again")
        return cls(
            place=place,
            service=document.service,
            name=document.name,
            role=document.role,
            key=base / document.key,
            ledger=None if document.ledger is None else base / document.ledger,
            agreement=document.agreement,
            ca=None if document.ca is None else base / document.ca,
        )

    def save(self, path: Path) -> None:
        """Write the membership; an existing file is replaced once the new one is whole."""
        try:
            with replaced_file(path, mode=0o600) as partial:
                partial.write_text(json.dumps(self._document(path), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise ServiceError(f"cannot write the membership {str(path)!r}: {error.strerror or error}") from error

    def _document(self, path: Path) -> dict[str, Any]:
        def from_there(target: Path | None) -> str | None:
            return None if target is None else _relative(target, path.parent)

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
        """Return the membership as plain values, for scripts."""
        return {
            "place": self.place.url or str(self.place.folder),
            "name": self.name,
            "role": self.role,
            "key": str(self.key),
            "ledger": None if self.ledger is None else str(self.ledger),
            "service": None if self.service is None else fingerprint(self.service),
        }


def _relative(path: Path, folder: Path) -> str:
    """Return a path relative to a folder; a path on another drive stays absolute."""
    try:
        return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()
    except ValueError:
        return str(path.absolute())


def place_of(text: str) -> Place:
    """Parse the user's name of the place, without checking that it exists."""
    if "://" not in text:
        return Place(folder=Path(text))
    try:
        parts = urlsplit(text)
        # Reading the port refuses an invalid one.
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ServiceError(f"{_shown(text)!r} is not an address: {error}; give one like https://example.org") from error
    if parts.scheme not in ("https", "http") or not host:
        raise ServiceError(f"{_shown(text)!r} is not the address of a service; give one like https://example.org")
    if parts.username is not None or parts.password is not None:
        raise ServiceError("the address of a service has no user name and no password in it; your key says who you are")
    if parts.scheme == "http" and not is_loopback(host):
        raise ServiceError(
            f"http://{host} would send everything in the clear; use https://{host} (plain http is within this machine)"
        )
    link = parts.path == FIRST and bool(parts.fragment)
    if not link and (parts.path not in ("", "/") or parts.query or parts.fragment):
        raise ServiceError(
            f"{_shown(text)!r} is more than the address of a service; give {parts.scheme}://{parts.netloc}, or the "
            "whole one-time link"
        )
    return Place(url=f"{parts.scheme}://{parts.netloc}".lower(), secret=parts.fragment if link else None)


def address_meant(folder: Path) -> str | None:
    """Return the address that a missing folder's name probably means; None if it does not look like a host."""
    host = folder.as_posix().partition("/")[0]
    bare = host.rpartition(":")[0] or host
    if host.startswith(".") or len(bare) == 1 or not ("." in host or ":" in host or is_loopback(bare)):
        return None
    return f"{'http' if is_loopback(bare.strip('[]')) else 'https'}://{host}"


def is_loopback(host: str) -> bool:
    """Return True if a host is this machine, so that nothing leaves it."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(text: str) -> str:
    """Return an address for a message, without its fragment, which may be a secret."""
    return text.partition("#")[0]
