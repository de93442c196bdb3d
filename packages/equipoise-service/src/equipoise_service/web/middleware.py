"""ASGI middleware, which every request passes before it reaches a route, and every response on its way out.

`equipoise_service.web.app` defines the order. Each middleware does one thing, and answers the requests that it refuses.
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
# One address may use this fraction (1/8) of the memory for bodies.
_SENDERS = 8


class SecurityHeaders:
    """Middleware that adds security headers to every response, unless a route has set another value."""

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
    """Middleware that answers unexpected errors with a reference, under which the log has the trace."""

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
    """Middleware that refuses requests without exactly one Host header, which must name this service.

    Otherwise an attacker could point the name of an own page at this machine (DNS rebinding), and a browser would take
    the service for a part of that page's site.
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
    """Middleware for a server behind a reverse proxy, which admits connections from that proxy and this machine only.

    Other clients would bypass TLS, and could claim any address as theirs. This machine is admitted for health checks.
    The middleware must be the outermost one.
    """

    def __init__(self, app: ASGIApp, trusted: tuple[str, ...]) -> None:
        self.app = app
        self.trusted = [ipaddress.ip_network(network) for network in trusted]

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
    """Middleware that takes a token from the bucket of a request's address, or refuses the request."""

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
    """The client disconnected before it had sent the whole body."""


class BodyLimit:
    """Middleware that reads the whole body of a request when the route asks for it, within limits.

    A route asks after it has checked the head of the request, and sets the largest size that it accepts
    (`scope["state"]["max_body"]`). A body that is too large is refused as soon as that is known, and one that arrives
    too slowly is refused as well. All bodies in memory together have a limit, and one address may use only a part of
    it, so that no client can lock others out.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings
        self.buffered = 0
        self.buffered_of: Counter[str] = Counter()  # by address, without zeros

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
                # After the body, the only message is that the client disconnected.
                return await receive()
            await self._read(scope, receive, chunks, address)
            finished = True
            return {"type": "http.request", "body": b"".join(chunks), "more_body": False}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not finished and (chunks or has_body(scope)):
                # The rest of the body was not read, so the connection cannot be used for another request.
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
                # Even if earlier parts came quickly, no silence may be longer than the timeout.
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
    """Return True if the head of a request announces a body."""
    names = {name for name, _ in scope["headers"]}
    return b"transfer-encoding" in names or (b"content-length" in names and content_length(scope) != 0)


def content_length(scope: Scope) -> int | None:
    """Return the length of the body that the head of a request announces; None if it announces none."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return None


def check_length(scope: Scope, length: int | None) -> None:
    """Refuse a body that is longer than the route accepts."""
    most = scope["state"]["max_body"]
    if length is not None and length > most:
        raise TooLarge(f"the body of the request is larger than {most:,} bytes, the most that is taken here")
