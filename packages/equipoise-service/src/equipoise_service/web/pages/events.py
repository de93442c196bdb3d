"""The event log, for the operator and the auditor."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from equipoise.errors import VerificationError
from equipoise_service.rules import events
from equipoise_service.rules.access import require
from equipoise_service.web.auth import context_of
from equipoise_service.web.pages.rendering import PageRoute, render_page
from equipoise_service.web.pages.session import CurrentUser

router = APIRouter(route_class=PageRoute, include_in_schema=False)

ON_A_PAGE = 50

# Sentences by kind of event, with the names of the event's details in braces.
WORDS = {
    "service-started": "The service was started for the first time",
    "operator-created": "{name} became operator by the one-time link",
    "join-requested": "{name} asked to join as {role}",
    "person-approved": "{actor} approved {name} as {role}",
    "person-refused": "{actor} refused {name}, who asked to join as {role}",
    "person-revoked": "{actor} revoked the access of {name}, {role}",
    "requests-cleared": "{actor} dropped requests to join that were waiting: {number}",
    "round-created": "{actor} created a round",
    "party-invited": "{actor} invited {party}",
    "round-closed": "{actor} closed a round",
    "submission-accepted": "{party} submitted",
    "settlement-started": "{actor} started a settlement",
    "settlement-cancelled": "{actor} cancelled a settlement",
    "settlement-failed": "A settlement failed",
    "settled": "A round was settled",
    "noise-secret-disclosed": "The secret of the rewards' noise was written out for an auditor, for {reach}",
    "reward-fetched": "{actor} fetched its reward",
    "exported": "{actor} exported a round",
    "signed-in": "{actor} signed in",
}
# Details that the sentence repeats, or that say nothing new.
_SAID = frozenset({"name", "role", "party", "number", "person", "reach"})


@router.get("/events")
def log(request: Request, user: CurrentUser, before: int | None = None, verify: str = "") -> Response:
    """Show the log, newest first; with `verify`, check the whole chain, which takes longer the longer the log is."""
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
        events=[{**event, "words": event_words(event), "told": _told(event["details"])} for event in shown],
        head=head,
        broken=broken,
        newest=before is None,
        older=oldest if oldest > 1 else None,
    )


def event_words(event: Mapping[str, Any]) -> str:
    """Describe an event in a sentence with names; events of early versions may lack some names."""
    known = {name: str(value) for name, value in event["details"].items()}
    template = WORDS.get(event["kind"], f"{{actor}}: {event['kind']}")
    return template.format_map(defaultdict(lambda: "somebody", known, actor=event["actor"]))


def _told(details: dict[str, object]) -> list[tuple[str, str]]:
    return [(str(name), _brief(value)) for name, value in sorted(details.items()) if name not in _SAID]


def _brief(value: object) -> str:
    if isinstance(value, dict):
        text = ", ".join(f"{name} {part}" for name, part in sorted(value.items()) if part is not None)
    elif isinstance(value, list):
        text = ", ".join(map(str, value))
    else:
        text = "none" if value is None else str(value)
    return text if len(text) <= 200 else f"{text[:197]}…"
