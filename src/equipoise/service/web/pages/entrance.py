"""The front door: what this is, the rounds of whoever is signed in, and the ways in and out."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from equipoise.service.errors import Refusal
from equipoise.service.rules import people, rounds
from equipoise.service.rules import sign_in as signing_in
from equipoise.service.web.pages.problems import PageRoute
from equipoise.service.web.pages.rendering import page
from equipoise.service.web.pages.standing import standing
from equipoise.service.web.pages.visitors import (
    Form,
    Visitor,
    anybody,
    context_of,
    own_form,
    seldom,
    sent_here,
    with_session,
    without_session,
)

router = APIRouter(route_class=PageRoute)


@router.get("/")
def home(request: Request, visitor: Annotated[Visitor, Depends(anybody)]) -> Response:
    """The rounds of whoever is signed in; what this is, to everybody else."""
    if visitor.actor is None:
        return page(request, "welcome.html", visitor, address=request.app.state.settings.origin)
    context = context_of(request)
    seen = rounds.listed(context, visitor.actor)
    waiting = 0
    if visitor.role in ("operator", "auditor"):
        waiting = sum(one.state == "requested" for one in people.listed(context, visitor.actor))
    shown = [(one, standing(one, visitor.actor)) for one in seen]
    return page(request, "home.html", visitor, rounds=shown, waiting=waiting)


@router.get("/first")
def first(request: Request, visitor: Annotated[Visitor, Depends(anybody)]) -> Response:
    """Where the one-time link leads that is printed at the first start; its secret stays in the browser."""
    return page(request, "first.html", visitor, name="", problem="")


@router.post("/first", dependencies=[Depends(seldom)])
def become_operator(
    request: Request, visitor: Annotated[Visitor, Depends(anybody)], form: Annotated[Form, Depends(sent_here)]
) -> Response:
    """Make the first operator, and sign it in; an earlier session of this browser ends."""
    context = context_of(request)
    name = form.get("name", "").strip()
    try:
        actor = people.claim_first_operator(context, form.get("secret", "").strip(), name=name)
    except Refusal as refusal:
        return page(request, "first.html", visitor, status=refusal.status, name=name, problem=str(refusal))
    if visitor.secret:
        signing_in.end(context, visitor.secret)
    return with_session(request, signing_in.start_session(context, actor))


@router.get("/sign-in")
def sign_in(request: Request, visitor: Annotated[Visitor, Depends(anybody)]) -> Response:
    """Where the link of `equipoise login` leads."""
    return page(request, "sign_in.html", visitor, problem="")


@router.post("/sign-in", dependencies=[Depends(seldom)])
def signed_in(
    request: Request, visitor: Annotated[Visitor, Depends(anybody)], form: Annotated[Form, Depends(sent_here)]
) -> Response:
    """Begin a session for whom the one-time secret was made for; an earlier session of this browser ends."""
    context = context_of(request)
    try:
        secret, _ = signing_in.redeem(context, form.get("secret", "").strip())
    except Refusal as refusal:
        return page(request, "sign_in.html", visitor, status=refusal.status, problem=str(refusal))
    if visitor.secret:
        signing_in.end(context, visitor.secret)
    return with_session(request, secret)


@router.post("/sign-out", dependencies=[Depends(own_form)])
def sign_out(request: Request, visitor: Annotated[Visitor, Depends(anybody)]) -> Response:
    """End the session, here and in the database."""
    signing_in.end(context_of(request), visitor.secret)
    return without_session(request)
