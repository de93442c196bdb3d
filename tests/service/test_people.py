"""People: asking, approving by fingerprint, the first operator, and losing access."""

import pytest

from equipoise.models.section import SMALL_ORDER
from equipoise.protocol.keys import fingerprint, public_hex
from equipoise_service.context import Context
from equipoise_service.errors import Conflict, Invalid, NotFound, NotSignedIn, Refusal
from equipoise_service.rules import authentication, events, people, rounds, submissions
from equipoise_service.rules.access import Actor
from service.world import World, agreement, key_of, sent

NEW = public_hex(key_of("newcomer"))


def _ask(world: World, **changes: str) -> people.PersonView:
    return people.ask_to_join(world.context, **{"name": "new", "role": "party", "public_key": NEW, **changes})


def test_who_asks_waits_until_the_fingerprint_was_compared(world: World) -> None:
    asked = _ask(world, note="Ask for Ünal <b>42</b> 🩺")
    assert (asked.state, asked.note, asked.decided) == ("requested", "Ask for Ünal <b>42</b> 🩺", None)
    with pytest.raises(NotSignedIn, match="not decided"):
        authentication.actor_of_key(world.context, NEW)
    with pytest.raises(Conflict, match="do not approve") as refused:
        people.decide(world.context, world.operator, asked.id, approve=True, fingerprint=fingerprint("0" * 64))
    assert refused.value.code == "fingerprint"
    written = fingerprint(NEW).upper().replace("-", " ")
    for _ in range(2):  # again is no mistake
        view = people.decide(world.context, world.operator, asked.id, approve=True, fingerprint=written)
        assert (view.state, view.decided) == ("approved", world.clock.now)
    assert authentication.actor_of_key(world.context, NEW).name == "new"
    kinds = [event["kind"] for event in events.list_events(world.context, world.operator)]
    assert kinds[-2:] == ["join-requested", "person-approved"]


def test_asking_again_says_where_it_stands(world: World) -> None:
    first = _ask(world)
    assert _ask(world) == first
    with pytest.raises(Conflict, match="before"):
        _ask(world, name="other")
    with pytest.raises(Conflict, match="before"):
        _ask(world, role="auditor")
    people.decide(world.context, world.operator, first.id, approve=False, fingerprint=str(first.fingerprint))
    assert _ask(world).state == "refused"
    with pytest.raises(NotSignedIn, match="refused"):
        authentication.actor_of_key(world.context, NEW)
    # The operator may think again.
    people.decide(world.context, world.operator, first.id, approve=True, fingerprint=str(first.fingerprint))
    with pytest.raises(Conflict, match="revoke the person"):
        people.decide(world.context, world.operator, first.id, approve=False, fingerprint=str(first.fingerprint))


@pytest.mark.parametrize(
    "changes",
    [
        *({"name": name} for name in ("", ".x", "a b", "north\n", "x" * 65, "ü", "a\0")),
        *({"public_key": key} for key in ("", "A" * 64, "0" * 63, "é" * 64, sorted(SMALL_ORDER)[0])),
        *({"note": note} for note in ("x" * 201, "two\nlines", "\0", "\ud800")),
        {"role": "king"},
    ],
)
def test_what_cannot_be_a_person_is_refused(world: World, changes: dict[str, str]) -> None:
    before = events.verify_chain(world.context)
    with pytest.raises(Invalid):
        _ask(world, **changes)
    assert events.verify_chain(world.context) == before


def test_a_name_belongs_to_one_approved_person(world: World) -> None:
    rival = _ask(world, name="NORTH")
    with pytest.raises(Conflict, match="taken"):
        people.decide(world.context, world.operator, rival.id, approve=True, fingerprint=str(rival.fingerprint))
    people.revoke(world.context, world.operator, world.parties["north"].person_id)
    view = people.decide(world.context, world.operator, rival.id, approve=True, fingerprint=str(rival.fingerprint))
    assert view.state == "approved"


def test_an_operator_without_a_key_approves_its_own(world: World) -> None:
    ann = people.claim_first_operator(world.context, people.first_operator_secret(world.context), name="ann")

    def approved(request: people.PersonView, by: Actor = ann) -> people.PersonView:
        return people.decide(world.context, by, request.id, approve=True, fingerprint=str(request.fingerprint))

    first, second = (_ask(world, name="ann", role="operator", public_key=public_hex(key_of(key))) for key in "ab")
    for other, by in ((_ask(world, name="ann", public_key="c" * 64), ann), (first, world.operator)):
        with pytest.raises(Conflict, match="taken"):  # another role, and another operator
            approved(other, by)
    view = approved(first)
    assert (view.id, view.public_key) == (ann.person_id, first.public_key)
    assert authentication.actor_of_key(world.context, str(first.public_key)).person_id == ann.person_id
    assert [one.id for one in people.list_people(world.context, ann) if one.public_key == first.public_key] == [view.id]
    with pytest.raises(Conflict, match="taken"):
        approved(second)
    told = events.list_events(world.context, world.auditor)[-1]
    assert (told["kind"], told["actor"], told["details"]["person"]) == ("person-approved", "ann", ann.person_id)
    assert told["details"]["fingerprint"] == first.fingerprint
    events.verify_chain(world.context)


def test_who_is_revoked_loses_everything_at_once(world: World) -> None:
    north = world.parties["north"]
    token, _ = authentication.new_token(world.context, north)
    session = authentication.start_session(world.context, north)
    link = authentication.new_sign_in_secret(world.context, north)
    people.revoke(world.context, world.operator, north.person_id)
    people.revoke(world.context, world.operator, north.person_id)
    with pytest.raises(NotSignedIn):
        authentication.actor_of(world.context, token, "token")
    with pytest.raises(NotSignedIn):
        authentication.actor_of(world.context, session, "session")
    with pytest.raises(NotSignedIn):
        authentication.redeem(world.context, link)
    with pytest.raises(NotSignedIn, match="ended its access"):
        authentication.authenticate(world.context, world.request("north"), method="GET", target="/v1/me", body=b"")
    shown = str(people.me(world.context, north).fingerprint)
    with pytest.raises(Conflict, match="new key"):
        people.decide(world.context, world.operator, north.person_id, approve=True, fingerprint=shown)


def test_the_last_operator_stays(world: World) -> None:
    with pytest.raises(Conflict, match="only operator"):
        people.revoke(world.context, world.operator, world.operator.person_id)
    second = world.joined("otto", role="operator")
    people.revoke(world.context, second, world.operator.person_id)
    assert people.has_operator(world.context)


@pytest.mark.parametrize("number", [0, -1, 999, 2**63, 10**30])
def test_nobody_is_nobody(world: World, number: int) -> None:
    with pytest.raises(NotFound):
        people.revoke(world.context, world.operator, number)


def test_lists_show_those_who_wait_first(world: World) -> None:
    asked = _ask(world)
    names = [person.name for person in people.list_people(world.context, world.auditor)]
    assert names == ["new", "olga", "ada", "north", "south", "west"]
    assert people.me(world.context, world.parties["west"]).name == "west"
    assert asked.fingerprint == fingerprint(NEW)


def test_the_first_operator_comes_by_a_secret_that_works_once(tmp_path: object, world: World) -> None:
    context = world.context
    old = people.first_operator_secret(context)
    secret = people.first_operator_secret(context)
    for wrong in (old, "", "x", secret[:-1]):
        with pytest.raises(NotSignedIn, match="--operator-link"):
            people.claim_first_operator(context, wrong, name="otto")
    # A mistake does not use it up.
    with pytest.raises(Conflict, match="taken"):
        people.claim_first_operator(context, secret, name="North")
    with pytest.raises(Conflict, match="taken"):
        people.claim_first_operator(context, secret, name="olga")  # she has a key
    with pytest.raises(Conflict, match="another key"):
        people.claim_first_operator(context, secret, name="otto", public_key=world.parties["north"].public_key)
    with pytest.raises(Invalid):
        people.claim_first_operator(context, secret, name="")
    otto = people.claim_first_operator(context, secret, name="otto")
    assert (otto.role, otto.public_key) == ("operator", None)
    with pytest.raises(NotSignedIn):
        people.claim_first_operator(context, secret, name="otto")
    # The same operator comes back with a key.
    again = people.claim_first_operator(context, people.first_operator_secret(context), name="otto", public_key=NEW)
    assert (again.person_id, again.public_key) == (otto.person_id, NEW)
    assert authentication.actor_of_key(context, NEW) == again
    late = people.first_operator_secret(context)
    world.clock.now += people.FIRST_OPERATOR_MS
    with pytest.raises(NotSignedIn):
        people.claim_first_operator(context, late, name="late")


def test_no_operator_at_the_beginning(tmp_path: object, world: World) -> None:
    assert people.has_operator(world.context)
    fresh = Context.open(world.context.folder / "fresh")
    assert not people.has_operator(fresh)
    fresh.close()


def test_refusals_say_nothing_of_secrets(world: World) -> None:
    secret = people.first_operator_secret(world.context)
    with pytest.raises(Refusal) as refused:
        people.claim_first_operator(world.context, secret, name="north")
    assert secret not in str(refused.value)
    assert secret not in str(events.list_events(world.context, world.operator))


def test_who_asked_before_it_found_the_link_is_the_operator(world: World) -> None:
    key = NEW
    asked = people.ask_to_join(world.context, name="otto", role="operator", public_key=key)
    secret = people.first_operator_secret(world.context)
    actor = people.claim_first_operator(world.context, secret, name="otto", public_key=key)
    assert (actor.person_id, actor.role) == (asked.id, "operator")
    assert people.me(world.context, actor).state == "approved"


def test_nobody_is_called_as_the_log_calls_the_service(world: World) -> None:
    key = NEW
    with pytest.raises(Invalid, match="service's own"):
        people.ask_to_join(world.context, name="Service", role="party", public_key=key)


def test_access_that_ended_during_a_request_is_noticed(world: World) -> None:
    """The request was let in, then the person was revoked, then it changes something."""
    other = world.joined("second", role="operator")
    person = next(one for one in people.list_people(world.context, world.operator) if one.name == "second")
    people.revoke(world.context, world.operator, person.id)
    with pytest.raises(NotSignedIn, match="has ended"):
        rounds.create(world.context, other, agreement())
    north = world.parties["north"]
    round_id = world.round()
    person = next(one for one in people.list_people(world.context, world.operator) if one.name == "north")
    people.revoke(world.context, world.operator, person.id)
    with pytest.raises(NotSignedIn, match="has ended"):
        submissions.accept(world.context, north, round_id, sent()["north"])
