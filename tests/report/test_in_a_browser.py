"""Reports in a real browser: they stand by themselves, fit a screen and a phone, and can be read in light and dark."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import equipoise as eq
from e2e import chromium
from e2e.chromium import Browser
from e2e.looking import look_at
from equipoise.mediation.settlement import Settlement
from equipoise.report import write_report
from equipoise.report.home import write_comparison
from report.conftest import renamed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.process,
    pytest.mark.skipif(chromium.program() is None, reason="Chromium is not installed: make test-packages"),
]


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path / "profile") as opened:
        yield opened


def look_at_file(browser: Browser, path: Path, name: str, *words: str) -> None:
    """Open a page from the disk: it asks for nothing else, complains of nothing, and says what it should."""
    browser.requests.clear()
    browser.open(path.as_uri())
    look_at(browser, name)
    for word in words:
        assert word in browser.text()
    fetched = [address for address in browser.requests if not address.startswith(("file:", "data:"))]
    assert fetched == []
    assert browser.complaints == []
    # Every chart is drawn, and every link within the page leads somewhere.
    assert browser.run("[...document.querySelectorAll('svg')].every(one => one.getBoundingClientRect().width > 50)")
    broken = "[...document.querySelectorAll('a[href^=\"#\"]')].filter(a => !document.querySelector(a.hash)).length"
    assert browser.run(broken) == 0


def test_both_editions_of_the_report(settled: Settlement, browser: Browser, tmp_path: Path) -> None:
    write_report(settled, tmp_path / "report.html")
    look_at_file(browser, tmp_path / "report.html", "report-operator", *settled.parties)
    write_report(settled, tmp_path / "south.html", party="south")
    look_at_file(browser, tmp_path / "south.html", "report-party", "south")


def test_names_as_long_as_they_can_be(settled: Settlement, browser: Browser, tmp_path: Path) -> None:
    names = {party: f"{party}-{'long-name-' * 6}"[:64] for party in settled.parties}
    write_report(renamed(settled, names), tmp_path / "report.html")
    look_at_file(browser, tmp_path / "report.html", "report-long-names", *names.values())


def test_the_page_of_models_at_home(browser: Browser, tmp_path: Path) -> None:
    losses = {"own rows": eq.Estimate(5.2, 0.04), "reward": eq.Estimate(5.21, 0.03), "both": eq.Estimate(5.19, 0.04)}
    gains = {"reward": eq.Estimate(-0.01, 0.01), "both": eq.Estimate(0.003, 0.002)}
    found = eq.Comparison("north", 400, 5, losses, gains)
    write_comparison(tmp_path / "home.html", "north", losses, found.summary(), found.verdict, found.best)
    look_at_file(browser, tmp_path / "home.html", "at-home", "For north alone", "cannot be told")
