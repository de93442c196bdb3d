"""The dashboard in a real browser: from the one-time link to what a party gets, on a screen and on a phone."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from e2e import chromium
from e2e.chromium import Browser
from e2e.looking import look_at
from e2e.processes import Server
from e2e.stage import AGREEMENT, EPSILONS, OPTIONS, Stage

pytestmark = [
    pytest.mark.slow,
    pytest.mark.engine,
    pytest.mark.process,
    pytest.mark.skipif(chromium.program() is None, reason="Chromium is not installed: make test-packages"),
]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as opened:
        yield opened


def _sign_in(browser: Browser, link: str) -> None:
    browser.open("about:blank")  # from one fragment to another is no new page
    browser.open(link)
    assert "#" not in str(browser.run("location.href"))
    browser.press("Sign in")


def test_a_round_in_the_browser(stage: Stage, browser: Browser) -> None:
    with Server(stage.folder / "server") as server:
        _the_operator_comes(browser, server)
        _people_are_let_in(browser, server, stage)
        _a_round_is_opened(browser, server, stage)
        stage.submit()
        _it_is_settled(browser, server, stage)
        browser.open(f"{server.url}/")
        browser.press("Sign out")
        _sign_in(browser, stage.parties["north"].do("login")["url"])
        _a_party_looks(browser, server, stage)

        here = urlsplit(server.url).netloc
        asked = [urlsplit(one) for one in browser.requests]
        assert {one.netloc for one in asked if one.scheme.startswith("http")} == {here}
        assert [one for one in browser.complaints if not re.search("status of (403|404|422)", one)] == []


def _the_operator_comes(browser: Browser, server: Server) -> None:
    assert server.operator_link is not None
    browser.open(server.url)
    look_at(browser, "welcome")
    browser.open(server.operator_link)
    look_at(browser, "first")
    browser.fill("name", "ana")
    browser.press("Become the operator")
    assert "ana" in browser.text()
    look_at(browser, "empty")


def _people_are_let_in(browser: Browser, server: Server, stage: Stage) -> None:
    told = {name: home.do("join", server.url, "--party", name) for name, home in stage.parties.items()}
    browser.open(f"{server.url}/people")
    look_at(browser, "people")
    for name, joined in told.items():
        browser.run(
            f"document.querySelector('[aria-label=\"Fingerprint of {name}\"]').closest('li')"
            f".querySelector('input.code').value = '{joined['fingerprint']}'"
        )
        browser.press(f"Approve {name}")
    assert "Approved (4)" in browser.text()


def _a_round_is_opened(browser: Browser, server: Server, stage: Stage) -> None:
    browser.open(f"{server.url}/rounds/new")
    browser.fill("agreement", AGREEMENT.replace("bounds", "bonds"))
    browser.press("Create the round")
    assert "bonds" in browser.text()
    look_at(browser, "mistakes")
    browser.fill("agreement", AGREEMENT)
    browser.press("Create the round")
    stage.round = str(browser.run("location.pathname")).rsplit("/", 1)[1]
    look_at(browser, "open")


def _it_is_settled(browser: Browser, server: Server, stage: Stage) -> None:
    browser.open(f"{server.url}/rounds/{stage.round}")
    for epsilon in EPSILONS.values():
        assert f"{epsilon:g}" in browser.text()
    for name, value in OPTIONS.items():
        browser.fill(name, str(value))
    browser.press("Start the settlement")
    look_at(browser, "settling")
    browser.wait_for("Shapley", 240)  # the page renews itself
    look_at(browser, "settled")
    browser.open(f"{server.url}/events?verify=1")
    assert "intact" in browser.text()
    look_at(browser, "events")


def _a_party_looks(browser: Browser, server: Server, stage: Stage) -> None:
    browser.open(f"{server.url}/rounds/{stage.round}")
    assert "not shown" in browser.text()  # the others' ε
    look_at(browser, "party")
    browser.open(f"{server.url}/rounds/{stage.round}/mine")
    look_at(browser, "mine")
    _it_predicts_at_home(browser, stage)
    browser.open(f"{server.url}/people")
    assert "Approved" not in browser.text()


def _it_predicts_at_home(browser: Browser, stage: Stage) -> None:
    """By the commands that the page shows; there is no field to type a row into, and nothing is sent meanwhile."""
    assert browser.run('document.querySelectorAll("textarea, select, input:not([type=hidden])").length') == 0
    before = list(browser.requests)
    home = stage.parties["north"]
    shown = str(browser.run('document.querySelector("#use").parentElement.querySelector("pre code").innerText'))
    for line in shown.splitlines():
        name, *arguments = line.replace("TABLE.csv", "north.csv").split()
        assert name == "equipoise"
        home.do(*arguments)
    assert (home.folder / "north.nc").exists()
    assert "Combine it with your own rows" in browser.text()  # which also hears of all requests until now
    assert browser.requests == before
    old = f"/rounds/{stage.round}/mine/prediction"
    assert browser.run(f'fetch("{old}", {{method: "POST", body: "feature-0=64"}}).then(r => r.status)') == 404
