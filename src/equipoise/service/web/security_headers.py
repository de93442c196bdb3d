"""Headers that make browsers careful, on every response; a route that needs another value sets it itself."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from equipoise.service.settings import Settings

CONTENT_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# For a report, which is one file with its own style and nothing that runs.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; frame-ancestors 'none'; "
    "base-uri 'none'; sandbox"
)
_YEAR = 365 * 24 * 3_600


class CarefulHeaders:
    """ASGI: adds what is not there yet."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        usual = {
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
            usual["strict-transport-security"] = f"max-age={_YEAR}"
        self.usual = [(name.encode(), value.encode()) for name, value in usual.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message["headers"])
                there = {name.lower() for name, _ in headers}
                headers += [(name, value) for name, value in self.usual if name not in there]
                message = {**message, "headers": headers}
            await send(message)

        await self.app(scope, receive, sending if scope["type"] == "http" else send)
