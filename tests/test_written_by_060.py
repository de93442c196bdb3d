"""What version 0.6.0 wrote opens: agreement, ledger, submission, settlement, rewards, journal, database, export.

`fixtures/0.6.0.zip` was written by that version's own code: three parties, a mean and a variance, 400 draws.
"""

import json
import zipfile
from pathlib import Path

import pytest

import equipoise as eq
from equipoise.mediation.journal import FileJournal
from equipoise.protocol.keys import public_hex
from equipoise_service.context import Context
from equipoise_service.rules import results
from equipoise_service.rules.authentication import actor_of_key
from program import run
from service.world import key_of

FILES = Path(__file__).parent / "fixtures" / "0.6.0.zip"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written")
    with zipfile.ZipFile(FILES) as archive:
        archive.extractall(folder)
    (folder / "service" / "service.key").chmod(0o600)
    return folder


@pytest.fixture(scope="module")
def stated(written: Path) -> list[str]:
    """The decisions and identities that version printed."""
    return (written / "decisions").read_text().split()


def test_submissions_and_their_agreement(written: Path, stated: list[str]) -> None:
    agreed = eq.Settlement.load(written / "settlement").agreement
    assert agreed.identity == stated[1]
    for party in ("north", "south", "west"):
        submission = eq.Submission.load(written / "submissions" / f"{party}.json")
        submission.check(agreed)
        assert submission.to_json() == (written / "submissions" / f"{party}.json").read_bytes()


def test_a_ledger(written: Path, stated: list[str]) -> None:
    history = eq.Ledger(written / "party" / "north.ledger").read()
    assert history.total_zcdp == 0.25
    stored = history.stored_submission(stated[2], "north")
    assert stored == eq.Submission.load(written / "party" / "north.submission.json")


def test_a_settlement_and_its_rewards(written: Path, stated: list[str]) -> None:
    settlement = eq.Settlement.load(written / "settlement")
    assert settlement.decisions == stated[0]
    assert settlement.settings.draws == 400
    for award in settlement.awards.values():
        assert award.reward is not None
        assert award.reward.digest == award.digest
    assert not settlement.audit.failures
    assert "north" in repr(settlement)


def test_a_journal(written: Path) -> None:
    lines = [json.loads(line) for line in (written / "journal.jsonl").read_text().splitlines()]
    with FileJournal(written / "journal.jsonl", lines[0]["inputs"]) as journal:
        for line in lines[1:]:
            assert journal[line["key"]] == line["result"]


def test_a_database(written: Path, stated: list[str]) -> None:
    context = Context.open(written / "service")
    try:
        operator = actor_of_key(context, public_hex(key_of("olga")))
        with zipfile.ZipFile(written / "export.zip") as export:
            round_id = json.loads(export.read("manifest.json"))["round"]
        assert results.settlement(context, operator, round_id).decisions == stated[0]
        assert results.reward(context, actor_of_key(context, public_hex(key_of("north"))), round_id)
    finally:
        context.close()


@pytest.mark.engine
@pytest.mark.group("gaussian")
def test_an_export(written: Path) -> None:
    assert "The export is consistent" in run("verify", written / "export.zip", cwd=written).stdout
