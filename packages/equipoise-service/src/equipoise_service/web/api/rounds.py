"""Routes for rounds: the operator creates and settles them, parties submit to them."""

from typing import Annotated, Any

from fastapi import Body, Request, Response

from equipoise.agreement import Agreement
from equipoise.protocol.receipts import Receipt
from equipoise.protocol.submission import Submission
from equipoise_service.errors import UnsupportedMediaType
from equipoise_service.options import Options
from equipoise_service.rules import rounds, settlements, submissions
from equipoise_service.rules.access import Actor, require
from equipoise_service.web.api.routes import Responses, error_responses, json_response, new_router
from equipoise_service.web.api.schemas import (
    AgreementSchema,
    InvitationRequest,
    NewRoundRequest,
    ProgressSchema,
    RoundId,
    RoundList,
    RoundSchema,
)
from equipoise_service.web.auth import CurrentActor, body_of, context_of

router = new_router("rounds")
submission_router = new_router("submissions")
settlement_router = new_router("settlement")
_DEFAULTS = Options()
_SUBMISSION_TYPES = ("application/json", "application/octet-stream", "")


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace the references in a schema, which would be invalid within another document, by their targets."""
    parts = schema.pop("$defs", {})

    def visit(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return visit(parts[node["$ref"].rpartition("/")[2]])
            return {name: visit(value) for name, value in node.items()}
        return [visit(item) for item in node] if isinstance(node, list) else node

    inlined: dict[str, Any] = visit(schema)
    return inlined


_SUBMISSION_BODY = {
    "requestBody": {
        "required": True,
        "description": "The submission file, byte for byte as it was written by `equipoise party release`.",
        "content": {"application/json": {"schema": _inlined(Submission.model_json_schema())}},
    }
}
_RECEIVED_BEFORE: Responses = {
    200: {"model": Receipt, "description": "These very bytes were received before: their receipt again."}
}


@router.get("/rounds", response_model=RoundList, responses=error_responses(401, 403))
def all_rounds(request: Request, actor: CurrentActor) -> Response:
    """List the rounds that you may see: all for the operator and the auditor, those with an invitation for a party."""
    views = rounds.list_visible(context_of(request), actor)
    return json_response(RoundList(rounds=[RoundSchema.of(view) for view in views]))


@router.post("/rounds", status_code=201, responses=error_responses(401, 403, 409, 415))
def create(request: Request, new: NewRoundRequest, actor: CurrentActor) -> RoundSchema:
    """Create a round from an agreement in TOML. For the operator."""
    context = context_of(request)
    # Check the permission before parsing the agreement, which takes longer.
    require(actor, "create-rounds")
    made = rounds.create(context, actor, Agreement.parse(new.agreement), invite=new.invite)
    return RoundSchema.of(rounds.get(context, actor, made))


@router.get("/rounds/{round}", response_model=RoundSchema, responses=error_responses(401, 403, 404))
def one_round(request: Request, round: RoundId, actor: CurrentActor) -> Response:  # noqa: A002
    """Get one round with its parties, and the times of their submissions."""
    return json_response(RoundSchema.of(rounds.get(context_of(request), actor, round)))


@router.get("/rounds/{round}/agreement", responses=error_responses(401, 403, 404))
def agreement(request: Request, round: RoundId, actor: CurrentActor) -> AgreementSchema:  # noqa: A002
    """Get the agreement of a round. Compare its identity with that of the file that you agreed to."""
    view = rounds.get(context_of(request), actor, round)
    return AgreementSchema(identity=view.identity, agreement=view.agreement.model_dump(mode="json"))


@router.post("/rounds/{round}/invitations", responses=error_responses(401, 403, 404, 409, 415))
def invite(request: Request, round: RoundId, invitation: InvitationRequest, actor: CurrentActor) -> RoundSchema:  # noqa: A002
    """Let a party of the agreement see the round and submit. For the operator."""
    context = context_of(request)
    rounds.invite(context, actor, round, invitation.party)
    return RoundSchema.of(rounds.get(context, actor, round))


@router.post("/rounds/{round}/closing", responses=error_responses(401, 403, 404, 409))
def close(request: Request, round: RoundId, actor: CurrentActor) -> RoundSchema:  # noqa: A002
    """End an open round without settling it. For the operator."""
    context = context_of(request)
    rounds.close(context, actor, round)
    return RoundSchema.of(rounds.get(context, actor, round))


@submission_router.put(
    "/rounds/{round}/submission",
    status_code=201,
    response_model=Receipt,
    responses={**_RECEIVED_BEFORE, **error_responses(401, 403, 404, 409, 415)},
    openapi_extra=_SUBMISSION_BODY,
)
def submit(request: Request, round: RoundId, actor: CurrentActor) -> Response:  # noqa: A002
    """Submit, once in a round. The receipt is signed by the service: keep it."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in _SUBMISSION_TYPES:
        raise UnsupportedMediaType("send the submission file as it is, as application/json")
    receipt, new = submissions.accept(context_of(request), actor, round, body_of(request))
    return Response(receipt.to_json(), 201 if new else 200, media_type="application/json")


@submission_router.get(
    "/rounds/{round}/submission", response_model=Submission, responses=error_responses(401, 403, 404)
)
def own_submission(request: Request, round: RoundId, actor: CurrentActor) -> Response:  # noqa: A002
    """Get your own submission, byte for byte as it was received."""
    return Response(submissions.own_submission(context_of(request), actor, round), media_type="application/json")


@submission_router.get("/rounds/{round}/receipt", response_model=Receipt, responses=error_responses(401, 403, 404))
def own_receipt(request: Request, round: RoundId, actor: CurrentActor) -> Response:  # noqa: A002
    """Get the receipt of your own submission again."""
    receipt = submissions.receipt(context_of(request), actor, round)
    return Response(receipt.to_json(), media_type="application/json")


@settlement_router.post(
    "/rounds/{round}/settlement", status_code=202, responses=error_responses(401, 403, 404, 409, 415)
)
def start(
    request: Request,
    round: RoundId,  # noqa: A002
    actor: CurrentActor,
    options: Annotated[Options, Body()] = _DEFAULTS,
) -> ProgressSchema:
    """Start settling with the submissions that are there. For the operator."""
    settlements.start(context_of(request), actor, round, options)
    return _progress(request, actor, round)


@settlement_router.get("/rounds/{round}/settlement", responses=error_responses(401, 403, 404))
def watch(request: Request, round: RoundId, actor: CurrentActor) -> ProgressSchema:  # noqa: A002
    """Get the progress of the settlement, and an estimate of the time left."""
    return _progress(request, actor, round)


@settlement_router.delete("/rounds/{round}/settlement", responses=error_responses(401, 403, 404, 409))
def cancel(request: Request, round: RoundId, actor: CurrentActor) -> ProgressSchema:  # noqa: A002
    """Stop settling; what was computed is kept for the next start. For the operator."""
    settlements.cancel(context_of(request), actor, round)
    return _progress(request, actor, round)


def _progress(request: Request, actor: Actor, round_id: str) -> ProgressSchema:
    return ProgressSchema.model_validate(settlements.progress(context_of(request), actor, round_id))
