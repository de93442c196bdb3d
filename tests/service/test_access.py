"""Who may do what: every action for every role, and rounds that a party must not know of."""

from collections.abc import Callable
from typing import Any

import pytest

from equipoise.protocol.keys import public_hex
from equipoise_service.errors import Forbidden, NotFound, NotSignedIn, Refusal
from equipoise_service.options import Options
from equipoise_service.rules import authentication, events, export, people, results, rounds, settlements, submissions
from equipoise_service.rules.access import ACTIONS, Actor, require
from service.world import World, agreement, key_of, sent

ROLES = ("operator", "party", "auditor")

# Every rule that somebody asks for, with the action it is.
RULES: dict[str, tuple[str, Callable[[World, Actor | None, str], Any]]] = {
    "me": ("see-self", lambda world, actor, _: people.me(world.context, actor)),
    "new token": ("sign-in", lambda world, actor, _: authentication.new_token(world.context, actor)),
    "sign-in link": ("sign-in", lambda world, actor, _: authentication.new_sign_in_secret(world.context, actor)),
    "people": ("see-people", lambda world, actor, _: people.list_people(world.context, actor)),
    "approve": (
        "decide-people",
        lambda world, actor, _: people.decide(world.context, actor, 99, approve=True, fingerprint=""),
    ),
    "revoke": ("revoke-people", lambda world, actor, _: people.revoke(world.context, actor, 99)),
    "create": ("create-rounds", lambda world, actor, _: rounds.create(world.context, actor, agreement())),
    "invite": ("invite", lambda world, actor, one: rounds.invite(world.context, actor, one, "north")),
    "close": ("close-rounds", lambda world, actor, one: rounds.close(world.context, actor, one)),
    "rounds": ("see-rounds", lambda world, actor, _: rounds.list_visible(world.context, actor)),
    "round": ("see-rounds", lambda world, actor, one: rounds.get(world.context, actor, one)),
    "submit": ("submit", lambda world, actor, one: submissions.accept(world.context, actor, one, b"")),
    "own": ("see-own-submission", lambda world, actor, one: submissions.own_submission(world.context, actor, one)),
    "receipt": ("see-own-submission", lambda world, actor, one: submissions.receipt(world.context, actor, one)),
    "start": ("settle", lambda world, actor, one: settlements.start(world.context, actor, one, Options())),
    "cancel": ("settle", lambda world, actor, one: settlements.cancel(world.context, actor, one)),
    "progress": ("see-progress", lambda world, actor, one: settlements.progress(world.context, actor, one)),
    "settlement": ("see-settlement", lambda world, actor, one: results.settlement(world.context, actor, one)),
    "document": ("see-settlement", lambda world, actor, one: results.document(world.context, actor, one)),
    "own view": ("see-own-result", lambda world, actor, one: results.party_view(world.context, actor, one)),
    "reward": ("fetch-reward", lambda world, actor, one: results.reward(world.context, actor, one)),
    "reward receipt": (
        "fetch-reward",
        lambda world, actor, one: results.reward_receipt(world.context, actor, one),
    ),
    "summary": ("see-summary", lambda world, actor, one: results.summary(world.context, actor, one)),
    "audit": ("see-audit", lambda world, actor, one: results.audit(world.context, actor, one)),
    "export": ("export", lambda world, actor, one: export.export(world.context, actor, one)),
    "events": ("see-events", lambda world, actor, _: events.list_events(world.context, actor)),
    "chain": ("see-chain", lambda world, actor, one: events.chain(world.context, actor, one)),
}

# Written out a second time, by role, so that a slip in the table shows.
ALLOWED = {
    "operator": set(ACTIONS) - {"submit", "see-own-submission", "see-own-result", "fetch-reward"},
    "auditor": {"see-self", "sign-in", "see-people", "see-rounds", "see-progress", "see-settlement", "see-summary"}
    | {"see-audit", "see-events", "see-chain"},
    "party": {"see-self", "sign-in", "see-rounds", "submit", "see-own-submission", "see-progress", "see-own-result"}
    | {"fetch-reward", "see-summary", "see-audit", "see-chain"},
}


@pytest.mark.parametrize("role", ROLES)
def test_every_action_is_for_the_roles_it_is_for(role: str) -> None:
    for action in ACTIONS:
        actor = Actor(1, "x", role, None)
        if action in ALLOWED[role]:
            assert require(actor, action) is actor
        else:
            with pytest.raises(Forbidden, match=role):
                require(actor, action)
        with pytest.raises(NotSignedIn):
            require(None, action)


def test_every_action_is_asked_for_by_a_rule() -> None:
    assert {action for action, _ in RULES.values()} == set(ACTIONS)


def test_every_rule_refuses_who_may_not(world: World) -> None:
    actors = {"operator": world.operator, "auditor": world.auditor, "party": world.parties["north"]}
    for name, (action, rule) in RULES.items():
        round_id = world.round()
        with pytest.raises(NotSignedIn):
            rule(world, None, round_id)
        for role, actor in actors.items():
            refused = None
            try:
                rule(world, actor, round_id)
            except Refusal as refusal:
                refused = refusal
            assert isinstance(refused, Forbidden) == (action not in ALLOWED[role]), (name, role)


def test_a_round_one_is_not_invited_to_is_as_one_that_is_not_there(world: World) -> None:
    hidden = rounds.create(world.context, world.operator, agreement(), invite=False)
    stranger = world.joined("stranger")
    elsewhere = world.round()
    asking = [rule for action, rule in RULES.values() if "party" in ACTIONS[action]]
    messages = set()
    for rule in asking:
        for actor, round_id in ((world.parties["north"], hidden), (stranger, elsewhere), (stranger, "nothere")):
            try:
                rule(world, actor, round_id)
            except NotFound as refused:
                messages.add(str(refused))
    assert len(messages) == 1
    assert [one.id for one in rounds.list_visible(world.context, world.parties["north"])] == [elsewhere]
    assert rounds.list_visible(world.context, stranger) == []
    rounds.invite(world.context, world.operator, hidden, "north")
    assert rounds.get(world.context, world.parties["north"], hidden).id == hidden
    with pytest.raises(NotFound):
        rounds.get(world.context, world.parties["south"], hidden)


@pytest.mark.parametrize("round_id", ["", "x", "A" * 12, "abcd\0", "../../etc", "é" * 12, "a" * 10_000, "\ud800" * 5])
def test_no_address_of_a_round_reaches_the_database_unchecked(world: World, round_id: str) -> None:
    for _, rule in RULES.values():
        for actor in (world.operator, world.parties["north"]):
            try:
                rule(world, actor, round_id)
            except Refusal as refused:
                assert refused.status in (403, 404)  # noqa: PT017


def test_where_the_agreement_names_a_key_only_its_owner_has_the_seat(world: World) -> None:
    pinned = [{"name": "north", "public_key": public_hex(key_of("north"))}, {"name": "south"}, {"name": "west"}]
    agreed = agreement(parties=pinned)
    round_id = world.round(agreed, submitted=True)
    people.revoke(world.context, world.operator, world.parties["north"].person_id)
    people.revoke(world.context, world.operator, world.parties["south"].person_id)
    other_north = world.joined("north", key=key_of("other"))
    other_south = world.joined("south", key=key_of("another"))
    with pytest.raises(NotFound):
        rounds.get(world.context, other_north, round_id)
    assert rounds.list_visible(world.context, other_north) == []
    # No key is named for this one: whom the operator approves under the name has the seat.
    assert submissions.own_submission(world.context, other_south, round_id) == sent(agreed)["south"]
