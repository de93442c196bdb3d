"""Configuration of one server: the address at which people reach it, and the limits on requests."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from equipoise.errors import ServiceError

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True)
class Rate:
    """A rate limit: requests per second on average, and the largest burst after a pause."""

    per_second: float
    burst: int


@dataclass(frozen=True)
class Rates:
    """Rate limits of one address, of one person, and of one address for signing in or asking to join."""

    address: Rate = Rate(100.0, 1_000)
    person: Rate = Rate(50.0, 500)
    sign_in: Rate = Rate(0.2, 20)

    @classmethod
    def of(cls, per_second: float) -> Self:
        """Scale the default rates to a number of requests per second of one address."""
        return cls(
            address=Rate(per_second, max(1, round(10 * per_second))),
            person=Rate(per_second / 2, max(1, round(5 * per_second))),
            sign_in=Rate(per_second / 500, max(1, round(per_second / 5))),
        )


@dataclass(frozen=True)
class Settings:
    """Settings of one server. Lengths are in bytes, times in seconds."""

    public_url: str = "http://127.0.0.1:8351"
    trusted_proxies: tuple[str, ...] = ()
    tls: tuple[Path, Path] | None = None  # certificate and key
    rates: Rates = field(default_factory=Rates)
    max_body: int = 5 * 2**20  # for one request
    max_buffered: int = 256 * 2**20  # for all open requests together; one address may use an eighth
    body_timeout: float = 10.0  # longest silence within a body, which must also arrive at `min_body_rate`
    min_body_rate: float = 16 * 2**10  # bytes per second
    max_connections: int = 1_000

    def __post_init__(self) -> None:
        parts = urlsplit(self.public_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ServiceError(
                f"--public-url {self.public_url!r} is not an address that people can open; "
                "write it as https://rounds.example.org"
            )
        if parts.path not in ("", "/") or parts.query or parts.fragment:
            raise ServiceError(
                f"--public-url {self.public_url!r} has more than scheme, name and port; a service has a name of its "
                "own, as in https://rounds.example.org, and no path"
            )
        for address in self.trusted_proxies:
            try:
                ipaddress.ip_network(address)
            except ValueError:
                raise ServiceError(
                    f"--behind-proxy {address!r} is neither an address nor a network; write the address that the "
                    "proxy connects from, as in 127.0.0.1 or 10.0.0.0/24"
                ) from None

    @property
    def origin(self) -> str:
        """Scheme, name and port, as browsers write them."""
        return self.public_url.rstrip("/")

    @property
    def is_secure(self) -> bool:
        """True if people connect by TLS, which ends here or at the proxy."""
        return urlsplit(self.public_url).scheme == "https"

    @property
    def hosts(self) -> frozenset[str]:
        """The values that the Host header may have. All loopback names are equivalent."""
        parts = urlsplit(self.public_url)
        name = parts.netloc.rpartition(":")[0] if parts.port is not None else parts.netloc
        names = LOOPBACK_NAMES if name.lower() in LOOPBACK_NAMES else (name.lower(),)
        usual = 443 if parts.scheme == "https" else 80
        port = parts.port or usual
        bare = names if port == usual else ()
        return frozenset([*bare, *(f"{host}:{port}" for host in names)])
