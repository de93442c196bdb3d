"""The event log, for the operator and the auditor."""

from fastapi import APIRouter, Request, Response

from equipoise.errors import VerificationError
from equipoise.service.rules import events
from equipoise.service.rules.access import require
from equipoise.service.web.auth import context_of
from equipoise.service.web.pages.rendering import PageRoute, render_page
from equipoise.service.web.pages.session import CurrentUser

router = APIRouter(route_class=PageRoute)

ON_A_PAGE = 50

WORDS = {
    "service-started": "The service was started for the first time",
    "operator-created": "An operator came by the one-time link",
    "join-requested": "Somebody asked to join",
    "person-approved": "Somebody was approved",
    "person-refused": "Somebody was refused",
    "person-revoked": "Somebody’s access was revoked",
    "round-created": "A round was created",
    "party-invited": "A member was invited",
    "round-closed": "A round was closed",
    "submission-accepted": "A submission was accepted",
    "settlement-started": "A settlement was started",
    "settlement-cancelled": "A settlement was cancelled",
    "settlement-failed": "A settlement failed",
    "settled": "A round was settled",
    "reward-fetched": "A reward was fetched by its owner",
    "exported": "A round was exported",
    "signed-in": "Somebody signed in",
}


@router.get("/events")
def log(request: Request, user: CurrentUser, before: int | None = None, verify: str = "") -> Response:
    """The log, newest first. The whole chain is checked only when asked to: it takes longer the longer it is."""
    context = context_of(request)
    shown, number = events.latest(context, user.actor, before=before, limit=ON_A_PAGE)
    head, broken = "", ""
    if verify:
        require(user.actor, "see-events")
        try:
            head = events.verify_chain(context)
        except VerificationError as error:
            broken = str(error)
    oldest = shown[-1]["sequence"] if shown else 1
    return render_page(
        request,
        "events.html",
        user,
        number=number,
        events=[{**one, "words": WORDS.get(one["kind"], one["kind"]), "told": _told(one["details"])} for one in shown],
        head=head,
        broken=broken,
        newest=before is None,
        older=oldest if oldest > 1 else None,
    )


def _told(details: dict[str, object]) -> list[tuple[str, str]]:
    return [(str(name), _brief(value)) for name, value in sorted(details.items())]


def _brief(value: object) -> str:
    if isinstance(value, dict):
        text = ", ".join(f"{name} {one}" for name, one in sorted(value.items()) if one is not None)
    elif isinstance(value, list):
        text = ", ".join(map(str, value))
    else:
        text = "none" if value is None else str(value)
    return text if len(text) <= 200 else f"{text[:197]}…"
