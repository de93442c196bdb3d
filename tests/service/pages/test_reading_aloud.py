"""What every page owes its readers: sound HTML, labels, headings in order, links that lead somewhere, contrast."""

import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from equipoise_service.web.pages.rendering import _static_content
from service.pages.dashboard import Browser, World, agreement, parsed, routes

Looked = tuple[World, str]
TEXT_PAIRS = [
    ("ink", "paper"),
    ("ink", "wash"),
    ("faint", "paper"),
    ("faint", "wash"),
    ("link", "paper"),
    ("link", "wash"),
    ("on-link", "link"),
    ("on-danger", "danger"),
    ("fails", "paper"),
    ("ink", "holds-wash"),
    ("ink", "fails-wash"),
    ("ink", "unsure-wash"),
    ("holds", "holds-wash"),
    ("fails", "fails-wash"),
    ("unsure", "unsure-wash"),
]
EDGE_PAIRS = [("edge", "paper"), ("edge", "wash"), ("link", "paper"), ("fails", "paper")]


@pytest.fixture(scope="module")
def pages(looked_at: Looked) -> dict[str, str]:
    """All pages, by who looks at what; some in the state after a mistake."""
    made, round_id = looked_at
    found: dict[str, str] = {}
    for name in (None, "operator", "auditor", "west"):
        browser = made.browser(name)
        for path in paths(round_id):
            found[f"{name} {path}"] = browser.get(path).text
    operator = made.browser("operator")
    waiting = made.joins("waiting", note="a note")
    found["people"] = operator.get("/people").text
    wrong = {"decision": "approve", "fingerprint": "12"}
    found["wrong fingerprint"] = _post(operator, f"/people/{waiting.id}/decision", wrong)
    found["wrong agreement"] = _post(operator, "/rounds/new", {"agreement": "format = 2"})
    made_round = made.round_with([], agreement("linear", "Open"), invite=False)
    found["open"] = operator.get(f"/rounds/{made_round}").text
    found["wrong options"] = _post(operator, f"/rounds/{made_round}/start", {"rho": "9"})
    return found


def paths(round_id: str) -> Iterator[str]:
    yield from ("/", "/first", "/sign-in", "/people", "/events", "/events?verify=1", "/rounds/new", "/nowhere")
    yield from (
        f"/rounds/{round_id}{tail}"
        for tail in (
            "",
            "?tab=model",
            "?tab=audit",
            "?tab=files",
            "/mine",
            "/mine?tab=model",
            "/mine?tab=audit",
            "/mine?tab=files",
        )
    )


def _post(browser: Browser, path: str, form: dict[str, str]) -> str:
    token = parsed(browser.get("/").text).forms[0]["fields"]["token"]
    return browser.post(path, {"token": token, **form}).text


def test_pages_are_sound(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        page = parsed(text)
        ids = [found["id"] for _, found in page.tags if "id" in found]
        assert len(ids) == len(set(ids)), name
        assert [len(page.all(tag)) for tag in ("main", "header", "footer", "h1", "title")] == [1] * 5, name
        assert page.all("html")[0]["lang"] == "en"
        assert page.all("a")[0]["href"] == "#main"
        for attribute in ("aria-labelledby", "aria-describedby", "for"):
            for _, found in page.tags:
                assert set(found.get(attribute, "").split()) <= set(ids), (name, attribute, found)


def test_headings_go_down_one_at_a_time(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        levels = parsed(text).headings
        assert levels[0] == 1, name
        assert all(after <= before + 1 for before, after in pairwise(levels)), (name, levels)


def test_every_field_has_a_label(pages: dict[str, str]) -> None:
    fields = 0
    for name, text in pages.items():
        page = parsed(text)
        labels = {one["for"] for one in page.all("label")}
        for tag in ("input", "select", "textarea"):
            for one in page.all(tag):
                if one.get("type") != "hidden":
                    assert one["id"] in labels, (name, one)
                    fields += 1
    assert fields > 20


def test_nothing_in_pages_is_styled_or_run_within_them(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        page = parsed(text)
        assert not page.all("style"), name
        assert [set(one) for one in page.all("script")] == [{"src", "defer"}], name
        for tag, found in page.tags:
            assert not [one for one in found if one == "style" or one.startswith("on")], (name, tag, found)
            for attribute in ("href", "src", "action"):
                assert not re.match(r"(?i)\s*(https?:|//|javascript:)", found.get(attribute, "")), (name, found)


def test_links_and_forms_lead_somewhere(pages: dict[str, str]) -> None:
    known = {
        method: [
            re.compile(re.sub(r"\{\w+\}", "[^/]+", one.path) + "$") for one in routes() if method in (one.methods or ())
        ]
        for method in ("GET", "POST")
    }
    for name, text in pages.items():
        page = parsed(text)
        ids = {found["id"] for _, found in page.tags if "id" in found}
        for one in page.all("a"):
            place = one["href"].partition("?")[0]
            if place.startswith("#"):
                assert place[1:] in ids, (name, place)
            else:
                assert any(route.match(place) for route in known["GET"]), (name, place)
        for form in page.forms:
            assert form["method"] == "post"
            assert any(route.match(form["action"]) for route in known["POST"]), (name, form)


def test_pages_are_kept_by_nobody_and_static_files_for_good(looked_at: Looked) -> None:
    made, _ = looked_at
    answer = made.browser("operator").get("/")
    assert answer.headers["cache-control"] == "no-store"
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "same-origin"
    page = parsed(answer.text)
    for place in (page.all("script")[0]["src"], page.all("link")[1]["href"]):
        file = made.browser().get(place)
        assert file.status_code == 200
        assert "immutable" in file.headers["cache-control"]
        assert made.browser().get(place.replace(".", ".0", 1)).status_code == 404
    assert made.browser().get("/static/..%2f..%2ftables.py").status_code == 404


def test_the_script_is_small_and_asks_nobody_else() -> None:
    script = _static_content("live.js").decode()
    assert len(script) < 5_000
    assert "http" not in script
    assert "innerHTML" not in script
    assert "url(" not in _static_content("style.css").decode()


def test_colours_stand_out_in_both_schemes() -> None:
    sheet = _static_content("style.css").decode().partition("/* What stands in a page")[0]
    blocks = re.findall(r":root \{(.*?)\n *\}", sheet, re.DOTALL)
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w+)", block)) for block in blocks)
    assert light.keys() == dark.keys()
    for scheme in (light, dark):
        for pairs, least in ((TEXT_PAIRS, 4.5), (EDGE_PAIRS, 3.0)):
            for front, back in pairs:
                assert contrast(scheme[front], scheme[back]) >= least, (front, back)


def contrast(first: str, second: str) -> float:
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
