"""One member's requests to a service: signed, retried if that is safe, with answers that are limited and checked.

If an answer is lost, the service may have carried out the request. Idempotent requests (reading, asking to join,
sending the same submission) are retried automatically, each time with a new signature. For the others, the user gets an
error.
"""

import random
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equipoise._util.canonical import StrictJSONError, canonical_json, strict_json
from equipoise._version import __version__
from equipoise.client.membership import is_loopback
from equipoise.errors import ServiceError
from equipoise.models.section import validate_public_key
from equipoise.protocol.keys import fingerprint
from equipoise.protocol.requests import sign_request

ATTEMPTS = 6
# The longest wait in seconds, even if a service asks for more.
LONGEST_WAIT = 60.0
MAX_BYTES = 32 * 2**20
_TIMES = httpx.Timeout(120.0, connect=10.0)
# OpenSSL's errors for a peer that does not speak TLS, depending on its version.
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")
# The service lost its database connection, and does not know whether it carried out the request.
_UNKNOWN = "outcome-unknown"
# The request was not carried out: the service was asked too often, or was not reachable.
_BUSY = frozenset({429, 502, 503, 504})


class RefusedError(ServiceError):
    """A refusal in the service's own words; `code` is for programs."""

    def __init__(self, message: str, *, status: int, code: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True)
class Reply:
    """The answer of a service."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Parse the body as JSON."""
        try:
            return strict_json(self.body, max_bytes=MAX_BYTES)
        except StrictJSONError as error:
            raise ServiceError(
                f"the service answered something else than JSON ({error}); is the address right?"
            ) from None


@dataclass(frozen=True)
class Introduction:
    """The introduction of a service: the key that members pin, its version, and its clock in seconds since 1970."""

    public_key: str
    version: str
    time: float

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the service's key, which people compare."""
        return fingerprint(self.public_key)


class Connection:
    """A member's connection to a service; `audience` is the service's public key, for which requests are signed."""

    def __init__(
        self,
        url: str,
        *,
        key: Ed25519PrivateKey | None = None,
        audience: str | None = None,
        ca: Path | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url, self.key, self.audience = url, key, audience
        self._sleep = sleep
        # Whether the user was told of retries, and whether the service's key was compared with the pinned one.
        self._told = False
        self._compared = False
        # Seconds by which the service's clock is ahead of this one.
        self._offset = 0.0
        # Requests to this machine must not go through a proxy.
        self._client = httpx.Client(
            base_url=url,
            timeout=_TIMES,
            follow_redirects=False,
            verify=_trust(ca),
            transport=transport,
            trust_env=not is_loopback(urlsplit(url).hostname or ""),
            headers={"User-Agent": f"equipoise/{__version__}", "Accept-Encoding": "identity"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the network connection."""
        self._client.close()

    def introduction(self) -> Introduction:
        """Ask the service for its introduction; refuse a key other than the pinned one."""
        document = self.get("/v1/service", signed=False)
        try:
            key = validate_public_key(str(document["public_key"]))
            introduced = Introduction(key, str(document["version"]), document["time"] / 1000)
        except (KeyError, TypeError, ValueError) as error:
            raise ServiceError(f"{self.url} is not a service of Equipoise, or a newer one ({error!r})") from None
        if self.audience is not None and introduced.public_key != self.audience:
            raise ServiceError(
                f"the service at {self.url} has another key, {introduced.fingerprint}, than the one you joined, "
                f"{fingerprint(self.audience)}; ask the operator, by another way than this address, before you go on"
            )
        return introduced

    def get(self, target: str, *, signed: bool = True) -> Any:
        """Fetch the document at a path."""
        return self.request("GET", target, signed=signed).json()

    def post(self, target: str, document: Any, *, repeatable: bool = False) -> Any:
        """Send a document; return the document in the answer, None if it is empty."""
        reply = self.request("POST", target, document=document, repeatable=repeatable)
        return reply.json() if reply.body else None

    def request(
        self,
        method: str,
        target: str,
        *,
        body: bytes = b"",
        document: Any = None,
        signed: bool = True,
        repeatable: bool = True,
        max_bytes: int = MAX_BYTES,
    ) -> Reply:
        """Send a request, with retries if these are safe; raise the service's refusal in its own words."""
        headers = {"Content-Type": "application/octet-stream"} if body else {}
        if document is not None:
            body, headers = canonical_json(document), {"Content-Type": "application/json"}
        set_clock = False
        for attempt in range(1, ATTEMPTS + 1):
            last = attempt == ATTEMPTS
            try:
                reply = self._once(method, target, body, headers, signed=signed, max_bytes=max_bytes)
            except httpx.TransportError as error:
                if last or _is_final(error) or not (repeatable or isinstance(error, httpx.ConnectError)):
                    raise self._unreachable(error, repeatable=repeatable) from error
                self._tell_once(attempt)
                self._sleep(_pause(attempt))
                continue
            if reply.status in _BUSY and not last:
                self._sleep(_asked_for(reply) or _pause(attempt))
                continue
            refusal = _refusal(reply, self.url)
            if refusal is None:
                return reply
            if refusal.code == _UNKNOWN and repeatable and not last:
                self._sleep(_pause(attempt))
                continue
            if refusal.code == "clock" and signed and not set_clock:
                self._offset = self.introduction().time - time.time()
                set_clock = True
                continue
            if refusal.status == 401 and signed:
                self._compare_once()
            raise refusal
        raise AssertionError  # the last attempt answers or raises

    def _once(
        self, method: str, target: str, body: bytes, headers: Mapping[str, str], *, signed: bool, max_bytes: int
    ) -> Reply:
        request = self._client.build_request(method, target, content=body, headers=dict(headers))
        if signed:
            request.headers.update(self._signature(request, body))
        response = self._client.send(request, stream=True)
        try:
            parts, size = [], 0
            for part in response.iter_bytes():
                size += len(part)
                if size > max_bytes:
                    raise ServiceError(f"the service answered with more than {max_bytes:,} bytes; nothing was kept")
                parts.append(part)
        finally:
            response.close()
        return Reply(response.status_code, response.headers, b"".join(parts))

    def _tell_once(self, attempt: int) -> None:
        """Tell the user once about retries, on standard error, so that scripts can parse standard output."""
        if not self._told:
            self._told = True
            seconds = sum(_longer(number) for number in range(attempt, ATTEMPTS))
            sys.stderr.write(f"{self.url} cannot be reached; trying again for about {seconds:.0f} s\n")

    def _compare_once(self) -> None:
        """Compare the service's key with the pinned one, since another service refuses every signature."""
        if not self._compared:
            self._compared = True
            with suppress(RefusedError):
                self.introduction()

    def _signature(self, request: httpx.Request, body: bytes) -> dict[str, str]:
        if self.key is None or self.audience is None:
            raise ServiceError("this needs your key; join first with `equipoise join`")
        return sign_request(
            self.key,
            audience=self.audience,
            method=request.method,
            target=request.url.raw_path.decode("ascii"),
            body=body,
            time=max(0, int(time.time() + self._offset)),
        )

    def _unreachable(self, error: httpx.TransportError, *, repeatable: bool) -> ServiceError:
        why = str(error) or type(error).__name__
        if any(words in why for words in _NO_TLS):
            return ServiceError(f"{self.url} does not speak TLS there ({why}); is it http://, or another port?")
        if _is_final(error):
            return ServiceError(
                f"{self.url} cannot show that it is who it says ({why}); if it has a certificate of your own "
                "authority, give that with --ca"
            )
        if not repeatable and not isinstance(error, httpx.ConnectError):
            return ServiceError(
                f"the connection to {self.url} was lost before it answered ({why}): it may have been done or not; look "
                "first (`equipoise operator rounds`, `equipoise operator people`), then try again"
            )
        return ServiceError(f"{self.url} cannot be reached ({why}); is it running, and is the address right?")


def _trust(ca: Path | None) -> ssl.SSLContext | bool:
    if ca is None:
        return True
    try:
        return ssl.create_default_context(cafile=str(ca))
    except (OSError, ssl.SSLError) as error:
        raise ServiceError(f"cannot use {str(ca)!r} as certificates of an authority ({error})") from error


def _is_final(error: BaseException) -> bool:
    """Return True if a retry cannot help: the certificate is not trusted, or the protocol is not supported."""
    if isinstance(error, httpx.UnsupportedProtocol | httpx.ProxyError):
        return True
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return "CERTIFICATE" in str(error)


def _pause(attempt: int) -> float:
    """Return the seconds to wait, growing with each attempt, with jitter so that clients do not retry in step."""
    # Jitter needs no cryptographic randomness.
    return _longer(attempt) * random.uniform(0.75, 1.25)  # noqa: S311


def _longer(attempt: int) -> float:
    return min(8.0, 0.25 * 2.0**attempt)


def _asked_for(reply: Reply) -> float | None:
    text = reply.headers.get("retry-after", "")
    return min(LONGEST_WAIT, float(text)) if text.isascii() and text.isdigit() else None


def _refusal(reply: Reply, url: str) -> RefusedError | None:
    if 200 <= reply.status < 300:
        return None
    if 300 <= reply.status < 400:
        where = reply.headers.get("location", "nowhere")[:200]
        return RefusedError(
            f"{url} sends elsewhere ({where}), which is not followed; join with the address of the service itself",
            status=reply.status,
            code="redirect",
        )
    try:
        refusal = strict_json(reply.body)["error"]
        return RefusedError(str(refusal["message"]), status=reply.status, code=str(refusal["code"]))
    except (StrictJSONError, KeyError, TypeError):
        return RefusedError(
            f"{url} answered {reply.status}, in words of something else than Equipoise; is the address right?",
            status=reply.status,
            code="unknown",
        )
