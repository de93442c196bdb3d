"""The front page, with the rounds of the person who is signed in, and the pages to sign in and out."""

from fastapi import APIRouter, Depends, Request, Response

from equipoise_service.errors import Refusal
from equipoise_service.rules import authentication, people, rounds
from equipoise_service.web.auth import context_of
from equipoise_service.web.pages.rendering import PageRoute, render_page
from equipoise_service.web.pages.session import (
    OptionalUser,
    SameOriginForm,
    csrf_form,
    rate_limited,
    redirect_with_session,
    redirect_without_session,
)
from equipoise_service.web.pages.wording import round_status

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/")
def home(request: Request, user: OptionalUser) -> Response:
    """Show the rounds of the person who is signed in, or an introduction to everybody else."""
    if user.actor is None:
        return render_page(request, "welcome.html", user)
    context = context_of(request)
    seen = rounds.list_visible(context, user.actor)
    waiting = 0
    if user.role in ("operator", "auditor"):
        waiting = sum(person.state == "requested" for person in people.list_people(context, user.actor))
    shown = [(view, round_status(view, user.actor)) for view in seen]
    return render_page(request, "home.html", user, rounds=shown, waiting=waiting)


@router.get("/first")
def first(request: Request, user: OptionalUser) -> Response:
    """Show the page of the one-time link that the first start prints; the link's secret stays in the browser."""
    return render_page(request, "first.html", user, name="", problem="")


@router.post("/first", dependencies=[Depends(rate_limited)])
def become_operator(request: Request, user: OptionalUser, form: SameOriginForm) -> Response:
    """Create the first operator, and start a session; an earlier session of this browser ends."""
    context = context_of(request)
    name = form.get("name", "").strip()
    try:
        actor = people.claim_first_operator(context, form.get("secret", "").strip(), name=name)
    except Refusal as refusal:
        return render_page(request, "first.html", user, status=refusal.status, name=name, problem=str(refusal))
    if user.secret:
        authentication.sign_out(context, user.secret)
    return redirect_with_session(request, authentication.start_session(context, actor))


@router.get("/sign-in")
def sign_in(request: Request, user: OptionalUser) -> Response:
    """Show the page of the link that `equipoise login` prints."""
    return render_page(request, "sign_in.html", user, problem="")


@router.post("/sign-in", dependencies=[Depends(rate_limited)])
def signed_in(request: Request, user: OptionalUser, form: SameOriginForm) -> Response:
    """Start a session for the owner of the one-time secret; an earlier session of this browser ends."""
    context = context_of(request)
    try:
        secret, _ = authentication.redeem(context, form.get("secret", "").strip())
    except Refusal as refusal:
        return render_page(request, "sign_in.html", user, status=refusal.status, problem=str(refusal))
    if user.secret:
        authentication.sign_out(context, user.secret)
    return redirect_with_session(request, secret)


@router.post("/sign-out", dependencies=[Depends(csrf_form)])
def sign_out(request: Request, user: OptionalUser) -> Response:
    """End the session, here and in the database."""
    authentication.sign_out(context_of(request), user.secret)
    return redirect_without_session(request)
