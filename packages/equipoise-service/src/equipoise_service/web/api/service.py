"""Public routes: the service's identity, its health, and a page that documents the API."""

import asyncio
import shutil
import time
from collections.abc import Callable
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import delete

from equipoise._version import __version__
from equipoise.protocol.keys import fingerprint
from equipoise_service.context import MIN_FREE_BYTES, Context
from equipoise_service.db.database import FULL
from equipoise_service.db.tables import Nonce
from equipoise_service.errors import Unavailable
from equipoise_service.web.api.routes import error_responses, new_router
from equipoise_service.web.api.schemas import HealthSchema, ServiceSchema
from equipoise_service.web.auth import context_of

router = new_router("service")
docs_router = APIRouter(prefix="/v1")

# Seconds for which the result of a health check is reused.
VALID_SECONDS = 5.0
# Seconds to wait for a new result.
TIMEOUT = 2.0
# The key of the nonce that the check writes.
_HEALTH_KEY = "health"


class HealthCheck:
    """A health check that writes to the database, at most once every `VALID_SECONDS`.

    If the disk is full or another process does not release the lock, everything can still be read, so a check must
    write. Every request is answered within `TIMEOUT`, and only one thread writes, however many requests wait. All calls
    must be in one event loop.
    """

    def __init__(self, context: Context, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._clock = context, clock
        self._problem: Unavailable | None = None
        self._valid_until = float("-inf")
        self._probe: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Raise `Unavailable` if the database cannot be written, or does not answer in time."""
        if self._probe is None or self._probe.done():
            if self._clock() < self._valid_until:
                return self._report()
            self._probe = asyncio.create_task(self._try_writing())
        done, _ = await asyncio.wait({self._probe}, timeout=TIMEOUT)
        if not done:
            raise Unavailable(f"the database has not taken anything for {TIMEOUT:g} s; another process may lock it")
        self._probe.result()
        return self._report()

    def _report(self) -> None:
        if self._problem is not None:
            raise Unavailable(str(self._problem), code=self._problem.code)

    async def _try_writing(self) -> None:
        try:
            await asyncio.to_thread(self._write)
            self._problem = None
        except Unavailable as error:
            self._problem = error
        self._valid_until = self._clock() + VALID_SECONDS

    def _write(self) -> None:
        database, folder = self._context.database, self._context.folder
        if database.is_sqlite and (left := shutil.disk_usage(folder).free) < MIN_FREE_BYTES:
            raise Unavailable(f"the disk is full: {left:,} bytes are left; free some room", code=FULL)
        with database.writing() as session:
            session.execute(delete(Nonce).where(Nonce.public_key == _HEALTH_KEY))
            session.add(Nonce(public_key=_HEALTH_KEY, nonce="", expires=0))


@router.get("/service", responses=error_responses())
def service(request: Request) -> ServiceSchema:
    """Get version, public key and time of this service. Compare the fingerprint with the one the operator told you."""
    context = context_of(request)
    return ServiceSchema(
        version=__version__,
        public_key=context.public_key,
        fingerprint=fingerprint(context.public_key),
        time=context.clock(),
    )


@router.get("/health", responses=error_responses())
async def health(request: Request) -> HealthSchema:
    """Check that the service works: 503, with the reason, while its database is unavailable or cannot be written."""
    await request.app.state.health.check()
    return HealthSchema()


@docs_router.get("/docs", include_in_schema=False)
def docs(request: Request) -> HTMLResponse:
    """Show the documentation of the API as a page."""
    return HTMLResponse(docs_page(request.app.openapi()))


def docs_page(document: dict[str, Any]) -> str:
    """Render an OpenAPI document as plain HTML."""
    info = document["info"]
    parts = [
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(info["title"])}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1"></head><body><main>',
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}</p>",
        '<p>For programs: <a href="/v1/openapi.json">/v1/openapi.json</a></p><h2>Signing in</h2><dl>',
    ]
    for name, scheme in document["components"]["securitySchemes"].items():
        parts.append(f"<dt>{escape(name)}</dt><dd>{escape(scheme['description'])}</dd>")
    parts.append("</dl><h2>Requests</h2>")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parts.append(_operation(method, path, operation))
    return "\n".join([*parts, "</main></body></html>"])


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    schemes = " or ".join(name for choice in operation.get("security", ()) for name in choice) or "nothing"
    listed = "".join(
        f"<li>{escape(status)}: {escape(answer['description'])}</li>"
        for status, answer in operation["responses"].items()
    )
    return (
        f"<section><h3><code>{method.upper()} {escape(path)}</code></h3><p>{escape(operation['description'])}</p>"
        f"<p>Needs: {escape(schemes)}.</p><details><summary>Answers</summary><ul>{listed}</ul></details></section>"
    )
