"""Bodies are read here, whole, when the route of a request asks for it; what no route asks for is not read at all.

A route asks once it has judged the head of the request, and says how much it takes. A body that is too large is refused
as soon as that is known, not after all of it has come; one that comes too slowly is not waited for; and all that are
held at one time have a limit together, of which one sender can take a part only: nobody keeps everybody else out.
"""

import asyncio
import time
from collections import Counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from equipoise.service.errors import Slow, TooLarge, Unavailable
from equipoise.service.settings import Settings
from equipoise.service.web.rate_limit import sender

_SENDERS = 8  # that together can hold as much as is held at all


class _Gone(Exception):  # noqa: N818
    """The sender hung up."""


class WholeBodies:
    """ASGI: the body comes as one message, to be read once; `scope["state"]["most_bytes"]` is how much is taken."""

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
        finished = False
        scope["state"]["most_bytes"] = self.settings.max_body

        async def receiving() -> Message:
            nonlocal finished
            if finished:
                return await receive()  # which can only be that the sender hung up
            await self._read(scope, receive, chunks, who)
            finished = True
            return {"type": "http.request", "body": b"".join(chunks), "more_body": False}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and not finished and (chunks or announced(scope)):
                # The rest of the body is still to come, or never will.
                message = {**message, "headers": [*message["headers"], (b"connection", b"close")]}
            await send(message)

        try:
            await self.app(scope, receiving, sending)
        except _Gone:
            return
        finally:
            self._hold(who, -sum(map(len, chunks)))

    async def _read(self, scope: Scope, receive: Receive, chunks: list[bytes], who: str) -> None:
        check_length(scope, stated_length(scope))
        began, received = time.monotonic(), 0
        while True:
            patience = self.settings.body_patience
            left = began + patience + received / self.settings.slowest_body - time.monotonic()
            try:
                # What came quickly buys no long silence.
                async with asyncio.timeout(max(0.0, min(left, patience))):
                    message = await receive()
            except TimeoutError:
                raise Slow("the body of the request came too slowly; try again") from None
            if message["type"] == "http.disconnect":
                raise _Gone
            chunk = message.get("body", b"")
            received += len(chunk)
            check_length(scope, received)
            self._check_room(who, len(chunk))
            self._hold(who, len(chunk))
            chunks.append(chunk)
            if not message.get("more_body", False):
                return

    def _check_room(self, who: str, length: int) -> None:
        if self.held + length > self.settings.max_held:
            raise Unavailable("the service is handling as much as it can; try again", code="busy")
        if self.held_of[who] + length > self.settings.max_held // _SENDERS:
            raise Unavailable("the service is handling as much from this address as it can; try again", code="busy")

    def _hold(self, who: str, length: int) -> None:
        self.held += length
        self.held_of[who] += length
        if not self.held_of[who]:
            del self.held_of[who]


def announced(scope: Scope) -> bool:
    """Whether the head says that a body follows."""
    names = {name for name, _ in scope["headers"]}
    return b"transfer-encoding" in names or (b"content-length" in names and stated_length(scope) != 0)


def stated_length(scope: Scope) -> int | None:
    """How long the body is to be; None if it is not said."""
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value[:20])
    return None


def check_length(scope: Scope, length: int | None) -> None:
    """Refuse a body that is longer than what is taken."""
    most = scope["state"]["most_bytes"]
    if length is not None and length > most:
        raise TooLarge(f"the body of the request is larger than {most:,} bytes, the most that is taken here")
