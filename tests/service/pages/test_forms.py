"""What forms do, and who may send them."""

import re
from urllib.parse import quote

import pytest

import equipoise as eq
from equipoise_service.rules import authentication, people, rounds, settlements
from equipoise_service.settings import Settings
from equipoise_service.web.app import create_app
from service.pages.dashboard import Browser, World, parsed, routes

SECRET = "equipoise_session"
Releases = tuple[eq.Agreement, list[eq.Submission]]


def token(made: World, name: str) -> str:
    return str(parsed(made.browser(name).get("/").text).forms[0]["fields"]["token"])


def state(made: World, round_id: str) -> str:
    return rounds.get(made.context, made.actors["operator"], round_id).state


def test_first_operator_comes_by_the_link_once(fresh: World) -> None:
    secret = people.first_operator_secret(fresh.context)
    browser = fresh.browser()
    assert secret not in browser.get("/first").text
    wrong = browser.fill("/first", "/first", secret=secret, name="two words")
    assert wrong.status_code == 422
    assert "two words" in wrong.text
    assert secret not in wrong.text
    answer = browser.fill("/first", "/first", secret=secret, name="ann")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "Secure" not in cookie  # the address is http
    assert "ann" in browser.get("/").text
    again = fresh.browser().fill("/first", "/first", secret=secret, name="eve")
    assert again.status_code == 401
    assert "set-cookie" not in again.headers


def test_cookie_is_for_tls_alone_where_the_address_is(fresh: World) -> None:
    address = "https://rounds.example.org"
    browser = Browser(create_app(fresh.context, Settings(public_url=address)))
    secret = people.first_operator_secret(fresh.context)
    form = {"secret": secret, "name": "gertrude"}
    here = {"host": "rounds.example.org", "origin": address}
    answer = browser.post("/first", form, **here)
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"__Host-{SECRET}=")
    assert "Secure" in cookie
    assert "Path=/;" in cookie
    assert "domain" not in cookie.lower()
    session = cookie.partition(";")[0]
    home = parsed(browser.get("/", cookie=session, **here).text)
    assert "gertrude" in home.text
    plain = session.removeprefix("__Host-")  # which a neighbour could set
    assert "gertrude" not in browser.get("/", cookie=plain, **here).text
    fields = home.forms[0]["fields"]
    gone = browser.post("/sign-out", fields, cookie=session, **here).headers["set-cookie"]
    assert gone.startswith(f"__Host-{SECRET}=")
    assert "Secure" in gone  # browsers would not take it otherwise


def test_becoming_operator_ends_an_earlier_session(fresh: World) -> None:
    browser = fresh.browser("auditor")
    earlier = browser.cookies[SECRET]
    secret = people.first_operator_secret(fresh.context)
    assert browser.fill("/first", "/first", secret=secret, name="gertrude").status_code == 303
    assert "gertrude" in browser.get("/").text
    old = fresh.browser()
    old.cookies.set(SECRET, earlier, domain="127.0.0.1", path="/")
    assert "equipoise join" in old.get("/").text


def test_an_operator_without_a_key_enrols_one(fresh: World) -> None:
    browser = fresh.browser("operator")
    assert "You have no key yet" in browser.get("/").text
    asked = fresh.joins("operator", "operator")
    assert "Is this you?" in browser.get("/people").text
    assert "Is this you?" not in fresh.browser("auditor").get("/people").text
    form = {"decision": "approve", "fingerprint": str(asked.fingerprint)}
    answer = browser.fill("/people", f"/people/{asked.id}/decision", form, where={"decision": "approve"})
    assert answer.headers["location"] == "/people?done=approved"
    assert "You have no key yet" not in browser.get("/").text
    assert browser.fill("/", "/sign-out").status_code == 303
    me = authentication.actor_of_key(fresh.context, str(asked.public_key))
    secret = authentication.new_sign_in_secret(fresh.context, me)
    assert browser.fill("/sign-in", "/sign-in", secret=secret).status_code == 303
    assert "Create a round" in browser.get("/").text


def test_nobody_tries_often(fresh: World) -> None:
    browser = fresh.browser()
    answers = [browser.post("/sign-in", {"secret": "guess"}) for _ in range(25)]
    assert {one.status_code for one in answers} == {401, 429}
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert "Slow down" in answers[-1].text


def test_sign_in_and_out(fresh: World) -> None:
    from equipoise_service.rules import authentication

    fresh.member("north")
    secret = authentication.new_sign_in_secret(fresh.context, fresh.actors["north"])
    browser = fresh.browser()
    assert browser.fill("/sign-in", "/sign-in", secret=secret).status_code == 303
    assert "No round for you yet" in browser.get("/").text
    assert fresh.browser().fill("/sign-in", "/sign-in", secret=secret).status_code == 401
    session = browser.cookies[SECRET]
    assert session not in browser.get("/").text
    assert browser.fill("/", "/sign-out").status_code == 303
    old = fresh.browser()
    old.cookies.set(SECRET, session, domain="127.0.0.1", path="/")
    assert "equipoise join" in old.get("/").text  # it is gone in the database as well


def test_every_form_needs_the_sessions_own_token(fresh: World, releases: Releases) -> None:
    agreed, submissions = releases
    round_id = fresh.round_with(submissions, agreed)
    person = fresh.joins("later")
    operator, north = fresh.browser("operator"), fresh.browser("north")
    forms = [
        (operator, "/sign-out", {}),
        (operator, f"/people/{person.id}/decision", {"decision": "approve", "fingerprint": str(person.fingerprint)}),
        (operator, f"/people/{fresh.actors['north'].person_id}/revocation", {"sure": "yes"}),
        (operator, "/people/clearing", {"sure": "yes", "before": "1"}),
        (operator, "/rounds/new", {"agreement": "format = 1"}),
        (operator, f"/rounds/{round_id}/invitation", {"party": "north"}),
        (operator, f"/rounds/{round_id}/start", {}),
        (operator, f"/rounds/{round_id}/cancellation", {"sure": "yes"}),
        (operator, f"/rounds/{round_id}/closing", {"sure": "yes"}),
        (operator, f"/rounds/{round_id}/export", {}),
        (north, f"/rounds/{round_id}/mine/reward", {}),
    ]
    everywhere = {route.path for route in routes() if "POST" in (route.methods or ())}
    reached = {
        re.sub(r"/people/\d+", "/people/{person_id}", one).replace(round_id, "{round_id}") for _, one, _ in forms
    }
    assert everywhere == reached | {"/first", "/sign-in"}  # these begin a session
    others = token(fresh, "auditor")
    for browser, path, form in forms:
        for given in ({}, {"token": ""}, {"token": others}):
            assert browser.post(path, {**form, **given}).status_code == 403, path
    assert state(fresh, round_id) == "open"
    assert people.list_people(fresh.context, fresh.actors["operator"])[0].state == "requested"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "", "referer": "https://evil.example/127.0.0.1:8351"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_forms_of_other_sites_are_refused(looked_at: tuple[World, str], headers: dict[str, str]) -> None:
    made, _ = looked_at
    browser = made.browser("operator")
    answer = browser.post("/sign-out", {"token": "x"}, **headers)
    assert answer.status_code == 403
    assert "another site" in answer.text
    assert made.browser().post("/sign-in", {"secret": "x"}, **headers).status_code == 403


def test_forms_of_other_kinds_and_lengths_are_refused(looked_at: tuple[World, str]) -> None:
    made, _ = looked_at
    browser = made.browser()
    assert browser.post("/sign-in", {}, **{"content-type": "multipart/form-data"}).status_code == 422
    assert browser.post("/sign-in", {"secret": "x" * 1_100_000}).status_code == 413
    assert browser.post("/sign-in", {str(place): "" for place in range(1_100)}).status_code == 422


def test_approve_by_fingerprint(fresh: World) -> None:
    asked = fresh.joins("north", note="ours")
    wrong = fresh.joins("north")
    operator = fresh.browser("operator")
    action = f"/people/{asked.id}/decision"
    other = operator.fill("/people", action, where={"decision": "approve"}, fingerprint=str(wrong.fingerprint))
    assert other.status_code == 409
    assert str(wrong.fingerprint) in other.text  # what was typed is kept
    given = str(asked.fingerprint).upper().replace("-", " ")
    done = operator.fill("/people", action, where={"decision": "approve"}, fingerprint=given)
    assert done.headers["location"] == "/people?done=approved"
    assert "Approved." in operator.get(done.headers["location"]).text
    refused = operator.fill("/people", f"/people/{wrong.id}/decision", where={"decision": "refuse"})
    assert refused.status_code == 303
    found = {one.id: one.state for one in people.list_people(fresh.context, fresh.actors["operator"])}
    assert (found[asked.id], found[wrong.id]) == ("approved", "refused")
    action = f"/people/{asked.id}/revocation"
    assert operator.fill("/people", action).status_code == 422  # not sure
    assert operator.fill("/people", action, sure="yes").status_code == 303


def test_round_from_pasted_agreement_with_mistakes_named(fresh: World, releases: Releases) -> None:
    operator = fresh.browser("operator")
    text = 'format = 1\n[model]\nkind = "linear"\nfeature = []\n# <b>kept</b>\n'
    wrong = operator.fill("/rounds/new", "/rounds/new", agreement=text)
    assert wrong.status_code == 422
    page = parsed(wrong.text)
    assert "did you mean 'features'?" in page.text
    assert "privacy is missing" in page.text
    assert "<b>kept</b>" in page.text
    assert "<b>kept" not in wrong.text
    good = 'format = 1\ntitle = "Spring"\n[model]\nkind = "gaussian"\ntarget = { name = "y", bounds = [0, 1] }\n'
    good += '[privacy]\nmax_epsilon = 1.0\n[[parties]]\nname = "north"\n[[parties]]\nname = "south"\n'
    made = operator.fill("/rounds/new", "/rounds/new", agreement=good)
    place = made.headers["location"].partition("?")[0]
    page = parsed(operator.get(place).text)
    assert "north and south cannot see the round yet" in page.text
    assert operator.fill(place, f"{place}/invitation", party="north").status_code == 303
    assert operator.fill(place, f"{place}/invitation", party="nobody").status_code == 404
    assert operator.fill(place, f"{place}/invitation", all="yes").status_code == 303
    assert "Wait for the first submission" in operator.get(place).text
    assert operator.fill(place, f"{place}/closing").status_code == 422
    assert operator.fill(place, f"{place}/closing", sure="yes").status_code == 303
    assert "Closed without a settlement" in operator.get("/").text


def test_start_watch_cancel_export(fresh: World, releases: Releases) -> None:
    from equipoise_service.db.tables import Job

    agreed, submissions = releases
    round_id = fresh.round_with(submissions[:2], agreed)
    place = f"/rounds/{round_id}"
    operator, north = fresh.browser("operator"), fresh.browser("north")
    assert "Wait for west, or settle without" in operator.get("/").text
    wrong = operator.fill(place, f"{place}/start", rho="7", precision="much", draws="10")
    assert wrong.status_code == 422
    page = parsed(wrong.text)
    assert "'7' must be 1 or less" in page.text
    assert "'much' is not a number" in page.text
    assert "'10' must be 100 or more" in page.text
    invalid = {one.get("name"): one for one in page.all("input") if one.get("aria-invalid")}
    assert set(invalid) == {"rho", "precision", "draws"}
    assert invalid["rho"]["value"] == "7"
    assert operator.fill(place, f"{place}/start", rho="0.5", mechanism="tempering").status_code == 303
    assert operator.post(f"{place}/start", {"token": token(fresh, "operator")}).status_code == 403
    with fresh.context.database.writing() as session:
        job = session.query(Job).filter_by(round_id=round_id).one()
        job.state, job.stage, job.planned, job.finished_of_planned = "running", "valuing coalitions", 40, 10
        job.stage_began = job.began = fresh.context.clock() - 60_000
    for browser in (operator, north):
        page = parsed(browser.get(place).text)
        assert "10 of 40 done, about 3 minutes left" in page.text
        bar = next(one for one in page.all("progress") if "aria-labelledby" in one)
        assert (bar["value"], bar["max"]) == ("10", "40")
        found = browser.get(f"{place}/progress").json()
        assert (found["running"], found["done"], found["planned"], found["phase"]) == (True, 10, 40, 1)
        assert [one for one in page.all("li") if one.get("aria-current") == "step"]
    assert operator.fill(place, f"{place}/cancellation").status_code == 422
    assert state(fresh, round_id) == "settling"
    assert operator.fill(place, f"{place}/cancellation", sure="yes").status_code == 303
    assert operator.get(f"{place}/progress").json()["running"] is False
    export = operator.fill(place, f"{place}/export")
    assert export.headers["content-type"] == "application/zip"
    assert export.content[:2] == b"PK"


def test_a_failed_settlement_says_why_to_the_operator_alone(fresh: World, releases: Releases) -> None:
    from equipoise_service.db.tables import Job, Round
    from equipoise_service.options import Options

    agreed, submissions = releases
    round_id = fresh.round_with(submissions, agreed)
    settlements.start(fresh.context, fresh.actors["operator"], round_id, Options())
    with fresh.context.database.writing() as session:
        job = session.query(Job).filter_by(round_id=round_id).one()
        job.state, job.problem = "failed", "Chains of north disagree"
        session.get_one(Round, round_id).state = "open"
    assert "Chains of north disagree" in fresh.browser("operator").get(f"/rounds/{round_id}").text
    assert "Chains of north disagree" not in fresh.browser("south").get(f"/rounds/{round_id}").text


def test_start_button_names_who_is_missing(fresh: World, releases: Releases) -> None:
    agreed, submissions = releases
    buttons = []
    for count in range(len(submissions) + 1):
        made = fresh.round_with(submissions[:count], agreed)
        page = fresh.browser("operator").get(f"/rounds/{made}").text
        buttons += re.findall(r"<button type=\"submit\"([^>]*)>(Start [^<]*)</button>", page)
    assert buttons == [
        (" disabled", "Start the settlement"),
        (' class="quiet"', "Start without south and west"),
        (' class="quiet"', "Start without west"),
        ("", "Start the settlement"),
    ]


def test_log_names_people(fresh: World, releases: Releases) -> None:
    agreed, submissions = releases
    fresh.round_with(submissions, agreed)
    log = parsed(fresh.browser("auditor").get("/events").text).text
    for words in (
        "operator became operator by the one-time link",
        "north asked to join as party",
        "operator approved north as party",
        "operator created a round",
        "south submitted",
    ):
        assert words in log, words
    assert "omebody" not in log


def test_log_is_paged_and_checked_on_request(fresh: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from equipoise_service.web.pages import events

    monkeypatch.setattr(events, "ON_A_PAGE", 4)
    for number in range(5):
        fresh.joins(f"p{number}")
    auditor = fresh.browser("auditor")
    first = parsed(auditor.get("/events").text)
    numbers = [int(one["value"]) for one in first.all("li") if "value" in one]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == 4
    seen, older = set(numbers), f"/events?before={numbers[-1]}"
    while older:
        page = parsed(auditor.get(older).text)
        seen |= {int(one["value"]) for one in page.all("li") if "value" in one}
        older = next((one["href"] for one in page.all("a") if one["href"].startswith("/events?before=")), "")
    assert seen == set(range(1, numbers[0] + 1))
    assert f"The chain of {numbers[0]} events is intact" in parsed(auditor.get("/events?verify=1").text).text
    assert "intact" not in parsed(auditor.get("/events").text).text
    for odd in ("0", "-5", "99999999999999999999", "1e3", quote("<b>")):
        assert auditor.get(f"/events?before={odd}").status_code in (200, 422)
