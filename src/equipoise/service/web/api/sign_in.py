"""Tokens for programs, links that sign a browser in, and the one-time link of the first operator."""

from typing import Annotated

from fastapi import Depends, Request, Response

from equipoise.service.rules import people
from equipoise.service.rules import sign_in as signing_in
from equipoise.service.rules.access import Actor
from equipoise.service.settings import Settings
from equipoise.service.web.api.routes import answers, new_router
from equipoise.service.web.api.shapes import FirstOperator, PersonShape, SignInLink, TokenShape, Welcome
from equipoise.service.web.auth import (
    by_signature,
    by_token,
    context_of,
    key_holder_if_signed,
    stranger,
)

router = new_router("signing in")


@router.post(
    "/operators",
    responses=answers(401, 409, 415),
    dependencies=[Depends(stranger)],
    openapi_extra={"security": [{}, {"signature": []}]},
)
def first_operator(
    request: Request, claim: FirstOperator, key: Annotated[str | None, Depends(key_holder_if_signed)]
) -> Welcome:
    """Become the operator, with the one-time secret that the service printed; signed with a key, to use that later."""
    context = context_of(request)
    actor = people.claim_first_operator(context, claim.secret, name=claim.name, public_key=key)
    token, expires = signing_in.new_token(context, actor)
    return Welcome(token=token, expires=expires, person=PersonShape.of(people.me(context, actor)))


@router.post("/tokens", responses=answers(401, 403, 409))
def new_token(request: Request, actor: Annotated[Actor, Depends(by_signature)]) -> TokenShape:
    """Get a token to use instead of signatures for an hour. The request must be signed."""
    token, expires = signing_in.new_token(context_of(request), actor)
    return TokenShape(token=token, expires=expires)


@router.delete("/tokens", status_code=204, response_class=Response, responses=answers(401))
def end_token(request: Request, token: Annotated[str, Depends(by_token)]) -> Response:
    """End the token that this request was made with."""
    signing_in.end(context_of(request), token)
    return Response(status_code=204)


@router.post("/sign-in", responses=answers(401, 403, 409))
def sign_in(request: Request, actor: Annotated[Actor, Depends(by_signature)]) -> SignInLink:
    """Get a link that signs your browser in, once, within ten minutes. The request must be signed."""
    settings: Settings = request.app.state.settings
    context = context_of(request)
    secret, expires = signing_in.sign_in_secret(context, actor), context.clock() + signing_in.SIGN_IN_MS
    # After the #, so that it is in no log: browsers do not send that part.
    return SignInLink(url=f"{settings.origin}/sign-in#{secret}", expires=expires)
