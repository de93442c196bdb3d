"""Somebody with any number of keys asks to join, so that nobody else can."""

import pytest

from equipoise._util.canonical import sha256_hex
from equipoise_service.db.tables import Person
from equipoise_service.errors import Forbidden, TooMany
from equipoise_service.rules import events, people
from equipoise_service.settings import Rate, Rates, Settings
from equipoise_service.web.app import create_app
from service import conftest as services
from service.api.calls import URL, Caller, Key
from service.world import World, key_of

world = services.world
FAST = Rate(1e6, 10**6)


def ask(world: World, name: str, address: str | None) -> people.PersonView:
    world.clock.now += 1
    key = sha256_hex(name.encode())
    return people.ask_to_join(world.context, name=name, role="party", public_key=key, address=address)


def waiting(world: World) -> list[str]:
    return [one.name for one in people.list_people(world.context, world.operator) if one.state == "requested"]


def test_one_address_has_few_requests_waiting(world: World) -> None:
    for number in range(people.MAX_PER_ADDRESS):
        ask(world, f"eve{number}", "192.0.2.1")
    with pytest.raises(TooMany, match="20 requests to join from this address"):
        ask(world, "eve20", "192.0.2.1")
    newcomer = ask(world, "newcomer", "192.0.2.2")
    first = people.list_people(world.context, world.operator)[0]
    people.decide(world.context, world.operator, first.id, approve=False, fingerprint=str(first.fingerprint))
    ask(world, "eve20", "192.0.2.1")
    with world.context.database.reading() as session:
        kept = session.get_one(Person, newcomer.id)
        decided = session.get_one(Person, first.id)
    assert kept.origin is not None
    assert "192.0.2.2" not in kept.origin
    assert decided.origin is None  # once it is not needed


def test_many_addresses_keep_nobody_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "MAX_WAITING", 6)
    ask(world, "before", None)  # from a version that noted no addresses
    ask(world, "genuine", "192.0.2.1")
    for number in range(4):
        ask(world, f"eve{number}", f"198.51.100.{number % 2}")
    ask(world, "newcomer", "192.0.2.2")
    assert waiting(world) == ["before", "genuine", "eve1", "eve2", "eve3", "newcomer"]  # eve0 gave way
    ask(world, "another", "192.0.2.3")
    assert waiting(world) == ["before", "genuine", "eve2", "eve3", "newcomer", "another"]
    for name in ("last", "very-last"):  # now everybody has one, and the oldest gives way
        ask(world, name, f"of {name}")
    assert waiting(world) == ["eve2", "eve3", "newcomer", "another", "last", "very-last"]


def test_the_operator_clears_them(world: World) -> None:
    early = [ask(world, f"eve{number}", None) for number in range(5)]
    late = ask(world, "late", None)
    with pytest.raises(Forbidden):
        people.drop_requests(world.context, world.parties["north"], before=world.clock.now)
    assert people.drop_requests(world.context, world.operator, before=late.requested) == len(early)
    assert waiting(world) == ["late"]
    last = events.list_events(world.context, world.operator)[-1]
    assert (last["kind"], last["details"]["number"]) == ("requests-cleared", 5)
    assert people.drop_requests(world.context, world.operator, before=late.requested) == 0
    assert {one.state for one in people.list_people(world.context, world.operator)} == {"approved", "requested"}


def test_addresses_are_those_of_requests(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "MAX_PER_ADDRESS", 1)
    caller = Caller(create_app(world.context, Settings(public_url=URL, rates=Rates(FAST, FAST, FAST))))

    def asked(name: str, address: str) -> int:
        body = b'{"name":"%s","role":"party"}' % name.encode()
        key = Key(key_of(name), world.context.folder)
        headers = key.headers(world.context.public_key, "POST", "/v1/people", body, at=world.clock.now // 1000)
        headers |= {"content-type": "application/json"}
        return caller.call("POST", "/v1/people", body, headers=headers, client=address).status

    answers = [asked("a", "192.0.2.1"), asked("b", "192.0.2.1"), asked("c", "192.0.2.2"), asked("a", "192.0.2.1")]
    caller.close()
    assert answers == [202, 429, 202, 202]
