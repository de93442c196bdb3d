"""ASGI middleware: what every request passes before a route sees it, and every response on its way out.

`equipoise_service.web.app` has them in their order. Each does one thing, and answers a request that it refuses itself.
"""

import asyncio
import ipaddress
import time
from collections import Counter

from fastapi import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from equipoise_service.errors import RateLimited, RequestTimeout, TooLarge, Unavailable
from equipoise_service.logs import log_failure
from equipoise_service.settings import Settings
from equipoise_service.web.error_handlers import json_error, refusal_response, server_error
from equipoise_service.web.rate_limit import RateLimits, client_address

CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_YEAR = 365 * 24 * 3_600
_SENDERS = 8  # that together can have as much buffered as is buffered at all


class SecurityHeaders:
    """Headers that make browsers careful, on every response; a route that needs another value sets it itself."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        defaults = {
            "content-security-policy": CONTENT_POLICY,
            "x-content-type-options": "nosniff",
            "x-frame-options": "DENY",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
            "cache-control": "no-store",
        }
        if settings.is_secure:
            defaults["strict-transport-security"] = f"max-age={_YEAR}"
        self.defaults = [(name.encode(), value.encode()) for name, value in defaults.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                there = {name.lower() for name, _ in headers}
                headers += [(name, value) for name, value in self.defaults if name not in there]
                message = {**message, "headers": headers}
            await send(message)

        await self.app(scope, receive, sending if scope["type"] == "http" else send)


class ServerErrors:
    """Whatever is raised that nobody foresaw is answered with a reference, which the log has with the trace."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = False

        async def sending(message: Message) -> None:
            nonlocal began
            began = began or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except Exception as error:
            reference = scope["state"]["request_id"]
            log_failure(reference, error)
            if began:
                raise ConnectionAbortedError(f"the response broke off; reference {reference}") from None
            message = f"the service failed unexpectedly; tell its operator the reference {reference}"
            await server_error(Request(scope), message)(scope, receive, send)


class TrustedHost:
    """Requests for other names than the service's own are refused: the Host header must be there once.

    A page of somebody else's, whose name was made to point at this machine, would otherwise be the service to a
    browser.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.hosts = frozenset(host.encode() for host in settings.hosts)
        self.message = f"this service is {settings.origin}; the request asks for another"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            named = [value.lower() for name, value in scope["headers"] if name == b"host"]
            if len(named) != 1 or named[0] not in self.hosts:
                await json_error(421, "host", self.message)(scope, receive, send)
                return
        await self.app(scope, receive, send)


class ProxyOnly:
    """Behind a reverse proxy, it alone may connect.

    Others would come without TLS, and could name any address as theirs. To be put outside of everything
    else. This machine may connect, too, so that its health can be asked for.
    """

    def __init__(self, app: ASGIApp, trusted: tuple[str, ...]) -> None:
        self.app = app
        self.trusted = [ipaddress.ip_network(one) for one in trusted]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_trusted(scope.get("client")):
            message = "this address is for the reverse proxy alone; use the public one"
            await json_error(403, "proxy", message)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _is_trusted(self, client: tuple[str, int] | None) -> bool:
        if client is None:
            return False
        address = ipaddress.ip_address(client[0])
        mapped = getattr(address, "ipv4_mapped", None)
        address = address if mapped is None else mapped
        return address.is_loopback or any(address in network for network in self.trusted)


class AddressRateLimit:
    """Every request takes a token of its address's bucket, or is refused."""

    def __init__(self, app: ASGIApp, limits: RateLimits) -> None:
        self.app = app
        self.limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self.limits.address.take(client_address(scope))
            except RateLimited as error:
                response = refusal_response(error)
                assert response is not None
                await response(scope, receive, send)
                return
        await self.app(scope, receive, send)


class _DisconnectedError(Exception):
    """The client hung up."""


class BodyLimit:
    """Bodies are read whole, when the route of a request asks for it; what no route asks for is not read at all.

    A route asks once it has judged the head of the request, and says how much it takes (`scope["state"]["max_body"]`).
    A body that is too large is refused as soon as that is known, not after all of it has come; one that comes too
    slowly is not waited for; and all that are buffered at one time have a limit together, of which one address can take
    a part only: nobody keeps everybody else out.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings
        self.buffered = 0
        self.buffered_of: Counter[str] = Counter()  # by address, those alone that have something buffered

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        chunks: list[bytes] = []
        address = client_address(scope)
        finished = False
        scope["state"]["max_body"] = self.settings.max_body

        async def receiving() -> Message:
            nonlocal finished
            if finished:
                return await receive()  # which can only be that the client hung up
            await self._read(scope, receive, chunks, address)
            finished = True
            return {"type": "http.request", "body": b"".join(chunks), "more_body": False}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not finished and (chunks or has_body(scope)):
                # The rest of the body is still to come, or never will.
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        try:
            await self.app(scope, receiving, sending)
        except _DisconnectedError:
            return
        finally:
            self._count(address, -sum(map(len, chunks)))

    async def _read(self, scope: Scope, receive: Receive, chunks: list[bytes], address: str) -> None:
        check_length(scope, content_length(scope))
        began, received = time.monotonic(), 0
        while True:
            timeout = self.settings.body_timeout
            left = began + timeout + received / self.settings.min_body_rate - time.monotonic()
            try:
                # What came quickly buys no long silence.
                async with asyncio.timeout(max(0.0, min(left, timeout))):
                    message = await receive()
            except TimeoutError:
                raise RequestTimeout("the body of the request came too slowly; try again") from None
            if message["type"] == "http.disconnect":
                raise _DisconnectedError
            chunk = message.get("body", b"")
            received += len(chunk)
            check_length(scope, received)
            self._check_room(address, len(chunk))
            self._count(address, len(chunk))
            chunks.append(chunk)
            if not message.get("more_body", False):
                return

    def _check_room(self, address: str, length: int) -> None:
        if self.buffered + length > self.settings.max_buffered:
            raise Unavailable("the service is handling as much as it can; try again", code="busy")
        if self.buffered_of[address] + length > self.settings.max_buffered // _SENDERS:
            raise Unavailable("the service is handling as much from this address as it can; try again", code="busy")

    def _count(self, address: str, length: int) -> None:
        self.buffered += length
        self.buffered_of[address] += length
        if not self.buffered_of[address]:
            del self.buffered_of[address]


def has_body(scope: Scope) -> bool:
    """Whether the head of a request says that a body follows."""
    names = {name for name, _ in scope["headers"]}
    return b"transfer-encoding" in names or (b"content-length" in names and content_length(scope) != 0)


def content_length(scope: Scope) -> int | None:
    """How long the head of a request says that the body is; None if it does not say."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return None


def check_length(scope: Scope, length: int | None) -> None:
    """Refuse a body that is longer than what the route takes."""
    most = scope["state"]["max_body"]
    if length is not None and length > most:
        raise TooLarge(f"the body of the request is larger than {most:,} bytes, the most that is taken here")
