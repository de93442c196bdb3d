"""People: requests to join and decisions about them; tokens for programs, and links that sign a browser in."""

from typing import Annotated

from fastapi import Depends, Request, Response

from equipoise_service.rules import authentication, people
from equipoise_service.rules.access import Actor
from equipoise_service.settings import Settings
from equipoise_service.web.api.routes import error_responses, new_router
from equipoise_service.web.api.schemas import (
    ClearRequest,
    ClearResponse,
    DecisionRequest,
    FirstOperatorRequest,
    FirstOperatorResponse,
    JoinRequest,
    PeopleList,
    PersonId,
    PersonSchema,
    SignInLink,
    TokenSchema,
)
from equipoise_service.web.auth import (
    CurrentActor,
    context_of,
    optional_signing_key,
    rate_limited,
    require_signature,
    require_token,
    signing_key,
)
from equipoise_service.web.rate_limit import client_address

router = new_router("people")
sign_in_router = new_router("signing in")
_DECISIONS = error_responses(401, 403, 404, 409, 415)


@router.post("/people", status_code=202, responses=error_responses(401, 409, 415), dependencies=[Depends(rate_limited)])
def ask_to_join(request: Request, asked: JoinRequest, key: Annotated[str, Depends(signing_key)]) -> PersonSchema:
    """Ask to join, signed with your own new key. Then read your fingerprint to the operator, who approves it."""
    view = people.ask_to_join(
        context_of(request),
        name=asked.name,
        role=asked.role,
        public_key=key,
        note=asked.note,
        address=client_address(request.scope),
    )
    return PersonSchema.of(view)


@router.post("/people/clearing", responses=error_responses(401, 403, 415))
def clear(request: Request, clearing: ClearRequest, actor: CurrentActor) -> ClearResponse:
    """Drop all requests to join that have waited since before a time. For the operator."""
    return ClearResponse(dropped=people.drop_requests(context_of(request), actor, before=clearing.before))


@router.get("/people", responses=error_responses(401, 403))
def everybody(request: Request, actor: CurrentActor) -> PeopleList:
    """List everybody who asked to join. For the operator and the auditor."""
    return PeopleList(people=[PersonSchema.of(view) for view in people.list_people(context_of(request), actor)])


@router.get("/me", responses=error_responses(401, 403))
def me(request: Request, actor: CurrentActor) -> PersonSchema:
    """Show your own record."""
    return PersonSchema.of(people.me(context_of(request), actor))


@router.post("/people/{person}/approval", responses=_DECISIONS)
def approve(request: Request, person: PersonId, decision: DecisionRequest, actor: CurrentActor) -> PersonSchema:
    """Approve a request, by the fingerprint that its sender read to you. For the operator."""
    view = people.decide(context_of(request), actor, person, approve=True, fingerprint=decision.fingerprint)
    return PersonSchema.of(view)


@router.post("/people/{person}/refusal", responses=_DECISIONS)
def refuse(request: Request, person: PersonId, decision: DecisionRequest, actor: CurrentActor) -> PersonSchema:
    """Refuse a request. For the operator."""
    view = people.decide(context_of(request), actor, person, approve=False, fingerprint=decision.fingerprint)
    return PersonSchema.of(view)


@router.post("/people/{person}/revocation", responses=error_responses(401, 403, 404, 409))
def revoke(request: Request, person: PersonId, actor: CurrentActor) -> PersonSchema:
    """Take somebody's access away, at once; the last operator stays. For the operator."""
    return PersonSchema.of(people.revoke(context_of(request), actor, person))


@sign_in_router.post(
    "/operators",
    responses=error_responses(401, 409, 415),
    dependencies=[Depends(rate_limited)],
    openapi_extra={"security": [{}, {"signature": []}]},
)
def first_operator(
    request: Request, claim: FirstOperatorRequest, key: Annotated[str | None, Depends(optional_signing_key)]
) -> FirstOperatorResponse:
    """Become the operator, with the one-time secret that the service printed; signed with a key, to use that later."""
    context = context_of(request)
    actor = people.claim_first_operator(context, claim.secret, name=claim.name, public_key=key)
    token, expires = authentication.new_token(context, actor)
    return FirstOperatorResponse(token=token, expires=expires, person=PersonSchema.of(people.me(context, actor)))


@sign_in_router.post("/tokens", responses=error_responses(401, 403, 409))
def new_token(request: Request, actor: Annotated[Actor, Depends(require_signature)]) -> TokenSchema:
    """Get a token to use instead of signatures for an hour. The request must be signed."""
    token, expires = authentication.new_token(context_of(request), actor)
    return TokenSchema(token=token, expires=expires)


@sign_in_router.delete("/tokens", status_code=204, response_class=Response, responses=error_responses(401))
def end_token(request: Request, token: Annotated[str, Depends(require_token)]) -> Response:
    """End the token that this request was made with."""
    authentication.sign_out(context_of(request), token)
    return Response(status_code=204)


@sign_in_router.post("/sign-in", responses=error_responses(401, 403, 409))
def sign_in(request: Request, actor: Annotated[Actor, Depends(require_signature)]) -> SignInLink:
    """Get a link that signs your browser in, once, within ten minutes. The request must be signed."""
    settings: Settings = request.app.state.settings
    context = context_of(request)
    secret, expires = authentication.new_sign_in_secret(context, actor), context.clock() + authentication.SIGN_IN_MS
    # The secret follows the #, because browsers do not send that part, so no log can contain it.
    return SignInLink(url=f"{settings.origin}/sign-in#{secret}", expires=expires)
