"""Each page by each role: what is shown, and what must not be."""

import re

import pytest

from equipoise.mediation.settlement import Settlement
from equipoise_service.web.reports import TABS
from service.pages.dashboard import EPSILONS, HOSTILE, ROWS, World, parsed

Looked = tuple[World, str]


def test_strangers_learn_what_this_is_and_nothing_else(looked_at: Looked) -> None:
    made, round_id = looked_at
    front = made.browser().get("/")
    assert front.status_code == 200
    assert "equipoise join http://127.0.0.1:8351" in front.text
    for path in ("/people", "/events", "/rounds/new", f"/rounds/{round_id}", f"/rounds/{round_id}/mine"):
        answer = made.browser().get(path)
        assert answer.status_code == 401, path
        assert "equipoise login" in answer.text
        assert "north" not in answer.text


def test_operator_sees_everything_of_a_settled_round(looked_at: Looked, settlement: Settlement) -> None:
    made, round_id = looked_at
    browser = made.browser("operator")
    pages = {tab: browser.get(f"/rounds/{round_id}?tab={tab}") for tab in TABS}
    assert {page.status_code for page in pages.values()} == {200}
    text = "".join(parsed(page.text).text for page in pages.values())
    for party in EPSILONS:
        assert f"{EPSILONS[party]}" in text
        assert f"{ROWS[party]:,}" in text
    assert settlement.decisions in text
    assert "Are the promises kept?" in text
    assert "ρ" in text
    assert sum(page.text.count("<svg") for page in pages.values()) >= 4
    for tab, words in (("result", "What each party gets"), ("model", "What is learnt"), ("audit", "Receipts")):
        shown = {one for one, page in pages.items() if f">{words}</h2>" in page.text}
        assert shown == {tab}, words
    assert "Export the round" in pages["files"].text
    for query in ("", "?tab=x"):
        assert browser.get(f"/rounds/{round_id}{query}").text == pages["result"].text


def test_auditor_sees_reasons_and_receipts_and_can_do_nothing(looked_at: Looked, settlement: Settlement) -> None:
    made, round_id = looked_at
    browser = made.browser("auditor")
    for tab in TABS:
        forms = parsed(browser.get(f"/rounds/{round_id}?tab={tab}").text).forms
        assert [form["action"] for form in forms] == ["/sign-out"]
    audit = browser.get(f"/rounds/{round_id}?tab=audit").text
    page = parsed(audit)
    assert settlement.audit.findings[0].reason in page.text
    for contribution in settlement.contributions.values():
        assert f"{contribution.digest[:12]}…" in page.text
        assert contribution.digest in audit
    people = parsed(browser.get("/people").text)
    assert [form["action"] for form in people.forms] == ["/sign-out"]
    for path, action in (("start", {}), ("cancellation", {"sure": "yes"}), ("export", {})):
        token = page.forms[0]["fields"]["token"]
        answer = browser.post(f"/rounds/{round_id}/{path}", {"token": token, **action})
        assert answer.status_code == 403, path


def test_party_sees_its_own_numbers_and_nobody_elses(looked_at: Looked, settlement: Settlement) -> None:
    made, round_id = looked_at
    browser = made.browser("south")
    pages = {path: browser.get(path).text for path in ("/", f"/rounds/{round_id}", f"/rounds/{round_id}/mine")}
    own = pages[f"/rounds/{round_id}/mine"]
    assert str(EPSILONS["south"]) in own
    assert f"{ROWS['south']:,}" in own
    assert settlement.awards["south"].digest in own
    assert settlement.contributions["south"].digest in own
    award = settlement.awards["south"]
    numbers = (settlement.shapley["south"], award.alone, award.target, award.attained, settlement.value(*award.team))
    mine = {f"{one.value:.2f}" for one in numbers}  # which may be written like another's
    for path, text in pages.items():
        words = re.sub(r' (d|x|y|points|transform)="[^"]*"', "", text)  # where marks are drawn
        for other in ("north", "west"):
            award, contribution = settlement.awards[other], settlement.contributions[other]
            secrets = (
                str(EPSILONS[other]),
                f"{EPSILONS[other]:.3g}",
                str(ROWS[other]),
                f"{ROWS[other]:,}",
                award.digest,
                contribution.digest,
                contribution.submission,
                f"{settlement.shapley[other].value:.2f}",
                f"{award.alone.value:.2f}",
            )
            for secret in set(secrets) - mine:
                assert not re.search(rf"(?<![\w.]){re.escape(secret)}", words), (path, other, secret)
    assert settlement.audit.findings[0].reason not in own


def test_the_search_for_others_numbers_would_find_them(looked_at: Looked) -> None:
    made, round_id = looked_at
    text = made.browser("auditor").get(f"/rounds/{round_id}").text
    for party in EPSILONS:
        assert re.search(rf"(?<![\w.]){EPSILONS[party]}", text)
        assert re.search(rf"(?<![\w.]){ROWS[party]:,}", text)


def test_party_has_no_way_to_people_log_or_others(looked_at: Looked) -> None:
    made, round_id = looked_at
    browser = made.browser("south")
    assert browser.get("/people").status_code == 403
    assert browser.get("/events").status_code == 403
    assert browser.get("/rounds/new").status_code == 403
    page = browser.get(f"/rounds/{round_id}").text
    assert 'href="/people"' not in page
    assert "/start" not in page


def test_round_of_others_looks_like_none(looked_at: Looked) -> None:
    made, round_id = looked_at
    made.member("stranger")
    browser = made.browser("stranger")
    assert "No round for you yet" in browser.get("/").text
    for tail in ("", "/mine", "/progress", "/mine/reward", "/mine/receipt"):
        path = f"/rounds/{{}}{tail}"
        theirs, nobodys = browser.get(path.format(round_id)), browser.get(path.format("nowhere00000"))
        assert theirs.status_code == nobodys.status_code
        assert theirs.status_code in (404, 405)
        assert parsed(theirs.text).text.replace(round_id, "") == parsed(nobodys.text).text.replace("nowhere00000", "")


def test_operator_has_no_page_of_a_partys_own(looked_at: Looked) -> None:
    made, round_id = looked_at
    browser = made.browser("operator")
    token = parsed(browser.get("/").text).forms[0]["fields"]["token"]
    assert browser.get(f"/rounds/{round_id}/mine").status_code == 403
    assert browser.post(f"/rounds/{round_id}/mine/reward", {"token": token}).status_code == 403


def test_hostile_words_are_escaped(looked_at: Looked) -> None:
    made, round_id = looked_at
    note = "<img src=x onerror=alert(1)>"
    made.joins("noted", note=note)
    operator, south = made.browser("operator"), made.browser("south")
    pages = [operator.get(path).text for path in ("/", f"/rounds/{round_id}", "/people", "/events")]
    pages += [south.get(path).text for path in ("/", f"/rounds/{round_id}", f"/rounds/{round_id}/mine")]
    for text in pages:
        assert "<script>alert" not in text
        assert "<img" not in text
    assert HOSTILE in parsed(pages[0]).text
    assert note in parsed(pages[2]).text


@pytest.mark.parametrize("name", ["operator", "auditor", "south"])
def test_home_says_what_to_do_next(looked_at: Looked, name: str) -> None:
    made, _ = looked_at
    text = parsed(made.browser(name).get("/").text).text
    assert "3 of 3 submitted" in text
    word = {"operator": "See the results", "auditor": "See the audit", "south": "See what you get and why"}[name]
    assert word in text


def test_own_files_come_byte_for_byte(looked_at: Looked) -> None:
    from equipoise_service.rules import results, submissions

    made, round_id = looked_at
    browser, actor = made.browser("west"), made.actors["west"]
    receipt = browser.get(f"/rounds/{round_id}/mine/receipt")
    assert receipt.content == submissions.receipt(made.context, actor, round_id).to_json()
    assert 'filename="west-receipt.json"' in receipt.headers["content-disposition"]
    assert browser.get(f"/rounds/{round_id}/mine/submission").content == submissions.own_submission(
        made.context, actor, round_id
    )
    reward = browser.fill(f"/rounds/{round_id}/mine", f"/rounds/{round_id}/mine/reward")
    assert reward.content == results.reward(made.context, actor, round_id)
    assert reward.headers["content-type"] == "application/x-netcdf"
