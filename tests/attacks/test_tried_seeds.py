"""Seeds, and secrets of noise, tried until the outcome suits: nobody chooses them, and others are refused."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from client import exports
from client.exports import Files
from equipoise._util.canonical import sha256_hex
from equipoise.client.verify.check import Check, check_export
from equipoise.mediation.settlement import Settlement
from equipoise.report.evidence import diagnostics
from equipoise_service.errors import Invalid
from equipoise_service.options import Options
from equipoise_service.rules import rounds, settlements
from equipoise_service.rules.export import export
from service.world import OPTIONS, World, settled

pytestmark = [pytest.mark.engine, pytest.mark.group("gaussian")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Files]]:
    world = World.on(tmp_path_factory.mktemp("seeds") / "service")
    yield world, exports.unpacked(export(world.context, world.operator, world.settled_round()))
    world.context.close()


def checked(made: tuple[World, Files], tmp_path: Path, files: Files) -> list[Check]:
    return check_export(exports.pack(tmp_path / "round.zip", exports.signed(files, made[0].context.key)))


def lie(files: Files, changes: dict[str, dict[str, Any]], options: dict[str, Any]) -> Files:
    """A service that settled otherwise, and wrote its log to fit."""
    changed = exports.edited(files, "settlement.json", lambda one: one["options"].update(options))
    decisions = Settlement.parse(json.loads(changed["settlement.json"])).decisions
    changes = {**changes, "settled": {"decisions": decisions}}
    log = [
        {**one, "details": {**one["details"], **changes[one["kind"]]}} if one.get("kind") in changes else one
        for one in exports.events(files)
    ]
    return exports.with_events(changed, exports.rechained(log))


def test_an_operator_cannot_choose_a_seed() -> None:
    with pytest.raises(Invalid, match="seed"):
        Options.read({"seed": 1})


def test_the_same_submissions_have_the_same_seed_however_often_they_are_settled(made: tuple[World, Files]) -> None:
    world, _ = made
    seeds = set()
    for number in range(3):
        round_id = world.round(submitted=True)
        for options in (Options(), Options(draws=500 + number, precision=0.3)):
            world.clock.now += 12_345
            rounds.close(world.context, world.operator, world.round())  # something else happens
            settlements.start(world.context, world.operator, round_id, options)
            seeds.add(settlements.task_for(world.context, round_id).seed)
            settlements.cancel(world.context, world.operator, round_id)
    assert seeds == {settled()[0].options["seed"]}


def test_verify_refuses_a_seed_that_was_tried(made: tuple[World, Files], tmp_path: Path) -> None:
    """Five settlements and the best kept: whatever the log says of it, its seed is not the one that follows."""
    for seed in range(5):
        started = {"options": {**OPTIONS.model_dump(mode="json"), "seed": seed}, "seed": seed}
        for said in (started, {}):
            found = checked(made, tmp_path, lie(made[1], {"settlement-started": said}, {"seed": seed}))
            failed = [check for check in found if check.outcome == "failed"]
            assert [check.title for check in failed] == ["the settlement is about exactly these submissions"]
            assert f"seed = {seed}, which does not follow from the submissions" in failed[0].message


def older(one: dict[str, Any]) -> None:
    """A settlement as versions up to 0.6 wrote it."""
    one.update(version=2)
    del one["nothing"]
    for award in one["awards"].values():
        del award["falls_back"]


@pytest.mark.parametrize("form", ["0.6", "0.7"])
def test_rounds_of_earlier_versions_pass_with_a_remark(made: tuple[World, Files], tmp_path: Path, form: str) -> None:
    started = {"options": {**OPTIONS.model_dump(mode="json"), "seed": 5}}
    files = exports.edited(made[1], "settlement.json", older) if form == "0.6" else made[1]
    changed = lie(files, {"settlement-started": started}, {"seed": 5})
    written = json.loads(changed["settlement.json"])
    assert Settlement.parse(written).to_json() == {name: one for name, one in written.items() if name != "audit"}
    log = [one for one in exports.events(changed) if "kind" in one]
    for one in log:
        one.pop("salt", None)
        one["details"].pop("noise", None)
    old = exports.with_events(changed, exports.rechained(log))
    old = exports.signed(exports.with_receipts(old, made[0].context.key), made[0].context.key, version=1)
    found = check_export(exports.pack(tmp_path / "round.zip", old))
    assert {check.outcome for check in found} == {"ok"}, found
    assert any("its seed, 5, was chosen by the operator" in check.message for check in found)


def test_a_round_without_a_promise_is_no_older_one(made: tuple[World, Files], tmp_path: Path) -> None:
    """Versions up to 0.7 promised no noise, but had no salt either."""
    started = {"options": {**OPTIONS.model_dump(mode="json"), "seed": 5}, "seed": 5}
    changed = lie(made[1], {"settlement-started": started}, {"seed": 5})
    log = exports.events(changed)
    for one in log:
        one.get("details", {}).pop("noise", None)
    changed = exports.with_receipts(exports.with_events(changed, exports.rechained(log)), made[0].context.key)
    failed = [check for check in checked(made, tmp_path, changed) if check.outcome == "failed"]
    assert "which does not follow from the submissions" in failed[0].message


def test_a_settlement_that_poses_as_an_older_one(made: tuple[World, Files], tmp_path: Path) -> None:
    changed = lie(exports.edited(made[1], "settlement.json", older), {}, {})
    failed = [check for check in checked(made, tmp_path, changed) if check.outcome == "failed"]
    assert "written as versions up to 0.6 did" in failed[0].message


def test_noise_comes_from_the_secret_that_was_made_with_the_round(made: tuple[World, Files], tmp_path: Path) -> None:
    started = {"options": {**OPTIONS.model_dump(mode="json"), "mechanism": "noise"}}
    for secret, promised, says in (
        ("5a" * 16, "5a" * 16, None),
        ("5a" * 16, "6b" * 16, "tried secrets until"),
        (None, "6b" * 16, "tried secrets until"),
    ):
        created = {"noise": sha256_hex(promised.encode())}
        changed = lie(made[1], {"round-created": created, "settlement-started": started}, {"mechanism": "noise"})
        changed = exports.with_receipts(changed, made[0].context.key)
        found = checked(made, tmp_path, {**changed, **({"noise.secret": secret.encode()} if secret else {})})
        why = next((check.message for check in found if check.outcome == "failed"), "")
        assert (says in why) if says else "secrets" not in why


def test_a_seed_that_was_chosen_in_a_folder_is_printed_as_chosen() -> None:
    settlement, _ = settled()
    for chosen, words in ((False, "follows from the submissions"), (True, "chosen by the mediator")):
        shown = replace(settlement, options=settlement.options | ({"seed": 3} if chosen else {}))
        rows = [row for table in diagnostics(shown).tables for row in table.rows if row[0] == "seed"]
        assert [row[1] for row in rows] == [f"{shown.options['seed']}, {words}"]
