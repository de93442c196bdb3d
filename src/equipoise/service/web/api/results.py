"""What a settled round decided: everything for the operator and the auditor, the own share for each party."""

import base64
import hashlib
from typing import Any

from fastapi import Request, Response

from equipoise.protocol.receipts import RewardReceipt
from equipoise.service.cache import Kept
from equipoise.service.context import Context
from equipoise.service.rules import export, results
from equipoise.service.rules.access import Actor
from equipoise.service.web.api.routes import answers, file, new_router
from equipoise.service.web.api.shapes import Findings, FindingShape, Round
from equipoise.service.web.auth import SignedIn, context_of
from equipoise.service.web.security_headers import REPORT_POLICY

router = new_router("results")
_ERRORS = answers(401, 403, 404, 409)
_ERRORS_OR_DAMAGED = answers(401, 403, 404, 409, 500)
_EDITIONS: Kept[str] = Kept(256)  # a round is settled once, so that they stay true
_NETCDF, _ZIP, _HTML = "application/x-netcdf", "application/zip", "text/html"


@router.get("/rounds/{round}/results", responses=_ERRORS)
def all_results(request: Request, round: Round, actor: SignedIn) -> dict[str, Any]:  # noqa: A002
    """The whole settlement as JSON. For the operator and the auditor."""
    return results.document(context_of(request), actor, round)


@router.get(
    "/rounds/{round}/reward",
    response_class=Response,
    responses={200: file(_NETCDF, "Posterior draws, as netCDF."), **_ERRORS_OR_DAMAGED},
)
def reward(request: Request, round: Round, actor: SignedIn) -> Response:  # noqa: A002
    """Your own reward. Its SHA-256 is in the header Digest; `equipoise predict` uses the file."""
    content = results.reward(context_of(request), actor, round)
    name = f"{round}-{actor.name}.nc"
    return _download(content, _NETCDF, name)


@router.get("/rounds/{round}/reward-receipt", response_model=RewardReceipt, responses=_ERRORS_OR_DAMAGED)
def reward_receipt(request: Request, round: Round, actor: SignedIn) -> Response:  # noqa: A002
    """The receipt of your reward, once you have fetched it, signed by the service: keep it."""
    receipt = results.reward_receipt(context_of(request), actor, round)
    return Response(receipt.to_json(), media_type="application/json")


@router.get(
    "/rounds/{round}/report",
    response_class=Response,
    responses={200: file(_HTML, "One HTML file that needs nothing else."), **_ERRORS},
)
def report(request: Request, round: Round, actor: SignedIn) -> Response:  # noqa: A002
    """The report: your own edition for a party, the whole for the operator and the auditor."""
    page = edition(context_of(request), actor, round)
    return Response(page, media_type=_HTML, headers={"Content-Security-Policy": REPORT_POLICY})


@router.get("/rounds/{round}/summary", responses=_ERRORS)
def summary(request: Request, round: Round, actor: SignedIn) -> dict[str, Any]:  # noqa: A002
    """What everybody in the round may know; nothing of single parties."""
    return results.summary(context_of(request), actor, round)


@router.get("/rounds/{round}/audit", responses=_ERRORS)
def audit(request: Request, round: Round, actor: SignedIn) -> Findings:  # noqa: A002
    """Which promises were kept."""
    found = results.audit(context_of(request), actor, round)
    return Findings(findings=[FindingShape.model_validate(one) for one in found])


@router.get(
    "/rounds/{round}/export",
    response_class=Response,
    responses={200: file(_ZIP, "Everything of the round; check it with `equipoise verify`."), **_ERRORS},
)
def whole_round(request: Request, round: Round, actor: SignedIn) -> Response:  # noqa: A002
    """The whole round with its evidence, signed by the service. For the operator."""
    return _download(export.export(context_of(request), actor, round), _ZIP, f"{round}.zip")


def edition(context: Context, actor: Actor, round_id: str) -> str:
    """The report of a round for who asks, as HTML. The rules are asked every time; only drawing is spared."""
    from equipoise.report.page import rendered

    if actor.role == "party":
        from equipoise.report.party import party_page

        own = results.party_view(context, actor, round_id)
        return _EDITIONS.get((context.audience, round_id, own.party), lambda: rendered(party_page(own)))
    from equipoise.report.operator import operator_page

    settlement = results.settlement(context, actor, round_id)
    return _EDITIONS.get((context.audience, round_id, ""), lambda: rendered(operator_page(settlement)))


def _download(content: bytes, media_type: str, name: str) -> Response:
    digest = hashlib.sha256(content)
    headers = {
        "Digest": f"sha-256={base64.b64encode(digest.digest()).decode()}",
        "ETag": f'"{digest.hexdigest()}"',
        "Content-Disposition": f'attachment; filename="{name}"',
    }
    return Response(content, media_type=media_type, headers=headers)
