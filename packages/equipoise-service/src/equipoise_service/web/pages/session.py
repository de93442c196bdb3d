"""Sessions of browsers, and the protection of forms against cross-site request forgery.

The session's secret is in a cookie that scripts cannot read and that other sites' pages cannot send. Every form also
carries a token derived from the secret, which pages of other sites do not know, and browsers report the site that a
form comes from. Forms to sign in have no session yet; they are protected by the reported site and by the one-time
secret that they contain.
"""

import hmac
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import parse_qs, urlsplit

from fastapi import Depends, Request
from fastapi.responses import RedirectResponse

from equipoise_service.errors import Forbidden, Invalid, NotSignedIn
from equipoise_service.rules.access import Actor
from equipoise_service.rules.authentication import actor_of
from equipoise_service.web.auth import context_of
from equipoise_service.web.rate_limit import client_address

COOKIE = "equipoise_session"
# Browsers accept a cookie with this prefix only from this very host, by TLS, and for all its paths.
SECURE_COOKIE = f"__Host-{COOKIE}"
SESSION_SECONDS = 12 * 3600
MAX_FORM_BYTES = 1_000_000  # bytes
MAX_FIELDS = 1_000
# The code for a form that was loaded in another session.
OLD_FORM = "old-form"
_PURPOSE = b"equipoise-form-1"

Form = dict[str, str]


@dataclass(frozen=True)
class User:
    """The user of a browser; `actor` and the session's `secret` are set if the user is signed in."""

    actor: Actor | None = None
    secret: str = ""

    @property
    def csrf_token(self) -> str:
        """The token that forms of this session carry."""
        return hmac.new(self.secret.encode(), _PURPOSE, "sha256").hexdigest()

    @property
    def role(self) -> str:
        """The signed-in person's role, "" without one."""
        return self.actor.role if self.actor else ""


def optional_user(request: Request) -> User:
    """Return the user of a request, who may or may not be signed in; an expired session counts as none."""
    secret = request.cookies.get(_cookie(request), "")
    user = User()
    if secret and secret.isascii():
        with suppress(NotSignedIn):
            actor = actor_of(context_of(request), secret, "session")
            request.app.state.limits.person.take(str(actor.person_id))
            user = User(actor, secret)
    # An error page reads the user from here.
    request.state.user = user
    return user


def current_user(request: Request, user: Annotated[User, Depends(optional_user)]) -> User:
    """Return the user of a request, who must be signed in."""
    if user.actor is None:
        undone = " Nothing was changed." if request.method == "POST" else ""
        raise NotSignedIn(f"Nobody is signed in here, or the session has ended.{undone}")
    return user


async def same_origin_form(request: Request) -> Form:
    """Return the fields of a form from a page of this service; of a repeated field, the last value counts."""
    _require_same_origin(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Invalid(f"a form of the kind {kind[:60]!r} cannot be read; send the one of the page")
    request.state.max_body = min(MAX_FORM_BYTES, request.state.max_body)
    try:
        fields = parse_qs(
            (await request.body()).decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError as error:
        raise Invalid("the form cannot be read; load the page again and fill it in once more") from error
    return {name: values[-1].replace("\r\n", "\n") for name, values in fields.items()}


def rate_limited(request: Request) -> None:
    """Refuse an address that tries to sign in too often."""
    request.app.state.limits.sign_in.take(client_address(request.scope))


def csrf_form(user: Annotated[User, Depends(current_user)], form: Annotated[Form, Depends(same_origin_form)]) -> Form:
    """Return the fields of a form that was loaded in this very session."""
    given = form.pop("token", "")
    if not hmac.compare_digest(given.encode(), user.csrf_token.encode()):
        raise Forbidden(
            "Nothing was changed: this form was loaded before somebody signed out or in here. Load the page again, and "
            "look who is signed in before you repeat it.",
            code=OLD_FORM,
        )
    return form


OptionalUser = Annotated[User, Depends(optional_user)]
CurrentUser = Annotated[User, Depends(current_user)]
SameOriginForm = Annotated[Form, Depends(same_origin_form)]
CsrfForm = Annotated[Form, Depends(csrf_form)]


def redirect_with_session(request: Request, secret: str, path: str = "/") -> RedirectResponse:
    """Redirect to a page of this service after signing in, and set the session's cookie."""
    response = redirect(path)
    response.set_cookie(
        _cookie(request),
        secret,
        max_age=SESSION_SECONDS,
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.app.state.settings.is_secure,
    )
    return response


def redirect_without_session(request: Request, path: str = "/") -> RedirectResponse:
    """Redirect to a page of this service after signing out, and delete the session's cookie."""
    response = redirect(path)
    response.delete_cookie(
        _cookie(request),
        path="/",
        httponly=True,
        samesite="strict",
        secure=request.app.state.settings.is_secure,  # otherwise browsers would keep the cookie set over TLS
    )
    return response


def redirect(path: str) -> RedirectResponse:
    """Redirect to a page of this service after a form was processed, so that reloading does not send it again."""
    assert path.startswith("/")
    assert not path.startswith("//")
    return RedirectResponse(path, status_code=303, headers={"Cache-Control": "no-store"})


def _cookie(request: Request) -> str:
    return SECURE_COOKIE if request.app.state.settings.is_secure else COOKIE


def _require_same_origin(request: Request) -> None:
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
