"""Routes for the results of a settled round, and for the log of events that led to them."""

import base64
import hashlib
from typing import Annotated, Any

from fastapi import Query, Request, Response

from equipoise.protocol.receipts import RewardReceipt
from equipoise_service.rules import events, export, results
from equipoise_service.web.api.routes import error_responses, file, new_router
from equipoise_service.web.api.schemas import (
    EventList,
    EventSchema,
    EventsQuery,
    FindingList,
    FindingSchema,
    LinkList,
    LinkSchema,
    RoundId,
)
from equipoise_service.web.auth import CurrentActor, context_of
from equipoise_service.web.reports import report_page

router = new_router("results")
event_router = new_router("events")
_ERRORS = error_responses(401, 403, 404, 409)
_ERRORS_OR_DAMAGED = error_responses(401, 403, 404, 409, 500)
# For reports: each is one file with an inline style sheet and without scripts.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; frame-ancestors 'none'; "
    "base-uri 'none'; sandbox"
)
_NETCDF, _ZIP, _HTML = "application/x-netcdf", "application/zip", "text/html"


@router.get("/rounds/{round}/results", responses=_ERRORS)
def all_results(request: Request, round: RoundId, actor: CurrentActor) -> dict[str, Any]:  # noqa: A002
    """Get the whole settlement as JSON. For the operator and the auditor."""
    return results.document(context_of(request), actor, round)


@router.get(
    "/rounds/{round}/reward",
    response_class=Response,
    responses={200: file(_NETCDF, "Posterior draws, as netCDF."), **_ERRORS_OR_DAMAGED},
)
def reward(request: Request, round: RoundId, actor: CurrentActor) -> Response:  # noqa: A002
    """Get your own reward. Its SHA-256 is in the header Digest; `equipoise predict` uses the file."""
    content = results.reward(context_of(request), actor, round)
    name = f"{round}-{actor.name}.nc"
    return _download(content, _NETCDF, name)


@router.get("/rounds/{round}/reward-receipt", response_model=RewardReceipt, responses=_ERRORS_OR_DAMAGED)
def reward_receipt(request: Request, round: RoundId, actor: CurrentActor) -> Response:  # noqa: A002
    """Get the receipt of your reward, signed by the service, after you have fetched the reward. Keep it."""
    receipt = results.reward_receipt(context_of(request), actor, round)
    return Response(receipt.to_json(), media_type="application/json")


@router.get(
    "/rounds/{round}/report",
    response_class=Response,
    responses={200: file(_HTML, "One HTML file that needs nothing else."), **_ERRORS},
)
def report(request: Request, round: RoundId, actor: CurrentActor) -> Response:  # noqa: A002
    """Get the report: parties get their own edition, the operator and the auditor the whole report."""
    page = report_page(context_of(request), actor, round)
    return Response(page, media_type=_HTML, headers={"Content-Security-Policy": REPORT_POLICY})


@router.get("/rounds/{round}/summary", responses=_ERRORS)
def summary(request: Request, round: RoundId, actor: CurrentActor) -> dict[str, Any]:  # noqa: A002
    """Get what all members of the round may know, which includes no numbers of single parties."""
    return results.summary(context_of(request), actor, round)


@router.get("/rounds/{round}/audit", responses=_ERRORS)
def audit(request: Request, round: RoundId, actor: CurrentActor) -> FindingList:  # noqa: A002
    """Get a verdict on each promise."""
    findings = results.audit(context_of(request), actor, round)
    return FindingList(findings=[FindingSchema.model_validate(finding) for finding in findings])


@router.get(
    "/rounds/{round}/export",
    response_class=Response,
    responses={200: file(_ZIP, "Everything of the round; check it with `equipoise verify`."), **_ERRORS},
)
def whole_round(request: Request, round: RoundId, actor: CurrentActor) -> Response:  # noqa: A002
    """Export the whole round with its evidence, signed by the service. For the operator."""
    return _download(export.export(context_of(request), actor, round), _ZIP, f"{round}.zip")


@event_router.get("/events", responses=error_responses(401, 403))
def log(request: Request, part: Annotated[EventsQuery, Query()], actor: CurrentActor) -> EventList:
    """Get the events after a sequence number, in order. For the operator and the auditor."""
    documents = events.list_events(context_of(request), actor, after=part.after, limit=part.limit)
    return EventList(events=[EventSchema.model_validate(document) for document in documents])


@event_router.get("/rounds/{round}/chain", responses=error_responses(401, 403, 404))
def chain(request: Request, round: RoundId, part: Annotated[EventsQuery, Query()], actor: CurrentActor) -> LinkList:  # noqa: A002
    """Get the log's chain of digests, without contents, to look for the events that your receipts name."""
    links = events.chain(context_of(request), actor, round, after=part.after, limit=part.limit)
    return LinkList(links=[LinkSchema.model_validate(link) for link in links])


def _download(content: bytes, media_type: str, name: str) -> Response:
    digest = hashlib.sha256(content)
    headers = {
        "Digest": f"sha-256={base64.b64encode(digest.digest()).decode()}",
        "ETag": f'"{digest.hexdigest()}"',
        "Content-Disposition": f'attachment; filename="{name}"',
    }
    return Response(content, media_type=media_type, headers=headers)
