"""The export of a round says nothing of other rounds, nor of people who have nothing to do with it."""

import json
from pathlib import Path
from typing import Any

import pytest

from client import exports
from equipoise.client.verify.check import check_export
from equipoise.protocol.keys import fingerprint, public_hex
from equipoise.protocol.log import link_of
from equipoise_service.rules import authentication, events, people, rounds, submissions
from equipoise_service.rules.export import export
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


def test_whoever_an_earlier_version_named_is_not_in_the_round_for_that(tmp_path: Path) -> None:
    """Of a service that was of version 0.7 all old events are shown; new ones of people elsewhere are links."""
    world = World.on(tmp_path / "service")
    last = len(events.list_events(world.context, world.operator))
    round_id = world.round(submitted=True)
    for person in (world.auditor, world.parties["north"]):
        authentication.redeem(world.context, authentication.new_sign_in_secret(world.context, person))
    files = exports.unpacked(export(world.context, world.operator, round_id))
    whole = events.list_events(world.context, world.operator)
    log = exports.rechained([without_salt(one) if one["sequence"] <= last else one for one in whole])
    for hidden, outcome in (("ada", "ok"), ("north", "failed")):
        shown = [link_of(one) if (one["kind"], one["actor"]) == ("signed-in", hidden) else one for one in log]
        lie = exports.with_receipts(exports.with_events(files, shown), world.context.key)
        path = exports.pack(tmp_path / "round.zip", exports.signed(lie, world.context.key))
        found = {check.title: check.outcome for check in check_export(path)}
        assert found["the log tells of a round that the rules allow"] == outcome
    world.context.close()


def without_salt(event: dict[str, Any]) -> dict[str, Any]:
    """An event as versions up to 0.7 wrote it."""
    return {name: value for name, value in event.items() if name != "salt"}
