"""Logs that a service rewrote, or that tell of what cannot have happened: refused, each for its own reason."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client import exports
from client.exports import Files
from client.listening import Altering, listening, member
from equipoise.client.connection import Connection
from equipoise.client.service_round import ServiceRound
from equipoise.client.verify.check import check_export
from equipoise.errors import VerificationError
from equipoise.protocol.log import link_of
from equipoise_service.jobs import worker
from equipoise_service.rules import events, people, results, rounds, settlements, submissions
from equipoise_service.rules.export import export
from service.world import OPTIONS, World, key_of

pytestmark = [pytest.mark.engine, pytest.mark.group("gaussian")]
ANSWER: dict[str, Any] = {
    "inputs": "a" * 64,
    "key": {
        "coalition": ["north"], "draws": 500, "seed": 1, "kappa": 1.0, "tau": 0.0, "noise_seed": 0, "extra": [],
    },
    "result": {"value": {"value": 1.0, "error": 0.1}, "draws": 500, "rhat": 1.0, "ess": 400.0, "problems": []},
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Files]]:
    """A world in which more happened than one round, whose reward one party has fetched; and its export."""
    world = World.on(tmp_path_factory.mktemp("logs") / "service")
    world.clock.now = int(time.time() * 1000)
    world.round()
    round_id = world.settled_round()
    results.reward(world.context, world.parties["north"], round_id)
    yield world, exports.unpacked(export(world.context, world.operator, round_id))
    world.context.close()


@pytest.fixture
def after(made: tuple[World, Files], tmp_path: Path) -> Callable[..., str]:
    """Why the export of another log, or with other files, is refused; nothing if it is not."""

    def refused(log: list[dict[str, Any]] | None = None, more: Files | None = None, **options: Any) -> str:
        world, files = made
        changed = dict(files)
        if log is not None:
            changed = exports.with_receipts(exports.with_events(changed, exports.rechained(log)), world.context.key)
        lie = exports.signed({**changed, **(more or {})}, world.context.key)
        found = check_export(exports.pack(tmp_path / "round.zip", lie), **options)
        return next((check.message for check in found if check.outcome == "failed"), "")

    return refused


@pytest.fixture
def log(made: tuple[World, Files]) -> list[dict[str, Any]]:
    return exports.events(made[1])


def place(log: list[dict[str, Any]], kind: str) -> int:
    return next(number for number, one in enumerate(log) if one.get("kind") == kind)


def test_what_was_done_by_somebody_whom_nobody_approved(log: list[dict[str, Any]], after: Callable[..., str]) -> None:
    assert after(log) == ""
    start = place(log, "settlement-started")
    for changes in ({"actor": "mallory"}, {"details": {**log[start]["details"], "person": 99}}):
        lie = [*log[:start], {**log[start], **changes}, *log[start + 1 :]]
        assert "'settlement-started', was done by" in after(lie)
    north = next(one for one in log if one.get("kind") == "submission-accepted")
    person = north["details"]["person"]
    party = {**log[start], "actor": north["actor"], "details": {**log[start]["details"], "person": person}}
    assert "nobody had approved them for it then" in after([*log[:start], party, *log[start + 1 :]])
    operator = log[start]["details"]["person"]
    gone = {"kind": "person-revoked", "round": None, "details": {"person": operator, "name": log[start]["actor"]}}
    assert "who could not do it" in after([*log[:start], {**log[start], **gone}, *log[start:]])
    settled = place(log, "settled")
    assert "'settled', was done by 'olga'" in after([*log[:settled], {**log[settled], "actor": "olga"}, *log[settled:]])


def test_a_closed_round_that_was_settled(log: list[dict[str, Any]], after: Callable[..., str]) -> None:
    start, settled = place(log, "settlement-started"), place(log, "settled")
    closed = {**log[start], "kind": "round-closed", "details": {"person": log[start]["details"]["person"]}}
    assert "a closed round takes nothing and is not settled" in after([*log[:start], closed, *log[start:]])
    assert "'settled' at event" in after([*log[:settled], closed, *log[settled:]])
    assert after([*log, closed]) == ""


def test_times_that_run_back(log: list[dict[str, Any]], after: Callable[..., str]) -> None:
    settled = place(log, "settled")
    early = {**log[settled], "time": log[settled]["time"] - 1_000_000}
    assert "times run back: event" in after([*log[:settled], early, *log[settled + 1 :]])
    assert "has no time but 'noon'" in after([*log[:settled], {**early, "time": "noon"}, *log[settled + 1 :]])
    late = {**log[-1], "time": log[-1]["time"] + 1}
    assert "later than the export" in after([*log[:-1], late])
    # Versions up to 0.7 took the clock as it was, so that a little is let pass.
    old = [{name: value for name, value in one.items() if name != "salt"} for one in log if "kind" in one]
    at = place(old, "settled")
    for back, says in ((1_000, ""), (1_000_000, "times run back: event")):
        lie = [*old[:at], {**old[at], "time": old[at]["time"] - back}, *old[at + 1 :]]
        assert says in (why := after(lie))
        assert bool(says) == bool(why)


def test_the_service_itself_never_writes_times_that_run_back(made: tuple[World, Files]) -> None:
    world, _ = made
    world.clock.now -= 3_600_000
    round_id = world.round(submitted=True)
    world.clock.now += 3_600_000
    times = [one["time"] for one in events.list_events(world.context, world.operator)]
    assert times == sorted(times)
    rounds.close(world.context, world.operator, round_id)


@pytest.mark.parametrize(
    "garbage",
    [
        b"{", b"[]", b'{"inputs": 1}', json.dumps({**ANSWER, "inputs": "x"}).encode(),
        json.dumps({**ANSWER, "more": 1}).encode(),
        json.dumps({**ANSWER, "key": {**ANSWER["key"], "coalition": ["nobody"]}}).encode(),
        json.dumps({**ANSWER, "result": {**ANSWER["result"], "rhat": float("nan")}}).encode(),
        json.dumps({**ANSWER, "result": {**ANSWER["result"], "value": {"value": 1.0, "error": -1}}}).encode(),
        json.dumps(ANSWER).encode() + b"\n" + json.dumps(ANSWER).encode(),
    ],
)  # fmt: skip
def test_garbage_in_place_of_answers(garbage: bytes, after: Callable[..., str]) -> None:
    assert "do not follow from the answers" in after(None, {"answers.jsonl": json.dumps(ANSWER).encode()})
    why = after(None, {"answers.jsonl": garbage})
    assert "of the answers cannot be read" in why or "is no answer of a sampler about these parties" in why


@pytest.mark.slow
def test_answers_that_the_values_do_not_follow_from(made: tuple[World, Files], tmp_path: Path) -> None:
    """Settled by a real worker, whose answers are there; one of them is changed."""
    world, _ = made
    round_id = world.round(submitted=True)
    settlements.start(world.context, world.operator, round_id, OPTIONS)
    worker.run(world.context, stop=threading.Event(), once=True)
    files = exports.unpacked(export(world.context, world.operator, round_id))
    answers = [json.loads(line) for line in files["answers.jsonl"].splitlines()]
    valued = next(one for one in answers if one["key"]["kappa"] == 1.0)
    for added, outcomes in ((0.0, {"ok"}), (0.5, {"ok", "failed", "not checked"})):
        valued["result"]["value"]["value"] += added
        files["answers.jsonl"] = b"".join(json.dumps(one).encode() + b"\n" for one in answers)
        path = exports.pack(tmp_path / "round.zip", exports.signed(files, world.context.key))
        assert {check.outcome for check in check_export(path)} == outcomes


def test_what_happened_cannot_be_hidden_as_a_link(log: list[dict[str, Any]], after: Callable[..., str]) -> None:
    for kind in ("round-created", "settlement-started", "settled", "person-approved", "exported"):
        at = place(log, kind)
        hidden = [*log[:at], link_of(log[at]), *log[at + 1 :]]
        assert "what it says was left out" in after(hidden)
    # Nor made a link of something else: its mark is in its digest.
    at = place(log, "settled")
    other = {**link_of(log[at]), "mark": "0" * 64}
    assert "altered at event" in _unchained(after, [*log[:at], other, *log[at + 1 :]])


def _unchained(after: Callable[..., str], log: list[dict[str, Any]]) -> str:
    lines = exports.with_events({}, log)
    return after(None, lines)


def test_the_end_of_the_log_is_pinned_by_the_receipt_of_a_reward(
    made: tuple[World, Files], log: list[dict[str, Any]], after: Callable[..., str], tmp_path: Path
) -> None:
    """All that happened after the last submission made anew, with decisions, rewards and an export that fit."""
    world, _ = made
    round_id = json.loads(made[1]["manifest.json"])["round"]
    receipt = results.reward_receipt(world.context, world.parties["north"], round_id)
    (tmp_path / "north.json").write_bytes(receipt.to_json())
    start = place(log, "settlement-started")
    rewritten = [*log[:start], *({**one, "salt": "0" * 32} for one in log[start:])]
    assert after(rewritten) == ""
    assert "was rewritten after the receipt was given" in after(rewritten, receipts=[tmp_path / "north.json"])
    assert after(receipts=[tmp_path / "north.json"]) == ""


def test_members_see_by_the_chain_that_their_receipts_are_in_the_log(made: tuple[World, Files], tmp_path: Path) -> None:
    world, _ = made
    round_id = json.loads(made[1]["manifest.json"])["round"]
    north = world.parties["north"]
    sent = submissions.receipt(world.context, north, round_id)
    fetched = results.reward_receipt(world.context, north, round_id)
    told = events.chain(world.context, north, round_id)
    assert {name for one in told for name in one} == {"sequence", "previous", "mark", "person", "content", "digest"}

    def elsewhere(change: Callable[[list[dict[str, Any]]], object]) -> Callable[[bytes], bytes]:
        def changed(body: bytes) -> bytes:
            document = json.loads(body)
            change(document["links"])
            return json.dumps(document).encode()

        return changed

    me = member(tmp_path / "home", "http://127.0.0.1:1", world.context.public_key, "north")
    with listening(world.context) as url:
        for change, says in (
            (lambda links: links, None),
            (lambda links: links[1].update(content="0" * 64), "broken at event"),
            (lambda links: links[0].update(content=None), "not the one that your receipt names"),
            (lambda links: links[2].update(content=None), "broken at event"),
            (lambda links: [one.update(content=None) for one in links], "not the one that your receipt names"),
            (lambda links: links.pop(1), "broken at event"),
            (lambda links: links.clear(), "ends at event"),
            (lambda links: links[0].pop("mark"), "something else than its chain"),
        ):
            network = Altering("/chain", elsewhere(change))
            connection = Connection(url, key=key_of("north"), audience=world.context.public_key, transport=network)
            round_ = ServiceRound(me, round_id=round_id, connection=connection)
            if says is None:
                round_.check_chain([sent, fetched])
                with pytest.raises(VerificationError, match="not the one that your receipt names"):
                    round_.check_chain([sent.model_copy(update={"event_digest": "0" * 64}), fetched])
                # Of the same number as another, which is right; of another event that is there; before the submission.
                other = {"event": sent.event, "event_digest": "0" * 64}
                with pytest.raises(VerificationError, match="not the one that your receipt names"):
                    round_.check_chain([fetched.model_copy(update=other), sent])
                for link in told[1:3]:
                    other = {"event": link["sequence"], "event_digest": link["digest"]}
                    with pytest.raises(VerificationError, match="not the one that your receipt names"):
                        round_.check_chain([fetched.model_copy(update=other), sent])
                other = {"event": sent.event, "event_digest": sent.event_digest}
                with pytest.raises(VerificationError, match="not after event"):
                    round_.check_chain([fetched.model_copy(update=other), sent])
            else:
                with pytest.raises(VerificationError, match=says):
                    round_.check_chain([sent, fetched])
            round_.close()


def test_somebody_who_was_revoked_is_no_operator_any_more(made: tuple[World, Files], tmp_path: Path) -> None:
    """Genuine: one operator approved another, who made the round and was revoked afterwards."""
    world, _ = made
    second = world.joined("otto", role="operator")
    round_id = rounds.create(world.context, second, _agreement(world))
    people.revoke(world.context, world.operator, second.person_id)
    (tmp_path / "round.zip").write_bytes(export(world.context, world.operator, round_id))
    assert {check.outcome for check in check_export(tmp_path / "round.zip")} == {"ok"}


def _agreement(world: World) -> Any:
    return rounds.list_visible(world.context, world.operator)[0].agreement
