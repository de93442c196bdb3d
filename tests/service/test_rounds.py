"""Rounds: who sees which numbers, invitations, closing, and odd titles."""

import pytest
from sqlalchemy import event

from equipoise.protocol.keys import fingerprint
from equipoise_service.errors import Conflict, Invalid, NotFound
from equipoise_service.rules import events, rounds, submissions
from service.world import EPSILONS, World, agreement, sent


def test_a_new_round_has_a_seat_for_each_party_and_shows_its_agreement(world: World) -> None:
    round_id = world.round()
    assert len(round_id) == 12
    view = rounds.get(world.context, world.parties["north"], round_id)
    assert (view.title, view.state, view.identity) == ("Three clinics", "open", agreement().identity)
    assert view.agreement == agreement()
    assert [seat.party for seat in view.seats] == ["north", "south", "west"]
    assert all(seat.invited == world.clock.now and seat.submitted is None for seat in view.seats)
    assert view.seats[0].fingerprint == fingerprint(str(world.parties["north"].public_key))
    assert view.seats[1].fingerprint is None  # the others' are for those who oversee
    shown = rounds.get(world.context, world.auditor, round_id).seats
    assert shown[1].fingerprint == fingerprint(str(world.parties["south"].public_key))
    last = events.list_events(world.context, world.operator)[-1]
    assert (last["kind"], last["round"], last["actor"]) == ("round-created", round_id, "olga")


def test_how_much_was_submitted_is_for_its_owner_operators_and_auditors(world: World) -> None:
    round_id = world.round(submitted=True)
    for actor in (world.operator, world.auditor):
        for view in (rounds.get(world.context, actor, round_id), rounds.list_visible(world.context, actor)[0]):
            assert [seat.epsilon for seat in view.seats] == list(EPSILONS)
            assert [seat.rows for seat in view.seats] == [300, 300, 300]
    for name, actor in world.parties.items():
        for view in (rounds.get(world.context, actor, round_id), rounds.list_visible(world.context, actor)[0]):
            for seat in view.seats:
                assert seat.submitted == world.clock.now
                assert (seat.epsilon is not None) == (seat.rows is not None) == (seat.party == name)


def test_rounds_are_listed_newest_first_with_few_queries(world: World) -> None:
    made = []
    for _ in range(4):
        world.clock.now += 1
        made.append(world.round())
    statements: list[str] = []
    engine = world.context.database._engine
    event.listen(engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    views = rounds.list_visible(world.context, world.parties["south"])
    assert [view.id for view in views] == made[::-1]
    assert len(statements) <= 5  # with BEGIN


def test_invitations(world: World) -> None:
    round_id = rounds.create(world.context, world.operator, agreement(), invite=False)
    assert all(seat.invited is None for seat in rounds.get(world.context, world.operator, round_id).seats)
    for _ in range(2):
        rounds.invite(world.context, world.operator, round_id, "west")
    view = rounds.get(world.context, world.parties["west"], round_id)
    assert [seat.invited for seat in view.seats] == [None, None, world.clock.now]
    assert [event["kind"] for event in events.list_events(world.context, world.operator)].count("party-invited") == 1
    with pytest.raises(NotFound, match="no party"):
        rounds.invite(world.context, world.operator, round_id, "nobody\0")


def test_a_closed_round_takes_nothing_more(world: World) -> None:
    round_id = world.round()
    for _ in range(2):
        rounds.close(world.context, world.operator, round_id)
    assert rounds.get(world.context, world.operator, round_id).state == "closed"
    with pytest.raises(Conflict, match="closed"):
        submissions.accept(world.context, world.parties["north"], round_id, sent()["north"])
    hidden = rounds.create(world.context, world.operator, agreement(), invite=False)
    rounds.close(world.context, world.operator, hidden)
    with pytest.raises(Conflict, match="new round"):
        rounds.invite(world.context, world.operator, hidden, "north")


@pytest.mark.parametrize(
    "title", ["", "<script>alert(1)</script>", "Ünïcode 🩺 'quotes\" -- ; DROP", "a\nb", "x" * 200]
)
def test_titles_are_kept_as_they_are(either_world: World, title: str) -> None:
    round_id = either_world.round(agreement(title=title))
    view = rounds.get(either_world.context, either_world.operator, round_id)
    assert view.title == view.agreement.title == title
    events.verify_chain(either_world.context)


def test_a_title_no_database_can_keep_is_refused(world: World) -> None:
    with pytest.raises(Invalid, match="NUL"):
        world.round(agreement(title="a\0b"))
