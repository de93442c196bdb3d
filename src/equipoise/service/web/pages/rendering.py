"""Templates, and the pages made from them. Everything is escaped but charts, which `equipoise.report.charts` made."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from fastapi import Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from equipoise import __version__
from equipoise.estimate import Estimate
from equipoise.protocol.public_keys import fingerprint
from equipoise.report.wording import estimate, number
from equipoise.service.web.pages.visitors import Visitor

if TYPE_CHECKING:
    from jinja2 import Environment

# Under `no-referrer` browsers send `Origin: null` with forms, which cannot be told from another site's.
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "same-origin",
}


def page(request: Request, template: str, visitor: Visitor, *, status: int = 200, **values: Any) -> HTMLResponse:
    """A page, which nobody keeps: what it shows is for one person."""
    shown = (
        _templates()
        .get_template(template)
        .render(
            visitor=visitor,
            actor=visitor.actor,
            here=request.url.path,
            version=__version__,
            service=fingerprint(request.app.state.context.audience),
            **values,
        )
    )
    return HTMLResponse(shown, status_code=status, headers=HEADERS)


def moment(milliseconds: int) -> Markup:
    """A time, as people and as machines read it."""
    time = datetime.fromtimestamp(milliseconds / 1000, UTC)
    machine = time.isoformat(timespec="seconds")
    return Markup('<time datetime="{}">{:%Y-%m-%d %H:%M} UTC</time>').format(machine, time)


def sentence(message: str) -> str:
    """A rule's message as it stands alone on a page."""
    text = message[:1].upper() + message[1:]
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _estimated(found: Mapping[str, Any]) -> str:
    return estimate(Estimate(found["value"], found["error"]))


@cache
def _templates() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    from equipoise._util.text import counted
    from equipoise.service.web.pages.static import address
    from equipoise.service.web.pages.words import approx

    environment = Environment(
        loader=PackageLoader("equipoise.service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "moment": moment,
        "counted": counted,
        "plain": number,
        "approx": approx,
        "estimate": _estimated,
        "sentence": sentence,
    }
    environment.globals |= {"asset": address}
    return environment
