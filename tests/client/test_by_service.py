"""A round by way of a real service, and one that lies."""

import json
from pathlib import Path
from typing import Any

import pytest

from client.listening import Altering, known_member, member
from equipoise.client.connection import Connection, RefusedError
from equipoise.client.exchange import Exchange
from equipoise.client.membership import Membership
from equipoise.client.service_round import ServiceExchange, ask_to_join, connect, only_round
from equipoise.errors import AgreementError, KeyFileError, ServiceError, VerificationError
from equipoise.protocol.keys import load_key
from equipoise.protocol.receipts import Receipt
from service.world import World, sent


@pytest.fixture
def north(world: World, url: str, tmp_path: Path) -> Membership:
    """A party that the service knows."""
    return known_member(tmp_path / "home", url, world.context.public_key, "north")


def lied_to(me: Membership, round_id: str, where: str, **changes: Any) -> ServiceExchange:
    """An exchange in which one answer is changed on its way."""

    def change(content: bytes) -> bytes:
        try:
            return json.dumps(json.loads(content) | changes).encode()
        except ValueError:
            return content[:-1] + b"x"

    connection = Connection(
        me.url, key=load_key(me.key), audience=me.service, transport=Altering(where, change), sleep=lambda _: None
    )
    return ServiceExchange(me, round_id=round_id, connection=connection)


def test_a_newcomer_waits(world: World, url: str, tmp_path: Path) -> None:
    east = member(tmp_path / "home", url, world.context.public_key, "east")
    exchange: Exchange = ServiceExchange(east)
    assert exchange.status().state == "requested"
    assert exchange.status().rounds == ()
    with connect(east) as connection:
        assert ask_to_join(connection, east)["state"] == "requested"
    with pytest.raises(RefusedError, match="not approved") as refused:
        exchange.agreement()
    assert exchange.status().fingerprint.upper() in str(refused.value)
    exchange.close()
    east.key.unlink()
    with pytest.raises(KeyFileError, match="restore it from your copy.*join again"):
        connect(east)


def test_submitting_and_sending_again(world: World, north: Membership) -> None:
    exchange = ServiceExchange(north)
    with pytest.raises(ServiceError, match="in no round yet"):
        exchange.agreement()
    round_id = world.round()
    assert exchange.agreement().title == "Three clinics"
    exchange.check_open()
    receipt = exchange.submit(sent()["north"])
    assert receipt is not None
    assert (receipt.round, receipt.party) == (round_id, "north")
    assert exchange.submit(sent()["north"]) == receipt
    (seen,) = exchange.status().rounds
    assert (seen.id, seen.state, seen.submitted, seen.mine) == (round_id, "open", ("north",), True)
    with pytest.raises(ServiceError, match="submits once"):
        exchange.check_open()
    assert (exchange.reward(), exchange.report()) == (None, None)
    exchange.close()


@pytest.mark.engine
@pytest.mark.group("gaussian")
def test_a_settled_round(world: World, north: Membership) -> None:
    world.settled_round()
    world.round()
    exchange = ServiceExchange(north, wanted="settled")
    reward = exchange.reward()
    assert reward is not None
    (Path(north.key).parent / "got.nc").write_bytes(reward)
    from equipoise.reward.model import Reward

    assert Reward.load(Path(north.key).parent / "got.nc").party == "north"
    assert b"<html" in (exchange.report() or b"")
    with pytest.raises(ServiceError, match="settled, not open"):
        exchange.check_open()
    exchange.close()


def test_lies_about_a_submission(world: World, north: Membership) -> None:
    round_id = world.round()
    data = sent()["north"]
    for changes, says in (
        ({"received": 1}, "altered afterwards"),
        ({"service": "ab" * 32}, "names the service"),
        ({"format": "receipt"}, "is not a receipt"),
    ):
        exchange = lied_to(north, round_id, "/submission", **changes)
        with pytest.raises(VerificationError, match=says):
            exchange.submit(data)
        exchange.close()
    honest = ServiceExchange(north, round_id=round_id)
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
    exchange = lied_to(north, round_id, "/agreement", identity="0" * 64)
    with pytest.raises(VerificationError, match="do not submit"):
        exchange.agreement()
    exchange.close()
    exchange = lied_to(north, round_id, "/agreement", agreement={"format": 1})
    with pytest.raises(AgreementError, match="something else than an agreement"):
        exchange.agreement()
    exchange.close()
    exchange = lied_to(north, round_id, "/reward")
    with pytest.raises(VerificationError, match="altered on its way"):
        exchange.reward()
    exchange.close()


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
    exchange = ServiceExchange(north, connection=connection)
    with pytest.raises(ServiceError, match="otherwise than this version understands|cannot be read|not JSON"):
        exchange.status()
    exchange.close()


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
