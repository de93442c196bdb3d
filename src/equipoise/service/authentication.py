"""Who sends a request: by its signature, or by a token. Cookies count for pages alone, never here.

A signature covers the exact path and query that were sent, and the exact body.
"""

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyHeader, HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials

from equipoise.protocol.signed_requests import KEY, NONCE, SIGNATURE, TIME, SignedRequest
from equipoise.service import signing_in
from equipoise.service.access import Actor
from equipoise.service.context import Context
from equipoise.service.limits import Limits, sender
from equipoise.service.refusals import NotSignedIn

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


def signed_in(request: Request, token: Token, signature: Signature) -> Actor:  # noqa: ARG001  (documents it)
    """Whoever signed the request, or holds its token."""
    signed = SignedRequest.of(request.headers)
    if signed is not None:
        if token is not None:
            raise NotSignedIn(_BOTH)
        return _admitted(request, signed)
    if token is None:
        raise NotSignedIn(_NEITHER)
    return _known(request, signing_in.actor_of(context_of(request), token.credentials, "token"))


def by_signature(request: Request, signature: Signature) -> Actor:  # noqa: ARG001
    """Whoever signed the request: a token must not be enough to get another, or it would never end."""
    signed = SignedRequest.of(request.headers)
    if signed is None:
        raise NotSignedIn("this request must be signed with your key; a token is not enough")
    return _admitted(request, signed)


def by_token(request: Request, token: Token) -> str:
    """The token of the request, which must be a good one."""
    if token is None:
        raise NotSignedIn("there is no token in this request to end")
    _known(request, signing_in.actor_of(context_of(request), token.credentials, "token"))
    return token.credentials


def key_holder(request: Request, signature: Signature) -> str:  # noqa: ARG001
    """The key that signed the request; whose it is, nobody needs to know yet."""
    signed = SignedRequest.of(request.headers)
    if signed is None:
        raise NotSignedIn("this request must be signed with the key that asks to join")
    return _holder(request, signed)


def key_holder_if_signed(request: Request, signature: Signature) -> str | None:  # noqa: ARG001
    """The key that signed the request, if one did."""
    signed = SignedRequest.of(request.headers)
    return None if signed is None else _holder(request, signed)


def stranger(request: Request) -> None:
    """Take a token of those for addresses that make themselves known."""
    limits: Limits = request.app.state.limits
    limits.strangers.take(sender(request.scope))


SignedIn = Annotated[Actor, Depends(signed_in)]


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
