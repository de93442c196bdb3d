"""Rounds: made, looked at, watched, and what the operator does with them."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse

from equipoise.agreement import Agreement
from equipoise.errors import AgreementError
from equipoise.service.errors import NotFound, NotSignedIn, Refusal
from equipoise.service.options import Options
from equipoise.service.rules import export as exporting
from equipoise.service.rules import results, rounds, settlements, submissions
from equipoise.service.rules.access import require
from equipoise.service.web.pages.choosing import FIELDS, chosen
from equipoise.service.web.pages.editions import operator_edition
from equipoise.service.web.pages.problems import PageRoute
from equipoise.service.web.pages.rendering import page
from equipoise.service.web.pages.standing import own_seat, progress_words, standing
from equipoise.service.web.pages.visitors import Form, Visitor, context_of, onward, own_form, somebody
from equipoise.service.web.pages.words import explained

router = APIRouter(route_class=PageRoute)

Somebody = Annotated[Visitor, Depends(somebody)]
OwnForm = Annotated[Form, Depends(own_form)]

DONE = {
    "created": "The round was created.",
    "invited": "Invited: they can see the round now, and submit.",
    "started": "Started. A worker takes it up within seconds.",
    "cancelled": "Cancelled. What was found so far is kept, so that starting again goes on from there.",
    "closed": "Closed. Nobody can submit any more.",
}
NOT_SURE = "Tick the box to say that you are sure; nothing was changed."


@router.get("/rounds/new")
def new(request: Request, visitor: Somebody) -> Response:
    """The form that makes a round."""
    require(visitor.actor, "create-rounds")
    return page(request, "new_round.html", visitor, text="", invite=True, mistakes=[])


@router.post("/rounds/new")
def create(request: Request, visitor: Somebody, form: OwnForm) -> Response:
    """Make a round of an agreement; all its mistakes are named at once."""
    require(visitor.actor, "create-rounds")
    text, invite = form.get("agreement", ""), form.get("invite") == "yes"
    try:
        agreement = Agreement.parse(text, name="The text")
        made = rounds.create(context_of(request), visitor.actor, agreement, invite=invite)
    except (AgreementError, Refusal) as error:
        status = error.status if isinstance(error, Refusal) else 422
        lines = str(error).splitlines()
        return page(request, "new_round.html", visitor, status=status, text=text, invite=invite, mistakes=lines)
    return onward(f"/rounds/{made}?done=created")


@router.get("/rounds/{round_id}")
def show(request: Request, round_id: str, visitor: Somebody, done: str = "") -> Response:
    """A round, as its reader may see it."""
    return _round(request, visitor, round_id, done=DONE.get(done, ""))


@router.get("/rounds/{round_id}/progress")
def progress(request: Request, round_id: str, visitor: Somebody) -> Response:
    """How far the settlement is, for the script that asks every other second."""
    found = settlements.progress(context_of(request), visitor.actor, round_id)
    document = {
        "running": found.state == "settling",
        "done": found.done,
        "planned": found.planned,
        "stage": found.stage,
        "words": progress_words(found),
    }
    return JSONResponse(document, headers={"Cache-Control": "no-store"})


@router.post("/rounds/{round_id}/invitation")
def invite(request: Request, round_id: str, visitor: Somebody, form: OwnForm) -> Response:
    """Let one member see the round, or all of them."""
    context = context_of(request)
    view = rounds.seen(context, visitor.actor, round_id)
    party = form.get("party", "")
    invited = [seat.party for seat in view.seats if seat.invited is None] if form.get("all") == "yes" else [party]
    try:
        for name in invited:
            rounds.invite(context, visitor.actor, round_id, name)
    except Refusal as refusal:
        return _round(request, visitor, round_id, status=refusal.status, problem=str(refusal))
    return onward(f"/rounds/{view.id}?done=invited")


@router.post("/rounds/{round_id}/start")
def start(request: Request, round_id: str, visitor: Somebody, form: OwnForm) -> Response:
    """Start the settlement with the chosen options."""
    require(visitor.actor, "settle")
    options, mistakes = chosen(form)
    if options is None:
        words = "Some options cannot be used; they are marked below."
        return _round(request, visitor, round_id, status=422, problem=words, given=form, mistakes=mistakes)
    try:
        settlements.start(context_of(request), visitor.actor, round_id, options)
    except (NotFound, NotSignedIn):
        raise
    except Refusal as refusal:
        return _round(request, visitor, round_id, status=refusal.status, problem=str(refusal), given=form)
    return onward(f"/rounds/{round_id}?done=started")


@router.post("/rounds/{round_id}/cancellation")
def cancel(request: Request, round_id: str, visitor: Somebody, form: OwnForm) -> Response:
    """Stop the settlement."""
    return _sure(request, visitor, round_id, form, settlements.cancel, "cancelled")


@router.post("/rounds/{round_id}/closing")
def close(request: Request, round_id: str, visitor: Somebody, form: OwnForm) -> Response:
    """Close the round for good."""
    return _sure(request, visitor, round_id, form, rounds.close, "closed")


@router.post("/rounds/{round_id}/export")
def export(request: Request, round_id: str, visitor: Somebody, _: OwnForm) -> Response:
    """Everything of the round in one file. A form rather than a link, since it is recorded in the log."""
    content = exporting.export(context_of(request), visitor.actor, round_id)
    headers = {"Content-Disposition": f'attachment; filename="{round_id}.zip"', "Cache-Control": "no-store"}
    return Response(content, media_type="application/zip", headers=headers)


def _sure(request: Request, visitor: Visitor, round_id: str, form: Form, act: Any, done: str) -> Response:
    if form.get("sure") != "yes":
        return _round(request, visitor, round_id, status=422, problem=NOT_SURE)
    try:
        act(context_of(request), visitor.actor, round_id)
    except (NotFound, NotSignedIn):
        raise
    except Refusal as refusal:
        return _round(request, visitor, round_id, status=refusal.status, problem=str(refusal))
    return onward(f"/rounds/{round_id}?done={done}")


def _round(
    request: Request,
    visitor: Visitor,
    round_id: str,
    *,
    status: int = 200,
    done: str = "",
    problem: str = "",
    given: Form | None = None,
    mistakes: dict[str, str] | None = None,
) -> Response:
    context, actor = context_of(request), visitor.actor
    assert actor is not None
    view = rounds.seen(context, actor, round_id)
    overseer = actor.role in ("operator", "auditor")
    settled = view.state == "settled"
    found = None if settled else settlements.progress(context, actor, round_id)
    defaults = {
        name: "" if one.default in (None, ()) else str(one.default) for name, one in Options.model_fields.items()
    }
    return page(
        request,
        "round.html",
        visitor,
        status=status,
        done=done,
        problem=problem,
        view=view,
        standing=standing(view, actor),
        seat=own_seat(view, actor),
        progress=found,
        progress_words=progress_words(found) if found else "",
        explained=explained(view.agreement),
        edition=operator_edition(context, actor, view) if settled and overseer else "",
        summary=results.summary(context, actor, round_id) if settled and not overseer else None,
        audit=results.audit(context, actor, round_id) if settled and not overseer else [],
        receipts=submissions.receipts(context, actor, round_id) if overseer else [],
        fields=FIELDS,
        given={**defaults, **(given or {})},
        mistakes=mistakes or {},
    )
