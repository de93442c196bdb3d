"""Who is looking at a page, and whether a form that arrives was filled in by that person.

The session's secret is in a cookie that scripts cannot read and that other sites' pages cannot send. Every form also
carries a token that follows from the secret, and browsers say where a form comes from: a page of another site knows
neither. Forms that sign somebody in have no session yet; they are told by where they come from, and by the one-time
secret in them.
"""

import hmac
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from fastapi import Depends, Request
from fastapi.responses import RedirectResponse

from equipoise.service.context import Context
from equipoise.service.errors import Forbidden, Invalid, NotSignedIn
from equipoise.service.rules.access import Actor
from equipoise.service.rules.sign_in import actor_of

COOKIE = "equipoise_session"
SECURE_COOKIE = f"__Host-{COOKIE}"  # browsers take it from this very host alone, by TLS, and for all of it
SESSION_SECONDS = 12 * 3600
LARGEST_FORM = 1_000_000  # bytes
MOST_FIELDS = 1_000
_PURPOSE = b"equipoise-form-1"

Form = dict[str, str]


@dataclass(frozen=True)
class Visitor:
    """Somebody with a browser; `actor` and `secret` are there once it is signed in."""

    actor: Actor | None = None
    secret: str = ""

    @property
    def token(self) -> str:
        """What forms of this session carry."""
        return hmac.new(self.secret.encode(), _PURPOSE, "sha256").hexdigest()

    @property
    def role(self) -> str:
        """The signed-in person's role, "" without one."""
        return self.actor.role if self.actor else ""


def context_of(request: Request) -> Context:
    """What the rules work on."""
    found: Context = request.app.state.context
    return found


def anybody(request: Request) -> Visitor:
    """Who is there, signed in or not; an old session is as good as none."""
    secret = request.cookies.get(_cookie(request), "")
    visitor = Visitor()
    if secret and secret.isascii():
        with suppress(NotSignedIn):
            actor = actor_of(context_of(request), secret, "session")
            request.app.state.limits.person.take(str(actor.person_id))
            visitor = Visitor(actor, secret)
    request.state.visitor = visitor  # for the page that tells of a problem
    return visitor


def somebody(visitor: Annotated[Visitor, Depends(anybody)]) -> Visitor:
    """Who is signed in."""
    if visitor.actor is None:
        raise NotSignedIn("Nobody is signed in here, or the session has ended.")
    return visitor


async def sent_here(request: Request) -> Form:
    """The fields of a form that a page of this service sent; a field given twice counts once, its last."""
    _refuse_other_sites(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Invalid(f"a form of the kind {kind[:60]!r} cannot be read; send the one of the page")
    request.state.most_bytes = min(LARGEST_FORM, request.state.most_bytes)
    try:
        fields = parse_qs(
            (await request.body()).decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_FIELDS,
        )
    except ValueError as error:
        raise Invalid("the form cannot be read; load the page again and fill it in once more") from error
    return {name: values[-1].replace("\r\n", "\n") for name, values in fields.items()}


def seldom(request: Request) -> None:
    """Refuse an address that tries to come in too often."""
    from equipoise.service.web.rate_limit import sender  # which needs pages itself, to refuse with

    request.app.state.limits.strangers.take(sender(request.scope))


def own_form(visitor: Annotated[Visitor, Depends(somebody)], form: Annotated[Form, Depends(sent_here)]) -> Form:
    """The fields of a form that this very session was given."""
    given = form.pop("token", "")
    if not hmac.compare_digest(given.encode(), visitor.token.encode()):
        raise Forbidden("This form belongs to another session, or is too old. Load the page again and repeat it.")
    return form


def with_session(request: Request, secret: str, place: str = "/") -> RedirectResponse:
    """Send somebody who has just signed in on to a page of this service."""
    answer = onward(place)
    answer.set_cookie(
        _cookie(request),
        secret,
        max_age=SESSION_SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.app.state.settings.is_secure,
    )
    return answer


def without_session(request: Request, place: str = "/") -> RedirectResponse:
    """Send somebody who has signed out on."""
    answer = onward(place)
    answer.delete_cookie(
        _cookie(request),
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.app.state.settings.is_secure,  # without it, browsers would not let the cookie of TLS go
    )
    return answer


def onward(place: str) -> RedirectResponse:
    """To another page of this service, once a form has done its work: loading it again repeats nothing."""
    assert place.startswith("/")
    assert not place.startswith("//")
    return RedirectResponse(place, status_code=303, headers={"Cache-Control": "no-store"})


def _cookie(request: Request) -> str:
    return SECURE_COOKIE if request.app.state.settings.is_secure else COOKIE


def _refuse_other_sites(request: Request) -> None:
    site = request.headers.get("sec-fetch-site")
    if site in ("same-origin", "none"):
        return
    origin = request.headers.get("origin") or request.headers.get("referer")
    if site is None and origin is None:
        return
    if site is None and origin is not None:
        own = {urlsplit(request.app.state.settings.origin).netloc, request.headers.get("host", "")}
        try:
            if urlsplit(origin).netloc in own - {""}:
                return
        except ValueError:
            pass
    raise Forbidden("This form was sent from another site. Open the page here and fill it in again.")
