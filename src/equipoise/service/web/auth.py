"""Who sends a request: by its signature, or by a token. Cookies count for pages alone, never here.

A signature covers the exact path and query that were sent, and the exact body. FastAPI parses a body before it asks
anything that a route depends on; so routes have it found out earlier: what the head shows before the body is read
(`judge_head`), and the rest over the bytes, before they are parsed (`find_sender`). What was found is kept.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request, Security
from fastapi.dependencies.models import Dependant
from fastapi.security import APIKeyHeader, HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials
from fastapi.security.utils import get_authorization_scheme_param

from equipoise.protocol.requests import KEY, NONCE, SIGNATURE, TIME, SignedRequest
from equipoise.service.context import Context
from equipoise.service.errors import NotSignedIn
from equipoise.service.rules import sign_in as signing_in
from equipoise.service.rules.access import Actor
from equipoise.service.web.rate_limit import Limits, sender

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
    """What the rules work on."""
    context: Context = request.app.state.context
    return context


def body_of(request: Request) -> bytes:
    """The body, as it was sent."""
    body: bytes = request.state.body
    return body


def target_of(request: Request) -> str:
    """Path and query, as they were sent."""
    path: bytes = request.scope["raw_path"]
    query: bytes = request.scope["query_string"]
    return (path + (b"?" + query if query else b"")).decode("latin-1")


# The arguments `token` and `signature` document how to sign in.


def signed_in(request: Request, token: Token, signature: Signature) -> Actor:  # noqa: ARG001
    """Whoever signed the request, or holds its token."""
    return _kept(request, _signed_in)


def by_signature(request: Request, signature: Signature) -> Actor:  # noqa: ARG001
    """Whoever signed the request: a token must not be enough to get another, or it would never end."""
    return _kept(request, _by_signature)


def by_token(request: Request, token: Token) -> str:  # noqa: ARG001
    """The token of the request, which must be a good one."""
    return _kept(request, _by_token)


def key_holder(request: Request, signature: Signature) -> str:  # noqa: ARG001
    """The key that signed the request; whose it is, nobody needs to know yet."""
    return _kept(request, _key_holder)


def key_holder_if_signed(request: Request, signature: Signature) -> str | None:  # noqa: ARG001
    """The key that signed the request, if one did."""
    return _kept(request, _key_holder_if_signed)


def stranger(request: Request) -> None:
    """Take a token of those for addresses that make themselves known."""
    _kept(request, _stranger)


SignedIn = Annotated[Actor, Depends(signed_in)]


_Way = Callable[[Request], Any]


def ways_in(dependant: Dependant) -> tuple[_Way, ...]:
    """What a route wants to know of its sender, in its order."""
    return tuple(_WAYS[one.call] for one in dependant.dependencies if one.call in _WAYS)


def judge_head(request: Request, ways: Sequence[_Way]) -> None:
    """Refuse, before the body is read, what no body can make good."""
    signed = SignedRequest.of(request.headers)
    for way in ways:
        if way is _stranger or (signed is None and way is not _key_holder_if_signed):
            _kept(request, way)
        elif signed is not None:
            known = way not in (_key_holder, _key_holder_if_signed)
            signing_in.check_head(context_of(request), signed, known=known)


def find_sender(request: Request, ways: Sequence[_Way]) -> None:
    """Find out who sends a request whose body is there."""
    for way in ways:
        _kept(request, way)


_Found = TypeVar("_Found")


def _kept(request: Request, way: Callable[[Request], _Found]) -> _Found:
    found: dict[_Way, Any] = request.scope["state"].setdefault("found", {})
    if way not in found:
        found[way] = way(request)
    kept: _Found = found[way]
    return kept


def _signed_in(request: Request) -> Actor:
    signed, token = SignedRequest.of(request.headers), _token(request)
    if signed is not None:
        if token is not None:
            raise NotSignedIn(_BOTH)
        return _admitted(request, signed)
    if token is None:
        raise NotSignedIn(_NEITHER)
    return _known(request, signing_in.actor_of(context_of(request), token, "token"))


def _by_signature(request: Request) -> Actor:
    signed = SignedRequest.of(request.headers)
    if signed is None:
        raise NotSignedIn("this request must be signed with your key; a token is not enough")
    return _admitted(request, signed)


def _by_token(request: Request) -> str:
    token = _token(request)
    if token is None:
        raise NotSignedIn("there is no token in this request to end")
    _known(request, signing_in.actor_of(context_of(request), token, "token"))
    return token


def _key_holder(request: Request) -> str:
    signed = SignedRequest.of(request.headers)
    if signed is None:
        raise NotSignedIn("this request must be signed with the key that asks to join")
    return _holder(request, signed)


def _key_holder_if_signed(request: Request) -> str | None:
    signed = SignedRequest.of(request.headers)
    return None if signed is None else _holder(request, signed)


def _stranger(request: Request) -> None:
    limits: Limits = request.app.state.limits
    limits.strangers.take(sender(request.scope))


_WAYS: dict[Any, _Way] = {
    signed_in: _signed_in,
    by_signature: _by_signature,
    by_token: _by_token,
    key_holder: _key_holder,
    key_holder_if_signed: _key_holder_if_signed,
    stranger: _stranger,
}


def _token(request: Request) -> str | None:
    scheme, token = get_authorization_scheme_param(request.headers.get("Authorization"))
    return token if scheme.lower() == "bearer" and token else None


def _admitted(request: Request, signed: SignedRequest) -> Actor:
    actor = signing_in.admit(
        context_of(request), signed, method=request.method, target=target_of(request), body=body_of(request)
    )
    return _known(request, actor)


def _holder(request: Request, signed: SignedRequest) -> str:
    return signing_in.check_only(
        context_of(request), signed, method=request.method, target=target_of(request), body=body_of(request)
    )


def _known(request: Request, actor: Actor) -> Actor:
    request.state.person = actor.name
    limits: Limits = request.app.state.limits
    limits.person.take(str(actor.person_id))
    return actor
