"""A recorded request, and a clock that jumps: forwards, so that its nonce is forgotten, and back again."""

import pytest

from equipoise.protocol.requests import SignedRequest
from equipoise.service.errors import Conflict, WrongClock
from equipoise.service.rules import authentication
from service import conftest as services
from service.world import World

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
