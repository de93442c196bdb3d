"""A party's own pages: its submission, what that revealed, its reward and the reasons, and how to predict at home."""

from fastapi import APIRouter, Depends, Request, Response

from equipoise.agreement import Agreement
from equipoise_service.rules import results, rounds, submissions
from equipoise_service.rules.access import require
from equipoise_service.web.auth import context_of
from equipoise_service.web.pages.rendering import PageRoute, render_page
from equipoise_service.web.pages.session import CurrentUser, csrf_form
from equipoise_service.web.pages.wording import guarantee_readings, guessing, own_seat, round_status
from equipoise_service.web.reports import TABS, report_fragment

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/rounds/{round_id}/mine")
def mine(request: Request, round_id: str, user: CurrentUser, tab: str = "") -> Response:
    """Show a party's own submission, what it revealed and, once the round is settled, its reward, in tabs."""
    context, actor = context_of(request), require(user.actor, "see-own-submission")
    view = rounds.get(context, actor, round_id)
    seat = own_seat(view, actor)
    sent = seat is not None and seat.submitted is not None and seat.epsilon is not None
    receipt = submissions.receipt(context, actor, round_id) if sent else None
    order = view.agreement.privacy.order
    tab = tab if tab in TABS else next(iter(TABS))
    rewarded = sent and view.state == "settled" and seat is not None and not seat.left_out
    return render_page(
        request,
        "mine.html",
        user,
        view=view,
        seat=seat,
        round_status=round_status(view, actor),
        receipt=receipt,
        readings=guarantee_readings(order, seat.epsilon) if sent and seat and seat.epsilon else (),
        guessing=guessing(order, seat.epsilon) if sent and seat and seat.epsilon else "",
        tabs=TABS if rewarded else {},
        tab=tab,
        report=report_fragment(context, actor, round_id, tab) if rewarded and tab != "files" else "",
        commands=commands(view.agreement, view.id, actor.name),
    )


@router.get("/rounds/{round_id}/mine/receipt")
def receipt(request: Request, round_id: str, user: CurrentUser) -> Response:
    """Download the receipt of a party's own submission."""
    signed = submissions.receipt(context_of(request), user.actor, round_id)
    return _download(signed.to_json(), f"{signed.party}-receipt.json", "application/json")


@router.get("/rounds/{round_id}/mine/submission")
def submission(request: Request, round_id: str, user: CurrentUser) -> Response:
    """Download a party's own submission, byte for byte as it was received."""
    content = submissions.own_submission(context_of(request), user.actor, round_id)
    assert user.actor is not None
    return _download(content, f"{user.actor.name}-submission.json", "application/json")


@router.post("/rounds/{round_id}/mine/reward", dependencies=[Depends(csrf_form)])
def reward(request: Request, round_id: str, user: CurrentUser) -> Response:
    """Download the reward. This is a form, not a link, because the download is recorded in the log."""
    content = results.reward(context_of(request), user.actor, round_id)
    assert user.actor is not None
    return _download(content, f"{user.actor.name}.nc", "application/x-netcdf")


def commands(agreement: Agreement, round_id: str, party: str) -> tuple[str, ...]:
    """Return the commands by which a party uses its reward on its own computer: fetch, combine, predict.

    The party should predict with the reward and its own rows together, so `combine` comes before `predict`.
    """
    rows = " --data ROWS.csv -o predictions.csv" if len(agreement.columns) > 1 else ""
    return (
        f"equipoise fetch --round {round_id} -o {party}.nc",
        f"equipoise party combine {party}.nc TABLE.csv -o model.nc",
        f"equipoise predict model.nc{rows}",
    )


def _download(content: bytes, name: str, kind: str) -> Response:
    """Return a file to download. Names of parties need no escaping: letters, digits, dots, dashes and underscores."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(content, media_type=kind, headers=headers)
