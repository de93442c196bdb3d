"""Settling a round: started by the operator, watched by everybody in it, cancelled if need be."""

from typing import Annotated

from fastapi import Body, Request

from equipoise.service.options import Options
from equipoise.service.rules import settlements
from equipoise.service.rules.access import Actor
from equipoise.service.web.api.routes import answers, new_router
from equipoise.service.web.api.shapes import ProgressShape, Round
from equipoise.service.web.auth import SignedIn, context_of

router = new_router("settlement")
_USUAL = Options()


@router.post("/rounds/{round}/settlement", status_code=202, responses=answers(401, 403, 404, 409, 415))
def start(
    request: Request,
    round: Round,  # noqa: A002
    actor: SignedIn,
    options: Annotated[Options, Body()] = _USUAL,
) -> ProgressShape:
    """Start settling with the submissions that are there. For the operator."""
    settlements.start(context_of(request), actor, round, options)
    return _progress(request, actor, round)


@router.get("/rounds/{round}/settlement", responses=answers(401, 403, 404))
def watch(request: Request, round: Round, actor: SignedIn) -> ProgressShape:  # noqa: A002
    """How far it is, and how long it will take."""
    return _progress(request, actor, round)


@router.delete("/rounds/{round}/settlement", responses=answers(401, 403, 404, 409))
def cancel(request: Request, round: Round, actor: SignedIn) -> ProgressShape:  # noqa: A002
    """Stop; what was computed is kept for the next start. For the operator."""
    settlements.cancel(context_of(request), actor, round)
    return _progress(request, actor, round)


def _progress(request: Request, actor: Actor, round_id: str) -> ProgressShape:
    return ProgressShape.model_validate(settlements.progress(context_of(request), actor, round_id))
