"""A reward other than the one that was decided: not handed out, not kept, and found out by whoever has it."""

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from client.listening import Commands, known_member, listening
from equipoise.client.verify.check import check_export
from equipoise.errors import MediationError, VerificationError
from equipoise.reward.model import Reward
from equipoise_service.db.tables import Result
from equipoise_service.errors import Refusal
from equipoise_service.rules import events, results, submissions
from equipoise_service.rules.export import export
from service.world import World, key_of, settled

pytestmark = [pytest.mark.engine, pytest.mark.group("gaussian")]


@pytest.fixture
def north(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Commands]:
    """The commands of a party, at a service that listens."""
    with listening(world.context) as url:
        known_member(tmp_path / "home", url, world.context.public_key, "north")
        yield Commands(tmp_path / "home", capsys, monkeypatch)


def doctored(tmp_path: Path, data: bytes) -> bytes:
    """Make the same reward with other numbers."""
    path = tmp_path / "doctored.nc"
    path.write_bytes(data)
    reward = Reward.load(path)
    assert reward.posterior.coordinates is not None
    coordinates = 1.5 * reward.posterior.coordinates
    draws = reward.agreement.model.at_coordinates(coordinates)
    posterior = replace(reward.posterior, draws=draws, coordinates=coordinates)
    Reward(reward.party, reward.agreement, posterior, reward.value, reward.deviations).save(path)
    return path.read_bytes()


def test_draws_must_be_those_that_the_value_was_computed_from(tmp_path: Path) -> None:
    """Otherwise a rival predicts with draws that nobody looks at: the value follows from the coordinates alone."""
    path = tmp_path / "reward.nc"
    path.write_bytes(settled()[1]["rewards/north.nc"])
    reward = Reward.load(path)
    draws = {name: -values if name == "mean" else values for name, values in reward.posterior.draws.items()}
    replace(reward, posterior=replace(reward.posterior, draws=draws)).save(path)
    with pytest.raises(MediationError, match="draws of 'mean' are not those that its value was computed from"):
        Reward.load(path)


def test_what_was_not_decided_is_not_handed_out(world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    round_id = world.settled_round()
    genuine = settled()[1]["rewards/north.nc"]
    for lie in (doctored(tmp_path, genuine), b"draws", settled()[1]["rewards/west.nc"]):
        with world.context.database.writing() as session:
            kept = session.get_one(Result, (round_id, "rewards/north.nc"))
            kept.content, kept.digest = lie, hashlib.sha256(lie).hexdigest()
        head = events.verify_chain(world.context)
        with (
            caplog.at_level(logging.ERROR),
            pytest.raises(Refusal, match="is not the one that was decided") as refused,
        ):
            results.reward(world.context, world.parties["north"], round_id)
        assert refused.value.status == 500
        assert "restore a backup" in caplog.text
        assert events.verify_chain(world.context) == head
    assert results.reward(world.context, world.parties["south"], round_id) == settled()[1]["rewards/south.nc"]


def test_a_settlement_that_was_changed_to_fit_a_doctored_reward(world: World, tmp_path: Path) -> None:
    round_id = world.settled_round()
    lie = doctored(tmp_path, settled()[1]["rewards/north.nc"])
    digest = Reward.load(tmp_path / "doctored.nc").digest
    with world.context.database.writing() as session:
        session.get_one(Result, (round_id, "rewards/north.nc")).content = lie
        kept = session.get_one(Result, (round_id, "settlement.json"))
        kept.content = kept.content.replace(settled()[0].awards["north"].digest.encode(), digest.encode())
        kept.digest = hashlib.sha256(kept.content).hexdigest()
    with pytest.raises(Refusal, match="is not the one that was decided"):
        results.reward(world.context, world.parties["north"], round_id)


def test_fetch_keeps_a_reward_with_its_receipt_and_nothing_without(
    world: World, north: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_id = world.settled_round()
    sent = submissions.receipt(world.context, world.parties["north"], round_id)
    (tmp_path / "home" / "north.receipt.json").write_bytes(sent.to_json())
    true_reward = results.reward

    def lies(*arguments: object) -> bytes:
        return doctored(tmp_path, true_reward(*arguments))  # type: ignore[arg-type]

    monkeypatch.setattr(results, "reward", lies)
    with pytest.raises(VerificationError, match="receipt is not for the reward that arrived: the digest in it is"):
        north("fetch")
    assert not (tmp_path / "home" / "north.nc").exists()
    monkeypatch.setattr(results, "reward", true_reward)
    found = north("fetch")
    assert (found["reward"], found["receipt"]) == ("north.nc", "north.reward-receipt.json")
    assert north("fetch") == found
    assert "its log has it and that of your submission" in " ".join(north.said("fetch").split())

    # The whole of it, by the export: what was handed out is what was decided, and what is signed for.
    (tmp_path / "home" / "round.zip").write_bytes(export(world.context, world.operator, round_id))
    own = ("--receipt", "north.reward-receipt.json", "--receipt", "north.receipt.json", "--reward", "north.nc")
    assert "The export is consistent." in north.said("verify", "round.zip", *own)
    (tmp_path / "home" / "north.nc").write_bytes(doctored(tmp_path, true_reward(
        world.context, world.parties["north"], round_id
    )))  # fmt: skip
    with pytest.raises(VerificationError, match="is not the one that was decided"):
        north("verify", "round.zip", *own)


def test_a_service_that_signs_for_a_doctored_reward_has_given_the_proof_away(
    world: World, north: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hands out other numbers and a receipt for them; the log, the export and the others see the true ones."""
    from equipoise.protocol.receipts import RewardReceipt

    round_id = world.settled_round()
    true_reward, true_receipt = results.reward, results.reward_receipt
    lie = doctored(tmp_path, settled()[1]["rewards/north.nc"])
    digest = Reward.load(tmp_path / "doctored.nc").digest
    monkeypatch.setattr(results, "reward", lambda *arguments: (true_reward(*arguments), lie)[1])

    def forged(*arguments: object) -> RewardReceipt:
        said = true_receipt(*arguments).model_dump(exclude={"format", "version", "service", "signature"})  # type: ignore[arg-type]
        changes = {"reward": digest, "digest": hashlib.sha256(lie).hexdigest()}
        return RewardReceipt.signed(world.context.key, **{**said, **changes})

    monkeypatch.setattr(results, "reward_receipt", forged)
    north("fetch")
    path = tmp_path / "round.zip"
    path.write_bytes(export(world.context, world.operator, round_id))
    assert {check.outcome for check in check_export(path)} == {"ok"}
    receipt = tmp_path / "home" / "north.reward-receipt.json"
    for given in ({"receipts": [receipt]}, {"rewards": [tmp_path / "home" / "north.nc"]}):
        assert "failed" in {check.outcome for check in check_export(path, **given)}  # type: ignore[arg-type]


def test_a_service_that_gives_no_receipt_or_another_keys(
    world: World, north: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.settled_round()
    true_receipt = results.reward_receipt

    def of_mallory(*arguments: object) -> object:
        said = true_receipt(*arguments).model_dump(exclude={"format", "version", "service", "signature"})  # type: ignore[arg-type]
        return type(true_receipt(*arguments)).signed(key_of("mallory"), **said)  # type: ignore[arg-type]

    monkeypatch.setattr(results, "reward_receipt", of_mallory)
    with pytest.raises(VerificationError, match="names the service"):
        north("fetch")
    monkeypatch.setattr(results, "reward_receipt", submissions.receipt)  # of something else
    with pytest.raises(VerificationError, match="is not a receipt"):
        north("fetch")


def test_a_service_that_has_another_agreement_than_it_took_the_submission_under(
    world: World, north: Commands, tmp_path: Path
) -> None:
    sent = submissions.receipt(world.context, world.parties["north"], world.settled_round())
    said = sent.model_dump(exclude={"format", "version", "service", "signature"})
    receipt = type(sent).signed(world.context.key, **{**said, "agreement": "0" * 64})
    (tmp_path / "home" / "north.receipt.json").write_bytes(receipt.to_json())
    with pytest.raises(VerificationError, match="signed for your submission under 0000"):
        north("fetch")
    assert not (tmp_path / "home" / "north.nc").exists()


def test_rewards_of_rounds_that_are_not_settled_or_not_handed_out(world: World, tmp_path: Path) -> None:
    (tmp_path / "north.nc").write_bytes(settled()[1]["rewards/north.nc"])
    path = tmp_path / "round.zip"
    for round_id, says in (
        (world.round(submitted=True), "not settled"),
        (world.settled_round(), "was handed out; get"),
    ):
        path.write_bytes(export(world.context, world.operator, round_id))
        failed = [one for one in check_export(path, rewards=[tmp_path / "north.nc"]) if one.outcome == "failed"]
        assert says in failed[0].message
