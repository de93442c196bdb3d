"""The server's log: one JSON line for each request, without anything that could be a secret.

A line holds the route, not the path, because a mistyped one-time link would put its secret into the path. It holds no
query, no header and no body. The header `X-Request-Id` of every response identifies its line.
"""

import json
import logging
import re
import secrets
import sys
import time
import traceback
from collections.abc import Callable
from typing import IO, Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Seconds between two equal lines that anybody could trigger a thousand times.
REPEAT_SECONDS = 60.0
REQUESTS = "equipoise.requests"
FAILURES = "equipoise.failures"


class JsonLines(logging.Formatter):
    """Formatter that writes a record, with the entries of `record.fields`, as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {"time": f"{moment}.{int(record.msecs):03d}Z", "level": record.levelname.lower()}
        fields = getattr(record, "fields", None)
        line.update(fields if fields is not None else {"log": record.name, "message": record.getMessage()})
        if fields is None and record.exc_info:
            line["trace"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line, ensure_ascii=True, default=str)


class RepeatFilter(logging.Filter):
    """Filter that passes each warning, and each message of asyncio, once a minute and counts those it left out.

    Anybody who connects can trigger these lines, and could otherwise fill the disk with them.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        # By text: when the next line may be written, and how many were left out since the last one.
        self._seen: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if a record is to be written."""
        if record.levelno != logging.WARNING and record.name != "asyncio":
            return True
        text, now = str(record.msg).partition("\n")[0], self._clock()
        due, left_out = self._seen.get(text, (now, 0))
        if now < due:
            self._seen[text] = (due, left_out + 1)
            return False
        self._seen[text] = (now + REPEAT_SECONDS, 0)
        if left_out:
            record.msg = f"{text} ({left_out:,} more like this since the last line)"
        return True


def configure_logging(stream: IO[str] | None = None) -> None:
    """Send all logs of this process to one stream, the standard error by default."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in (REQUESTS, FAILURES, "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.INFO)
    for name in ("asyncio", "uvicorn.error", "equipoise.connections"):
        logging.getLogger(name).filters[:] = [RepeatFilter()]
    # For refused connections it only repeats what the request log and the system say already.
    logging.getLogger("uvicorn.access").disabled = True


def log_failure(reference: str, error: BaseException) -> None:
    """Log an unexpected failure with its trace, for the people who run the service."""
    trace = "".join(traceback.format_exception(error))
    fields = {"request": reference, "message": "failed unexpectedly", "trace": trace}
    logging.getLogger(FAILURES).error("failed unexpectedly", extra={"fields": fields})


class RequestLog:
    """Outermost ASGI middleware, which gives every request an id and logs it once it has been answered."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        reference = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = reference
        began = time.perf_counter()
        status, length = 0, 0

        async def sending(message: Message) -> None:
            nonlocal status, length
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], (b"x-request-id", reference.encode())]}
            elif message["type"] == "http.response.body":
                length += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            _write(scope, reference, status, length, 1_000 * (time.perf_counter() - began))


def _write(scope: Scope, reference: str, status: int, length: int, milliseconds: float) -> None:
    logger = logging.getLogger(REQUESTS)
    if not logger.isEnabledFor(logging.INFO):
        return
    client = scope.get("client")
    fields = {
        "request": reference,
        "method": scope["method"][:20],
        "route": getattr(scope.get("route"), "path", None),
        "round": _round(scope),
        "status": status,
        "bytes": length,
        "ms": round(milliseconds, 1),
        "address": client[0] if client else None,
        "person": scope["state"].get("person"),
    }
    logger.info("request", extra={"fields": fields})


def _round(scope: Scope) -> str | None:
    named = str(scope.get("path_params", {}).get("round", ""))
    return named if re.fullmatch("[a-z0-9]{12}", named) else None
