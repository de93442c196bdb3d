"""Requests for other names than the service's own are refused.

A page of somebody else's, whose name was made to point at this machine, would otherwise be the service to a browser.
"""

from starlette.types import ASGIApp, Receive, Scope, Send

from equipoise.service.settings import Settings
from equipoise.service.web.problems import problem


class OwnHost:
    """ASGI: the Host header must be there once, and be the public address's."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.hosts = frozenset(host.encode() for host in settings.hosts)
        self.message = f"this service is {settings.origin}; the request asks for another"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        named = [value.lower() for name, value in scope["headers"] if name == b"host"]
        if len(named) != 1 or named[0] not in self.hosts:
            await problem(421, "host", self.message)(scope, receive, send)
            return
        await self.app(scope, receive, send)
