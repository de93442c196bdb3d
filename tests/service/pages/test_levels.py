"""Rounds about columns with levels: their names, which parties choose freely, are words on every page."""

import json
from pathlib import Path

import pytest

import coded
import equipoise as eq
from equipoise.party.release import release
from service.pages.dashboard import World, parsed

LEVELS = ("north", "west \"<b>&'", "Überlingen am See, ländlicher Raum und Umgebung, außerhalb", "other", "url(#x)")
FEATURES = f"""
  {{ name = "age", bounds = [0, 100] }},
  {{ name = "creatinine", bounds = [0.1, 20], transform = "log", missing = "indicator" }},
  {{ name = "smoker", kind = "binary", labels = ["no", "yes"] }},
  {{ name = "<region> \\"x\\"", kind = "category", levels = {json.dumps(LEVELS)}, other = true }},
"""


@pytest.fixture
def agreed() -> eq.Agreement:
    document = coded.agreement("logistic", FEATURES).model_dump(mode="json")
    document["model"]["target"] = {"name": "<died>", "labels": ["no", "y<e>s"]}
    document["privacy"] |= {"individual": "<patient>", "aggregate": "mean"}
    return eq.Agreement.model_validate(document)


def test_pages_of_a_round_with_levels(fresh: World, agreed: eq.Agreement, tmp_path: Path) -> None:
    rows = {
        "<patient>": ["a", "b", "a"],
        "age": [40.0, 50.0, 60.0],
        "creatinine": [1.0, None, 2.0],
        "smoker": ["no", "yes", "no"],
        '<region> "x"': [LEVELS[1], "abroad", LEVELS[1]],
        "<died>": ["no", "y<e>s", "no"],
    }
    sent = [
        release(agreed, rows, party=party, epsilon=1.0, ledger=tmp_path / f"{party}.ledger")
        for party in agreed.party_names
    ]
    assert {one.count for one in sent} == {2}
    round_id = fresh.round_with(sent, agreed)
    for who in ("operator", "auditor", "p0"):
        for where in (f"/rounds/{round_id}", f"/rounds/{round_id}/mine", "/"):
            answer = fresh.browser(who).get(where)
            if answer.status_code != 200:
                assert who != "p0"  # what is a party's own
                continue
            page = parsed(answer.text)  # whose tags are balanced
            assert not {"b", "region", "died", "patient", "e"} & {tag for tag, _ in page.tags}
            if where == f"/rounds/{round_id}":
                said = " ".join(page.text.split())
                for level in LEVELS[2:]:
                    assert f"'{level}'" in said
                for words in (
                    "compared with north; anything else is a level of its own",
                    "0.1 to 20, others moved there; its logarithm; missing has a weight of its own",
                    "one of 'no', 'yes', compared with no",
                    "All rows of one <patient> count as one row: the mean of numbers, and the most frequent of levels",
                ):
                    assert words in said
