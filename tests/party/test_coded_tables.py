"""Columns with levels and gaps: whatever holds a table, and however it is cut up, the integers are the same."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import coded
import equipoise.party.release as release_module
from builders import reference_statistic
from equipoise.errors import TableError
from equipoise.party import csv_stream, stream
from equipoise.party.inspection import problems_of
from equipoise.party.statistics import exact_statistic

FEATURES = """
  { name = "n", bounds = [0.1, 10], transform = "log", missing = "indicator" },
  { name = "f", bounds = [0, 10], missing = "value", fill = 2.0 },
  { name = "b", kind = "binary", labels = [0, 1], missing = "value", fill = 1 },
  { name = "c", kind = "category", levels = ["NA", "x"], other = true, missing = "indicator" },
  { name = "d", kind = "category", levels = ["p", "q"], other = true, missing = "value", fill = "q" },
  { name = "o", kind = "ordinal", levels = [1, 2, 4], missing = "value", fill = 4 },
"""
LAYOUT = coded.agreement("linear", FEATURES).model.layout
TYPES = {"n": "Float64", "f": "Float64", "b": "Int64", "c": "string", "d": "string", "o": "Int64", "outcome": "Float64"}


def _table(rows: int = 60) -> pd.DataFrame:
    """Rows with gaps in every column and unlisted values, NaN and None being alike."""
    rng = np.random.default_rng(3)

    def some(values: list[Any]) -> list[Any]:
        return [values[place] for place in rng.integers(len(values), size=rows)]

    columns = {
        "n": some([None, -3.0, 0.1, 0.7, 1.0, 3.3, 10.0, 1e308]),
        "f": some([None, -1e308, 0.0, 2.0, 5.1, 10.0]),
        "b": some([None, 0, 1]),
        "c": some([None, "NA", "x", "unlisted"]),
        "d": some([None, "p", "q", "unlisted"]),
        "o": some([None, 1, 2, 4]),
        "outcome": rng.normal(0, 4, rows),
    }
    return pd.DataFrame(columns).astype(TYPES)


TABLE = _table()
ARROW = pa.Table.from_pandas(TABLE, preserve_index=False)
POLARS = pl.from_arrow(ARROW)
assert isinstance(POLARS, pl.DataFrame)
EXPECTED = exact_statistic(LAYOUT, ARROW).values
FLOATS = TABLE.astype({"n": float, "f": float, "b": float, "o": float})
NONES = np.array([[None if pd.isna(cell) else cell for cell in row] for row in TABLE.to_numpy(object)], object)
NANS = np.array([[np.nan if cell is None else cell for cell in row] for row in NONES], object)
TEXTS = ("c", "d")


def _arrow(change: Callable[[Any], Any], *names: str) -> pa.Table:
    columns: dict[str, Any] = {name: change(ARROW[name]) if name in names else ARROW[name] for name in TYPES}
    return pa.table(columns)


def _null_in_the_dictionary(column: Any) -> Any:
    values = list(dict.fromkeys(column.to_pylist()))
    return pa.DictionaryArray.from_arrays(
        pa.array([values.index(cell) for cell in column.to_pylist()]), pa.array(values)
    )


def _nan(column: Any) -> Any:
    return pa.array([float("nan") if cell is None else float(cell) for cell in column.to_pylist()])


SOURCES: dict[str, Any] = {
    "pandas": TABLE,
    "pandas, whole numbers as floats with NaN": FLOATS,
    "pandas, objects": TABLE.astype(object).where(TABLE.notna(), None),
    "pandas, categories": FLOATS.astype(dict.fromkeys(("b", "c", "d", "o"), "category")),
    "pandas, booleans": TABLE.astype({"b": "boolean"}),
    "pandas, backwards": TABLE.iloc[::-1],
    "polars": POLARS,
    "polars, NaN": POLARS.with_columns(pl.col("n", "f", "b").cast(pl.Float64).fill_null(float("nan"))),
    "polars, categories": POLARS.with_columns(pl.col(*TEXTS).cast(pl.Categorical)),
    "polars, enumerations": POLARS.with_columns(
        pl.col("c").cast(pl.Enum(["unlisted", "x", "NA"])), pl.col("d").cast(pl.Enum(["q", "unlisted", "p"]))
    ),
    "Arrow, NaN": _arrow(_nan, "n", "f", "b", "o"),
    "Arrow, dictionaries": _arrow(lambda column: column.dictionary_encode(), "n", "f", "b", "c", "d", "o"),
    "Arrow, dictionaries with null": _arrow(_null_in_the_dictionary, "n", "b", "c", "d", "o"),
    "Arrow, views": _arrow(lambda column: column.cast(pa.string_view()), *TEXTS),
    "Arrow, decimals and small integers": _arrow(lambda column: column.cast(pa.int8()).cast(pa.decimal128(5, 1)), "b"),
    "Arrow, booleans": _arrow(lambda column: column.cast(pa.bool_()), "b"),
    "a dictionary": TABLE.astype(object).where(TABLE.notna(), None).to_dict("list"),
    "NumPy, None": NONES,
    "NumPy, NaN": NANS,
    "NumPy (X, y), NaN": (NANS[:, :-1], NANS[:, -1].astype(float)),
    "NumPy (X, y), pandas' NA": (TABLE.iloc[:, :-1].to_numpy(object), TABLE.outcome.to_numpy(float)),
}


@pytest.mark.parametrize("name", SOURCES)
def test_whatever_holds_a_table_its_integers_are_the_same(name: str) -> None:
    assert exact_statistic(LAYOUT, SOURCES[name]).values == EXPECTED
    assert not [one for one in problems_of(LAYOUT, SOURCES[name]) if one.refused]


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_the_integers_are_those_of_the_slow_reference(kind: Literal["linear", "logistic"]) -> None:
    agreed = coded.agreement(kind, FEATURES)
    table: dict[str, Any] = SOURCES["a dictionary"]
    if kind == "logistic":
        table = {**table, "outcome": ["yes" if value > 0 else "no" for value in table["outcome"]]}
    units = agreed.model.layout.steps_per_unit
    expected = [value * unit for value, unit in zip(reference_statistic(agreed, table), units, strict=True)]
    assert list(exact_statistic(agreed.model.layout, table).values) == expected


def test_databases_say_the_same() -> None:
    table = ARROW
    kinds = "n, f, b::boolean b, c::enum('x', 'NA', 'unlisted') c, d, o::utinyint o, outcome"
    with duckdb.connect() as connection:
        connection.register("rows", table)
        for query in ("select * from rows", f"select {kinds} from rows order by outcome"):
            assert exact_statistic(LAYOUT, connection.sql(query)).values == EXPECTED


def _csv(table: pd.DataFrame, path: Path, gap: str) -> Path:
    texts = table.astype(object).map(str).where(table.notna(), gap)
    texts["c"] = table["c"].astype(object).where(table["c"].notna(), "")  # of which "NA" is a level
    texts.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("gap", ["", "NA", "null", "NaN", "#N/A"])
def test_a_level_called_na_is_a_gap_in_other_columns(gap: str, tmp_path: Path) -> None:
    path = _csv(TABLE, tmp_path / "rows.csv", gap)
    assert exact_statistic(LAYOUT, path).values == EXPECTED
    assert not [one for one in problems_of(LAYOUT, path) if one.refused]


def test_a_bad_number_is_named_beside_a_level_called_na(tmp_path: Path) -> None:
    path = _csv(TABLE.astype({"f": object}).assign(f=["NA", "much", *["1"] * 58]), tmp_path / "rows.csv", "NA")
    with pytest.raises(TableError, match="column 'f', row 2: 'much' is not a number"):
        exact_statistic(LAYOUT, path)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("size", [1, 7, 60])
def test_order_pieces_and_threads_do_not_matter(
    size: int, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mixed = TABLE.sample(frac=1, random_state=size)
    path = _csv(mixed, tmp_path / "rows.csv", "")
    monkeypatch.setattr(stream, "BATCH_ROWS", size)
    monkeypatch.setattr(csv_stream, "BLOCK_BYTES", 40 * size)
    pieces = pa.Table.from_batches(pa.Table.from_pandas(mixed, preserve_index=False).to_batches(size))
    for source in (mixed, path, pieces, pieces.to_reader(size)):
        found = exact_statistic(LAYOUT, source, threads=threads)
        assert found.values == EXPECTED
        assert found.count == 60


@pytest.mark.parametrize("name", ["n", "f", "b", "c", "d", "o"])
def test_a_column_may_be_all_missing_whatever_its_type(name: str, tmp_path: Path) -> None:
    gone = TABLE.assign(**{name: pd.Series([None] * 60, dtype=TYPES[name])})
    expected = exact_statistic(LAYOUT, gone).values
    assert expected != EXPECTED
    for gaps in (pa.nulls(60), pa.array([float("nan")] * 60), pa.nulls(60, pa.string()), pa.nulls(60, pa.int64())):
        source = ARROW.set_column(ARROW.column_names.index(name), name, gaps)
        assert exact_statistic(LAYOUT, source).values == expected
        assert not [one for one in problems_of(LAYOUT, source) if one.refused]
    assert exact_statistic(LAYOUT, _csv(gone, tmp_path / "rows.csv", "")).values == expected


@pytest.mark.parametrize("name", ["n", "f"])
def test_infinite_numbers_are_refused_where_gaps_are_not(name: str) -> None:
    source = TABLE.assign(**{name: np.array([np.inf, *[np.nan] * 59])})
    with pytest.raises(TableError, match=f"column '{name}', row 1: the value is infinite"):
        exact_statistic(LAYOUT, source)


def test_a_transformed_number_that_is_infinite_is_refused_as_any_other() -> None:
    layout = coded.agreement("linear", '{ name = "n", bounds = [0.1, 10], transform = "log" }').model.layout
    source = pa.table({"n": [1.0, float("-inf")], "outcome": [0.0, 0.0]})
    with pytest.raises(TableError, match="column 'n', row 2: the value is infinite"):
        exact_statistic(layout, source)
    with pytest.raises(TableError, match="column 'n', row 2: the value is missing"):
        exact_statistic(layout, source.set_column(0, "n", pa.array([1.0, float("nan")])))


UNLIKE = {"id", "hash", "previous", "nonce", "time", "public_key", "signature"}  # between any two releases


def _without_chance(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: _without_chance(value) for name, value in document.items() if name not in UNLIKE}
    return [_without_chance(value) for value in document] if isinstance(document, list) else document


def _logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name != "filelock"]  # which tells of the ledger's lock


def test_neither_submission_nor_ledger_nor_log_tells_of_gaps_unlisted_or_clipped_values(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """With noise alone in place of the statistic, whatever is written is the same for two very different tables."""
    monkeypatch.setattr(release_module, "perturb", lambda values, **_: [0] * len(values))
    caplog.set_level(logging.DEBUG)
    agreed = coded.agreement("linear", FEATURES)
    whole = TABLE.assign(n=1.0, f=1.0, b=1, c="x", d="p", o=2, outcome=0.0)
    odd = whole.assign(c="unlisted", d="unlisted", o=None).astype(TYPES)
    odd.loc[:50, ["n", "f", "b"]] = None
    odd.loc[52, ["n", "f", "outcome"]] = 1e9
    kept = []
    for place, table in enumerate((whole, odd)):
        folder = tmp_path / str(place)
        folder.mkdir()
        sent = release_module.release(agreed, table, party="p0", epsilon=1.0, ledger=folder / "p0.ledger")
        sent.save(folder / "p0.json")
        written = {path.name: path.read_text() for path in sorted(folder.iterdir()) if path.suffix != ".key"}
        lines = {name: [json.loads(line) for line in text.splitlines()] for name, text in written.items()}
        kept.append((_without_chance(lines), _logged(caplog), capfd.readouterr()))
        caplog.clear()
    assert kept[0] == kept[1]
    assert {"p0.json", "p0.ledger"} <= kept[0][0].keys()
    assert kept[0][1:] == ([], ("", ""))
    seen = release_module.preview(agreed, odd, party="p1", epsilon=1.0, ledger=tmp_path / "p1.ledger")
    told = {(one.column, one.problem): one.count for one in seen.odd}
    assert told["n", "missing"] == 51  # for the party's eyes
    assert told["c", "not an agreed label"] == 60
    assert "51" not in seen.submission.model_copy(update={"statistic": [0]}).to_json().decode()
