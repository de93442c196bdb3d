"""What an operator with the service's key could still try: what is found out, by what, and what is only named."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from client import exports
from client.exports import Files
from client.listening import Commands, known_member, listening
from equipoise.client.verify.check import check_export
from equipoise.errors import VerificationError
from equipoise.mediation.settlement import Settlement
from equipoise.protocol.keys import public_hex
from equipoise.protocol.submission import Submission
from equipoise_service.errors import Refusal
from equipoise_service.rules import people, results, submissions
from equipoise_service.rules.export import export
from service.world import OPTIONS, World, agreement, key_of, sent, signed

pytestmark = [pytest.mark.engine, pytest.mark.group("gaussian")]


def why(path: Path, **options: Any) -> str:
    return next((check.message for check in check_export(path, **options) if check.outcome == "failed"), "")


def told_otherwise(files: Files, world: World, changes: dict[str, dict[str, Any]]) -> Files:
    """The same round with other details in its log, and everything else signed to fit."""
    log = [
        {**one, "details": {**one["details"], **changes[one["kind"]]}} if one.get("kind") in changes else one
        for one in exports.events(files)
    ]
    lie = exports.with_events(files, exports.rechained(log))
    return exports.signed(exports.with_receipts(lie, world.context.key), world.context.key)


def test_two_stories_for_two_parties(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two copies of the service go on differently. Each party's receipt contradicts what the other is shown."""
    round_id = world.round(submitted=True)
    world.context.close()
    shutil.copytree(tmp_path / "service", tmp_path / "copy")
    stories = [World._found(tmp_path / name) for name in ("service", "copy")]
    home = tmp_path / "home"
    for number, (story, party) in enumerate(zip(stories, ("north", "south"), strict=True)):
        story.clock.now = int(time.time() * 1000) + number
        story.settle(round_id)
        results.reward(story.context, story.parties[party], round_id)
        receipt = results.reward_receipt(story.context, story.parties[party], round_id)
        (tmp_path / f"{party}.json").write_bytes(receipt.to_json())
        (tmp_path / f"{party}.zip").write_bytes(export(story.context, story.operator, round_id))
    for shown, others in (("north", "south"), ("south", "north")):
        assert why(tmp_path / f"{shown}.zip", receipts=[tmp_path / f"{shown}.json"]) == ""
        assert "was rewritten after the receipt" in why(
            tmp_path / f"{shown}.zip", receipts=[tmp_path / f"{others}.json"]
        )
    # A party that is told both itself notices without any export.
    for story, says in zip(stories, (None, "Keep the receipt; it is the proof"), strict=True):
        with listening(story.context) as url:
            known_member(home, url, story.context.public_key, "north")
            north = Commands(home, capsys, monkeypatch)
            if says is None:
                north("fetch")
            else:
                with pytest.raises(VerificationError, match=says):
                    north("fetch")
        story.context.close()


def test_a_log_that_says_another_reward_was_handed_out(world: World, tmp_path: Path) -> None:
    round_id = world.settled_round()
    results.reward(world.context, world.parties["north"], round_id)
    files = exports.unpacked(export(world.context, world.operator, round_id))
    for name in ("digest", "reward"):
        lie = told_otherwise(files, world, {"reward-fetched": {name: "0" * 64}})
        assert "another reward was handed out to 'north'" in why(exports.pack(tmp_path / "round.zip", lie))


def test_decisions_that_were_made_up_are_found_by_settling_again(world: World, tmp_path: Path) -> None:
    files = exports.unpacked(export(world.context, world.operator, world.settled_round()))
    changed = exports.edited(files, "settlement.json", lambda one: one["awards"]["west"].update(notes=["made up"]))
    decisions = Settlement.parse(json.loads(changed["settlement.json"])).decisions
    path = exports.pack(tmp_path / "round.zip", told_otherwise(changed, world, {"settled": {"decisions": decisions}}))
    assert why(path) == ""  # nothing else can tell
    assert "settling again decides otherwise" in why(path, again=True)


def test_somebody_elses_key_under_a_partys_name(world: World, tmp_path: Path) -> None:
    """Where the agreement names keys, nobody else can submit; where it does not, the log says who was let in."""
    impostor = key_of("impostor")
    people.revoke(world.context, world.operator, world.parties["north"].person_id)
    false_north = world.joined("north", key=impostor)
    parties = [{"name": name, "public_key": public_hex(key_of(name))} for name in ("north", "south", "west")]
    for named in (True, False):
        agreed = agreement(parties=parties) if named else agreement()
        data = signed(Submission.parse(sent(agreed)["north"]), impostor, id="5" * 64).to_json()
        round_id = world.round(agreed)
        if named:
            with pytest.raises(Refusal):
                submissions.accept(world.context, false_north, round_id, data)
            continue
        submissions.accept(world.context, false_north, round_id, data)
        files = exports.unpacked(export(world.context, world.operator, round_id))
        assert why(exports.pack(tmp_path / "round.zip", files)) == ""
        people_told = [one["kind"] for one in exports.events(files) if one.get("details", {}).get("name") == "north"]
        assert people_told.count("person-approved") >= 1


def test_options_that_were_tried_are_named(world: World, tmp_path: Path) -> None:
    """Before any reward is handed out, other draws can be tried, and the log be written to fit the best."""
    round_id = world.settled_round()
    (tmp_path / "round.zip").write_bytes(export(world.context, world.operator, round_id))
    (agreed,) = [one for one in check_export(tmp_path / "round.zip") if one.title == "the round was settled as agreed"]
    assert agreed.outcome == "ok"
    assert f"chosen by it besides: draws = {OPTIONS.draws}, precision = {OPTIONS.precision}" in agreed.message
