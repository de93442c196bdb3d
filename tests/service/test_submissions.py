"""Submissions: the genuine ones are kept, receipted and found again; all others are refused and leave no trace."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from equipoise._util.canonical import sha256_hex
from equipoise.protocol.receipts import Receipt
from equipoise.protocol.submission import PLACEHOLDER_ID, StatedGuarantee, Submission
from equipoise_service.errors import Conflict, Forbidden, Invalid, NotFound, Refusal, TooLarge
from equipoise_service.rules import events, rounds, settlements, submissions
from service.world import OPTIONS, World, agreement, key_of, sent, signed


def _send(world: World, name: str, round_id: str, data: bytes | None = None) -> tuple[Receipt, bool]:
    return submissions.accept(world.context, world.parties[name], round_id, sent()[name] if data is None else data)


def test_a_submission_is_kept_byte_for_byte_and_receipted(world: World) -> None:
    round_id = world.round()
    data = sent()["north"]
    receipt, new = _send(world, "north", round_id, data)
    assert new
    receipt.check(world.context.public_key)
    assert receipt.digest == sha256_hex(data)
    assert (receipt.round, receipt.party, receipt.received) == (round_id, "north", world.clock.now)
    assert submissions.own_submission(world.context, world.parties["north"], round_id) == data
    assert submissions.receipt(world.context, world.parties["north"], round_id) == receipt
    event = events.list_events(world.context, world.operator)[-1]
    assert (event["sequence"], event["digest"]) == (receipt.event, receipt.event_digest)
    assert event["details"]["digest"] == receipt.digest
    with pytest.raises(NotFound, match="not submitted"):
        submissions.receipt(world.context, world.parties["south"], round_id)


def test_the_same_again_gives_the_same_receipt_even_later(world: World) -> None:
    round_id = world.round()
    receipt, _ = _send(world, "north", round_id)
    world.clock.now += 5000
    assert _send(world, "north", round_id) == (receipt, False)
    settlements.start(world.context, world.operator, round_id, OPTIONS)
    assert _send(world, "north", round_id) == (receipt, False)
    with pytest.raises(Conflict, match="settling"):
        _send(world, "south", round_id)


def test_another_content_does_not_replace_the_first(world: World) -> None:
    round_id = world.round()
    _send(world, "north", round_id)
    other = signed(Submission.parse(sent()["north"]), key_of("north"), id="ab" * 32).to_json()
    with pytest.raises(Conflict, match="already"):
        _send(world, "north", round_id, other)
    assert submissions.own_submission(world.context, world.parties["north"], round_id) == sent()["north"]


FORGED: dict[str, tuple[type[Refusal], Callable[[Submission], Submission | bytes]]] = {
    "nothing": (Invalid, lambda _: b""),
    "no submission": (Invalid, lambda _: b"{}"),
    "much": (TooLarge, lambda _: b" " * (5 * 2**20)),
    "altered": (Invalid, lambda one: one.model_copy(update={"count": one.count + 1})),
    "signed by another": (Forbidden, lambda one: signed(one, key_of("south"))),
    "signature of another": (
        Invalid,
        lambda one: one.model_copy(update={"signature": signed(one, key_of("south")).signature}),
    ),
    "for another": (Forbidden, lambda one: signed(one, key_of("north"), party="south")),
    "for nobody": (Forbidden, lambda one: signed(one, key_of("north"), party="nobody")),
    "other agreement": (Invalid, lambda one: signed(one, key_of("north"), agreement="ab" * 32)),
    "above the cap": (
        Invalid,
        lambda one: signed(one, key_of("north"), guarantee=StatedGuarantee(order=2.0, epsilon=101.0)),
    ),
    "other order": (
        Invalid,
        lambda one: signed(one, key_of("north"), guarantee=StatedGuarantee(order=3.0, epsilon=1.0)),
    ),
    "too short": (Invalid, lambda one: signed(one, key_of("north"), statistic=one.statistic[:-1])),
    "too many rows": (Invalid, lambda one: signed(one, key_of("north"), count=2**53)),
    "too little of anything": (
        Invalid,
        lambda one: signed(one, key_of("north"), guarantee=one.guarantee.model_copy(update={"epsilon": 5e-324})),
    ),
    "impossible sums": (Invalid, lambda one: signed(one, key_of("north"), statistic=[-(2**63)] * len(one.statistic))),
    "preview": (Invalid, lambda one: signed(one, key_of("north"), id=PLACEHOLDER_ID)),
}


@pytest.mark.parametrize("case", FORGED)
def test_what_is_forged_is_refused_and_leaves_no_trace(world: World, case: str) -> None:
    round_id = world.round()
    before = events.verify_chain(world.context)
    expected, forge = FORGED[case]
    forged = forge(Submission.parse(sent()["north"]))
    with pytest.raises(expected):
        _send(world, "north", round_id, forged if isinstance(forged, bytes) else forged.to_json())
    assert events.verify_chain(world.context) == before
    assert rounds.get(world.context, world.operator, round_id).seats[0].submitted is None
    _send(world, "north", round_id)  # the genuine one still counts


def test_a_release_counts_in_every_round_of_its_agreement_but_never_changed(world: World) -> None:
    first, second = world.round(), world.round()
    _send(world, "north", first)
    changed = signed(Submission.parse(sent()["north"]), key_of("north"), count=299).to_json()
    with pytest.raises(Conflict, match="other content") as refused:
        _send(world, "north", second, changed)
    assert refused.value.code == "replayed"
    stolen = signed(Submission.parse(sent()["north"]), key_of("south"), party="south").to_json()
    with pytest.raises(Conflict, match="another party"):
        _send(world, "south", second, stolen)
    assert _send(world, "north", second)[1]


def test_a_party_without_an_invitation_cannot_submit(world: World) -> None:
    round_id = rounds.create(world.context, world.operator, agreement(), invite=False)
    with pytest.raises(NotFound):
        _send(world, "north", round_id)


def test_of_many_at_once_one_of_each_seat_counts_and_the_log_stays_whole(either_world: World) -> None:
    """Every party sends its own thrice and another content thrice, all at the same time."""
    world = either_world
    round_id = world.round()
    outcomes: dict[str, list[Any]] = {name: [] for name in world.parties}
    barrier = threading.Barrier(18)

    def send(name: str, data: bytes) -> None:
        barrier.wait()
        try:
            outcomes[name].append(_send(world, name, round_id, data))
        except BaseException as error:
            outcomes[name].append(error)

    threads = []
    for name in world.parties:
        other = signed(Submission.parse(sent()[name]), key_of(name), id=sha256_hex(name.encode())).to_json()
        threads += [threading.Thread(target=send, args=(name, data)) for data in (sent()[name], other) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events.verify_chain(world.context)
    kinds = [event["kind"] for event in events.list_events(world.context, world.operator)]
    assert kinds.count("submission-accepted") == 3
    for name, found in outcomes.items():
        receipts = [one for one in found if isinstance(one, tuple)]
        assert all(isinstance(one, tuple | Conflict) for one in found), found
        assert len(receipts) == 3
        assert sum(new for _, new in receipts) == 1
        assert len({receipt.to_json() for receipt, _ in receipts}) == 1
        kept = submissions.own_submission(world.context, world.parties[name], round_id)
        assert sha256_hex(kept) == receipts[0][0].digest
