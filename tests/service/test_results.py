"""Results: kept whole or not at all, and shown to each as far as it may know them."""

import json
from pathlib import Path

import pytest

from equipoise._util.canonical import sha256_hex
from equipoise.report.view import view_of
from equipoise.reward.model import Reward
from equipoise_service.db.tables import Result
from equipoise_service.errors import Conflict, NotFound, Unavailable
from equipoise_service.rules import events, results, rounds, settlements
from full_disk import no_file_longer_than
from service.world import OPTIONS, PARTIES, World, agreement, sent, settled

pytestmark = [pytest.mark.engine, pytest.mark.group("gaussian")]


def test_what_is_kept_is_what_was_decided(world: World) -> None:
    round_id = world.settled_round()
    made, _ = settled()
    for actor in (world.operator, world.auditor):
        kept = results.settlement(world.context, actor, round_id)
        assert kept.decisions == made.decisions
        assert kept.audit == made.audit  # although it has no draws
        assert results.settlement(world.context, actor, round_id) is kept
    view = rounds.get(world.context, world.parties["west"], round_id)
    assert (view.state, view.decisions, view.settled) == ("settled", made.decisions, world.clock.now)
    last = events.list_events(world.context, world.operator)[-1]
    assert (last["kind"], last["details"]) == ("settled", {"decisions": made.decisions})


def test_keeping_again_is_no_mistake_but_nothing_else_is_kept(world: World) -> None:
    round_id = world.round(submitted=True)
    made, files = settled()

    def keep() -> None:
        with world.context.database.writing(exclusive=True) as session:
            results.store(session, world.context, round_id, made, files=files)

    with pytest.raises(Conflict, match="open"):
        keep()
    settlements.start(world.context, world.operator, round_id, OPTIONS)
    keep()
    head = events.verify_chain(world.context)
    keep()
    assert events.verify_chain(world.context) == head
    with pytest.raises(Conflict, match="settled"):
        settlements.start(world.context, world.operator, round_id, OPTIONS)
    with pytest.raises(Conflict, match="settled"):
        settlements.cancel(world.context, world.operator, round_id)


def test_files_are_made_where_nobody_made_them_before(world: World, tmp_path: Path) -> None:
    made, _ = settled()
    files = results.result_files(made)
    assert set(files) == {"settlement.json", *(f"rewards/{name}.nc" for name in PARTIES)}
    path = tmp_path / "reward.nc"
    path.write_bytes(files["rewards/south.nc"])
    assert Reward.load(path) == made.awards["south"].reward


def test_a_party_gets_its_own_reward_and_view(world: World, tmp_path: Path) -> None:
    round_id = world.settled_round()
    made, files = settled()
    for name, actor in world.parties.items():
        assert results.reward(world.context, actor, round_id) == files[f"rewards/{name}.nc"]
        assert results.party_view(world.context, actor, round_id) == view_of(made, name)
    assert len(set(files.values())) == 4
    fetched = [one for one in events.list_events(world.context, world.operator) if one["kind"] == "reward-fetched"]
    assert [one["actor"] for one in fetched] == list(PARTIES)
    results.reward(world.context, world.parties["north"], round_id)  # if each were logged, one party could fill the log
    assert events.list_events(world.context, world.operator)[-1] == fetched[-1]


def test_who_did_not_submit_has_no_share(world: World) -> None:
    parties = [{"name": name} for name in (*PARTIES, "late")]
    agreed = agreement(parties=parties)
    late = world.joined("late")
    round_id = world.round(agreed, submitted=True)
    world.settle(round_id)
    with pytest.raises(NotFound, match="did not submit"):
        results.reward(world.context, late, round_id)
    with pytest.raises(NotFound, match="did not submit"):
        results.party_view(world.context, late, round_id)
    found = results.summary(world.context, late, round_id)
    assert (found["submitted"], found["values"]) == (list(PARTIES), [])
    assert len(sent(agreed)) == 3


def test_before_there_are_results_nothing_is_shown(world: World) -> None:
    round_id = world.round(submitted=True)
    north = world.parties["north"]
    for ask in (
        lambda: results.settlement(world.context, world.operator, round_id),
        lambda: results.document(world.context, world.auditor, round_id),
        lambda: results.party_view(world.context, north, round_id),
        lambda: results.reward(world.context, north, round_id),
        lambda: results.audit(world.context, north, round_id),
    ):
        with pytest.raises(Conflict, match="not settled yet") as refused:
            ask()
        assert refused.value.code == "not-settled"
    found = results.summary(world.context, north, round_id)
    assert (found["state"], found["submitted"], found["values"], found["audit"]) == ("open", list(PARTIES), [], [])


def test_the_summary_says_nothing_of_single_parties(world: World) -> None:
    round_id = world.settled_round()
    made, _ = settled()
    shown = results.summary(world.context, world.parties["west"], round_id)
    assert shown["decisions"] == made.decisions
    assert shown["teams"] == [list(PARTIES)]
    [value] = shown["values"]
    assert value["value"] == made.value(*PARTIES).value
    assert shown["rho"] is None  # the agreement leaves it open
    assert [one["verdict"] for one in shown["audit"]] == [one.verdict for one in made.audit]
    text = json.dumps(shown)
    for award in made.awards.values():
        for number in (award.alone.value, award.target.value, made.shapley[award.party].value, award.kappa):
            assert number in (0.0, 1.0, value["value"]) or repr(number) not in text
    for other in (world.operator, world.parties["north"]):
        assert results.summary(world.context, other, round_id) == shown


def test_the_summary_of_degraded_rewards_keeps_the_team_s_value_from_who_gets_less(world: World) -> None:
    """It is computed without the noise of their rewards; `equipoise.report.view` keeps it from them, too."""
    round_id = world.settled_round()
    with world.context.database.writing() as session:
        kept = session.get_one(Result, (round_id, "settlement.json"))
        document = json.loads(kept.content)
        document["options"]["mechanism"] = "degraded"
        kept.content = json.dumps(document).encode()
        kept.digest = sha256_hex(kept.content)  # by which what was read before is found
    made, _ = settled()
    told = {party: bool(results.summary(world.context, world.parties[party], round_id)["values"]) for party in PARTIES}
    assert told == {party: made.awards[party].kappa == 1 for party in PARTIES}
    assert set(told.values()) == {True, False}
    assert results.summary(world.context, world.operator, round_id)["values"]


def test_reasons_of_the_audit_are_for_those_who_see_everything(world: World) -> None:
    round_id = world.settled_round()
    made, _ = settled()
    for actor in (world.operator, world.auditor):
        assert [one["reason"] for one in results.audit(world.context, actor, round_id)] == [
            one.reason for one in made.audit
        ]
    mine = results.audit(world.context, world.parties["south"], round_id)
    assert [one["code"] for one in mine] == [one.code for one in made.audit]
    assert {one["reason"] for one in mine} == {""}


def test_the_document_has_no_noise_secret(world: World) -> None:
    round_id = world.settled_round()
    shown = results.document(world.context, world.auditor, round_id)
    assert shown["options"]["noise_secret"] is None
    assert shown["decisions"] == settled()[0].decisions
    assert shown["audit"]["findings"]


def test_a_reward_that_cannot_be_looked_at_is_not_called_damaged() -> None:
    """Temporary files have no room: who asks for it is told to try again."""
    with no_file_longer_than(100), pytest.raises(Unavailable, match="no room for temporary files") as refused:
        results._reward_digest(bytes(1_000))
    assert refused.value.code == "disk-full"
