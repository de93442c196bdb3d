"""The ledger adds up, refuses, survives two processes, and shows tampering."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equipoise.party.chain as chain_module
from builders import linear, logistic
from equipoise._util.canonical import canonical_json, sha256_hex
from equipoise.agreement import Agreement
from equipoise.errors import BudgetError, LedgerError
from equipoise.models.guarantee import Guarantee
from equipoise.party.ledger import Ledger, domains_of
from equipoise.party.release import release, resend
from equipoise.party.units import Unit

AGREED = linear(1)
TABLE = np.ones((10, 2))


def spend(ledger: Ledger, zcdp: float, agreed: Agreement = AGREED, **options: Any) -> str:
    options = {"again": True, **options}
    return ledger.spend(agreed, "north", Guarantee.from_zcdp(zcdp, order=2), count=10, **options)


@given(amounts=st.lists(st.floats(1e-6, 10), min_size=1, max_size=8))
@settings(max_examples=25)
def test_totals_add_up(amounts: list[float], tmp_path_factory: pytest.TempPathFactory) -> None:
    ledger = Ledger(tmp_path_factory.mktemp("l") / "l")
    for place, amount in enumerate(amounts):
        spend(ledger, amount, cap_zcdp=1e3 if place == 0 else None)
    history = ledger.read()
    assert [s.zcdp for s in history.spends] == pytest.approx(amounts)
    assert history.total_zcdp == math.fsum(s.zcdp for s in history.spends)
    assert [s.finished for s in history.spends] == [False] * len(amounts)


@given(
    spends=st.lists(
        st.tuples(st.sampled_from(["", "2023", "2024", "ward"]), st.floats(1e-3, 10), st.booleans()),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=25)
def test_what_is_spent_is_what_the_worst_off_individual_lost(
    spends: list[tuple[str, float, bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Somebody of every cohort and of none: each loses what is about their cohort, and what is about everybody."""
    ledger = Ledger(tmp_path_factory.mktemp("l") / "l")
    for place, (cohort, amount, other) in enumerate(spends):
        cap = 1e3 if place == 0 else None
        if other:
            ledger.record_other(zcdp=amount, why="counts in a report", cohort=cohort, cap_zcdp=cap)
        else:
            spend(ledger, amount, cohort=cohort, cap_zcdp=cap)
    history = ledger.read()
    lost = [sum(amount for about, amount, _ in spends if about in ("", own)) for own in ("", "2023", "2024", "ward")]
    assert history.total_zcdp == pytest.approx(max(lost))
    assert history.spent_on("2023") == pytest.approx(lost[1])
    assert history.account_after(0.5, "2024", Unit()).total == pytest.approx(max(*lost, lost[2] + 0.5))
    assert history.account_after(0.5, "", Unit()).total == pytest.approx(max(lost) + 0.5)


def test_cohorts_share_a_cap_that_each_may_use(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    spend(ledger, 0.4, cohort="2023", cap_zcdp=0.5)
    spend(ledger, 0.4, cohort="2024")
    with pytest.raises(BudgetError, match="0.4 of the cap 0.5 is spent on the cohort '2024'"):
        spend(ledger, 0.2, cohort="2024")
    with pytest.raises(BudgetError, match=r"0.4 of the cap 0.5 is spent \("):
        spend(ledger, 0.2)  # about everybody
    spend(ledger, 0.1)
    spend(ledger, 0.1, cohort="2025")  # 0.1 was about everybody, so 0.3 are left of it
    with pytest.raises(BudgetError, match="0.2 of the cap 0.5 is spent on the cohort '2025'"):
        spend(ledger, 0.4, cohort="2025")
    assert ledger.read().total_zcdp == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["Ward", " ward", "ward ", "w" * 201, "wa rd", "ｗard", "ward\u200b", "wa\trd"])
def test_a_cohort_has_one_name(name: str, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    spend(ledger, 0.1, cohort="ward", cap_zcdp=1.0)
    with pytest.raises(LedgerError, match="cohort"):
        spend(ledger, 0.1, cohort=name)
    with pytest.raises(LedgerError, match="cohort"):
        ledger.record_other(zcdp=0.1, why="counts", cohort=name)
    assert len(ledger.read().spends) == 1


def test_what_others_spent_counts_and_may_exceed_the_cap(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    spend(ledger, 0.1, cap_zcdp=0.2)
    ledger.record_other(zcdp=0.15, why="counts in the annual report")
    history = ledger.read()
    assert [one.why for one in history.others] == ["counts in the annual report"]
    assert history.total_zcdp == pytest.approx(0.25)
    with pytest.raises(BudgetError, match="0.25 of the cap 0.2 is spent"):
        spend(ledger, 1e-6)
    for zcdp, why, says in ((0.0, "x", "positive"), (math.nan, "x", "positive"), (0.1, " ", "say what")):
        with pytest.raises((BudgetError, LedgerError), match=says):
            ledger.record_other(zcdp=zcdp, why=why)
    with pytest.raises(BudgetError, match="already has a cap"):
        ledger.record_other(zcdp=0.1, why="x", cap_zcdp=1.0)


def test_what_others_spent_may_open_a_ledger(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    ledger.record_other(zcdp=0.15, why="counts", cap_zcdp=0.3, family="patients")
    history = ledger.read()
    assert (history.family, history.cap_zcdp, history.total_zcdp) == ("patients", 0.3, 0.15)
    torn = ledger.path.read_bytes()
    ledger.record_other(zcdp=0.05, why="more counts")
    ledger.path.write_bytes(ledger.path.read_bytes()[:-30])
    assert ledger.read().total_zcdp == 0.15  # a line torn by a crash never counted
    spend(ledger, 0.1)
    assert ledger.path.read_bytes().startswith(torn)


def test_a_ledger_shows_itself(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "north.ledger")
    assert repr(ledger) == "Ledger('north.ledger': new, nothing spent)"
    spend(ledger, 0.1, cap_zcdp=0.5)
    assert repr(ledger) == "Ledger('north.ledger': 1 spend, zCDP 0.1 of 0.5 spent on one row)"
    ledger.record_other(zcdp=0.2, why="counts")
    assert repr(ledger) == "Ledger('north.ledger': 2 spends, zCDP 0.3 of 0.5 spent on one row)"
    ledger.path.write_bytes(b"torn" + ledger.path.read_bytes())
    assert "is not a ledger, or was changed" in repr(ledger)


def test_default_cap_is_the_first_spend(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    spend(ledger, 0.1)
    with pytest.raises(BudgetError, match="needs zCDP 1e-06, and 0.1 of the cap 0.1 is spent"):
        spend(ledger, 1e-6)
    assert len(ledger.read().spends) == 1


def test_ten_tenths_make_one(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    spend(ledger, 0.1, cap_zcdp=1.0)
    for _ in range(9):
        spend(ledger, 0.1)
    with pytest.raises(BudgetError, match="cap"):
        spend(ledger, 1e-9)


def test_first_spend_above_its_cap(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    with pytest.raises(BudgetError, match="more than the cap 0.1"):
        spend(ledger, 0.2, cap_zcdp=0.1)
    assert not ledger.path.exists()


@pytest.mark.parametrize("cap", [0, -1, math.inf, math.nan])
def test_silly_caps(cap: float, tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match="positive number of zCDP"):
        spend(Ledger(tmp_path / "l"), 0.1, cap_zcdp=cap)


def test_cap_changes_only_by_amendment(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    spend(ledger, 0.1, cap_zcdp=0.2)
    with pytest.raises(BudgetError, match="already has a cap of zCDP 0.2"):
        spend(ledger, 0.1, cap_zcdp=5.0)
    with pytest.raises(LedgerError, match="needs a reason"):
        ledger.amend(reason=" ", cap_zcdp=5.0)
    with pytest.raises(BudgetError, match="below the 0.1 already spent"):
        ledger.amend(reason="board", cap_zcdp=0.05)
    ledger.amend(reason="board", cap_zcdp=5.0)
    spend(ledger, 4.0)
    assert ledger.read().cap_zcdp == 5.0
    assert ledger.read().amendments[0]["reason"] == "board"


def test_changed_bounds_are_refused_until_accepted(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    other = Agreement.model_validate({**AGREED.model_dump(), "title": "another round"})
    wider = AGREED.model_dump()
    wider["model"]["features"][0]["bounds"] = (-3.0, 2.0)
    changed = Agreement.model_validate(wider)
    spend(ledger, 0.1, cap_zcdp=1.0)
    spend(ledger, 0.1, other)
    with pytest.raises(BudgetError, match=r"bounds of 'x0' have changed from \[-2.0, 2.0\] to \[-3.0, 2.0\]"):
        spend(ledger, 0.1, changed)
    ledger.amend(reason="instrument recalibrated", domains={"x0": domains_of(changed)["x0"]})
    spend(ledger, 0.1, changed)
    with pytest.raises(LedgerError, match="'zz' was never released"):
        ledger.amend(reason="?", domains={"zz": [0, 1]})


def test_labels_and_norms_are_bounds_too(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    spend(ledger, 0.1, logistic(3, norm_bound=1.5), cap_zcdp=1.0)
    with pytest.raises(BudgetError, match="norm of"):
        spend(ledger, 0.1, logistic(3, norm_bound=1.2))
    relabelled = logistic(3, norm_bound=1.5).model_dump()
    relabelled["model"]["target"]["labels"] = ("never", "yes")
    with pytest.raises(BudgetError, match="bounds of 'y' have changed"):
        spend(ledger, 0.1, Agreement.model_validate(relabelled))


def finished_ledger(folder: Path) -> Ledger:
    path = folder / "l"
    release(AGREED, TABLE, party="north", epsilon=0.2, ledger=path, cap_zcdp=10.0)
    release(AGREED, TABLE, party="north", epsilon=0.4, ledger=path, again=True)
    return Ledger(path)


def test_every_changed_byte_shows(tmp_path: Path) -> None:
    """Change any byte of any line: either the ledger is refused, or it still says the same (never quietly other)."""
    ledger = finished_ledger(tmp_path)
    data = ledger.path.read_bytes()
    before = ledger.read()
    rng = np.random.default_rng(0)
    for place in rng.choice(len(data), 300, replace=False):
        damaged = bytearray(data)
        damaged[place] = (damaged[place] + 1 + int(rng.integers(254))) % 256
        ledger.path.write_bytes(bytes(damaged))
        try:
            after = ledger.read()
        except LedgerError:
            continue
        assert after.spends == before.spends, f"byte {place}"
        assert after.cap_zcdp == before.cap_zcdp


@pytest.mark.parametrize("line", [0, 1, 2])
def test_removed_line_shows(line: int, tmp_path: Path) -> None:
    ledger = finished_ledger(tmp_path)
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    ledger.path.write_bytes(b"".join(lines[:line] + lines[line + 1 :]))
    with pytest.raises(LedgerError, match=f"line {line + 1} .*does not follow"):
        ledger.read()
    with pytest.raises(LedgerError, match="backup"):
        release(AGREED, TABLE, party="north", epsilon=0.1, ledger=ledger.path, again=True)


def test_swapped_lines_show(tmp_path: Path) -> None:
    ledger = finished_ledger(tmp_path)
    first, second, *rest = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(b"".join([second, first, *rest]))
    with pytest.raises(LedgerError, match="line 1"):
        ledger.read()


def test_rewritten_or_rolled_back_ledger_does_not_account_for_what_is_out(tmp_path: Path) -> None:
    """A forger can rebuild the chain, or restore yesterday's copy, but then signed submissions have no spend."""
    ledger = finished_ledger(tmp_path)
    submission = resend(AGREED, party="north", ledger=ledger.path)
    assert ledger.accounts_for(submission)
    entries = [json.loads(line) for line in ledger.path.read_bytes().splitlines()]

    entries[2]["zcdp"] = entries[2]["epsilon"] = 1e-9
    previous = entries[1]["hash"]
    for entry in entries[2:]:
        del entry["hash"]
        entry["previous"] = previous
        entry["hash"] = previous = sha256_hex(canonical_json(entry))
    ledger.path.write_bytes(b"".join(canonical_json(entry) + b"\n" for entry in entries))
    assert ledger.read().total_zcdp < 0.2  # the forged chain is consistent in itself
    assert not ledger.accounts_for(submission)

    ledger.path.write_bytes(b"".join(canonical_json(entry) + b"\n" for entry in entries[:2]))
    assert not ledger.accounts_for(submission)


def test_torn_last_line_is_dropped(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    spend(ledger, 0.1, cap_zcdp=1.0)
    whole = ledger.path.read_bytes()
    for cut in (1, 50, 200):
        ledger.path.write_bytes(whole + whole[:cut])
        assert len(ledger.read().spends) == 1
    spend(ledger, 0.1)
    assert len(ledger.read().spends) == 2


def test_torn_first_line_is_an_empty_ledger(tmp_path: Path) -> None:
    path = tmp_path / "l"
    path.write_bytes(b'{"agreement":"f94')
    spend(Ledger(path), 0.1)
    assert len(Ledger(path).read().spends) == 1


def test_lost_newline_loses_nothing(tmp_path: Path) -> None:
    """A whole entry whose newline is missing was paid for: it counts, and the next entry follows it."""
    ledger = Ledger(tmp_path / "l")
    spend(ledger, 0.1, cap_zcdp=1.0)
    ledger.path.write_bytes(ledger.path.read_bytes().rstrip(b"\n"))
    assert len(ledger.read().spends) == 1
    spend(ledger, 0.1)
    assert len(ledger.read().spends) == 2


def test_damage_in_the_middle_is_not_a_torn_line(tmp_path: Path) -> None:
    ledger = finished_ledger(tmp_path)
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(lines[0] + lines[1][:40] + b"\n" + lines[2])
    with pytest.raises(LedgerError, match="line 2"):
        ledger.read()


SPEND_TWENTY_TIMES = """
import sys
sys.path.insert(0, sys.argv[2])
from builders import linear
from equipoise.errors import BudgetError
from equipoise.models.guarantee import Guarantee
from equipoise.party.ledger import Ledger
done = 0
for _ in range(20):
    try:
        Ledger(sys.argv[1]).spend(linear(1), "north", Guarantee.from_zcdp(0.01, order=2), count=10, again=True)
        done += 1
    except BudgetError:
        continue
print(done)
"""


@pytest.mark.process
def test_two_processes_never_overspend(tmp_path: Path) -> None:
    path = tmp_path / "l"
    spend(Ledger(path), 0.01, cap_zcdp=0.5)
    command = [sys.executable, "-c", SPEND_TWENTY_TIMES, str(path), str(Path(__file__).parents[1])]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    done = [int(worker.communicate(timeout=120)[0]) for worker in workers]
    history = Ledger(path).read()
    assert sum(done) == 49
    assert len(history.spends) == 50
    assert history.total_zcdp == pytest.approx(0.5)


def test_one_file_by_two_names_is_one_ledger(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    spend(Ledger(tmp_path / "real" / "l"), 0.1)
    with pytest.raises(BudgetError):
        spend(Ledger(tmp_path / "link" / "l"), 0.1)
    assert Ledger(tmp_path / "link" / "l").path == Ledger(tmp_path / "real" / "l").path


def test_locked_ledger_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "l")
    monkeypatch.setattr(chain_module, "LOCK_SECONDS", 0.05)
    with ledger._chain.locked(), pytest.raises(LedgerError, match="another process has held"):
        Ledger(tmp_path / "l").spend(AGREED, "north", Guarantee(2, 1), count=1)


def test_full_disk_spends_nothing_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = Ledger(tmp_path / "l")
    spend(ledger, 0.1, cap_zcdp=1.0)
    real_write = os.write

    def half_then_full(handle: int, data: bytes) -> int:
        real_write(handle, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", half_then_full)
    with pytest.raises(LedgerError, match="No space left on device; nothing was recorded"):
        spend(ledger, 0.1)
    monkeypatch.undo()
    assert len(ledger.read().spends) == 1
    spend(ledger, 0.1)
    assert len(ledger.read().spends) == 2


def test_the_ledger_is_its_owners_alone(tmp_path: Path) -> None:
    ledger = finished_ledger(tmp_path)
    assert ledger.path.stat().st_mode & 0o077 == 0
    assert (tmp_path / "l.key").stat().st_mode & 0o077 == 0


def test_no_ledger_yet(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger(tmp_path / "none").read()


def test_newer_format_is_not_misread(tmp_path: Path) -> None:
    entry: dict[str, Any] = {"sequence": 0, "previous": "0" * 64, "kind": "merge"}
    entry["hash"] = sha256_hex(canonical_json(entry))
    (tmp_path / "l").write_bytes(canonical_json(entry) + b"\n")
    with pytest.raises(LedgerError, match="unknown kind 'merge'; upgrade"):
        Ledger(tmp_path / "l").read()


def test_a_second_release_is_a_decision_even_while_the_first_is_under_way(tmp_path: Path) -> None:
    """The cap would allow it, and no submission is stored yet; it still takes `again`."""
    ledger = Ledger(tmp_path / "l")
    spend(ledger, 0.1, cap_zcdp=1.0)
    with pytest.raises(BudgetError, match="still under way, or was cut off"):
        spend(ledger, 0.1, again=False)
    assert len(ledger.read().spends) == 1


@pytest.mark.parametrize("content", [b"precious notes without a newline", bytes(range(256)), b"[1, 2", b'{"name": "x'])
def test_another_file_is_never_taken_for_a_ledger(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(LedgerError, match="is not a ledger"):
        release(AGREED, TABLE, party="north", epsilon=0.2, ledger=path)
    assert path.read_bytes() == content


def test_zeros_after_a_crash_are_a_torn_line(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    spend(ledger, 0.1, cap_zcdp=1.0)
    whole = ledger.path.read_bytes()
    for tail in (bytes(100), whole[:60] + bytes(40)):
        ledger.path.write_bytes(whole + tail)
        assert len(ledger.read().spends) == 1


def test_an_entry_too_long_to_read_back_is_never_written(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    with pytest.raises(LedgerError, match="Nothing was recorded"):
        spend(ledger, 0.1, family="f" * 5_000_000)
    spend(ledger, 0.1, cap_zcdp=1.0, family="patients")
    with pytest.raises(LedgerError, match="Nothing was recorded"):
        ledger.amend(reason="r" * 5_000_000, cap_zcdp=2.0)
    assert ledger.read().family == "patients"
    assert ledger.read().cap_zcdp == 1.0


def test_altered_submission_is_not_accounted_for(tmp_path: Path) -> None:
    submission = release(AGREED, TABLE, party="north", epsilon=0.2, ledger=tmp_path / "l")
    altered = submission.model_copy(update={"statistic": [value + 1 for value in submission.statistic]})
    assert Ledger(tmp_path / "l").accounts_for(submission)
    assert not Ledger(tmp_path / "l").accounts_for(altered)


def test_dropping_the_norm_bound_is_a_change_of_bounds(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    spend(ledger, 0.1, linear(3, norm_bound=1.5), cap_zcdp=1.0)
    with pytest.raises(BudgetError, match="norm of"):
        spend(ledger, 0.1, linear(3))


def test_a_cap_survives_the_rounding_of_another_order(tmp_path: Path) -> None:
    agreed = linear(1, order=3.0)
    guarantee = agreed.guarantee(zcdp=0.1)
    Ledger(tmp_path / "l").spend(agreed, "north", guarantee, count=1, cap_zcdp=0.1)
    assert linear(1, order=3.0, max_epsilon=0.3).guarantee(zcdp=0.1).epsilon <= 0.3


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"kind": "spend"},
        {"kind": "spend", "domains": {}, "opens": "x"},
        {"kind": "release", "submission": {}},
        {"kind": "amend"},
    ],
)
def test_entries_nobody_writes_are_refused(content: dict[str, Any], tmp_path: Path) -> None:
    entry: dict[str, Any] = {"sequence": 0, "previous": "0" * 64, **content}
    entry["hash"] = sha256_hex(canonical_json(entry))
    (tmp_path / "l").write_bytes(canonical_json(entry) + b"\n")
    with pytest.raises(LedgerError, match="not one that Equipoise writes"):
        Ledger(tmp_path / "l").read()


def test_ledger_needs_an_existing_writable_place(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="its folder must exist"):
        release(AGREED, TABLE, party="north", epsilon=0.2, ledger=tmp_path / "no" / "l")
    with pytest.raises(LedgerError, match="cannot be the path"):
        Ledger("nul\0byte")
