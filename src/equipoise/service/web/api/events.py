"""The log of what happened, chained by digests."""

from typing import Annotated

from fastapi import Query, Request

from equipoise.service.rules import events
from equipoise.service.web.api.routes import answers, new_router
from equipoise.service.web.api.shapes import Events, EventShape, EventsQuery, Links, LinkShape, Round
from equipoise.service.web.auth import SignedIn, context_of

router = new_router("events")


@router.get("/events", responses=answers(401, 403))
def log(request: Request, part: Annotated[EventsQuery, Query()], actor: SignedIn) -> Events:
    """What happened, in order, after a certain event. For the operator and the auditor."""
    found = events.listed(context_of(request), actor, after=part.after, limit=part.limit)
    return Events(events=[EventShape.model_validate(one) for one in found])


@router.get("/rounds/{round}/chain", responses=answers(401, 403, 404))
def chain(request: Request, round: Round, part: Annotated[EventsQuery, Query()], actor: SignedIn) -> Links:  # noqa: A002
    """The chain of digests of the log, without what it says, to look for the events of your receipts in."""
    found = events.chain(context_of(request), actor, round, after=part.after, limit=part.limit)
    return Links(links=[LinkShape.model_validate(one) for one in found])
