"""The pages of people who ask to join or have joined; the operator approves them by fingerprint."""

from fastapi import APIRouter, Request, Response

from equipoise_service.errors import NotFound, Refusal
from equipoise_service.rules import people
from equipoise_service.web.auth import context_of
from equipoise_service.web.pages.rendering import PageRoute, render_page
from equipoise_service.web.pages.session import CsrfForm, CurrentUser, User, redirect

router = APIRouter(route_class=PageRoute, include_in_schema=False)

DONE = {
    "approved": "Approved. Tell them that they can go on.",
    "refused": "Refused. Their key cannot be used here.",
    "cleared": "Dropped. Who is meant can ask again.",
    "revoked": "Revoked. Their sessions and tokens have ended.",
}


@router.get("/people")
def listed(request: Request, user: CurrentUser, done: str = "") -> Response:
    """Show everybody who asked to join, and the decisions."""
    return _people(request, user, done=DONE.get(done, ""))


@router.post("/people/{person_id}/decision")
def decide(
    request: Request,
    person_id: int,
    user: CurrentUser,
    form: CsrfForm,
) -> Response:
    """Approve or refuse a request; a mistake in the fingerprint is reported beside its field."""
    approve = form.get("decision") == "approve"
    given = form.get("fingerprint", "").strip()
    try:
        people.decide(context_of(request), user.actor, person_id, approve=approve, fingerprint=given)
    except NotFound:
        raise
    except Refusal as refusal:
        return _people(request, user, status=refusal.status, wrong={person_id: (given, str(refusal))})
    return redirect(f"/people?done={'approved' if approve else 'refused'}")


@router.post("/people/clearing")
def clear(
    request: Request,
    user: CurrentUser,
    form: CsrfForm,
) -> Response:
    """Drop all requests that were on the page."""
    before = form.get("before", "")
    if form.get("sure") != "yes" or not (before.isascii() and before.isdigit() and len(before) < 16):
        return _people(request, user, status=422)
    people.drop_requests(context_of(request), user.actor, before=int(before))
    return redirect("/people?done=cleared")


@router.post("/people/{person_id}/revocation")
def revoke(
    request: Request,
    person_id: int,
    user: CurrentUser,
    form: CsrfForm,
) -> Response:
    """Revoke a person's access."""
    if form.get("sure") != "yes":
        words = "Tick the box to say that you are sure; nothing was changed."
        return _people(request, user, status=422, wrong={person_id: ("", words)})
    try:
        people.revoke(context_of(request), user.actor, person_id)
    except NotFound:
        raise
    except Refusal as refusal:
        return _people(request, user, status=refusal.status, wrong={person_id: ("", str(refusal))})
    return redirect("/people?done=revoked")


def _people(
    request: Request,
    user: User,
    *,
    status: int = 200,
    done: str = "",
    wrong: dict[int, tuple[str, str]] | None = None,
) -> Response:
    everybody = people.list_people(context_of(request), user.actor)
    return render_page(
        request,
        "people.html",
        user,
        status=status,
        done=done,
        wrong=wrong or {},
        waiting=[person for person in everybody if person.state == "requested"],
        approved=[person for person in everybody if person.state == "approved"],
        gone=[person for person in everybody if person.state in ("refused", "revoked")],
    )
