"""Bounds that are bought: what they cost, that noise hides a row, and that they hold the values."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from equipoise.errors import BudgetError, KeyFileError, TableError, VerificationError
from equipoise.models import Individuals
from equipoise.party import bounds
from equipoise.party.bounds import BINS, EDGES, BoundsRelease, release_bounds
from equipoise.party.csv_stream import CsvFile
from equipoise.party.ledger import Ledger
from equipoise.party.units import Unit
from equipoise.protocol.keys import create_key, load_key, public_hex


def bought(tmp_path: Path, table: Any, columns: list[str], **options: Any) -> BoundsRelease:
    return release_bounds(
        table, columns, **{"party": "north", "ledger": tmp_path / "ledger", "zcdp": 0.05, "cap_zcdp": 1.0, **options}
    )


def test_a_row_changes_counts_by_no_more_than_the_sensitivity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The worst neighbours, through the real path up to the noise; a bound for fewer columns must be caught."""
    seen: list[tuple[list[int], int]] = []

    def noiseless(statistic: list[int], *, sensitivity: int, zcdp: float) -> list[int]:
        seen.append((statistic, sensitivity))
        return statistic

    monkeypatch.setattr(bounds, "perturb", noiseless)
    columns = ["a", "b", "c"]
    rows = {name: [1.0, 2.0, 3.0] for name in columns}
    for rows_each, owners in ((1, ["x", "y", "z"]), (2, ["x", "x", "z"])):
        seen.clear()
        whose = Individuals("who", rows_each, drop=False)
        for value in (1.0, 1e6):
            mine = np.array(owners) == "x"
            table = {"who": owners, **{name: np.where(mine, value, rows[name]) for name in columns}}
            bought(tmp_path, table, columns, individuals=whose, zcdp=0.01)
        (first, sensitivity), (second, _) = seen
        distance = np.linalg.norm(np.subtract(first, second).astype(float))
        assert distance <= sensitivity
        assert distance > 0.99 * np.sqrt(2 / 3) * sensitivity / rows_each  # two columns' bound would not do
    assert np.array(seen[0][0]).sum() == 3 * 3 * 2**16


def test_missing_values_are_in_no_bin_and_repeats_are_refused(tmp_path: Path) -> None:
    values = np.where(np.arange(4_000) % 2, np.nan, 5.0)
    found = bought(tmp_path, {"x": values}, ["x"])
    place = int(np.searchsorted(EDGES, 5.0, side="right"))
    assert found.counts["x"][place] == pytest.approx(2_000, abs=6 * found.deviation)
    assert sum(found.counts["x"]) == pytest.approx(2_000, abs=6 * found.deviation * np.sqrt(BINS))
    whose = Individuals("who", 1, drop=False)
    with pytest.raises(TableError, match="row 2: 'who' is that of 1 earlier row"):
        bought(tmp_path, {"x": [1.0, 2.0], "who": ["a", "a"]}, ["x"], individuals=whose, ledger=tmp_path / "other")


def test_it_is_paid_before_noise_is_drawn_and_never_above_the_cap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "ledger")

    def crash(*_: Any, **__: Any) -> list[int]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(bounds, "perturb", crash)
        with pytest.raises(KeyboardInterrupt):
            bought(tmp_path, {"x": [1.0]}, ["x"], cap_zcdp=0.08)
    assert ledger.read().total_zcdp == 0.05
    with pytest.raises(BudgetError, match="needs zCDP 0.05, and 0.05 of the cap 0.08 is spent"):
        bought(tmp_path, {"x": [1.0]}, ["x"], cap_zcdp=None)
    assert ledger.read().total_zcdp == 0.05


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"cap_zcdp": None}, "a new ledger needs a cap"),
        ({"zcdp": 0.0}, "from 1e-06 to 1000, not 0.0"),
        ({"zcdp": float("nan")}, "from 1e-06 to 1000, not nan"),
        ({"zcdp": 2.0}, "more than the cap 1 of the new ledger"),
    ],
)
def test_what_is_not_paid_for_is_not_released(options: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(BudgetError, match=says):
        bought(tmp_path, {"x": [1.0]}, ["x"], **options)
    assert not (tmp_path / "ledger").exists()


class Untouchable:
    """A table that must not be read."""

    def __arrow_c_stream__(self, *_: Any) -> None:
        raise AssertionError("a row was read")


def test_what_the_ledger_refuses_is_refused_before_a_row_is_read(tmp_path: Path) -> None:
    Ledger(tmp_path / "ledger").record_other(zcdp=0.5, why="counts", unit=Unit("patient", None), cap_zcdp=0.6)
    before = sorted(path.name for path in tmp_path.iterdir())
    whose = Individuals("patient", 1, False, "mean")
    for options, says in (
        ({"individuals": whose, "zcdp": 0.2}, "0.5 of the cap 0.6 is spent"),
        ({"individuals": None}, "do not add up"),
        ({"individuals": whose, "cap_zcdp": 3.0}, "already has a cap"),
    ):
        with pytest.raises(BudgetError, match=says):
            bought(tmp_path, Untouchable(), ["x"], **{"cap_zcdp": None, **options})
    assert sorted(path.name for path in tmp_path.iterdir()) == before  # no key, either


def test_tables_that_do_not_fit_cost_nothing(tmp_path: Path) -> None:
    for table, columns, says in (
        ({"x": ["a"]}, ["x"], "column 'x' holds text"),
        ({"x": [np.inf]}, ["x"], "column 'x', row 1: the value is infinite"),
        ({"x": [1.0]}, ["y"], "'y' is not in the table"),
        ({"x": [1.0]}, ["x", "x"], "each once"),
        ({"x": np.zeros(0)}, ["x"], "no rows"),
    ):
        with pytest.raises(TableError, match=says):
            bought(tmp_path, table, columns)
    assert not (tmp_path / "ledger").exists()


def test_a_file_with_semicolons_is_recognised_for_one_column_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("age;bmi\n1,5;2\n")
    with pytest.raises(TableError, match="--delimiter ';'"):
        bought(tmp_path, path, ["age"])
    with pytest.raises(TableError, match="--decimal ','"):
        bought(tmp_path, CsvFile(path, ";"), ["age"])
    assert bought(tmp_path, CsvFile(path, ";", ","), ["age"]).count == 1


def test_files_are_read_again_or_refused(tmp_path: Path) -> None:
    release, path = bought(tmp_path, {"x": [1.0]}, ["x"]), tmp_path / "north.bounds.json"
    path.write_bytes(release.to_json())
    assert BoundsRelease.load(path) == release
    document = json.loads(path.read_text())
    for change, says in (
        ({"format": "other"}, "holds no bounds"),
        ({"version": 1}, "written by Equipoise 0.14 or earlier, which did not sign"),
        ({"counts": {"x": [1.0]}}, "is damaged: counts.x"),
        ({"counts": {"x": ["1"] * BINS}}, "is damaged: counts.x.0"),
        ({"counts": {}}, "is damaged: counts"),
        ({"zcdp": -1.0}, "is damaged: zcdp"),
        ({"zcdp": 1e9}, "is damaged: zcdp"),
        ({"rows_per_individual": 0}, "is damaged: rows_per_individual"),
        ({"rows_per_individual": 10**9}, "is damaged: rows_per_individual"),
        ({"count": 0}, "is damaged: count"),
        ({"count": 2**60}, "is damaged: count"),
        ({"party": None}, "is damaged: party"),
        ({"party": "north\n[evil]"}, "is damaged: party"),
        ({"note": "more"}, "is damaged: note"),
    ):
        path.write_text(json.dumps({**document, **change}))
        with pytest.raises(TableError, match=says):
            BoundsRelease.load(path)
    for change in ({"count": 2}, {"zcdp": 0.06}, {"party": "south"}, {"counts": {"y": document["counts"]["x"]}}):
        path.write_text(json.dumps({**document, **change}))
        with pytest.raises(VerificationError, match="was not signed with the key"):
            BoundsRelease.load(path)
    with pytest.raises(TableError, match="cannot read"):
        BoundsRelease.load(tmp_path / "nothing")


@pytest.mark.parametrize("place", [0, BINS - 1])
@pytest.mark.parametrize("value", [1e3, 1e12, -1e3])
def test_counts_that_no_rows_have_are_refused(value: float, place: int, tmp_path: Path) -> None:
    """Whoever signs may write anything: a claim is held against the number of rows and the noise."""
    release = bought(tmp_path, {"x": [1.0] * 10}, ["x"])
    counts = list(release.counts["x"])
    counts[place] = value
    forged = release.model_copy(update={"counts": {"x": counts}})
    key = load_key(Ledger(tmp_path / "ledger").key_path)
    forged = forged.model_copy(update={"signature": key.sign(forged.signed_bytes()).hex()})
    path = tmp_path / "north.bounds.json"
    path.write_bytes(forged.to_json())
    with pytest.raises(TableError, match="counts of 'x' that 10 rows with noise of 4.47 rows cannot have"):
        BoundsRelease.load(path)


def test_the_key_is_that_of_the_ledger_or_the_one_named(tmp_path: Path) -> None:
    release = bought(tmp_path, {"x": [1.0]}, ["x"])
    assert release.public_key == public_hex(load_key(tmp_path / "ledger.key"))
    other = create_key(tmp_path / "other.key")
    assert bought(tmp_path, {"x": [1.0]}, ["x"], key=tmp_path / "other.key").public_key == public_hex(other)
    before = (tmp_path / "ledger").read_bytes()
    with pytest.raises(KeyFileError):
        bought(tmp_path, {"x": [1.0]}, ["x"], key=tmp_path / "none.key")
    assert (tmp_path / "ledger").read_bytes() == before
