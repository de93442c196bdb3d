"""Files in which bits have flipped, or that are nested without end: right, or refused with an exit code; no traceback.

Every kind of file that the program reads, with flips by a seed. What a file's own digests or signatures cover must be
refused or come back the same.
"""

import contextlib
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rounds
from client import exports
from equipoise.agreement import Agreement
from equipoise.agreement.explanation import explain
from equipoise.client.membership import Membership
from equipoise.client.verify.check import check_export
from equipoise.errors import EquipoiseError, LedgerError, SubmissionError, VerificationError
from equipoise.mediation.audit import audited
from equipoise.mediation.journal import FileJournal
from equipoise.mediation.settlement import Settlement
from equipoise.party.ledger import Ledger
from equipoise.protocol.keys import create_key, load_key, public_hex
from equipoise.protocol.receipts import Receipt
from equipoise.protocol.submission import Submission
from equipoise.reward.model import Reward
from equipoise_service.rules.export import export
from reward_posteriors import some_reward, some_rows
from service import world as worlds
from service.world import World

FLIPS = 60
DEEP = {
    "lists": b"[" * 100_000,
    "objects": b'{"a":' * 20_000 + b"1" + b"}" * 20_000,
    "long lines": b"9" * 100_000,
    "nothing": b"",
    "zeros": bytes(1_000),
}

Use = Callable[[Path], Any]  # reads a file and uses it; what it returns is compared with that of the whole file


def damaged(data: bytes) -> dict[str, bytes]:
    """Files with one bit flipped, or a few."""
    found = {}
    for seed in range(FLIPS):
        rng, changed = random.Random(seed), bytearray(data)
        for place in rng.sample(range(8 * len(data)), k=1 + 3 * (seed % 2)):
            changed[place // 8] ^= 1 << place % 8
        found[f"flips {seed}"] = bytes(changed)
    return found


def outcomes(path: Path, use: Use, *, deep: bool = True) -> dict[str, Any]:
    """What comes of damaged files: what `use` returns, or the error; any that is not ours fails the test."""
    found = {}
    for name, data in {**damaged(path.read_bytes()), **(DEEP if deep else {})}.items():
        try:
            found[name] = use(beside(path, name, data))
        except EquipoiseError as error:
            found[name] = error
    assert all(2 < one.exit_code < 13 for one in found.values() if isinstance(one, EquipoiseError))
    return found


def beside(path: Path, folder: str, data: bytes) -> Path:
    """A file in a folder of its own: libraries may remember one they could not close."""
    place = path.parent / folder / path.name
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(data)
    place.chmod(0o600)
    return place


def refused_or_same(found: dict[str, Any], right: Any) -> bool:
    return all(isinstance(one, EquipoiseError) or one == right for one in found.values())


def test_agreements(tmp_path: Path) -> None:
    path = tmp_path / "agreement.toml"
    path.write_text(rounds.agreement_text("linear"))
    outcomes(path, lambda path: explain(Agreement.load(path)))


def test_submissions(tmp_path: Path) -> None:
    agreed, path = rounds.agreement("bernoulli"), tmp_path / "north.json"
    sent = rounds.submissions(agreed, tmp_path / "ledgers", (1.0,))[0]
    sent.save(path)

    def use(path: Path) -> Submission:
        found = Submission.load(path)
        found.check(agreed)
        return found

    found = outcomes(path, use)
    assert refused_or_same(found, sent)
    assert {type(one) for one in found.values()} <= {SubmissionError, Submission}


def test_ledgers(tmp_path: Path) -> None:
    agreed = rounds.agreement("bernoulli")
    rounds.submissions(agreed, tmp_path, (1.0,))
    path = tmp_path / "north.ledger"

    def use(path: Path) -> list[Any]:
        history = Ledger(path).read()
        return [history.total_zcdp, history.spends, history.stored_submission(agreed.identity, "north")]

    right = use(path)
    found = outcomes(path, use, deep=False)
    # A last line that was being written when the machine stopped is left out, and an empty ledger is a new one.
    whole = [one for one in found.values() if not isinstance(one, LedgerError)]
    assert all(one == right or one[0] in (0.0, right[0]) for one in whole)
    outcomes(path, use)


def test_keys(tmp_path: Path) -> None:
    path = tmp_path / "key"
    create_key(path)
    outcomes(path, lambda path: public_hex(load_key(path)))


def test_memberships(tmp_path: Path) -> None:
    note = {"format": "equipoise-membership", "version": 1, "place": "https://equipoise.example", "name": "north"}
    note |= {"service": "ab" * 32, "role": "party", "key": "north.key", "ledger": "north.ledger"}
    note |= {"agreement": "cd" * 32, "ca": None}
    path = tmp_path / "equipoise.json"
    path.write_text(json.dumps(note, indent=1))
    outcomes(path, lambda path: Membership.load(path).to_json())


def test_receipts(tmp_path: Path) -> None:
    path = tmp_path / "receipt.json"
    names = dict.fromkeys(("agreement", "submission", "digest", "event_digest"), "ab" * 32)
    key = worlds.key_of("service")
    given = Receipt.signed(key, round="abcd", party="north", received=1, event=2, **names)
    path.write_bytes(given.to_json())

    def use(path: Path) -> Receipt:
        found = Receipt.parse(path.read_bytes())
        found.check(public_hex(key))
        return found

    found = outcomes(path, use)
    assert refused_or_same(found, given)
    assert {type(one) for one in found.values()} <= {VerificationError, Receipt}


def test_journals(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with FileJournal(path, "ab" * 32) as journal:
        for number in range(20):
            journal.put({"kind": "value", "coalition": ["north"], "draws": number}, {"value": number / 7})

    def use(path: Path) -> list[Any]:
        with FileJournal(path, "ab" * 32) as journal:
            keys = [{"kind": "value", "coalition": ["north"], "draws": number} for number in range(20)]
            return [journal[key] for key in keys if key in journal]

    right = use(path)
    for one in outcomes(path, use).values():
        assert isinstance(one, EquipoiseError) or all(result in right for result in one)


def test_rewards(tmp_path: Path) -> None:
    path, reward = tmp_path / "reward.nc", some_reward("linear", number=200)
    reward.save(path)
    rows = some_rows(3)

    def use(path: Path) -> str:
        found = Reward.load(path)
        found.predict(rows, return_interval=0.9)
        return found.digest

    assert refused_or_same(outcomes(path, use), reward.digest)
    # What HDF5 notices only when it looks there: headers of objects, and where attributes and links are.
    whole = path.read_bytes()
    places = [
        found.start() + 8 for found in re.finditer(b"OHDR|OCHK|FRHP|FHDB|FHIB|BTHD|BTLF|SNOD|TREE|HEAP|GCOL", whole)
    ]
    assert len(places) > 10
    for place in places:
        changed = whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :]
        with contextlib.suppress(EquipoiseError):
            assert use(beside(path, str(place), changed)) == reward.digest


@pytest.mark.engine
@pytest.mark.group("gaussian")
def test_settlements(tmp_path: Path) -> None:
    path = tmp_path / "settlement.json"
    path.write_bytes(worlds.settled()[1]["settlement.json"])

    def use(path: Path) -> str:
        found = Settlement.load(path.parent)
        used = (audited(found).audit, found.deviations, found.precision, found.targets_at(0.5), found.decisions)
        return str(used)

    outcomes(path, use)


@pytest.mark.engine
@pytest.mark.group("gaussian")
def test_exports(tmp_path: Path) -> None:
    world = World.on(tmp_path / "service")
    data, key = export(world.context, world.operator, world.settled_round()), world.context.key
    world.context.close()
    path = tmp_path / "round.zip"
    path.write_bytes(data)

    def use(path: Path) -> bool:
        return all(check.outcome == "ok" for check in check_export(path))

    assert use(path)
    outcomes(path, use)
    # And by a service that signs what it damaged itself.
    files = exports.unpacked(data)
    for name in ("agreement.json", "settlement.json", "submissions/north.json", "receipts/north.json"):
        for content in (*list(damaged(files[name]).values())[:8], *DEEP.values()):
            use(exports.pack(path, exports.signed({**files, name: content}, key)))
