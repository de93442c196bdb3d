"""Where a round takes place: the address of a service, a one-time link of one, or a shared folder."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from equipoise.errors import ServiceError

FIRST = "/first"  # path of the link that makes the first operator


@dataclass(frozen=True)
class Place:
    """A service by its address, or a folder by its path. `secret` is that of a one-time link."""

    url: str | None = None
    folder: Path | None = None
    secret: str | None = None


def place_of(text: str) -> Place:
    """Read what a user calls the place; whether anybody is there is found out later."""
    if "://" not in text:
        return Place(folder=Path(text))
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port  # the port is read to have a wrong one refused
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
    """The address that was probably meant by a folder that is not there; None if it looks like no host."""
    host = folder.as_posix().partition("/")[0]
    bare = host.rpartition(":")[0] or host
    if host.startswith(".") or len(bare) == 1 or not ("." in host or ":" in host or is_loopback(bare)):
        return None
    return f"{'http' if is_loopback(bare.strip('[]')) else 'https'}://{host}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, so that nothing leaves it."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _shown(text: str) -> str:
    """An address for a message: without what may be a secret."""
    return text.partition("#")[0]
