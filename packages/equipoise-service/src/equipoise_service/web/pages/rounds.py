"""The pages of rounds: create, show and watch them, and the operator's actions."""

from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError

from equipoise.agreement import Agreement
from equipoise.errors import AgreementError
from equipoise_service.errors import NotFound, NotSignedIn, Refusal
from equipoise_service.options import Options
from equipoise_service.rules import export, results, rounds, settlements, submissions
from equipoise_service.rules.access import require
from equipoise_service.web.auth import context_of
from equipoise_service.web.pages.rendering import PageRoute, render_page
from equipoise_service.web.pages.session import CsrfForm, CurrentUser, Form, User, redirect
from equipoise_service.web.pages.wording import PHASES, explanation, own_seat, phase, progress_words, round_status
from equipoise_service.web.reports import TABS, report_fragment

router = APIRouter(route_class=PageRoute, include_in_schema=False)


DONE = {
    "created": "The round was created.",
    "invited": "Invited: they can see the round now, and submit.",
    "started": "Started. A worker takes it up within seconds.",
    "cancelled": "Cancelled. What was found so far is kept, so that starting again goes on from there.",
    "closed": "Closed. Nobody can submit any more.",
}
NOT_CONFIRMED = "Tick the box to say that you are sure; nothing was changed."


@dataclass(frozen=True)
class OptionField:
    """A field of the form that starts a settlement; with `choices`, a list to select from."""

    name: str
    label: str
    hint: str
    choices: tuple[tuple[str, str], ...] = ()
    input_mode: str = "text"  # selects the keyboard of a telephone
    max_length: int = 40


OPTION_FIELDS = (
    OptionField(
        "mechanism",
        "How rewards are held back",
        "As agreed, unless the agreement leaves it to you.",
        (("", "as agreed"), ("tempering", "tempering"), ("noise", "added noise"), ("degraded", "degraded")),
    ),
    OptionField(
        "rho",
        "Fairness exponent ρ",
        "As agreed if empty. If the agreement leaves it to you: above 0 and up to 1, or “max”.",
        input_mode="decimal",
    ),
    OptionField("precision", "Precision, in nats", "Standard errors are brought below this.", input_mode="decimal"),
    OptionField("draws", "Draws in each reward", "100 to 1,000,000.", input_mode="numeric"),
    OptionField(
        "without",
        "Leave out",
        "Members whose submissions are not to count, separated by commas; everybody sees it.",
        max_length=1_000,
    ),
)
_INTEGERS = {"draws", "budget"}
_ERROR_WORDS = {
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be {ge:g} or more",
    "less_than": "must be below {lt:g}",
    "less_than_equal": "must be {le:g} or less",
    "finite_number": "must be a finite number",
    "literal_error": "must be one of {expected}",
}


@router.get("/rounds/new")
def new(request: Request, user: CurrentUser) -> Response:
    """Show the form that creates a round."""
    require(user.actor, "create-rounds")
    return render_page(request, "new_round.html", user, text="", invite=True, errors=[])


@router.post("/rounds/new")
def create(request: Request, user: CurrentUser, form: CsrfForm) -> Response:
    """Create a round from an agreement; if it is invalid, report all mistakes at once."""
    require(user.actor, "create-rounds")
    text, invite = form.get("agreement", ""), form.get("invite") == "yes"
    try:
        agreement = Agreement.parse(text, name="The text")
        made = rounds.create(context_of(request), user.actor, agreement, invite=invite)
    except (AgreementError, Refusal) as error:
        status = error.status if isinstance(error, Refusal) else 422
        lines = str(error).splitlines()
        return render_page(request, "new_round.html", user, status=status, text=text, invite=invite, errors=lines)
    return redirect(f"/rounds/{made}?done=created")


@router.get("/rounds/{round_id}")
def show(request: Request, round_id: str, user: CurrentUser, done: str = "", tab: str = "") -> Response:
    """Show a round, as its reader may see it; operators and auditors see results in tabs."""
    return _round_page(request, user, round_id, done=DONE.get(done, ""), tab=tab)


@router.get("/rounds/{round_id}/progress")
def progress(request: Request, round_id: str, user: CurrentUser) -> Response:
    """Return the progress of the settlement as JSON, for the script that polls every two seconds."""
    latest = settlements.progress(context_of(request), user.actor, round_id)
    document = {
        "running": latest.state == "settling",
        "done": latest.done,
        "planned": latest.planned,
        "stage": latest.stage,
        "phase": phase(latest),
        "words": progress_words(latest),
    }
    return JSONResponse(document, headers={"Cache-Control": "no-store"})


@router.post("/rounds/{round_id}/invitation")
def invite(request: Request, round_id: str, user: CurrentUser, form: CsrfForm) -> Response:
    """Let one member see the round, or all of them."""
    context = context_of(request)
    view = rounds.get(context, user.actor, round_id)
    party = form.get("party", "")
    invited = [seat.party for seat in view.seats if seat.invited is None] if form.get("all") == "yes" else [party]
    try:
        for name in invited:
            rounds.invite(context, user.actor, round_id, name)
    except Refusal as refusal:
        return _round_page(request, user, round_id, status=refusal.status, problem=str(refusal))
    return redirect(f"/rounds/{view.id}?done=invited")


@router.post("/rounds/{round_id}/start")
def start(request: Request, round_id: str, user: CurrentUser, form: CsrfForm) -> Response:
    """Start the settlement with the chosen options."""
    require(user.actor, "settle")
    options, errors = parse_options(form)
    if options is None:
        words = "Some options cannot be used; they are marked below."
        return _round_page(request, user, round_id, status=422, problem=words, given=form, errors=errors)
    try:
        settlements.start(context_of(request), user.actor, round_id, options)
    except (NotFound, NotSignedIn):
        raise
    except Refusal as refusal:
        return _round_page(request, user, round_id, status=refusal.status, problem=str(refusal), given=form)
    return redirect(f"/rounds/{round_id}?done=started")


@router.post("/rounds/{round_id}/cancellation")
def cancel(request: Request, round_id: str, user: CurrentUser, form: CsrfForm) -> Response:
    """Cancel the settlement of a round."""
    return _confirmed(request, user, round_id, form, settlements.cancel, "cancelled")


@router.post("/rounds/{round_id}/closing")
def close(request: Request, round_id: str, user: CurrentUser, form: CsrfForm) -> Response:
    """Close a round for good."""
    return _confirmed(request, user, round_id, form, rounds.close, "closed")


@router.post("/rounds/{round_id}/export")
def download_export(request: Request, round_id: str, user: CurrentUser, _: CsrfForm) -> Response:
    """Download an export of the round. This is a form, not a link, because the download is recorded in the log."""
    content = export.export(context_of(request), user.actor, round_id)
    headers = {"Content-Disposition": f'attachment; filename="{round_id}.zip"', "Cache-Control": "no-store"}
    return Response(content, media_type="application/zip", headers=headers)


def parse_options(form: Form) -> tuple[Options | None, dict[str, str]]:
    """Parse the options of a submitted form; if any is invalid, return None and the mistakes by field."""
    document: dict[str, Any] = {name: form.get(name) == "yes" for name in ("deviate", "force")}
    errors: dict[str, str] = {}
    for field in OPTION_FIELDS:
        text = form.get(field.name, "").strip()
        if not text:
            continue
        if field.name == "without":
            document[field.name] = [name.strip() for name in text.split(",") if name.strip()]
            continue
        if field.choices or text == "max":
            document[field.name] = text
            continue
        try:
            document[field.name] = int(text.replace(",", "")) if field.name in _INTEGERS else float(text)
        except ValueError:
            kind = "a whole number" if field.name in _INTEGERS else "a number, written as 0.5"
            errors[field.name] = f"{text[:40]!r} is not {kind}."
    try:
        options = Options.model_validate(document)
    except ValidationError as error:
        for mistake in error.errors(include_url=False):
            name = str(mistake["loc"][0])
            words = _ERROR_WORDS.get(mistake["type"], "cannot be used").format(**mistake.get("ctx", {}))
            errors.setdefault(name, f"{form.get(name, '').strip()[:40]!r} {words}.")
        return None, errors
    return (None if errors else options), errors


def _verdicts(findings: list[dict[str, str]]) -> list[dict[str, str]]:
    """Drop F4, which compares two settlements, while a round has only one."""
    return [finding for finding in findings if finding["code"] != "F4"]


def _confirmed(request: Request, user: User, round_id: str, form: Form, act: Any, done: str) -> Response:
    if form.get("sure") != "yes":
        return _round_page(request, user, round_id, status=422, problem=NOT_CONFIRMED)
    try:
        act(context_of(request), user.actor, round_id)
    except (NotFound, NotSignedIn):
        raise
    except Refusal as refusal:
        return _round_page(request, user, round_id, status=refusal.status, problem=str(refusal))
    return redirect(f"/rounds/{round_id}?done={done}")


def _round_page(
    request: Request,
    user: User,
    round_id: str,
    *,
    status: int = 200,
    done: str = "",
    problem: str = "",
    tab: str = "",
    given: Form | None = None,
    errors: dict[str, str] | None = None,
) -> Response:
    context, actor = context_of(request), user.actor
    assert actor is not None
    view = rounds.get(context, actor, round_id)
    overseer = actor.role in ("operator", "auditor")
    settled = view.state == "settled"
    tab = tab if tab in TABS else next(iter(TABS))
    latest = None if settled else settlements.progress(context, actor, round_id)
    defaults = {
        name: "" if field.default in (None, ()) else str(field.default) for name, field in Options.model_fields.items()
    }
    return render_page(
        request,
        "round.html",
        user,
        status=status,
        done=done,
        problem=problem,
        view=view,
        round_status=round_status(view, actor),
        seat=own_seat(view, actor),
        progress=latest,
        progress_words=progress_words(latest) if latest else "",
        phases=PHASES,
        phase=phase(latest) if latest else 0,
        explanation=explanation(view.agreement),
        tabs=TABS if settled and overseer else {},
        tab=tab,
        report=report_fragment(context, actor, round_id, tab) if settled and overseer else "",
        summary=results.summary(context, actor, round_id) if settled and not overseer else None,
        audit=_verdicts(results.audit(context, actor, round_id)) if settled and not overseer else [],
        receipts=submissions.receipts(context, actor, round_id) if overseer else [],
        fields=OPTION_FIELDS,
        given={**defaults, **(given or {})},
        errors=errors or {},
    )
