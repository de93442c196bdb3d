"""No page takes a row to predict on: a party is told how to predict at home."""

import asyncio
from typing import Any

from equipoise_service.web.pages.party import commands
from service.pages.dashboard import World, agreement, parsed

Looked = tuple[World, str]


def test_commands_to_predict_with() -> None:
    assert commands(agreement("linear"), "k3v9q2m7x1ab", "north") == (
        "equipoise fetch --round k3v9q2m7x1ab -o north.nc",
        "equipoise party combine north.nc TABLE.csv -o model.nc",
        "equipoise predict model.nc --data ROWS.csv -o predictions.csv",
    )
    assert commands(agreement("gaussian"), "k3v9q2m7x1ab", "north")[2] == "equipoise predict model.nc"


def test_a_partys_page_has_no_field_for_a_row(looked_at: Looked) -> None:
    made, round_id = looked_at
    browser = made.browser("west")
    page = browser.get(f"/rounds/{round_id}/mine").text
    places = [page.index(line) for line in commands(agreement("gaussian"), round_id, "west")]
    assert places == sorted(places)
    for where in (f"/rounds/{round_id}/mine", f"/rounds/{round_id}", "/"):
        shown = parsed(browser.get(where).text)
        assert not shown.all("textarea")
        assert {one["type"] for one in shown.all("input")} == {"hidden"}
        assert {one["name"] for one in shown.all("input")} == {"token"}


def test_rows_sent_to_the_old_page_are_not_even_read(looked_at: Looked) -> None:
    made, round_id = looked_at
    browser = made.browser("west")
    assert browser.get(f"/rounds/{round_id}/mine/prediction").status_code == 404
    answer, asked = asyncio.run(_post(made, f"/rounds/{round_id}/mine/prediction"))
    assert (answer, asked) == (404, 0)
    answer, asked = asyncio.run(_post(made, f"/rounds/{round_id}/mine/reward"))
    assert (answer, asked) == (401, 0)  # a page that is there asks who it is, and then reads


async def _post(made: World, path: str) -> tuple[int, int]:
    """The answer to a form that is sent to a path, and how often its body was asked for."""
    asked = 0
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        return {"type": "http.request", "body": b"age=64", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [
        (b"host", b"127.0.0.1:8351"),
        (b"origin", b"http://127.0.0.1:8351"),
        (b"content-type", b"application/x-www-form-urlencoded"),
        (b"content-length", b"6"),
    ]
    scope: dict[str, Any] = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 5000), "server": ("127.0.0.1", 8351), "state": {},
    }  # fmt: skip
    await made.app(scope, receive, send)
    return sent[0]["status"], asked
