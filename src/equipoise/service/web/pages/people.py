"""Who asks to come in, who is in; the operator lets people in by fingerprint."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from equipoise.service.errors import NotFound, Refusal
from equipoise.service.rules import people
from equipoise.service.web.pages.problems import PageRoute
from equipoise.service.web.pages.rendering import page
from equipoise.service.web.pages.visitors import Form, Visitor, context_of, onward, own_form, somebody

router = APIRouter(route_class=PageRoute)

DONE = {
    "approved": "Approved. Tell them that they can go on.",
    "refused": "Refused. Their key cannot be used here.",
    "cleared": "Dropped. Who is meant can ask again.",
    "revoked": "Revoked. Their sessions and tokens have ended.",
}


@router.get("/people")
def listed(request: Request, visitor: Annotated[Visitor, Depends(somebody)], done: str = "") -> Response:
    """Everybody."""
    return _people(request, visitor, done=DONE.get(done, ""))


@router.post("/people/{person_id}/decision")
def decide(
    request: Request,
    person_id: int,
    visitor: Annotated[Visitor, Depends(somebody)],
    form: Annotated[Form, Depends(own_form)],
) -> Response:
    """Approve or refuse somebody; a fingerprint that does not match is named beside its field."""
    approve = form.get("decision") == "approve"
    given = form.get("fingerprint", "").strip()
    try:
        people.decide(context_of(request), visitor.actor, person_id, approve=approve, fingerprint=given)
    except NotFound:
        raise
    except Refusal as refusal:
        return _people(request, visitor, status=refusal.status, wrong={person_id: (given, str(refusal))})
    return onward(f"/people?done={'approved' if approve else 'refused'}")


@router.post("/people/clearing")
def clear(
    request: Request,
    visitor: Annotated[Visitor, Depends(somebody)],
    form: Annotated[Form, Depends(own_form)],
) -> Response:
    """Drop all requests that were on the page."""
    before = form.get("before", "")
    if form.get("sure") != "yes" or not (before.isascii() and before.isdigit() and len(before) < 16):
        return _people(request, visitor, status=422)
    people.clear(context_of(request), visitor.actor, before=int(before))
    return onward("/people?done=cleared")


@router.post("/people/{person_id}/revocation")
def revoke(
    request: Request,
    person_id: int,
    visitor: Annotated[Visitor, Depends(somebody)],
    form: Annotated[Form, Depends(own_form)],
) -> Response:
    """Take somebody's access away."""
    if form.get("sure") != "yes":
        words = "Tick the box to say that you are sure; nothing was changed."
        return _people(request, visitor, status=422, wrong={person_id: ("", words)})
    try:
        people.revoke(context_of(request), visitor.actor, person_id)
    except NotFound:
        raise
    except Refusal as refusal:
        return _people(request, visitor, status=refusal.status, wrong={person_id: ("", str(refusal))})
    return onward("/people?done=revoked")


def _people(
    request: Request,
    visitor: Visitor,
    *,
    status: int = 200,
    done: str = "",
    wrong: dict[int, tuple[str, str]] | None = None,
) -> Response:
    everybody = people.listed(context_of(request), visitor.actor)
    return page(
        request,
        "people.html",
        visitor,
        status=status,
        done=done,
        wrong=wrong or {},
        waiting=[one for one in everybody if one.state == "requested"],
        approved=[one for one in everybody if one.state == "approved"],
        gone=[one for one in everybody if one.state in ("refused", "revoked")],
    )
