"""A clock that jumps, forwards and back: it brings no recorded request back, and what waits goes on waiting."""

import pytest

from equipoise.protocol.keys import fingerprint, public_hex
from equipoise.protocol.requests import SignedRequest
from equipoise_service.errors import Conflict, WrongClock
from equipoise_service.rules import authentication, events, people, settlements, submissions
from service import conftest as services
from service.world import OPTIONS, World, key_of, sent

world = services.world
HOUR = 3_600_000


def admitted(world: World, signed: SignedRequest) -> str:
    return authentication.authenticate(world.context, signed, method="GET", target="/v1/me", body=b"").name


@pytest.mark.parametrize("jump", [2 * HOUR, 24 * HOUR, 3650 * 24 * HOUR])
def test_a_clock_that_jumps_forth_and_back_brings_no_request_back(world: World, jump: int) -> None:
    recorded = world.request("north")
    assert admitted(world, recorded) == "north"
    before = world.clock.now
    world.clock.now += jump
    authentication.delete_expired(world.context)
    world.clock.now = before + 1_000
    with pytest.raises((WrongClock, Conflict)):
        admitted(world, recorded)
    assert admitted(world, world.request("north")) == "north"  # signed since
    assert admitted(world, world.request("south")) == "south"


def test_a_clock_that_is_set_back_brings_no_request_back(world: World) -> None:
    recorded = world.request("north")
    assert admitted(world, recorded) == "north"
    signed_at = world.clock.now
    world.clock.now += 3 * HOUR  # honestly
    authentication.delete_expired(world.context)
    assert admitted(world, world.request("north")) == "north"
    authentication.delete_expired(world.context)
    world.clock.now = signed_at
    with pytest.raises(WrongClock, match="has the service's clock jumped"):
        admitted(world, recorded)


def test_a_clock_that_was_a_day_ahead_keeps_nobody_out(world: World) -> None:
    before = world.clock.now
    world.clock.now += 24 * HOUR  # and everybody's with it
    recorded = world.request("north")
    assert admitted(world, recorded) == "north"
    world.clock.now += 2 * HOUR
    authentication.delete_expired(world.context)
    world.clock.now = before
    assert admitted(world, world.request("north")) == "north"
    world.clock.now = before + 24 * HOUR
    with pytest.raises(WrongClock):
        admitted(world, recorded)


def test_forgetting_nonces_refuses_nobody_while_the_clock_is_right(world: World) -> None:
    for _ in range(20):
        early = world.request("north")
        world.clock.now += 299_000  # the slowest clock that is still believed
        assert admitted(world, early) == "north"
        world.clock.now += HOUR
        authentication.delete_expired(world.context)


def waiting(world: World) -> list[str]:
    return [one.name for one in people.list_people(world.context, world.operator) if one.state == "requested"]


@pytest.mark.parametrize("jump", [-50 * 365 * 24 * HOUR, 31 * 24 * HOUR, 50 * 365 * 24 * HOUR])
def test_a_clock_that_jumps_deletes_nothing_that_waits(world: World, jump: int) -> None:
    """Nor does one that begins in 1970, as on machines without a battery, and is then set right."""
    asked = people.ask_to_join(world.context, name="late", role="party", public_key=public_hex(key_of("late")))
    open_round, settling = world.round(), world.round(submitted=True)
    settlements.start(world.context, world.operator, settling, OPTIONS)
    receipt, _ = submissions.accept(world.context, world.parties["north"], open_round, sent()["north"])
    for _ in range(2):
        world.clock.now += jump
        authentication.delete_expired(world.context)
        jump = -jump
        assert waiting(world) == ["late"]
        progress = settlements.progress(world.context, world.operator, settling)
        assert (progress.state, progress.job_state) == ("settling", "waiting")
        assert submissions.receipt(world.context, world.parties["north"], open_round) == receipt
    shown = fingerprint(public_hex(key_of("late")))
    world.clock.now += jump
    assert people.decide(world.context, world.operator, asked.id, approve=True, fingerprint=shown).state == "approved"
    assert submissions.accept(world.context, world.parties["south"], open_round, sent()["south"])[1]
    events.verify_chain(world.context)


def test_where_too_many_wait_the_first_gives_way_though_the_clock_was_set_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(people, "MAX_WAITING", 3)
    for name in ("first", "second", "third", "fourth"):
        people.ask_to_join(world.context, name=name, role="party", public_key=public_hex(key_of(name)))
        world.clock.now -= HOUR
    assert waiting(world) == ["second", "third", "fourth"]
