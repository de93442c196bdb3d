"""What the server writes down of requests: one JSON line each, without anything that could be a secret.

A line has the route and not the path, so that a link pasted into an address bar with a slash too many does not end up
here; no query, no header, no body. Every response names its line by `X-Request-Id`.
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

REPEAT_SECONDS = 60.0  # seconds between two lines that anybody could have written a thousand times
REQUESTS = "equipoise.requests"
FAILURES = "equipoise.failures"


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON, with what is in `record.fields`."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {"time": f"{moment}.{int(record.msecs):03d}Z", "level": record.levelname.lower()}
        fields = getattr(record, "fields", None)
        line.update(fields if fields is not None else {"log": record.name, "message": record.getMessage()})
        if fields is None and record.exc_info:
            line["trace"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line, ensure_ascii=True, default=str)


class RepeatFilter(logging.Filter):
    """Lets a warning, or what asyncio has to say, through once in a minute; the next says how many were left out.

    Who writes them is whoever connects, so that they could fill the disk.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[str, tuple[float, int]] = {}  # when the next may be written, and how many were not

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
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
    """Have everything of this process logged to one stream, the standard error by default."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in (REQUESTS, FAILURES, "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.INFO)
    for name in ("asyncio", "uvicorn.error", "equipoise.connections"):
        logging.getLogger(name).filters[:] = [RepeatFilter()]
    # It says for each connection that is turned away what the requests' lines and the system say already.
    logging.getLogger("uvicorn.access").disabled = True


def log_failure(reference: str, error: BaseException) -> None:
    """Log a failure that nobody foresaw, with its trace, for whoever runs the service."""
    trace = "".join(traceback.format_exception(error))
    fields = {"request": reference, "message": "failed unexpectedly", "trace": trace}
    logging.getLogger(FAILURES).error("failed unexpectedly", extra={"fields": fields})


class RequestLog:
    """ASGI, outermost: gives every request an id, and writes its line when it has been answered."""

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
