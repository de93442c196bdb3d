"""Bodies are read here, once, before anything else happens to a request; one that no route takes is not read at all.

Signatures are over the exact bytes, so these are kept beside the request. A body that is too large is refused as soon
as that is known, not after all of it has come; one that comes too slowly is not waited for; and all that are held at
one time have a limit together, of which one sender can take a part only: nobody keeps everybody else out.
"""

import asyncio
import time
from collections import Counter

from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from equipoise.service.limits import sender
from equipoise.service.problems import problem
from equipoise.service.settings import Settings

_SENDERS = 8  # that together can hold as much as is held at all


class _Stop(Exception):  # noqa: N818  (not an error: the answer to give instead)
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


class _Gone(Exception):  # noqa: N818
    """The sender hung up."""


class WholeBodies:
    """ASGI: the body is in `scope["state"]["body"]`, and is there for whoever receives it the usual way."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings
        self.held = 0
        self.held_of: Counter[str] = Counter()  # by sender, those alone who hold something

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        chunks: list[bytes] = []
        who = sender(scope)
        try:
            try:
                if _is_taken(scope):
                    await self._read(scope, receive, chunks, who)
            except _Stop as stop:
                # The rest of the body is still to come, or never will.
                response = problem(stop.status, stop.code, stop.message, {"Connection": "close"})
                await response(scope, receive, send)
                return
            except _Gone:
                return
            body = b"".join(chunks)
            scope["state"]["body"] = body
            await self.app(scope, _again(body, receive), send)
        finally:
            self._hold(who, -sum(map(len, chunks)))

    async def _read(self, scope: Scope, receive: Receive, chunks: list[bytes], who: str) -> None:
        self._check_length(_stated_length(scope))
        began, received = time.monotonic(), 0
        while True:
            patience = self.settings.body_patience
            left = began + patience + received / self.settings.slowest_body - time.monotonic()
            try:
                # What came quickly buys no long silence.
                async with asyncio.timeout(max(0.0, min(left, patience))):
                    message = await receive()
            except TimeoutError:
                raise _Stop(408, "slow", "the body of the request came too slowly; try again") from None
            if message["type"] == "http.disconnect":
                raise _Gone
            chunk = message.get("body", b"")
            received += len(chunk)
            self._check_length(received)
            self._check_room(who, len(chunk))
            self._hold(who, len(chunk))
            chunks.append(chunk)
            if not message.get("more_body", False):
                return

    def _check_room(self, who: str, length: int) -> None:
        if self.held + length > self.settings.max_held:
            raise _Stop(503, "busy", "the service is handling as much as it can; try again")
        if self.held_of[who] + length > self.settings.max_held // _SENDERS:
            raise _Stop(503, "busy", "the service is handling as much from this address as it can; try again")

    def _hold(self, who: str, length: int) -> None:
        self.held += length
        self.held_of[who] += length
        if not self.held_of[who]:
            del self.held_of[who]

    def _check_length(self, length: int) -> None:
        if length > self.settings.max_body:
            message = f"the body of the request is larger than {self.settings.max_body:,} bytes, the most that is taken"
            raise _Stop(413, "too-large", message)


def _is_taken(scope: Scope) -> bool:
    """Whether there is a route for the request; what somebody sends elsewhere is not for this service to have."""
    return any(route.matches(scope)[0] is Match.FULL for route in scope["app"].routes)


def _stated_length(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return 0


def _again(body: bytes, receive: Receive) -> Receive:
    """The body as one message; afterwards the sender's own, which can only be that it hung up."""
    given = False

    async def receiving() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving
