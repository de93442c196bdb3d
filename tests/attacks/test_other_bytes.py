"""A genuine submission in other bytes: one release has one digest, in receipts, the log and the settlement."""

import json
from pathlib import Path

import pytest

from equipoise._util.canonical import sha256_hex
from equipoise.mediation.settlement import Contribution
from equipoise.protocol.submission import Submission
from equipoise_service.errors import Invalid
from equipoise_service.rules import events, submissions
from service.world import World, sent


def written_anew(data: bytes) -> dict[str, bytes]:
    document = json.loads(data)
    whole = {**document, "guarantee": {**document["guarantee"], "order": int(document["guarantee"]["order"])}}
    return {
        "spaces": b" " + data,
        "no end": data.rstrip(),
        "lines": data.replace(b"\n", b"\r\n"),
        "order": json.dumps(dict(reversed(document.items()))).encode(),
        "digits": json.dumps(whole, sort_keys=True, separators=(",", ":")).encode() + b"\n",
        "escapes": data.replace(b"equipoise-submission", b"equipoise\\u002dsubmission"),
    }


@pytest.mark.parametrize("how", written_anew(b'{"guarantee":{"order":2.0}}'))
def test_a_service_takes_the_bytes_of_the_release_alone(how: str, world: World) -> None:
    round_id = world.round()
    genuine = sent()["north"]
    other = written_anew(genuine)[how]
    assert other != genuine
    assert Submission.parse(other) == Submission.parse(genuine)
    before = len(events.list_events(world.context, world.operator))
    with pytest.raises(Invalid, match="was written anew"):
        submissions.accept(world.context, world.parties["north"], round_id, other)
    assert len(events.list_events(world.context, world.operator)) == before
    receipt, new = submissions.accept(world.context, world.parties["north"], round_id, genuine)
    assert new
    assert receipt.digest == Contribution.of(Submission.parse(genuine)).digest == sha256_hex(genuine)


@pytest.mark.parametrize("how", written_anew(b'{"guarantee":{"order":2.0}}'))
def test_a_file_that_was_written_anew_counts_as_the_release(how: str, tmp_path: Path) -> None:
    """Where files are handed around, the digest is that of the content; sending one sends the release's own bytes."""
    genuine = sent()["north"]
    (tmp_path / "north.json").write_bytes(written_anew(genuine)[how])
    found = Submission.load(tmp_path / "north.json")
    assert Contribution.of(found).digest == sha256_hex(genuine)
    assert found.to_json() == genuine
