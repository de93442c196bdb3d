"""A round by way of a real service, and one that lies."""

import json
from pathlib import Path
from typing import Any

import pytest

from client.listening import Altering, known_member, member
from equipoise.client.connection import Connection, RefusedError
from equipoise.client.local_files import checked_reward
from equipoise.client.membership import Membership
from equipoise.client.round import RoundClient
from equipoise.client.service_round import ServiceRound, ask_to_join, connect, only_round
from equipoise.errors import AgreementError, KeyFileError, MediationError, ServiceError, VerificationError
from equipoise.protocol.keys import load_key
from equipoise.protocol.receipts import Receipt
from full_disk import no_file_longer_than
from service.world import World, agreement, sent


@pytest.fixture
def north(world: World, url: str, tmp_path: Path) -> Membership:
    """A party that the service knows."""
    return known_member(tmp_path / "home", url, world.context.public_key, "north")


def lied_to(me: Membership, round_id: str, where: str, **changes: Any) -> ServiceRound:
    """A round in which one answer is changed on its way."""

    def change(content: bytes) -> bytes:
        try:
            return json.dumps(json.loads(content) | changes).encode()
        except ValueError:
            return content[:-1] + b"x"

    connection = Connection(
        me.url, key=load_key(me.key), audience=me.service, transport=Altering(where, change), sleep=lambda _: None
    )
    return ServiceRound(me, round_id=round_id, connection=connection)


def test_a_newcomer_waits(world: World, url: str, tmp_path: Path) -> None:
    east = member(tmp_path / "home", url, world.context.public_key, "east")
    round_: RoundClient = ServiceRound(east)
    assert round_.status().state == "requested"
    assert round_.status().rounds == ()
    with connect(east) as connection:
        assert ask_to_join(connection, east)["state"] == "requested"
    with pytest.raises(RefusedError, match="not approved") as refused:
        round_.agreement()
    assert round_.status().fingerprint.upper() in str(refused.value)
    round_.close()
    east.key.unlink()
    with pytest.raises(KeyFileError, match="restore it from your copy.*join again"):
        connect(east)


def test_submitting_and_sending_again(world: World, north: Membership) -> None:
    round_ = ServiceRound(north)
    with pytest.raises(ServiceError, match="in no round yet"):
        round_.agreement()
    round_id = world.round()
    assert round_.agreement().title == "Three clinics"
    round_.check_open()
    receipt = round_.submit(sent()["north"])
    assert receipt is not None
    assert (receipt.round, receipt.party) == (round_id, "north")
    assert round_.submit(sent()["north"]) == receipt
    (seen,) = round_.status().rounds
    assert (seen.id, seen.state, seen.submitted, seen.mine) == (round_id, "open", ("north",), True)
    with pytest.raises(ServiceError, match="submits once"):
        round_.check_open()
    assert (round_.reward(), round_.report()) == (None, None)
    round_.close()


@pytest.mark.engine
@pytest.mark.group("gaussian")
def test_a_settled_round(world: World, north: Membership) -> None:
    world.settled_round()
    world.round()
    round_ = ServiceRound(north, wanted="settled")
    reward = round_.reward()
    assert reward is not None
    (Path(north.key).parent / "got.nc").write_bytes(reward)
    from equipoise.reward.model import Reward

    assert Reward.load(Path(north.key).parent / "got.nc").party == "north"
    assert b"<html" in (round_.report() or b"")
    with pytest.raises(ServiceError, match="settled, not open"):
        round_.check_open()
    round_.close()


def test_lies_about_a_submission(world: World, north: Membership) -> None:
    round_id = world.round()
    data = sent()["north"]
    for changes, says in (
        ({"received": 1}, "altered afterwards"),
        ({"service": "ab" * 32}, "names the service"),
        ({"format": "receipt"}, "is not a receipt"),
    ):
        round_ = lied_to(north, round_id, "/submission", **changes)
        with pytest.raises(VerificationError, match=says):
            round_.submit(data)
        round_.close()
    honest = ServiceRound(north, round_id=round_id)
    receipt = honest.submit(data)
    assert receipt is not None
    told = receipt.model_dump(exclude={"format", "version", "service", "signature"})
    for name, value in (("digest", "0" * 64), ("party", "south"), ("round", "other")):
        other = Receipt.signed(world.context.key, **{**told, name: value})
        with pytest.raises(VerificationError, match=f"not for what was sent: the {name}"):
            honest.check_receipt(other, data)
    honest.close()


@pytest.mark.engine
@pytest.mark.group("gaussian")
def test_lies_about_agreement_and_reward(world: World, north: Membership) -> None:
    round_id = world.settled_round()
    round_ = lied_to(north, round_id, "/agreement", identity="0" * 64)
    with pytest.raises(VerificationError, match="do not submit"):
        round_.agreement()
    round_.close()
    round_ = lied_to(north, round_id, "/agreement", agreement={"format": 1})
    with pytest.raises(AgreementError, match="something else than an agreement"):
        round_.agreement()
    round_.close()
    round_ = lied_to(north, round_id, "/reward")
    with pytest.raises(VerificationError, match="altered on its way"):
        round_.reward()
    round_.close()


@pytest.mark.parametrize(
    ("where", "answer"),
    [
        ("/v1/me", b"[]"),
        ("/v1/me", b'{"state": 1}'),
        ("/v1/rounds", b"5"),
        ("/v1/rounds", b'{"rounds": [{}]}'),
        ("/v1/rounds", b'{"rounds": [{"id": "../x", "title": "", "state": "open", "identity": "", "seats": []}]}'),
        ("/v1/rounds", b'{"rounds": [{"id": "\\ud800", "title": "", "state": "open", "identity": "", "seats": []}]}'),
        ("/settlement", b'{"job_state": "running"}'),
    ],
)
def test_answers_that_are_none(world: World, north: Membership, where: str, answer: bytes) -> None:
    world.round()
    connection = Connection(
        north.url, key=load_key(north.key), audience=north.service, transport=Altering(where, lambda _: answer)
    )
    round_ = ServiceRound(north, connection=connection)
    with pytest.raises(ServiceError, match="otherwise than this version understands|cannot be read|not JSON"):
        round_.status()
    round_.close()


def test_which_round() -> None:
    one, two, three = (
        {"id": name, "title": "", "state": state} for name, state in (("a", "open"), ("b", "settled"), ("c", "open"))
    )
    assert only_round([one], "settled") == "a"
    assert only_round([one, two], "settled") == "b"
    with pytest.raises(ServiceError, match=r"several rounds.*a \(no title, open\); b.*; c"):
        only_round([one, two, three], "open")
    closed = {"id": "d", "title": "", "state": "closed"}
    with pytest.raises(ServiceError, match="none of your rounds is open: .*; the operator opens one") as refused:
        only_round([two, closed], "open")
    assert "--round" not in str(refused.value)
    assert only_round([one, closed], "settled") == "a"  # the one to wait for
    with pytest.raises(ServiceError, match="settled yet: .*; wait, or use --wait"):
        only_round([one, three], "settled")


def test_a_reward_that_cannot_be_looked_at_is_not_called_wrong(north: Membership) -> None:
    with no_file_longer_than(100), pytest.raises(MediationError, match="cannot write into .*free some room.*TMPDIR"):
        checked_reward(bytes(1_000), north, agreement())
