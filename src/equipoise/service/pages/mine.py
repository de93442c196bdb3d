"""A party's own pages: what it sent, what that revealed, what it gets and why, and predictions with it."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from equipoise.service import results, rounds, submissions
from equipoise.service.access import require
from equipoise.service.pages import predicting
from equipoise.service.pages.editions import party_edition
from equipoise.service.pages.problems import PageRoute
from equipoise.service.pages.rendering import page
from equipoise.service.pages.standing import own_seat, standing
from equipoise.service.pages.visitors import Form, Visitor, context_of, own_form, somebody
from equipoise.service.pages.words import guessing, readings
from equipoise.service.refusals import NotFound
from equipoise.service.rounds import RoundView

router = APIRouter(route_class=PageRoute)

Somebody = Annotated[Visitor, Depends(somebody)]


@router.get("/rounds/{round_id}/mine")
def mine(request: Request, round_id: str, visitor: Somebody) -> Response:
    """My submission, what it revealed, my reward and why."""
    context, actor = context_of(request), require(visitor.actor, "see-own-submission")
    view = rounds.seen(context, actor, round_id)
    seat = own_seat(view, actor)
    sent = seat is not None and seat.submitted is not None and seat.epsilon is not None
    receipt = submissions.receipt(context, actor, round_id) if sent else None
    order = view.agreement.privacy.order
    rewarded = sent and view.state == "settled"
    return page(
        request,
        "mine.html",
        visitor,
        view=view,
        seat=seat,
        standing=standing(view, actor),
        receipt=receipt,
        readings=readings(order, seat.epsilon) if sent and seat and seat.epsilon else (),
        guessing=guessing(order, seat.epsilon) if sent and seat and seat.epsilon else "",
        edition=party_edition(context, actor, view) if rewarded else "",
        features=predicting.features(view.agreement),
    )


@router.get("/rounds/{round_id}/mine/receipt")
def receipt(request: Request, round_id: str, visitor: Somebody) -> Response:
    """The receipt, as a file to keep."""
    found = submissions.receipt(context_of(request), visitor.actor, round_id)
    return _file(found.to_json(), f"{found.party}-receipt.json", "application/json")


@router.get("/rounds/{round_id}/mine/submission")
def submission(request: Request, round_id: str, visitor: Somebody) -> Response:
    """The submission, byte for byte as it came."""
    content = submissions.own(context_of(request), visitor.actor, round_id)
    assert visitor.actor is not None
    return _file(content, f"{visitor.actor.name}-submission.json", "application/json")


@router.post("/rounds/{round_id}/mine/reward", dependencies=[Depends(own_form)])
def reward(request: Request, round_id: str, visitor: Somebody) -> Response:
    """The reward, as a file. A form rather than a link, since it is recorded in the log."""
    content = results.reward(context_of(request), visitor.actor, round_id)
    assert visitor.actor is not None
    return _file(content, f"{visitor.actor.name}.nc", "application/x-netcdf")


@router.get("/rounds/{round_id}/mine/prediction")
def ask(request: Request, round_id: str, visitor: Somebody) -> Response:
    """The form to predict with."""
    view = _rewarded(request, round_id, visitor)
    return _prediction(request, visitor, view, {})


@router.post("/rounds/{round_id}/mine/prediction")
def predict(request: Request, round_id: str, visitor: Somebody, form: Annotated[Form, Depends(own_form)]) -> Response:
    """Predict on what was typed or pasted; what was pasted goes first."""
    return _prediction(request, visitor, _rewarded(request, round_id, visitor), form)


def _rewarded(request: Request, round_id: str, visitor: Visitor) -> RoundView:
    actor = require(visitor.actor, "fetch-reward")
    view = rounds.seen(context_of(request), actor, round_id)
    seat = own_seat(view, actor)
    if view.state != "settled" or seat is None or seat.submitted is None:
        raise NotFound("There is no reward of yours in this round, or not yet.")
    return view


def _prediction(request: Request, visitor: Visitor, view: RoundView, form: Form) -> Response:
    columns = predicting.features(view.agreement)
    texts = [form.get(f"feature-{place}", "") for place in range(len(columns))]
    text = form.get("pasted", "")
    reading = predicting.Reading()
    if columns and form:
        reading = predicting.pasted(view.agreement, text) if text.strip() else predicting.typed(view.agreement, texts)
    found, summary = [], []
    if reading.rows or not columns:
        own = predicting.opened(results.reward(context_of(request), visitor.actor, view.id, fetched=False))
        found = predicting.predictions(own, reading.rows) if columns else []
        summary = [] if columns else predicting.new_observation(own)
    wrong = bool(reading.mistakes or reading.pasted)
    return page(
        request,
        "prediction.html",
        visitor,
        status=422 if wrong else 200,
        view=view,
        features=columns,
        target=view.agreement.model.target,
        texts=texts,
        pasted=text,
        reading=reading,
        predictions=found,
        summary=summary,
        share=round(100 * predicting.SHARE),
    )


def _file(content: bytes, name: str, kind: str) -> Response:
    """A file to keep; names of parties hold letters, digits, dots, dashes and underscores only."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(content, media_type=kind, headers=headers)
