"""Who may join: requests, and the operator's decisions about them."""

from typing import Annotated

from fastapi import Depends, Request

from equipoise.service.rules import people
from equipoise.service.web.api.routes import answers, new_router
from equipoise.service.web.api.shapes import Cleared, Clearing, Decision, JoinRequest, People, Person, PersonShape
from equipoise.service.web.auth import SignedIn, context_of, key_holder, stranger
from equipoise.service.web.rate_limit import sender

router = new_router("people")
_DECISIONS = answers(401, 403, 404, 409, 415)


@router.post("/people", status_code=202, responses=answers(401, 409, 415), dependencies=[Depends(stranger)])
def ask_to_join(request: Request, asked: JoinRequest, key: Annotated[str, Depends(key_holder)]) -> PersonShape:
    """Ask to join, signed with your own new key. Then read your fingerprint to the operator, who approves it."""
    view = people.ask_to_join(
        context_of(request),
        name=asked.name,
        role=asked.role,
        public_key=key,
        note=asked.note,
        address=sender(request.scope),
    )
    return PersonShape.of(view)


@router.post("/people/clearing", responses=answers(401, 403, 415))
def clear(request: Request, clearing: Clearing, actor: SignedIn) -> Cleared:
    """Drop all requests to join that have waited since before a time. For the operator."""
    return Cleared(dropped=people.clear(context_of(request), actor, before=clearing.before))


@router.get("/people", responses=answers(401, 403))
def everybody(request: Request, actor: SignedIn) -> People:
    """Everybody who asked to join. For the operator and the auditor."""
    return People(people=[PersonShape.of(view) for view in people.listed(context_of(request), actor)])


@router.get("/me", responses=answers(401, 403))
def me(request: Request, actor: SignedIn) -> PersonShape:
    """Who you are to the service."""
    return PersonShape.of(people.me(context_of(request), actor))


@router.post("/people/{person}/approval", responses=_DECISIONS)
def approve(request: Request, person: Person, decision: Decision, actor: SignedIn) -> PersonShape:
    """Approve a request, by the fingerprint that its sender read to you. For the operator."""
    view = people.decide(context_of(request), actor, person, approve=True, fingerprint=decision.fingerprint)
    return PersonShape.of(view)


@router.post("/people/{person}/refusal", responses=_DECISIONS)
def refuse(request: Request, person: Person, decision: Decision, actor: SignedIn) -> PersonShape:
    """Refuse a request. For the operator."""
    view = people.decide(context_of(request), actor, person, approve=False, fingerprint=decision.fingerprint)
    return PersonShape.of(view)


@router.post("/people/{person}/revocation", responses=answers(401, 403, 404, 409))
def revoke(request: Request, person: Person, actor: SignedIn) -> PersonShape:
    """Take somebody's access away, at once; the last operator stays. For the operator."""
    return PersonShape.of(people.revoke(context_of(request), actor, person))
