"""Behind a reverse proxy, it alone may connect: others would come without TLS, and could name any address as theirs.

This machine may connect, too, so that its health can be asked for.
"""

import ipaddress

from starlette.types import ASGIApp, Receive, Scope, Send

from equipoise.service.web.problems import problem


class OnlyByProxy:
    """ASGI, outside of everything else: the connection itself must come from a trusted address."""

    def __init__(self, app: ASGIApp, trusted: tuple[str, ...]) -> None:
        self.app = app
        self.trusted = [ipaddress.ip_network(one) for one in trusted]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self._is_trusted(scope.get("client")):
            message = "this address is for the reverse proxy alone; use the public one"
            await problem(403, "proxy", message)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _is_trusted(self, client: tuple[str, int] | None) -> bool:
        if client is None:
            return False
        address = ipaddress.ip_address(client[0])
        mapped = getattr(address, "ipv4_mapped", None)
        address = address if mapped is None else mapped
        return address.is_loopback or any(address in network for network in self.trusted)
