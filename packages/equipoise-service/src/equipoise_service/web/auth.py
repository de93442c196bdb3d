"""Who sends a request: by its signature, or by a token. Cookies count for pages alone, never here.

A signature covers the exact path and query that were sent, and the exact body. FastAPI parses a body before it asks
anything that a route depends on; so routes have it found out earlier: what the head shows before the body is read
(`check_head`), and the rest over the bytes, before they are parsed (`authenticate`). What was found is cached.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.security import APIKeyHeader, HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials
from fastapi.security.utils import get_authorization_scheme_param
from starlette.concurrency import run_in_threadpool

from equipoise.protocol.requests import KEY, NONCE, SIGNATURE, TIME, SignedRequest
from equipoise_service.context import Context
from equipoise_service.errors import NotSignedIn
from equipoise_service.rules import authentication
from equipoise_service.rules.access import Actor
from equipoise_service.web.rate_limit import RateLimits, client_address

BEARER = HTTPBearer(
    scheme_name="token",
    description="A token from POST /v1/tokens; good for an hour.",
    auto_error=False,
)
SIGNED = APIKeyHeader(
    name=SIGNATURE,
    scheme_name="signature",
    description=(
        f"A request signed with Ed25519. Four headers: {KEY} (public key, 64 hexadecimal digits), {TIME} (seconds "
        f"since 1970), {NONCE} (32 random hexadecimal digits) and {SIGNATURE} (128 hexadecimal digits) over these "
        "lines, joined by line feeds: equipoise-request-1; the service's public key, from /v1/service; method; path "
        "with query as sent; SHA-256 of the body in hexadecimal digits; time; nonce."
    ),
    auto_error=False,
)
Token = Annotated[HTTPAuthorizationCredentials | None, Security(BEARER)]
Signature = Annotated[str | None, Security(SIGNED)]
_BOTH = "the request is signed and has a token as well; send one of both"
_NEITHER = "nobody is signed in; sign the request with your key, or send a token from POST /v1/tokens"


def context_of(request: Request) -> Context:
    """The open service that the app is for."""
    context: Context = request.app.state.context
    return context


def body_of(request: Request) -> bytes:
    """The body of a request, as it was sent."""
    body: bytes = request.state.body
    return body


def target_of(request: Request) -> str:
    """Path and query of a request, as they were sent."""
    path: bytes = request.scope["raw_path"]
    query: bytes = request.scope["query_string"]
    return (path + (b"?" + query if query else b"")).decode("latin-1")


# The arguments `token` and `signature` document how to sign in. A route has found out before it comes here; were these
# plain functions, each would be called in a thread all the same.


async def current_actor(request: Request, token: Token, signature: Signature) -> Actor:  # noqa: ARG001
    """Whoever signed the request, or holds its token."""
    return await _found(request, _current_actor)


async def require_signature(request: Request, signature: Signature) -> Actor:  # noqa: ARG001
    """Whoever signed the request: a token must not be enough to get another, or it would never end."""
    return await _found(request, _require_signature)


async def require_token(request: Request, token: Token) -> str:  # noqa: ARG001
    """The token of the request, which must be a good one."""
    return await _found(request, _require_token)


async def signing_key(request: Request, signature: Signature) -> str:  # noqa: ARG001
    """The key that signed the request; whose it is, nobody needs to know yet."""
    return await _found(request, _signing_key)


async def optional_signing_key(request: Request, signature: Signature) -> str | None:  # noqa: ARG001
    """The key that signed the request, if one did."""
    return await _found(request, _optional_signing_key)


async def rate_limited(request: Request) -> None:
    """Refuse an address that signs in or asks to join too often."""
    await _found(request, _rate_limited)


CurrentActor = Annotated[Actor, Depends(current_actor)]


_Authenticator = Callable[[Request], Any]


def authenticators_of(dependant: Dependant) -> tuple[_Authenticator, ...]:
    """The authenticators of a route, from its dependencies, in their order."""
    return tuple(_AUTHENTICATORS[one.call] for one in dependant.dependencies if one.call in _AUTHENTICATORS)


def check_head(request: Request, authenticators: Sequence[_Authenticator]) -> None:
    """Refuse, before the body is read, what no body can make good."""
    signed = SignedRequest.of(request.headers)
    for authenticator in authenticators:
        if authenticator is _rate_limited or (signed is None and authenticator is not _optional_signing_key):
            _cached(request, authenticator)
        elif signed is not None:
            known = authenticator not in (_signing_key, _optional_signing_key)
            authentication.check_head(context_of(request), signed, known=known)


def authenticate(request: Request, authenticators: Sequence[_Authenticator]) -> None:
    """Find out who sends a request whose body is there."""
    for authenticator in authenticators:
        _cached(request, authenticator)


_Found = TypeVar("_Found")


def _cached(request: Request, authenticator: Callable[[Request], _Found]) -> _Found:
    found: dict[_Authenticator, Any] = request.scope["state"].setdefault("found", {})
    if authenticator not in found:
        found[authenticator] = authenticator(request)
    cached: _Found = found[authenticator]
    return cached


async def _found(request: Request, authenticator: Callable[[Request], _Found]) -> _Found:
    """What an authenticator has found, or finds in a thread."""
    found: dict[_Authenticator, Any] = request.scope["state"].get("found", {})
    if authenticator in found:
        cached: _Found = found[authenticator]
        return cached
    return await run_in_threadpool(_cached, request, authenticator)


def _current_actor(request: Request) -> Actor:
    signed, token = SignedRequest.of(request.headers), _token(request)
    if signed is not None:
        if token is not None:
            raise NotSignedIn(_BOTH)
        return _verified_actor(request, signed)
    if token is None:
        raise NotSignedIn(_NEITHER)
    return _admit(request, authentication.actor_of(context_of(request), token, "token"))


def _require_signature(request: Request) -> Actor:
    signed = SignedRequest.of(request.headers)
    if signed is None:
        raise NotSignedIn("this request must be signed with your key; a token is not enough")
    return _verified_actor(request, signed)


def _require_token(request: Request) -> str:
    token = _token(request)
    if token is None:
        raise NotSignedIn("there is no token in this request to end")
    _admit(request, authentication.actor_of(context_of(request), token, "token"))
    return token


def _signing_key(request: Request) -> str:
    signed = SignedRequest.of(request.headers)
    if signed is None:
        raise NotSignedIn("this request must be signed with the key that asks to join")
    return _verified_key(request, signed)


def _optional_signing_key(request: Request) -> str | None:
    signed = SignedRequest.of(request.headers)
    return None if signed is None else _verified_key(request, signed)


def _rate_limited(request: Request) -> None:
    limits: RateLimits = request.app.state.limits
    limits.sign_in.take(client_address(request.scope))


_AUTHENTICATORS: dict[Any, _Authenticator] = {
    current_actor: _current_actor,
    require_signature: _require_signature,
    require_token: _require_token,
    signing_key: _signing_key,
    optional_signing_key: _optional_signing_key,
    rate_limited: _rate_limited,
}


def _token(request: Request) -> str | None:
    scheme, token = get_authorization_scheme_param(request.headers.get("Authorization"))
    return token if scheme.lower() == "bearer" and token else None


def _verified_actor(request: Request, signed: SignedRequest) -> Actor:
    actor = authentication.authenticate(
        context_of(request), signed, method=request.method, target=target_of(request), body=body_of(request)
    )
    return _admit(request, actor)


def _verified_key(request: Request, signed: SignedRequest) -> str:
    return authentication.verify_signature(
        context_of(request), signed, method=request.method, target=target_of(request), body=body_of(request)
    )


def _admit(request: Request, actor: Actor) -> Actor:
    request.state.person = actor.name
    limits: RateLimits = request.app.state.limits
    limits.person.take(str(actor.person_id))
    return actor
