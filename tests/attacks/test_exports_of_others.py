"""The export of a round says nothing of other rounds, nor of people who have nothing to do with it."""

import json
from pathlib import Path

import pytest

import engine_setup  # noqa: F401
from client import exports
from equipoise.client.export_check import check_export
from equipoise.keys import public_hex
from equipoise.protocol.public_keys import fingerprint
from equipoise.service import people, rounds, submissions
from equipoise.service.export import export
from service.world import World, agreement, key_of, sent

pytestmark = [pytest.mark.engine, pytest.mark.group("gaussian")]


def test_others_are_not_in_it(tmp_path: Path) -> None:
    world = World.on(tmp_path / "service")
    other = rounds.create(world.context, world.operator, agreement(title="Secret round"))
    stranger = key_of("stranger")
    people.ask_to_join(world.context, name="stranger", role="party", public_key=public_hex(stranger), note="hello")
    round_id = world.round()
    for party in ("north", "south"):
        submissions.accept(world.context, world.parties[party], round_id, sent()[party])
    rounds.close(world.context, world.operator, other)
    files = exports.unpacked(export(world.context, world.operator, round_id))
    log = files["events.jsonl"].decode()
    for secret in (other, "Secret round", "stranger", fingerprint(public_hex(stranger)), '"ada"'):
        assert secret not in log
    for name in ("olga", "north", "south"):
        assert fingerprint(public_hex(key_of(name))) in log
    whole = [one for one in exports.events(files) if "kind" in one]
    assert {one["round"] for one in whole} == {None, round_id}
    path = exports.pack(tmp_path / "round.zip", files)
    assert {check.outcome for check in check_export(path)} == {"ok"}
    assert json.loads(files["manifest.json"])["head"]["sequence"] == len(exports.events(files)) > len(whole)
    world.context.close()
