"""Forms of pages that were loaded before somebody signed out, or signed in as somebody else: refused, and said why."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

import equipoise as eq
from equipoise_service.db import event_log
from equipoise_service.rules import authentication
from service.pages.dashboard import Browser, World, parsed

SECRET = "equipoise_session"
SURE = {"sure": "yes", "decision": "approve"}
Releases = tuple[eq.Agreement, list[eq.Submission]]
Form = tuple[str, dict[str, str]]


def open_forms(made: World, browser: Browser, round_id: str) -> list[Form]:
    """All forms on the pages of somebody, filled in so that they would do something."""
    person = made.joins("later")
    forms = []
    for page in ("/", "/people", "/rounds/new", f"/rounds/{round_id}", f"/rounds/{round_id}/mine"):
        for form in parsed(browser.get(page).text).forms:
            typed = {"fingerprint": str(person.fingerprint), "agreement": "format = 1", **SURE}
            forms.append((form["action"], {**typed, **form["fields"]}))
    return forms


def signed_in_again(made: World, browser: Browser, name: str) -> None:
    """Sign the browser in, by a link as `equipoise login` prints it."""
    secret = authentication.new_sign_in_secret(made.context, made.actors[name])
    assert browser.fill("/sign-in", "/sign-in", secret=secret).status_code == 303


def log(made: World) -> list[dict[str, Any]]:
    with made.context.database.reading() as session:
        return event_log.documents(session)


def signs_out(_made: World, browser: Browser) -> None:
    assert browser.fill("/", "/sign-out").status_code == 303
    assert SECRET not in browser.cookies


def keeps_the_old_cookie(made: World, browser: Browser) -> None:
    """Send the cookie of a session that has ended, as somebody who recorded a request would."""
    old = browser.cookies[SECRET]
    signs_out(made, browser)
    browser.cookies.set(SECRET, old, domain="127.0.0.1", path="/")


def signs_in_again(made: World, browser: Browser) -> None:
    signs_out(made, browser)
    signed_in_again(made, browser, "second")


def becomes_somebody_else(made: World, browser: Browser) -> None:
    """Without signing out first, in another tab."""
    signed_in_again(made, browser, "auditor")


def becomes_another_operator(made: World, browser: Browser) -> None:
    signed_in_again(made, browser, "third")


@pytest.mark.parametrize(
    ("meanwhile", "status", "title"),
    [
        (signs_out, 401, "Please sign in"),
        (keeps_the_old_cookie, 401, "Please sign in"),
        (signs_in_again, 403, "This page is out of date"),
        (becomes_somebody_else, 403, "This page is out of date"),
        (becomes_another_operator, 403, "This page is out of date"),
    ],
)
def test_old_forms_do_nothing_and_say_so(
    fresh: World,
    releases: Releases,
    meanwhile: Callable[[World, Browser], None],
    status: int,
    title: str,
) -> None:
    agreed, submissions = releases
    round_id = fresh.round_with(submissions, agreed)
    for name in ("second", "third"):
        fresh.member(name, "operator")
    browser = fresh.browser("second")
    forms = open_forms(fresh, browser, round_id)
    north = fresh.browser("north")
    forms += open_forms(fresh, north, round_id)
    actions = {action for action, _ in forms}
    assert len(actions) >= 8, actions
    meanwhile(fresh, browser)
    before = log(fresh)
    for action, fields in forms:
        answer: httpx.Response = browser.post(action, fields)
        assert answer.status_code == status, action
        page = parsed(answer.text)
        assert title in page.text
        assert "Nothing was changed" in page.text
        assert "set-cookie" not in answer.headers
    assert log(fresh) == before
