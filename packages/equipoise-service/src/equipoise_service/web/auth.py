"""Authentication of API requests by a signature or a token. Cookies are valid for pages only, never here.

A signature covers the exact path and query that were sent, and the exact body. FastAPI parses a body before it
evaluates the dependencies of a route. So our routes authenticate earlier, in two steps: `check_head` checks the head
before the body is read, and `authenticate` verifies the raw body before it is parsed. The results are cached for the
dependencies.
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
    """Return the open service that the app belongs to."""
    context: Context = request.app.state.context
    return context


def body_of(request: Request) -> bytes:
    """Return the body of a request, as it was sent."""
    body: bytes = request.state.body
    return body


def target_of(request: Request) -> str:
    """Return path and query of a request, as they were sent."""
    path: bytes = request.scope["raw_path"]
    query: bytes = request.scope["query_string"]
    return (path + (b"?" + query if query else b"")).decode("latin-1")


# The arguments `token` and `signature` document how to sign in. The route has cached the result before FastAPI calls
# these functions. They are coroutines, because FastAPI would call plain functions in threads.


async def current_actor(request: Request, token: Token, signature: Signature) -> Actor:  # noqa: ARG001
    """Return the person who signed the request, or who owns its token."""
    return await _result_of(request, _current_actor)


async def require_signature(request: Request, signature: Signature) -> Actor:  # noqa: ARG001
    """Return the person who signed the request. A token is not accepted: with it, one could renew tokens for ever."""
    return await _result_of(request, _require_signature)


async def require_token(request: Request, token: Token) -> str:  # noqa: ARG001
    """Return the token of the request, which must be valid."""
    return await _result_of(request, _require_token)


async def signing_key(request: Request, signature: Signature) -> str:  # noqa: ARG001
    """Return the key that signed the request, whose owner need not be known."""
    return await _result_of(request, _signing_key)


async def optional_signing_key(request: Request, signature: Signature) -> str | None:  # noqa: ARG001
    """Return the key that signed the request, or None if it is not signed."""
    return await _result_of(request, _optional_signing_key)


async def rate_limited(request: Request) -> None:
    """Refuse an address that signs in or asks to join too often."""
    await _result_of(request, _rate_limited)


CurrentActor = Annotated[Actor, Depends(current_actor)]


_Authenticator = Callable[[Request], Any]


def authenticators_of(dependant: Dependant) -> tuple[_Authenticator, ...]:
    """Return the authenticators of a route's dependencies, in their order."""
    calls = [dependency.call for dependency in dependant.dependencies]
    return tuple(_AUTHENTICATORS[call] for call in calls if call in _AUTHENTICATORS)


def check_head(request: Request, authenticators: Sequence[_Authenticator]) -> None:
    """Refuse a request, before its body is read, if no body could make it valid."""
    signed = SignedRequest.of(request.headers)
    for authenticator in authenticators:
        if authenticator is _rate_limited or (signed is None and authenticator is not _optional_signing_key):
            _cached(request, authenticator)
        elif signed is not None:
            known = authenticator not in (_signing_key, _optional_signing_key)
            authentication.check_head(context_of(request), signed, known=known)


def authenticate(request: Request, authenticators: Sequence[_Authenticator]) -> None:
    """Run the authenticators of a request whose body has been read, and cache their results."""
    for authenticator in authenticators:
        _cached(request, authenticator)


_Result = TypeVar("_Result")


def _cached(request: Request, authenticator: Callable[[Request], _Result]) -> _Result:
    results: dict[_Authenticator, Any] = request.scope["state"].setdefault("authenticated", {})
    if authenticator not in results:
        results[authenticator] = authenticator(request)
    result: _Result = results[authenticator]
    return result


async def _result_of(request: Request, authenticator: Callable[[Request], _Result]) -> _Result:
    """Return the cached result of an authenticator, or run it in a thread."""
    results: dict[_Authenticator, Any] = request.scope["state"].get("authenticated", {})
    if authenticator in results:
        result: _Result = results[authenticator]
        return result
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
