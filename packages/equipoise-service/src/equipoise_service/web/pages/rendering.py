"""Rendering of pages, including error pages, from templates, and the style sheet and script that they use.

Templates escape everything except reports, which `equipoise.report` renders and escapes.
"""

import re
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from http import HTTPStatus
from importlib import resources
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from equipoise import __version__
from equipoise._util.canonical import sha256_hex
from equipoise._util.text import counted
from equipoise.estimate import Estimate
from equipoise.protocol.keys import fingerprint
from equipoise.report import style_sheet
from equipoise.report.wording import estimate, number
from equipoise_service.errors import Invalid, NotFound, Refusal
from equipoise_service.web.pages.session import OLD_FORM, User
from equipoise_service.web.pages.wording import approximate_epsilon

# Under `no-referrer`, browsers send `Origin: null` with forms, which looks like a form of another site.
HEADERS = {"Referrer-Policy": "same-origin"}
TITLES = {
    401: "Please sign in",
    403: "This is not for you",
    404: "There is nothing here",
    405: "This is not how it works",
    409: "This cannot be done now",
    413: "This is too large",
    422: "Something is not right yet",
    429: "Slow down, please",
    500: "Something went wrong here",
    503: "The service cannot answer just now",
}
# For refusals whose status alone says too little.
TITLES_OF_CODES = {OLD_FORM: "This page is out of date"}
# Digits of a digest that tables show; the title attribute holds all of them.
SHOWN_DIGITS = 12
# Seconds until another attempt makes sense, by status.
RETRY_AFTER = {429: 1, 503: 5}
STATIC_TYPES = {"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}
STATIC_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


def render_page(request: Request, template: str, user: User, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a page for one person."""
    shown = _templates().get_template(template).render(
        user=user,
        actor=user.actor,
        here=request.url.path,
        version=__version__,
        service=fingerprint(request.app.state.context.public_key),
        address=request.app.state.settings.origin,
        **values,
    )  # fmt: skip
    return HTMLResponse(shown, status_code=status, headers=HEADERS)


def error_page(request: Request, status: int, message: str, code: str = "") -> Response:
    """Render an error without a trace. The page needs no database, because that may be the cause of the error."""
    user = getattr(request.state, "user", User())
    title = TITLES_OF_CODES.get(code) or TITLES.get(status) or HTTPStatus(status).phrase
    return render_page(request, "problem.html", user, status=status, title=title, message=message, number=status)


class PageRoute(APIRoute):
    """A route that answers refusals with pages."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except Refusal as refusal:
                response = error_page(request, refusal.status, str(refusal), refusal.code)
                if refusal.status in RETRY_AFTER:
                    response.headers["Retry-After"] = str(getattr(refusal, "seconds", RETRY_AFTER[refusal.status]))
                return response
            except RequestValidationError:
                message = "The address holds something that cannot be read; go back and choose again."
                return error_page(request, Invalid.status, message)

        return handle


router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.api_route("/static/{file}", methods=["GET", "HEAD"])
def static(file: str) -> Response:
    """Serve style sheet and script at addresses that change with their contents, so that browsers may cache them."""
    for name, media_type in STATIC_TYPES.items():
        if static_url(name) == f"/static/{file}":
            return Response(_static_content(name), media_type=media_type, headers=STATIC_HEADERS)
    raise NotFound(f"there is no file {file!r} here; load the page again")


@cache
def static_url(name: str) -> str:
    """Return the address of a static file."""
    stem, ending = name.rsplit(".", 1)
    return f"/static/{stem}.{sha256_hex(_static_content(name))[:16]}.{ending}"


@cache
def _static_content(name: str) -> bytes:
    """Return a static file as it is sent. The report's style sheet is appended, because pages show parts of reports."""
    text = (resources.files("equipoise_service.web") / "static" / name).read_text(encoding="utf-8")
    return (text + (style_sheet() if name == "style.css" else "")).encode()


# Formatting is slow, and the page of a round with 200 parties shows the same 600 times at every view.
@lru_cache(maxsize=4_096)
def time_element(milliseconds: int) -> Markup:
    """Format a time as an HTML element, which people and machines can read."""
    time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    machine = time.isoformat(timespec="seconds")
    return Markup('<time datetime="{}">{:%Y-%m-%d %H:%M} UTC</time>').format(machine, time)


def sentence(message: str) -> str:
    """Format a rule's message as a sentence, with a capital letter and a full stop."""
    text = message[:1].upper() + message[1:]
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def is_digest(value: str) -> bool:
    """Return True if a text is a SHA-256 digest in hexadecimal digits."""
    return re.fullmatch("[0-9a-f]{64}", value) is not None


def shortened(digest: str) -> str:
    """Shorten a digest for a table. Never shorten fingerprints that people must compare."""
    return f"{digest[:SHOWN_DIGITS]}…" if len(digest) > SHOWN_DIGITS else digest


def _estimate(document: Mapping[str, Any]) -> str:
    return estimate(Estimate(document["value"], document["error"]))


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader("equipoise_service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "time": time_element,
        "counted": counted,
        "plain": number,
        "approximate_epsilon": approximate_epsilon,
        "estimate": _estimate,
        "sentence": sentence,
        "shortened": shortened,
    }
    environment.tests["digest"] = is_digest
    environment.globals |= {"static_url": static_url}
    return environment
