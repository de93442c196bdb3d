"""The export: complete, of one moment, the same again, and checked here with nothing but the service's public key."""

import hashlib
import io
import json
import zipfile
from typing import Any

import pytest

from equipoise._util.canonical import canonical_json
from equipoise.agreement import Agreement
from equipoise.mediation.settlement import Settlement
from equipoise.protocol.keys import verify
from equipoise.protocol.log import check_chain
from equipoise.protocol.receipts import Receipt
from equipoise.protocol.submission import Submission
from equipoise_service.db import event_log
from equipoise_service.db.tables import Answer, Result, Round
from equipoise_service.errors import NotFound
from equipoise_service.rules import events, export
from service.world import PARTIES, World, sent, settled

pytestmark = [pytest.mark.engine, pytest.mark.group("gaussian")]


def _files(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


def _checked(files: dict[str, bytes], service: str) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads(files["manifest.json"])
    assert manifest["service"] == service
    unsigned = {name: value for name, value in manifest.items() if name != "signature"}
    verify(service, manifest["signature"], canonical_json(unsigned), what="the manifest")
    others = {name: content for name, content in files.items() if name != "manifest.json"}
    assert manifest["files"] == {name: hashlib.sha256(content).hexdigest() for name, content in others.items()}
    log = [json.loads(line) for line in files["events.jsonl"].splitlines()]
    assert manifest["head"] == {"sequence": len(log), "digest": check_chain(log)}
    return manifest


def test_a_settled_round_can_be_checked_offline(world: World) -> None:
    round_id = world.settled_round()
    with world.context.database.writing() as session:
        session.add(Answer(round_id=round_id, inputs="a" * 64, digest="b" * 64, key_json='{"k":1}', result_json="[2]"))
    files = _files(export.export(world.context, world.operator, round_id))
    manifest = _checked(files, world.context.public_key)
    assert (manifest["format"], manifest["version"], manifest["round"]) == ("equipoise-export", 2, round_id)
    assert manifest["time"] == world.clock.now
    agreed = Agreement.model_validate_json(files["agreement.json"])
    settlement = Settlement.parse(json.loads(files["settlement.json"]))
    assert settlement.decisions == settled()[0].decisions
    log = {one["sequence"]: one for one in map(json.loads, files["events.jsonl"].splitlines())}
    for name in PARTIES:
        assert files[f"submissions/{name}.json"] == sent()[name]
        Submission.parse(sent()[name]).check(agreed)
        receipt = Receipt.parse(files[f"receipts/{name}.json"])
        receipt.check(world.context.public_key)
        assert receipt.event_digest == log[receipt.event]["digest"]
        assert receipt.digest == hashlib.sha256(sent()[name]).hexdigest() == settlement.contributions[name].digest
        assert files[f"rewards/{name}.nc"]
    assert json.loads(files["answers.jsonl"]) == {"inputs": "a" * 64, "key": {"k": 1}, "result": [2]}
    assert [one.get("kind") for one in log.values()][-2:] == ["settled", "exported"]


def test_the_secret_of_added_noise_is_a_file_of_its_own(world: World) -> None:
    """The settlement does not have it, and without it nobody could settle again."""
    round_id = world.settled_round()
    assert "noise.secret" not in _files(export.export(world.context, world.operator, round_id))
    with world.context.database.writing() as session:
        session.get_one(Round, round_id).noise_secret = "5a" * 16
        kept = session.get_one(Result, (round_id, "settlement.json"))
        kept.content = kept.content.replace(b'"mechanism": "tempering"', b'"mechanism": "noise"')
    files = _files(export.export(world.context, world.operator, round_id))
    assert files["noise.secret"] == b"5a" * 16
    _checked(files, world.context.public_key)
    with world.context.database.writing() as session:
        kept = session.get_one(Result, (round_id, "settlement.json"))
        kept.content = kept.content.replace(b'"mechanism": "noise"', b'"mechanism": "degraded"')
    files = _files(export.export(world.context, world.operator, round_id))
    for secret in ("5a" * 16, world.context.path_secret(None)):  # or who reads it could take the noise away
        assert not any(secret.encode() in content for content in files.values())
    open_round = world.round(submitted=True)
    assert "noise.secret" not in _files(export.export(world.context, world.operator, open_round))


def test_an_open_round_can_be_exported_and_the_same_is_the_same(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    round_id = world.round(submitted=True)
    first = export.export(world.context, world.operator, round_id)
    files = _files(first)
    _checked(files, world.context.public_key)
    assert not any(name.startswith(("settlement", "rewards")) for name in files)
    monkeypatch.setattr(event_log, "append", lambda *_arguments, **_options: None)
    again = export.export(world.context, world.operator, round_id)
    assert again == first


def test_a_round_that_is_not_there_leaves_no_trace(world: World) -> None:
    head = events.verify_chain(world.context)
    with pytest.raises(NotFound):
        export.export(world.context, world.operator, "nothere")
    assert events.verify_chain(world.context) == head


def test_no_secret_is_exported(world: World) -> None:
    round_id = world.settled_round()
    content = b"".join(_files(export.export(world.context, world.operator, round_id)).values())
    for name in ("olga", "north"):
        assert name.encode() in content
    assert world.context.key.private_bytes_raw().hex().encode() not in content
