"""The export of a round: genuine ones pass, and whatever was changed is found, by whoever changed it."""

import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from client import exports
from client.exports import Files
from equipoise._util.canonical import sha256_hex
from equipoise.client.verify import archive as export_archive
from equipoise.client.verify.check import Check, check_export
from equipoise.client.verify.repetition import Repetition
from equipoise.client.verify.settlement import SettledRound
from equipoise.errors import VerificationError
from equipoise.estimate import Estimate
from equipoise.mediation import mediator
from equipoise.mediation.settlement import Settlement
from equipoise.protocol.keys import fingerprint, public_hex
from equipoise.protocol.receipts import Receipt
from equipoise.protocol.submission import Submission
from equipoise_service.options import Options
from equipoise_service.rules import people, settlements, submissions
from equipoise_service.rules.export import export
from service import world as worlds
from service.world import OPTIONS, World, key_of, sent

pytestmark = [pytest.mark.engine, pytest.mark.group("gaussian")]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Files]]:
    """A world with a settled round, and its export as files."""
    world = World.on(tmp_path_factory.mktemp("export") / "service")
    yield world, exports.unpacked(export(world.context, world.operator, world.settled_round()))
    world.context.close()


@pytest.fixture
def files(made: tuple[World, Files]) -> Files:
    return dict(made[1])


@pytest.fixture
def key(made: tuple[World, Files]) -> Ed25519PrivateKey:
    """The service's."""
    return made[0].context.key


@pytest.fixture
def sign(key: Ed25519PrivateKey) -> Callable[..., Files]:
    def resigned(files: Files, /, **changes: Any) -> Files:
        return exports.signed(files, key, **changes)

    return resigned


def failure(path: Path, **options: object) -> tuple[str, str]:
    """What failed, and why; what comes after it was not looked at."""
    found = check_export(path, **options)  # type: ignore[arg-type]
    outcomes = [check.outcome for check in found]
    number = outcomes.index("failed")
    assert outcomes == ["ok"] * number + ["failed"] + ["not checked"] * (len(found) - number - 1)
    return found[number].title, found[number].message


def test_a_genuine_export(made: tuple[World, Files], tmp_path: Path) -> None:
    world, files = made
    path = exports.pack(tmp_path / "round.zip", files)
    (tmp_path / "mine.json").write_bytes(files["receipts/north.json"])
    found = check_export(path, service=fingerprint(world.context.public_key).upper(), receipts=[tmp_path / "mine.json"])
    assert {check.outcome for check in found} == {"ok"}, found
    assert len(found) == 14
    assert Check("your own receipts agree with the log", "ok", "1 receipt") in found


def test_an_export_before_settlement(made: tuple[World, Files], tmp_path: Path) -> None:
    world, _ = made
    data = export(world.context, world.operator, world.round(submitted=True))
    (tmp_path / "round.zip").write_bytes(data)
    found = check_export(tmp_path / "round.zip")
    assert [check.outcome for check in found] == ["ok"] * 10
    assert "compare this" in found[1].message


def test_genuine_exports_with_a_past(tmp_path: Path) -> None:
    """Cancelled, submitted to, and started again with other options; and somebody revoked afterwards."""
    world = World.on(tmp_path / "service")
    round_id = world.round()
    for party in ("north", "south"):
        submissions.accept(world.context, world.parties[party], round_id, sent()[party])
    settlements.start(world.context, world.operator, round_id, Options(draws=800))
    settlements.cancel(world.context, world.operator, round_id)
    submissions.accept(world.context, world.parties["west"], round_id, sent()["west"])
    teams = (("south", "north", "west"),)  # the settlement has them in the agreement's order
    with mock.patch.object(worlds, "OPTIONS", OPTIONS.model_copy(update={"teams": teams})):
        world.settle(round_id)
    people.revoke(world.context, world.operator, world.parties["west"].person_id)
    world.joined("west", key=key_of("another west"))
    (tmp_path / "round.zip").write_bytes(export(world.context, world.operator, round_id))
    world.context.close()
    found = check_export(tmp_path / "round.zip")
    assert {check.outcome for check in found} == {"ok"}, found


def test_settling_again(files: Files, tmp_path: Path) -> None:
    path = exports.pack(tmp_path / "round.zip", files)
    assert {check.outcome for check in check_export(path, again=True)} == {"ok"}


def test_settling_again_gives_other_numbers_within_or_beyond_their_errors(files: Files, tmp_path: Path) -> None:
    """Another processor gives other digits, which is no proof of anything; a value far off is one."""
    path = exports.pack(tmp_path / "round.zip", files)
    stated = Settlement.parse(json.loads(files["settlement.json"]))
    pair = stated.coalitions[-1]

    def settle_otherwise(errors: float) -> Callable[..., Settlement]:
        value = Estimate(pair.value.value + errors * pair.value.error, pair.value.error)
        return lambda *_, **__: replace(stated, coalitions=(*stated.coalitions[:-1], replace(pair, value=value)))

    with mock.patch.object(mediator, "settle", settle_otherwise(2.0)):
        found = {check.title: check for check in check_export(path, again=True)}
    check = found["settling again gives the same values and targets"]
    assert check.outcome == "not repeatable"
    assert "all within their errors" in check.message
    with mock.patch.object(mediator, "settle", settle_otherwise(20.0)):
        title, message = failure(path, again=True)
    assert title == check.title
    assert "is stated as" in message
    with mock.patch.object(mediator, "settle", return_value=replace(stated, curve=())):
        assert "decides otherwise" in failure(path, again=True)[1]
        with mock.patch("equipoise.client.verify.repetition.__version__", "99.0.0"):
            last = {check.title: check for check in check_export(path, again=True)}
    assert last["settling again gives the same rewards"].outcome == "not repeatable"


def test_settling_again_where_rewards_were_made_by_noise(files: Files, tmp_path: Path) -> None:
    """The secret is a file of its own; in exports of versions up to 0.6 it stands in the settlement."""
    for place, expected in (("nowhere", None), ("file", "5a" * 16), ("options", "6b" * 16)):
        options = {"mechanism": "noise", "noise_secret": "6b" * 16 if place == "options" else None}

        def choose(one: dict[str, Any], chosen: dict[str, str | None] = options) -> None:
            one["options"].update(chosen)

        changed = exports.edited(files, "settlement.json", choose)
        secret = {"noise.secret": b"5a" * 16 + b"\n"} if place == "file" else {}
        path = exports.pack(tmp_path / f"{place}.zip", {**changed, **secret})
        with export_archive.Archive(path) as archive:
            settled = SettledRound(archive)
            assert settled.noise_secret == expected
            with pytest.raises(VerificationError, match="leave it out"):
                Repetition(settled.settlement, [], given="5a" * 32, kept=expected, promised={}, force=False)


def test_archives_that_are_none(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "round.zip"
    assert "cannot read" in failure(path)[1]
    path.write_bytes(b"PK but nothing else")
    assert "is not an export" in failure(path)[1]
    for name in ("../evil", "/etc/evil", "submissions/../x.json", "submissions/a/b.json", "rewards/north.json", "x"):
        exports.pack(path, files, (name, b""))
        assert "does not belong there" in failure(path)[1]
    exports.pack(path, files, ("agreement.json", b"{}"))
    assert "twice" in failure(path)[1]
    exports.pack(path, files, ("submissions/NORTH.json", b"{}"))
    assert "twice" in failure(path)[1]
    exports.pack(path, files)
    with mock.patch.object(export_archive, "MAX_BYTES", 1000):
        assert "would unpack to more" in failure(path)[1]
    with mock.patch.object(export_archive, "MAX_FILES", 3):
        assert "at most 3" in failure(path)[1]
    with mock.patch.object(export_archive, "MAX_DOCUMENT_BYTES", 100):
        assert "larger than 100 bytes" in failure(path)[1]


def test_a_file_that_says_it_is_smaller_than_it_is(files: Files, tmp_path: Path) -> None:
    """The directory of a zip file can lie about sizes; no more than it says is read, and then the sum is wrong."""
    path = exports.pack(tmp_path / "round.zip", files)
    data = path.read_bytes()
    entry = data.rindex(b"agreement.json") - 46
    size = data[entry + 24 : entry + 28]
    assert struct.unpack("<I", size)[0] == len(files["agreement.json"])
    path.write_bytes(data[: entry + 24] + struct.pack("<I", 10) + data[entry + 28 :])
    assert "damaged" in failure(path)[1]


def test_changes_by_somebody_who_cannot_sign(made: tuple[World, Files], files: Files, tmp_path: Path) -> None:
    path = tmp_path / "round.zip"

    def after(changed: Files, **options: object) -> str:
        return failure(exports.pack(path, changed), **options)[1]

    assert "was not signed with the key" in after(
        exports.edited(files, "manifest.json", lambda one: one.update(time=1))
    )
    assert "cannot be read" in after({**files, "manifest.json": b"[]"})
    assert "no file 'manifest.json'" in after({name: one for name, one in files.items() if name != "manifest.json"})
    assert "was changed after the export" in after({**files, "answers.jsonl": b"{}"})
    assert "not in the export" in after({name: one for name, one in files.items() if name != "rewards/west.nc"})
    assert "not in the manifest" in after({**files, "submissions/east.json": b"{}"})
    mallory = exports.signed(files, key_of("mallory"))
    assert "was not signed with the key" in after(mallory)
    renamed = exports.edited(mallory, "manifest.json", lambda one: one.update(service="0" * 64))
    assert "nobody's key" in after(renamed)
    stranger = key_of("mallory").public_key().public_bytes_raw().hex()
    assert "not by" in after(
        exports.signed(files, key_of("mallory"), service=stranger), service=fingerprint(made[0].context.public_key)
    )
    assert "log was begun by" in after(exports.signed(files, key_of("mallory"), service=stranger))


def test_changes_of_the_log_by_the_service(
    files: Files, sign: Callable[..., Files], key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    path = tmp_path / "round.zip"
    log = exports.events(files)

    def after(changed: Files, **options: object) -> str:
        return failure(exports.pack(path, changed), **options)[1]

    changed = [{**event, "actor": "mallory"} if event.get("kind") == "settled" else event for event in log]
    assert "the log was altered at event" in after(sign(exports.with_events(files, changed)))
    assert "the log was altered at event 3" in after(sign(exports.with_events(files, log[:2] + log[3:])))
    head = {"sequence": len(log), "digest": log[-1]["digest"]}
    assert "left out or added" in after(sign(exports.with_events(files, log[:-1]), head=head))
    assert "line 1 of the log" in failure(exports.pack(path, {**files, **_log_of(b"{", sign, files)}))[1]

    # The whole log made anew, with receipts that fit it: only a receipt that is out of its hands tells.
    rewritten = exports.rechained([event | ({"time": event["time"] - 1} if "time" in event else {}) for event in log])
    lie = sign(exports.with_receipts(exports.with_events(files, rewritten), key))
    exports.pack(path, lie)
    assert {check.outcome for check in check_export(path)} == {"ok"}
    (tmp_path / "mine.json").write_bytes(files["receipts/north.json"])
    assert "was rewritten after the receipt" in after(lie, receipts=[tmp_path / "mine.json"])
    assert "cannot read the receipt" in after(files, receipts=[tmp_path / "none.json"])

    without = exports.rechained([event for event in log if event.get("details", {}).get("party") != "north"])
    kept = {name: content for name, content in files.items() if "north" not in name}
    lie = sign(exports.with_receipts(exports.with_events(kept, without), key))
    assert "was rewritten after the receipt" in after(lie, receipts=[tmp_path / "mine.json"])


def test_logs_that_contradict_the_rules(
    files: Files, sign: Callable[..., Files], key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """Perfect chains, with receipts that fit: what they tell cannot have happened."""
    log = exports.events(files)
    at = {event["details"].get("party", event["kind"]): number for number, event in enumerate(log) if "kind" in event}
    created, north = at["round-created"], log[at["north"]]
    started, settled = log[at["settlement-started"]], log[at["settled"]]
    cancelled = {**started, "kind": "settlement-cancelled", "details": {"person": 1}}

    def after(*events: dict[str, Any]) -> str:
        changed = exports.rechained(list(events))
        lie = sign(exports.with_receipts(exports.with_events(files, changed), key))
        title, why = failure(exports.pack(tmp_path / "round.zip", lie))
        assert title == "the log tells of a round that the rules allow"
        return why

    start, end = at["settlement-started"], at["settled"]
    replaced = {**north, "details": {**north["details"], "digest": "0" * 64}}
    assert "the service replaced what the party had submitted" in after(
        *log[: at["north"]], replaced, *log[at["north"] :]
    )
    assert f"'submission-accepted' of 'north' at events {at['north'] + 1} and {start + 1}" in after(
        *log[:start], north, *log[start:]
    )
    other = {**settled, "details": {"decisions": "0" * 64}}
    assert (
        f"'settled' of round {settled['round']!r} at events {end + 1} and {end + 2}, which can be only once: the "
        in (after(*log[:end], other, *log[end:]))
    )
    assert "the service began the round anew" in after(*log[:start], log[created], *log[start:])
    assert f"'settled' at event {end} without 'settlement-started' before" in after(*log[:start], *log[start + 1 :])
    assert "an outcome that had been given up" in after(*log[:end], cancelled, *log[end:])
    assert "after the round was settled" in after(*log, started)
    late = [event for event in log[:end] if event is not north]
    assert "'submission-accepted' of 'north' at event" in (why := after(*late, north, *log[end:]))
    assert "when none could be taken any more" in why
    assert "when none could be taken any more" in after(*(event for event in log if event is not north), north)


def test_submissions_of_keys_that_nobody_approved(
    files: Files, sign: Callable[..., Files], key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    log = exports.events(files)
    north = next(event["details"]["person"] for event in log if event.get("details", {}).get("party") == "north")

    def after(change: Callable[[dict[str, Any]], dict[str, Any]], changed: Files = files) -> str:
        told = exports.rechained([event | ({"details": change(event)} if "details" in event else {}) for event in log])
        lie = sign(exports.with_receipts(exports.with_events(changed, told), key))
        title, why = failure(exports.pack(tmp_path / "round.zip", lie))
        assert title == "every accepted submission is there, and genuine"
        return why

    def of_north(kind: str, **changes: object) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def change(event: dict[str, Any]) -> dict[str, Any]:
            details: dict[str, Any] = event["details"]
            return details | changes if (event["kind"], details.get("person")) == (kind, north) else details

        return change

    # The service submits in the name of a party, with a key of its own.
    forged = worlds.signed(Submission.parse(files["submissions/north.json"]), key_of("mallory")).to_json()
    forgery = of_north("submission-accepted", digest=sha256_hex(forged))
    why = after(forgery, {**files, "submissions/north.json": forged})
    assert f"'north' is signed with the key {fingerprint(public_hex(key_of('mallory')))}, but its sender, person" in why
    assert f"was approved with {fingerprint(public_hex(key_of('north')))} at event" in why
    assert "person 99, whom no event before it approved" in after(of_north("submission-accepted", person=99))
    assert "from person None" in after(of_north("submission-accepted", person=None))
    assert "approved under that name" in after(of_north("person-approved", name="northern"))
    for approved in (fingerprint(public_hex(key_of("mallory"))), None):
        why = after(of_north("person-approved", fingerprint=approved))
        assert f"was approved with {approved} at event" in why
        assert "it is not that person's submission" in why


def test_settlements_with_other_options_than_they_were_started_with(
    files: Files, sign: Callable[..., Files], tmp_path: Path
) -> None:
    log = exports.events(files)

    def with_log(changed: Files, kind: str, **changes: object) -> Files:
        told = [{**one, "details": one["details"] | changes} if one.get("kind") == kind else one for one in log]
        return sign(exports.with_events(changed, exports.rechained(told)))

    def after(lie: Files) -> str:
        title, why = failure(exports.pack(tmp_path / "round.zip", lie))
        assert title == "the settlement is about exactly these submissions"
        return why

    chosen = OPTIONS.model_dump(mode="json")
    for name, value in (
        ("rho", 0.123),
        ("mechanism", "noise"),
        ("teams", [["north"], ["south", "west"]]),
        ("precision", 0.1),
        ("draws", 2_000),
        ("budget", 100),
    ):
        why = after(with_log(files, "settlement-started", options={**chosen, name: value}))
        assert f"the settlement was made with {name} = " in why
        assert f"'settlement-started' says {value!r}: the options were changed after the start" in why
    assert "does not say with which options" in after(with_log(files, "settlement-started", options=None))

    def with_settlement(change: Callable[[Any], object]) -> Files:
        changed = exports.edited(files, "settlement.json", change)
        decisions = Settlement.parse(json.loads(changed["settlement.json"]), name="settlement.json").decisions
        return with_log(changed, "settled", decisions=decisions)

    for name, value in (
        ("estimator", "gaussian-fit"),
        ("method", "naive"),
        ("rule", "scaled"),
        ("chains", 4),
        ("tolerance", 9.0),
    ):
        options = {name: value}
        why = after(with_settlement(lambda one, options=options: one["options"].update(options)))  # type: ignore[misc]
        assert f"the settlement was made with {name} = {value!r}, where a service has " in why

    why = after(with_settlement(lambda one: one["coalitions"][0].update(problems=["R-hat 2"])))
    assert "does not say force" in why


def _log_of(data: bytes, sign: Callable[..., Files], files: Files) -> Files:
    """A manifest that fits a log which is no log."""
    manifest = json.loads(files["manifest.json"])
    return {**sign(files, files={**manifest["files"], "events.jsonl": sha256_hex(data)}), "events.jsonl": data}


def test_changes_of_what_went_in(
    files: Files, sign: Callable[..., Files], key: Ed25519PrivateKey, tmp_path: Path
) -> None:
    path = tmp_path / "round.zip"

    def after(changed: Files) -> tuple[str, str]:
        return failure(exports.pack(path, sign(changed)))

    title, why = after(exports.edited(files, "agreement.json", lambda one: one.update(title="Another")))
    assert title == "the agreement is the one the round was made with"
    assert "was made with agreement" in why
    assert "is not an agreement" in after(exports.edited(files, "agreement.json", lambda one: one.update(format=4)))[1]
    without = {name: content for name, content in files.items() if name not in _both("west")}
    assert "the log says that 'west' submitted" in after(without)[1]
    assert (
        "altered after it was signed"
        in after(exports.edited(files, "submissions/west.json", lambda one: one.update(count=7)))[1]
    )
    swapped = {**files, "submissions/west.json": files["submissions/south.json"]}
    assert "is the submission of 'south'" in after(swapped)[1]
    spaced = {**files, "submissions/west.json": sent()["west"] + b"\n"}
    assert "no event that accepted this submission" in after(spaced)[1]
    assert "without receipt" in after({name: one for name, one in files.items() if name != "receipts/west.json"})[1]
    swapped = {**files, "receipts/west.json": files["receipts/south.json"]}
    assert "is for 'south'" in after(swapped)[1]
    assert (
        "altered afterwards"
        in after(exports.edited(files, "receipts/west.json", lambda one: one.update(received=1)))[1]
    )
    told = Receipt.parse(files["receipts/west.json"]).model_dump(exclude={"format", "version", "service", "signature"})
    for changes, says in (
        ({"round": "other"}, "is for round 'other'"),
        ({"event": 1}, "was rewritten"),
        ({"event": 1, "event_digest": exports.events(files)[0]["digest"]}, "about something else"),
        ({"submission": "0" * 64}, "names another submission"),
    ):
        lie = Receipt.signed(key, **{**told, **changes}).to_json()
        assert says in after({**files, "receipts/west.json": lie})[1]


def test_changes_of_what_came_out(files: Files, sign: Callable[..., Files], tmp_path: Path) -> None:
    path = tmp_path / "round.zip"

    def after(changed: Files) -> str:
        return failure(exports.pack(path, sign(changed)))[1]

    def settlement(change: Callable[[Any], object]) -> Files:
        return exports.edited(files, "settlement.json", change)

    assert "the settlement was changed" in after(settlement(lambda one: one.update(rho=0.123)))
    assert "used another submission of 'north'" in after(
        settlement(lambda one: one["contributions"]["north"].update(rows=1))
    )
    assert "name everybody who took part just once" in after(settlement(lambda one: one["contributions"].pop("north")))
    assert "cannot be read as a settlement" in after(settlement(lambda one: one.pop("awards")))
    assert "the audit says of P1: fails" in after(
        settlement(lambda one: [f.update(verdict="fails") for f in one["audit"]["findings"] if f["code"] == "P1"])
    )
    assert "audit in the settlement cannot be read" in after(settlement(lambda one: one.pop("audit")))
    assert "the reward of 'north' is not the one" in after({**files, "rewards/north.nc": files["rewards/west.nc"]})
    assert "cannot be read as a reward" in after({**files, "rewards/north.nc": b"draws"})
    assert "an award without a reward" in after({name: one for name, one in files.items() if name != "rewards/west.nc"})
    without = {name: one for name, one in files.items() if name != "settlement.json"}
    assert "the settlement is not in the export" in after(without)


def _both(party: str) -> set[str]:
    return {f"submissions/{party}.json", f"receipts/{party}.json"}
