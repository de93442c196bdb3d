"""Who is asking: signed requests count once and now, secrets until they end, and nothing else counts."""

import dataclasses
import threading

import pytest
from sqlalchemy import func, select

from equipoise.protocol.keys import public_hex
from equipoise.protocol.requests import WINDOW
from equipoise_service.db.tables import Nonce, Secret
from equipoise_service.errors import Conflict, NotSignedIn, WrongClock
from equipoise_service.rules import authentication, events
from service.world import World, key_of

HERE = {"method": "GET", "target": "/v1/me", "body": b""}


def _admitted(world: World, name: str, **changes: object) -> str:
    signed = dataclasses.replace(world.request(name), **changes)  # type: ignore[arg-type]
    return authentication.authenticate(world.context, signed, method="GET", target="/v1/me", body=b"").name


def test_a_signed_request_counts_once(either_world: World) -> None:
    world = either_world
    signed = world.request("north")
    assert authentication.authenticate(world.context, signed, **HERE) == world.parties["north"]  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(Conflict, match="before") as refused:
            authentication.authenticate(world.context, signed, **HERE)  # type: ignore[arg-type]
        assert refused.value.code == "replayed"
    assert _admitted(world, "north") == "north"


def test_of_many_copies_at_once_one_counts(either_world: World) -> None:
    signed = either_world.request("north")
    outcomes: list[str] = []

    def send() -> None:
        try:
            authentication.authenticate(either_world.context, signed, **HERE)  # type: ignore[arg-type]
            outcomes.append("admitted")
        except Exception as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["Conflict"] * 7 + ["admitted"]


def test_a_request_that_says_something_else_than_was_signed_is_refused(world: World) -> None:
    for changes in ({"method": "PUT"}, {"target": "/v1/me?x"}, {"body": b" "}):
        with pytest.raises(NotSignedIn, match="not signed"):
            authentication.authenticate(world.context, world.request("north"), **{**HERE, **changes})  # type: ignore[arg-type]
    with pytest.raises(NotSignedIn):
        _admitted(world, "north", public_key=public_hex(key_of("south")))


@pytest.mark.parametrize("seconds", [-WINDOW - 1, WINDOW + 1, -(10**9), 10**11])
def test_a_request_from_another_time_is_refused_with_both_times(world: World, seconds: int) -> None:
    signed = world.request("north")
    world.clock.now -= seconds * 1000
    with pytest.raises(WrongClock, match="set your clock"):
        authentication.authenticate(world.context, signed, **HERE)  # type: ignore[arg-type]


def test_clocks_may_be_five_minutes_apart(world: World) -> None:
    begin = world.clock.now
    for difference in (-WINDOW, WINDOW):
        world.clock.now = begin
        signed = world.request("north")
        world.clock.now = begin + 1000 * difference
        assert authentication.authenticate(world.context, signed, **HERE).name == "north"  # type: ignore[arg-type]


def test_nonces_are_kept_longer_than_their_requests_are_good(world: World) -> None:
    signed = world.request("north")
    authentication.authenticate(world.context, signed, **HERE)  # type: ignore[arg-type]
    world.clock.now += 2 * WINDOW * 1000
    authentication.delete_expired(world.context)
    world.clock.now -= 2 * WINDOW * 1000  # the clock is set back
    with pytest.raises(Conflict):
        authentication.authenticate(world.context, signed, **HERE)  # type: ignore[arg-type]
    world.clock.now += 2 * authentication.NONCE_MS
    authentication.delete_expired(world.context)
    with world.context.database.reading() as session:
        assert session.scalar(select(func.count()).where(Nonce.public_key == signed.public_key)) == 0


def test_strangers_sign_to_join_and_for_nothing_else(world: World) -> None:
    with pytest.raises(NotSignedIn, match="equipoise join"):
        _admitted(world, "stranger")
    signed = world.request("stranger")
    assert authentication.verify_signature(world.context, signed, **HERE) == public_hex(key_of("stranger"))  # type: ignore[arg-type]
    with pytest.raises(Conflict):
        authentication.verify_signature(world.context, signed, **HERE)  # type: ignore[arg-type]


def test_tokens_end_after_an_hour_or_when_told(world: World) -> None:
    north = world.parties["north"]
    token, expires = authentication.new_token(world.context, north)
    other, _ = authentication.new_token(world.context, north)
    assert expires == world.clock.now + 3_600_000
    assert authentication.actor_of(world.context, token, "token") == north
    with pytest.raises(NotSignedIn):
        authentication.actor_of(world.context, token, "session")
    authentication.sign_out(world.context, other)
    with pytest.raises(NotSignedIn):
        authentication.actor_of(world.context, other, "token")
    world.clock.now = expires
    with pytest.raises(NotSignedIn, match="sign in again"):
        authentication.actor_of(world.context, token, "token")
    authentication.delete_expired(world.context)
    with world.context.database.reading() as session:
        assert session.scalar(select(func.count()).select_from(Secret)) == 0


def test_a_sign_in_link_works_once_for_ten_minutes(world: World) -> None:
    link = authentication.new_sign_in_secret(world.context, world.auditor)
    with pytest.raises(NotSignedIn):
        authentication.actor_of(world.context, link, "session")
    session, actor = authentication.redeem(world.context, link)
    assert actor == world.auditor == authentication.actor_of(world.context, session, "session")
    for wrong in (link, session, "", "\ud800"):
        with pytest.raises(NotSignedIn, match="equipoise login"):
            authentication.redeem(world.context, wrong)
    late = authentication.new_sign_in_secret(world.context, world.auditor)
    world.clock.now += authentication.SIGN_IN_MS
    with pytest.raises(NotSignedIn):
        authentication.redeem(world.context, late)
    assert authentication.actor_of(world.context, session, "session") == world.auditor
    world.clock.now += authentication.SESSION_MS
    with pytest.raises(NotSignedIn):
        authentication.actor_of(world.context, session, "session")


def test_secrets_are_kept_hashed_and_out_of_the_log(world: World) -> None:
    secrets = [
        authentication.new_token(world.context, world.operator)[0],
        authentication.start_session(world.context, world.operator),
        authentication.new_sign_in_secret(world.context, world.operator),
    ]
    begun, _ = authentication.redeem(world.context, secrets[-1])
    world.context.close()
    stored = b"".join(path.read_bytes() for path in world.context.folder.glob("equipoise.sqlite*"))
    log = str(events.list_events(world.context, world.operator))
    for secret in (*secrets, begun):
        assert secret.encode() not in stored
        assert secret not in log


def test_secrets_differ_and_hashes_do_not_tell_them() -> None:
    first, second = authentication.new_secret(), authentication.new_secret()
    assert first != second
    assert authentication.hashed(first) == authentication.hashed(first) != authentication.hashed(second)
    assert first not in authentication.hashed(first)
