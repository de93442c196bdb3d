"""Digests are short in tables, with the whole digest in the title; what people must compare is never shortened."""

from pathlib import Path

import pytest

from equipoise.protocol.keys import fingerprint
from equipoise_service.rules import events, submissions
from equipoise_service.web.pages.rendering import is_digest, shortened
from service.pages.dashboard import World, agreement, parsed, sent

DIGEST = "0123456789abcdef" * 4


def test_a_digest_shows_twelve_digits() -> None:
    assert shortened(DIGEST) == "0123456789ab…"
    assert shortened("0123456789ab") == "0123456789ab"


@pytest.mark.parametrize("text", ["", DIGEST[:-1], DIGEST.upper(), f"{DIGEST}\n", "2c26-b46b-68ff-c68f"])
def test_only_whole_digests_are_shortened_in_the_log(text: str) -> None:
    assert is_digest(DIGEST)
    assert not is_digest(text)


def test_receipts_show_short_digests_with_the_whole_ones_as_titles(fresh: World, tmp_path: Path) -> None:
    agreed = agreement("gaussian")
    round_id = fresh.round_with(sent(agreed, tmp_path / "ledgers"), agreed)
    receipts = submissions.receipts(fresh.context, fresh.actors["auditor"], round_id)
    page = parsed(fresh.browser("auditor").get(f"/rounds/{round_id}").text)
    titles = {one["title"] for one in page.all("span") if "title" in one}
    for receipt in receipts:
        for digest in (receipt.digest, receipt.event_digest):
            assert digest in titles
            assert digest not in page.text
            assert shortened(digest) in page.text
    assert agreed.identity_digest in page.text


def test_log_shortens_details_but_neither_fingerprints_nor_the_chain(fresh: World, tmp_path: Path) -> None:
    agreed = agreement("gaussian")
    fresh.round_with(sent(agreed, tmp_path / "ledgers"), agreed)
    auditor = fresh.actors["auditor"]
    page = parsed(fresh.browser("auditor").get("/events").text)
    titles = {one["title"] for one in page.all("span") if "title" in one}
    assert agreed.identity_digest in titles
    assert agreed.identity_digest not in page.text
    shown, _ = events.latest(fresh.context, auditor, limit=50)
    assert all(event["digest"] in page.text for event in shown)
    assert auditor.public_key is not None
    assert fingerprint(auditor.public_key) in page.text


def test_sections_without_content_are_left_out(fresh: World) -> None:
    round_id = fresh.round_with([], agreement("gaussian"))
    page = fresh.browser("operator").get(f"/rounds/{round_id}").text
    assert "Receipts" not in page
    assert "Pages of the log" not in fresh.browser("operator").get("/events").text
