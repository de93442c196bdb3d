"""Submissions: sent once by their party, receipted, and shown to nobody else."""

from typing import Any

from fastapi import Request, Response

from equipoise.protocol.receipts import Receipt
from equipoise.protocol.submission import Submission
from equipoise.service.errors import WrongType
from equipoise.service.rules import submissions
from equipoise.service.web.api.routes import Responses, answers, new_router
from equipoise.service.web.api.shapes import Round
from equipoise.service.web.auth import SignedIn, body_of, context_of

router = new_router("submissions")
_TYPES = ("application/json", "application/octet-stream", "")


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without references, which would mean something else within another document."""
    parts = schema.pop("$defs", {})

    def visit(node: Any) -> Any:
        if isinstance(node, dict):
            if "$ref" in node:
                return visit(parts[node["$ref"].rpartition("/")[2]])
            return {name: visit(value) for name, value in node.items()}
        return [visit(one) for one in node] if isinstance(node, list) else node

    inlined: dict[str, Any] = visit(schema)
    return inlined


_BODY = {
    "requestBody": {
        "required": True,
        "description": "The submission file, byte for byte as it was written by `equipoise party release`.",
        "content": {"application/json": {"schema": _inlined(Submission.model_json_schema())}},
    }
}
_KNOWN: Responses = {
    200: {"model": Receipt, "description": "These very bytes were received before: their receipt again."}
}


@router.put(
    "/rounds/{round}/submission",
    status_code=201,
    response_model=Receipt,
    responses={**_KNOWN, **answers(401, 403, 404, 409, 415)},
    openapi_extra=_BODY,
)
def submit(request: Request, round: Round, actor: SignedIn) -> Response:  # noqa: A002
    """Submit, once in a round. The receipt is signed by the service: keep it."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() not in _TYPES:
        raise WrongType("send the submission file as it is, as application/json")
    receipt, new = submissions.accept(context_of(request), actor, round, body_of(request))
    return Response(receipt.to_json(), 201 if new else 200, media_type="application/json")


@router.get("/rounds/{round}/submission", response_model=Submission, responses=answers(401, 403, 404))
def own_submission(request: Request, round: Round, actor: SignedIn) -> Response:  # noqa: A002
    """Your own submission, byte for byte as it was received."""
    return Response(submissions.own(context_of(request), actor, round), media_type="application/json")


@router.get("/rounds/{round}/receipt", response_model=Receipt, responses=answers(401, 403, 404))
def own_receipt(request: Request, round: Round, actor: SignedIn) -> Response:  # noqa: A002
    """The receipt of your own submission, again."""
    receipt = submissions.receipt(context_of(request), actor, round)
    return Response(receipt.to_json(), media_type="application/json")
