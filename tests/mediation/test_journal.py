"""The journal: what was put is there again, whatever a crash left at its end."""

from pathlib import Path

import pytest

import rounds
from equipoise.errors import MediationError
from equipoise.mediation.appraisal import Evaluator
from equipoise.mediation.journal import FileJournal
from equipoise.mediation.requests import Request
from equipoise.mediation.settings import SettlementSettings
from full_disk import no_file_longer_than

INPUTS = "ab" * 32


def filled(path: Path, number: int = 3) -> None:
    with FileJournal(path, INPUTS) as journal:
        for place in range(number):
            journal.put({"place": place}, {"value": place / 3})


def test_results_are_found_again(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    filled(path)
    with FileJournal(path, INPUTS) as journal:
        assert len(journal) == 3
        assert journal[{"place": 2}] == {"value": 2 / 3}
        assert {"place": 3} not in journal
        journal.put({"place": 3}, 1)
    with FileJournal(path, INPUTS) as journal:
        assert len(journal) == 4


def test_a_crash_at_any_byte_loses_the_last_line_only(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    filled(path)
    data = path.read_bytes()
    for size in range(len(data)):
        path.write_bytes(data[:size])
        whole = data[:size].count(b"\n")
        with FileJournal(path, INPUTS) as journal:
            assert len(journal) == max(0, whole - 1)
            journal.put({"again": True}, size)
        with FileJournal(path, INPUTS) as journal:
            assert len(journal) == max(0, whole - 1) + 1
            assert journal[{"again": True}] == size


def test_what_does_not_fit_on_the_disk_leaves_no_half_line(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    filled(path)
    data = path.read_bytes()
    with FileJournal(path, INPUTS) as journal:
        with (
            no_file_longer_than(len(data) + 10),
            pytest.raises(MediationError, match="cannot write .*what it holds so far is kept.*Free some room"),
        ):
            journal.put({"place": 3}, 1)
        assert path.read_bytes() == data
        assert {"place": 3} not in journal
        journal.put({"place": 4}, 2)  # there is room again
    with FileJournal(path, INPUTS) as journal:
        assert len(journal) == 4
        assert journal[{"place": 4}] == 2


def test_other_inputs_are_refused_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    filled(path)
    data = path.read_bytes()
    with pytest.raises(MediationError, match="other inputs"), FileJournal(path, "cd" * 32):
        pass
    assert path.read_bytes() == data


def test_a_refusal_advises_first_to_keep_the_secret(tmp_path: Path) -> None:
    """Who deletes everything to begin anew degrades the same releases by a second path, and both can be averaged."""
    path = tmp_path / "journal"
    filled(path)
    with pytest.raises(MediationError) as refused, FileJournal(path, "cd" * 32):
        pass
    _, _, advice = str(refused.value).partition("or other options. ")
    assert advice.startswith("Keep noise.secret")
    assert advice.index("averaged away") < advice.index("delete this file")


def test_inputs_that_results_do_not_depend_on_may_differ(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with FileJournal(path, INPUTS, "values") as journal:
        journal.put({"place": 0}, 1)
    with FileJournal(path, "cd" * 32, "values") as journal:
        assert journal[{"place": 0}] == 1
        journal.put({"place": 1}, 2)
    data = path.read_bytes()
    for others in ("other values", None):
        with pytest.raises(MediationError, match="other inputs"), FileJournal(path, INPUTS, others):
            pass
    assert path.read_bytes() == data
    with FileJournal(path, "cd" * 32, "values") as journal:
        assert len(journal) == 2


@pytest.mark.parametrize("text", ["not JSON\n", '{"format":"other"}\n', "[]\n", '{"format":"equipoise-journal"}\n'])
def test_a_file_that_is_no_journal_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "journal"
    path.write_text(text)
    with pytest.raises(MediationError, match="cannot be read as the journal"), FileJournal(path, INPUTS):
        pass
    assert path.read_text() == text


@pytest.mark.parametrize("depth", [100, 900, 100_000])
@pytest.mark.parametrize("place", ["header", "entry", "key", "result"])
def test_a_line_that_is_nested_deeply_is_refused_by_its_number(tmp_path: Path, place: str, depth: int) -> None:
    path = tmp_path / "journal"
    filled(path, 1)
    nested = "[" * depth + "]" * depth
    lines = {"entry": nested, "key": f'{{"key":{nested},"result":1}}', "result": f'{{"key":1,"result":{nested}}}'}
    text = f"{nested}\n" if place == "header" else f"{path.read_text()}{lines[place]}\n"
    path.write_text(text)
    wrong = 1 if place == "header" else 3
    with pytest.raises(MediationError, match=f"line {wrong}: .*nested too deeply.*delete the file") as refusal:
        FileJournal(path, INPUTS).__enter__()
    assert "recursion" not in str(refusal.value)
    assert path.read_text() == text


@pytest.mark.parametrize(
    "answer", [[[[1]]], None, "a", {}, {"value": [], "draws": 1, "rhat": 1, "ess": 1, "problems": []}]
)
def test_an_answer_that_is_none_is_refused_by_its_coalition(answer: object) -> None:
    request = Request(("north", "south"), draws=100, seed=1)
    with FileJournal(None, INPUTS) as journal:
        journal.put(request.to_json(), answer)
        appraiser = Evaluator(rounds.agreement("gaussian"), [], journal, SettlementSettings(), progress=False)
        with pytest.raises(MediationError, match="has of {north, south} cannot be read.*Delete the journal"):
            appraiser.answers([request], what="valuing")


def test_one_process_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with (
        FileJournal(path, INPUTS),
        pytest.raises(MediationError, match="another process is at work"),
        FileJournal(path, INPUTS),
    ):
        pass
    filled(path)  # and the lock is gone afterwards


def test_without_a_path_it_is_only_remembered() -> None:
    with FileJournal(None, INPUTS) as journal:
        journal.put({"a": 1}, 2)
        assert journal[{"a": 1}] == 2
