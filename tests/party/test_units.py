"""Units of privacy: what a person of several rows loses is never more than the ledger says."""

import json
import math
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equipoise.party.bounds as bounds_module
import equipoise.party.release as release_module
from builders import linear
from equipoise.agreement import Agreement
from equipoise.cli.doctor import check_ledger
from equipoise.errors import BudgetError, LedgerError, TableError
from equipoise.models import Individuals
from equipoise.party.bounds import release_bounds
from equipoise.party.ledger import Ledger
from equipoise.party.release import release
from equipoise.party.units import Account, Planned, Unit
from program import run

WRITTEN_BY_014 = Path(__file__).parents[1] / "fixtures" / "0.14.ledger"
ROWS = 10
ROW_LEVEL = linear(2)


def for_individuals(column: str = "patient", **privacy: Any) -> Agreement:
    document = ROW_LEVEL.model_dump(mode="json")
    document["privacy"] |= {"individual": column, **(privacy or {"aggregate": "mean"})}
    return Agreement.model_validate(document)


def table(*, x0: float, y: float) -> dict[str, Any]:
    """One person with ten rows, which are as far from a neighbour's as bounds allow, and three others with one each."""
    return {
        "patient": ["target"] * ROWS + ["a", "b", "c"],
        "x0": [x0] * ROWS + [0.5] * 3,
        "x1": [99.0] * ROWS + [0.5] * 3,
        "y": [y] * ROWS + [0.5] * 3,
    }


def spend_everything(rows: dict[str, Any], ledger: Path) -> None:
    """Buy bounds and release at the unit of a row, then release at that of a person; state the rows if asked to."""
    options: dict[str, Any] = {"party": "north", "ledger": ledger}
    release_bounds(rows, ["x0"], zcdp=0.02, cap_zcdp=1e3, **options)
    release(ROW_LEVEL, rows, zcdp=0.5, allow_clipping=True, **options)
    try:
        release(for_individuals(), rows, zcdp=0.5, allow_clipping=True, **options)
    except BudgetError:
        Ledger(ledger).amend(reason="a patient has at most ten visits", rows_per_individual=ROWS)
        release(for_individuals(), rows, zcdp=0.5, allow_clipping=True, **options)


BROKEN: dict[str, tuple[str, Any, Any]] = {
    "": ("of", Unit, Unit.of),
    "the unit is not recorded": ("of", Unit, lambda _: Unit()),
    "rows count once": ("times", Account, lambda *_: 1.0),
    "rows count k times": (
        "times",
        Account,
        lambda self, unit: 1.0 if unit.individual else float(self.rows_per_individual or 1),
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_person_of_ten_rows_loses_what_the_ledger_says(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An adversary compares all that is released about a person with all that would be, had the rows been others.

    Noise of scale σ that hides a shift v loses |v|²/(2σ²) of zCDP, and losses of releases add up. The real ledger says
    no less; the broken ones do.
    """
    name, of, change = BROKEN[broken]
    monkeypatch.setattr(of, name, change)
    released: list[tuple[list[int], float]] = []

    def seen(statistic: list[int], *, sensitivity: int, zcdp: float) -> list[int]:
        released.append((statistic, sensitivity / math.sqrt(2 * zcdp)))
        return list(statistic)

    for module in (release_module, bounds_module):
        monkeypatch.setattr(module, "perturb", seen)
    for place, rows in enumerate((table(x0=99.0, y=99.0), table(x0=-99.0, y=-99.0))):
        spend_everything(rows, tmp_path / f"{place}.ledger")
    first, second = released[:3], released[3:]
    lost = sum(
        float(np.sum(np.subtract(one, other).astype(float) ** 2)) / (2 * sigma**2)
        for (one, sigma), (other, _) in zip(first, second, strict=True)
    )
    assert lost == pytest.approx(52.5, rel=1e-3)
    total = Ledger(tmp_path / "0.ledger").read().total_zcdp
    assert (lost > total * (1 + 1e-6)) == bool(broken)


UNITS = st.sampled_from([Unit(), Unit("patient"), Unit("patient", 3), Unit("patient", None)])
COHORTS = st.sampled_from(["", "2023", "2024"])


@given(
    spends=st.lists(st.builds(Planned, st.floats(1e-3, 10), COHORTS, UNITS), min_size=1, max_size=8),
    rows=st.integers(1, 20),
)
@settings(max_examples=50)
def test_the_total_is_what_the_worst_off_individual_lost(spends: list[Planned], rows: int) -> None:
    def lost(own: str) -> float:
        return sum(
            spend.zcdp * (1 if spend.unit.individual else rows**2) for spend in spends if spend.cohort in ("", own)
        )

    assert Account(spends, rows).total == pytest.approx(max(map(lost, ("", "2023", "2024"))))
    protected = {spend.unit.individual for spend in spends}
    unstated = Account(spends)
    assert (unstated.total == math.inf) == (len(protected) == 2)
    assert (unstated.obstacle != "") == (len(protected) == 2)
    if protected == {None}:
        assert unstated.unit == "one row"
        assert unstated.total <= Account(spends, rows).total


@pytest.mark.parametrize("first", ["row", "individual"])
def test_unlike_units_are_refused_before_anything_is_spent(first: str, tmp_path: Path) -> None:
    ledger, rows = tmp_path / "l", table(x0=0.5, y=0.5)
    agreements = [ROW_LEVEL, for_individuals()]
    if first == "individual":
        agreements.reverse()
    release(agreements[0], rows, party="north", zcdp=0.1, ledger=ledger, cap_zcdp=50.0, allow_clipping=True)
    before = ledger.read_bytes()
    for refused in (
        lambda: release(agreements[1], rows, party="north", zcdp=0.1, ledger=ledger, allow_clipping=True),
        lambda: release_bounds(
            rows, ["x0"], party="north", ledger=ledger, zcdp=0.1,
            individuals=agreements[1].individuals,
        ),
        lambda: Ledger(ledger).record_other(
            zcdp=0.1, why="counts", unit=Unit.of(agreements[1].individuals), planned=True
        ),
    ):  # fmt: skip
        with pytest.raises(BudgetError, match=r"for somebody with k rows .* k² times.*--rows-per-individual K"):
            refused()
    assert ledger.read_bytes() == before
    Ledger(ledger).amend(reason="ten visits at most", rows_per_individual=10)
    release(agreements[1], rows, party="north", zcdp=0.1, ledger=ledger, allow_clipping=True)
    history = Ledger(ledger).read()
    assert history.total_zcdp == pytest.approx(0.1 + 100 * 0.1)
    assert history.unit == "all rows of one patient"
    assert [str(spend.unit) for spend in history.spends] == [
        str(Unit.of(agreement.individuals)) for agreement in agreements
    ]


def test_a_cap_is_compared_with_what_is_charged(tmp_path: Path) -> None:
    ledger, rows = Ledger(tmp_path / "l"), table(x0=0.5, y=0.5)
    release(for_individuals(), rows, party="north", zcdp=0.1, ledger=ledger.path, cap_zcdp=5.0, allow_clipping=True)
    ledger.amend(reason="ten visits at most", rows_per_individual=10)
    with pytest.raises(BudgetError, match=r"needs zCDP 10 \(0.1 for one row, 100 times, for all rows of one patient\)"):
        release(ROW_LEVEL, rows, party="north", zcdp=0.1, ledger=ledger.path, allow_clipping=True)
    release(ROW_LEVEL, rows, party="north", zcdp=0.04, ledger=ledger.path, allow_clipping=True)
    assert ledger.read().total_zcdp == pytest.approx(4.1)
    with pytest.raises(BudgetError, match="below the 4.1 already spent on all rows of one patient"):
        ledger.amend(reason="less", cap_zcdp=4.0)
    ledger.amend(reason="twenty after all", rows_per_individual=20)  # a fact: recorded although it exceeds the cap
    assert ledger.read().total_zcdp == pytest.approx(0.1 + 400 * 0.04)
    with pytest.raises(BudgetError, match="of the cap 5 is spent"):
        ledger.record_other(zcdp=1e-3, why="bounds", unit=Unit("patient"), planned=True)


def test_columns_that_name_others_do_not_add_up(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    ledger.record_other(zcdp=0.1, why="counts", unit=Unit("patient", None), cap_zcdp=1.0)
    with pytest.raises(BudgetError, match=r"'patient' and spends that protect one 'pid' .*--same-individuals pid"):
        ledger.record_other(zcdp=0.2, why="counts", unit=Unit("pid", 3), planned=True)
    with pytest.raises(LedgerError, match="nothing that it could be the same as"):
        ledger.amend(reason="the same", same_individuals="patient")
    ledger.amend(reason="pid is the patient's number", same_individuals="pid")
    ledger.record_other(zcdp=0.2, why="counts", unit=Unit("pid", 3))
    assert ledger.read().total_zcdp == pytest.approx(0.3)
    with pytest.raises(BudgetError, match="'household'"):
        ledger.record_other(zcdp=0.2, why="counts", unit=Unit("household", None), planned=True)


def test_what_has_happened_is_recorded_whatever_it_protects(tmp_path: Path) -> None:
    """A spend that is refused would be missing from the total, and releases would go on."""
    ledger, rows = Ledger(tmp_path / "l"), table(x0=0.5, y=0.5)
    ledger.record_other(zcdp=0.1, why="counts", unit=Unit("patient", None), cap_zcdp=50.0)
    ledger.record_other(zcdp=0.2, why="a table in a report")
    assert ledger.read().total_zcdp == math.inf
    with pytest.raises(BudgetError, match="k² times"):
        release(for_individuals(), rows, party="north", zcdp=0.1, ledger=ledger.path, allow_clipping=True)
    ledger.amend(reason="ten visits at most", rows_per_individual=10)
    assert ledger.read().total_zcdp == pytest.approx(20.1)


def test_a_number_of_rows_is_not_lowered_by_the_way(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    ledger.record_other(zcdp=0.5, why="counts", cap_zcdp=60.0)
    ledger.amend(reason="ten visits", rows_per_individual=10)
    with pytest.raises(LedgerError, match="somebody has 10 rows.*--lower"):
        ledger.amend(reason="one visit", rows_per_individual=1)
    assert ledger.read().total_zcdp == pytest.approx(50.0)
    ledger.amend(reason="ten was a typing error", rows_per_individual=1, lower=True)
    assert ledger.read().total_zcdp == pytest.approx(0.5)


def test_a_table_in_which_somebody_has_more_rows_than_stated_is_refused(tmp_path: Path) -> None:
    ledger, rows = Ledger(tmp_path / "l"), table(x0=0.5, y=0.5)
    most = max(Counter(rows["patient"]).values())
    ledger.record_other(zcdp=0.1, why="counts", unit=Unit("patient", None), cap_zcdp=1e6)
    ledger.amend(reason="few visits", rows_per_individual=most - 1)
    with pytest.raises(TableError, match=f"more rows in this table, by the column 'patient'.*\\({most - 1}\\)"):
        release(ROW_LEVEL, rows, party="north", zcdp=0.1, ledger=ledger.path, allow_clipping=True)
    assert len(ledger.read().spends) == 0
    ledger.amend(reason="more visits", rows_per_individual=most)
    release(ROW_LEVEL, rows, party="north", zcdp=0.1, ledger=ledger.path, allow_clipping=True)


def test_sameness_does_not_depend_on_the_order_of_spends() -> None:
    spends = [Planned(0.1, "", Unit(column, None)) for column in ("household", "pid", "patient")]
    same = frozenset({"pid", "patient"})
    for order in (spends, spends[::-1]):
        assert Account(order, same_individuals=same).total == math.inf
        assert Account(order[1:] if order is spends else order[:2], same_individuals=same).total == pytest.approx(0.2)


@pytest.mark.parametrize("rows", [0, -1, 2.5, 10**7])
def test_numbers_of_rows_that_nobody_has(rows: Any, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "l")
    ledger.record_other(zcdp=0.1, why="counts", cap_zcdp=1.0)
    with pytest.raises(LedgerError, match="nobody can have"):
        ledger.amend(reason="x", rows_per_individual=rows)


def test_a_ledger_of_014_opens_and_nothing_of_it_is_lost(tmp_path: Path) -> None:
    """It adds up to 1.02 there. Its second release protects a patient, which its public bounds tell."""
    path = tmp_path / "north.ledger"
    shutil.copy(WRITTEN_BY_014, path)
    history = Ledger(path).read()
    assert [spend.unit for spend in history.spends] == [Unit(), Unit("patient", None)]
    assert [other.unit for other in history.others] == [Unit()]
    assert len(history.submissions) == 2
    assert history.total_zcdp == math.inf
    for unit in (Unit(), Unit("patient", None)):
        with pytest.raises(BudgetError, match="--rows-per-individual K"):
            Ledger(path).record_other(zcdp=1e-6, why="more bounds", unit=unit, planned=True)
    with pytest.raises(BudgetError, match="no cap can be compared"):
        Ledger(path).amend(reason="more", cap_zcdp=100.0)
    Ledger(path).amend(reason="ten visits at most", rows_per_individual=10, cap_zcdp=60.0)
    history = Ledger(path).read()
    assert history.total_zcdp == pytest.approx(52.5)
    assert path.read_bytes().startswith(WRITTEN_BY_014.read_bytes())


def test_units_that_old_bounds_tell() -> None:
    for domains, unit in (
        ({"x": [0, 1], "rows of one patient": [3]}, Unit("patient", 3)),
        ({"rows of one patient": [1, "aggregate = last"]}, Unit("patient", None)),
        ({"rows of one patient": [0, 5]}, Unit()),  # a column of that name, and its bounds
        ({"rows of one patient": ["a", "b"]}, Unit()),
        ({"norm of (x)": []}, Unit()),
    ):
        assert Unit.from_entry({"domains": domains}) == unit


@pytest.mark.parametrize("aggregate", ["mean", "first", "last"])
@pytest.mark.parametrize("broken", ["", "rows as they are"])
def test_aggregated_bounds_protect_all_rows_of_one(
    aggregate: Any, broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever rows one person has, counts change by no more than one row does; ten rows as they are change more."""
    seen: list[tuple[list[int], int]] = []

    def noiseless(statistic: list[int], *, sensitivity: int, zcdp: float) -> list[int]:
        seen.append((statistic, sensitivity))
        return statistic

    monkeypatch.setattr(bounds_module, "perturb", noiseless)
    whose = None if broken else Individuals("patient", 1, False, aggregate)
    tables = [table(x0=99.0, y=1.0), table(x0=-99.0, y=1.0), table(x0=5.0, y=1.0)]
    tables[2] = {name: values[ROWS - 1 :] for name, values in tables[2].items()}  # with one row of ten
    for place, rows in enumerate(tables[: 2 if broken else 3]):
        release_bounds(
            rows, ["x0", "y"], party="north", ledger=tmp_path / f"{place}", zcdp=0.01, cap_zcdp=1.0, individuals=whose
        )
    (first, sensitivity), *others = seen
    moved = max(float(np.linalg.norm(np.subtract(first, other).astype(float))) for other, _ in others)
    assert (moved > sensitivity) == bool(broken)
    if not broken:
        assert np.sum(first) == 4 * 2 * 2**16  # four individuals, two columns
        assert Ledger(tmp_path / "0").read().others[0].unit == Unit("patient", None)


def test_commands_say_what_counts_how_often(tmp_path: Path) -> None:
    path = tmp_path / "north.ledger"
    shutil.copy(WRITTEN_BY_014, path)
    shown = run("party", "ledger", path, cwd=tmp_path, COLUMNS="200").stdout
    assert "total and cap are for all rows of one patient" in shown
    assert "not known" in shown
    assert "The total is not known: spends that protect one row (zCDP 0.52)" in shown
    document = json.loads(run("party", "ledger", path, "--json", cwd=tmp_path).stdout)
    assert (document["total"], document["total_zcdp"], document["remaining_zcdp"]) == (None, None, 0.0)
    assert [one["unit"]["individual"] for one in document["spends"]] == [None, "patient"]
    assert document["total_unit"] == "all rows of one patient"
    checked = check_ledger(path)
    assert (checked.status, "do not add up" in checked.found) == ("failed", True)
    amended = run(
        "party", "amend", path, "--rows-per-individual", 10, "--reason", "ten visits", cwd=tmp_path, COLUMNS="200"
    ).stdout
    assert "Spent in all, for all rows of one patient: zCDP 52.5 of the cap 2. That is above the cap" in amended
    shown = run("party", "ledger", path, cwd=tmp_path, COLUMNS="250").stdout
    for words in ("one row, counts 100 times; bounds of x", "nobody has more than 10 rows (ten visits)"):
        assert words in shown
    assert "which of two sets of rows one patient has" in shown
    document = json.loads(run("party", "ledger", path, "--json", cwd=tmp_path).stdout)
    assert [one["charged_zcdp"] for one in document["spends"]] == [50.0, 0.5]
    assert document["total"]["zcdp"] == pytest.approx(52.5)
    spend = ("party", "spend", path, "--why", "counts", "--zcdp", 0.1)
    found = json.loads(run(*spend, "--individual", "patient", "--json", cwd=tmp_path).stdout)
    assert found["unit"] == {"individual": "patient", "rows": None}
    assert found["total_zcdp"] == pytest.approx(52.6)
    assert "needs --individual" in run(*spend, "--rows-per-individual", 3, cwd=tmp_path, code=5).stderr


def test_a_release_says_that_it_counts_more(tmp_path: Path) -> None:
    Ledger(tmp_path / "l").record_other(zcdp=0.1, why="counts", unit=Unit("patient", None), cap_zcdp=100.0)
    run("party", "amend", "l", "--rows-per-individual", 10, "--reason", "ten visits", cwd=tmp_path)
    run("agreement", "new", "linear", "--party", "north", cwd=tmp_path)
    rows = "\n".join(f"{25 + k},{18 + k % 20},{65 + k},{20 + k}" for k in range(40))
    (tmp_path / "north.csv").write_text(f"age,bmi,blood_pressure,progression\n{rows}\n")
    said = run(
        "party", "release", "agreement.toml", "north.csv", "--party", "north", "--zcdp", 0.1, "--ledger", "l",
        cwd=tmp_path, COLUMNS="300",
    ).stderr  # fmt: skip
    assert "zCDP 0.1 counts 100 times, as zCDP 10" in said
    assert Ledger(tmp_path / "l").read().total_zcdp == pytest.approx(10.1)


def test_units_are_written_in_words() -> None:
    assert [str(unit) for unit in (Unit(), Unit("patient"), Unit("patient", 3), Unit("patient", None))] == [
        "one row", "the row of one patient", "3 rows of one patient", "all rows of one patient",
    ]  # fmt: skip
