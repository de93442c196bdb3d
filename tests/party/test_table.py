"""A bad table is refused with the column, the row and the remedy, before anything is written."""

import gzip
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import agreement, bernoulli, categorical, linear, logistic, poisson
from equipoise.errors import TableError
from equipoise.models import layout_of
from equipoise.party import csv_stream
from equipoise.party.csv_stream import CsvFile
from equipoise.party.statistics import exact_statistic
from equipoise.party.stream import ColumnSpec
from equipoise.party.table import open_table

LINEAR = layout_of(linear(2))
LOGISTIC = layout_of(logistic(1))


def good(rows: int = 6) -> dict[str, list[Any]]:
    return {"x0": [0.5] * rows, "x1": [1.0] * rows, "y": [3.0] * rows}


def csv(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "t.csv"
    path.write_text(text, encoding="utf-8")
    return path


def with_cell(value: Any) -> dict[str, list[Any]]:
    """Row 4 of column x1 holds the value."""
    table = good()
    table["x1"][3] = value
    return table


@pytest.mark.parametrize("value", [None, float("nan")])
def test_missing_value_in_frames(value: float | None) -> None:
    table = with_cell(value)
    for source in (pa.table(table), pd.DataFrame(table), pl.DataFrame(table)):
        with pytest.raises(TableError, match="column 'x1', row 4: the value is missing; fill it in"):
            exact_statistic(LINEAR, source)


@pytest.mark.parametrize("text", ["", "NA", "nan", "NULL"])
def test_missing_value_in_csv(text: str, tmp_path: Path) -> None:
    path = csv(tmp_path, f"x0,x1,y\n1,1,1\n1,{text},1\n")
    with pytest.raises(TableError, match="column 'x1', row 2: the value is missing"):
        exact_statistic(LINEAR, path)


@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
def test_infinite_value(value: float, tmp_path: Path) -> None:
    table = with_cell(value)
    pa_csv.write_csv(pa.table(table), tmp_path / "t.csv")
    pa_parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    matrix = np.column_stack(list(table.values()))
    for source in (pa.table(table), pd.DataFrame(table), matrix, tmp_path / "t.csv", tmp_path / "t.parquet"):
        with pytest.raises(TableError, match="column 'x1', row 4: the value is infinite"):
            exact_statistic(LINEAR, source)


def test_nan_far_into_a_matrix() -> None:
    matrix = np.zeros((150_000, 3))
    matrix[123_456, 2] = np.nan
    with pytest.raises(TableError, match="column 'y', row 123457: the value is missing"):
        exact_statistic(LINEAR, matrix)


@pytest.mark.parametrize("text", ["abc", "1,5", "12_000", "0x10", "1e", "١٢"])
def test_text_in_a_number_column_of_a_csv(text: str, tmp_path: Path) -> None:
    path = csv(tmp_path, f'x0,x1,y\n1,1,1\n1,2,1\n1,"{text}",1\n1,also bad,1\n')
    with pytest.raises(TableError, match=f"column 'x1', row 3: '{text}' is not a number"):
        exact_statistic(LINEAR, path)


def test_text_far_into_a_csv(tmp_path: Path) -> None:
    path = csv(tmp_path, "x0,x1,y\n" + "1.25,2.5,3.75\n" * 400_000 + "1,2,oops\n")
    with pytest.raises(TableError, match="column 'y', row 400001: 'oops' is not a number"):
        exact_statistic(LINEAR, path)


def test_text_in_a_number_column_of_a_frame() -> None:
    table = {**good(), "x1": ["1", "2", "3", "4", "5", "6"]}
    for source in (
        pa.table(table),
        pd.DataFrame(table),
        pl.DataFrame(table),
        pd.DataFrame(table).astype({"x1": "category"}),
    ):
        with pytest.raises(TableError, match="column 'x1' holds text where numbers are agreed"):
            exact_statistic(LINEAR, source)


def test_dates_are_not_numbers() -> None:
    table = pd.DataFrame({**good(), "x1": pd.date_range("2024-01-01", periods=6)})
    with pytest.raises(TableError, match="'x1' holds timestamp.* not numbers"):
        exact_statistic(LINEAR, table)


def test_mixed_object_column_is_refused() -> None:
    table = pd.DataFrame({**good(), "x1": pd.Series([1, "a", 2, 3, 4, 5], dtype=object)})
    with pytest.raises(TableError, match="one type each"):
        exact_statistic(LINEAR, table)


def test_unknown_column_suggests_the_near_one(tmp_path: Path) -> None:
    path = csv(tmp_path, "x0,X1,y\n1,1,1\n")
    for source in (path, pa.table({"x0": [1], "X1": [1], "y": [1]}), pd.DataFrame({"x0": [1], "X1": [1], "y": [1]})):
        with pytest.raises(TableError, match="agreed column 'x1' is not in the table; did you mean 'X1'"):
            exact_statistic(LINEAR, source)


def test_duplicate_column(tmp_path: Path) -> None:
    path = csv(tmp_path, "x0,x1,y,x1\n1,1,1,2\n")
    frame = pd.DataFrame([[1, 1, 1, 2]], columns=["x0", "x1", "y", "x1"])
    arrow = pa.table([pa.array([1.0])] * 4, names=["x0", "x1", "y", "x1"])
    pa_parquet.write_table(arrow, tmp_path / "t.parquet")
    for source in (path, frame, arrow, tmp_path / "t.parquet"):
        with pytest.raises(TableError, match="column 'x1'.* appears 2 times; keep one"):
            exact_statistic(LINEAR, source)


def test_one_bad_file_in_a_folder_is_named(tmp_path: Path) -> None:
    pa_parquet.write_table(pa.table(good()), tmp_path / "a.parquet")
    pa_parquet.write_table(pa.table({"x0": [1.0], "y": [1.0]}), tmp_path / "b.parquet")
    with pytest.raises(TableError, match="'x1' is not in the table of 'b.parquet'"):
        exact_statistic(LINEAR, tmp_path)


def test_empty_tables(tmp_path: Path) -> None:
    header_only = csv(tmp_path, "x0,x1,y\n")
    for source in (
        header_only,
        pa.table(good(0), schema=pa.schema(dict.fromkeys(good(), pa.float64()))),
        np.zeros((0, 3)),
    ):
        with pytest.raises(TableError, match="no rows"):
            exact_statistic(LINEAR, source)
    with pytest.raises(TableError, match="is empty"):
        exact_statistic(LINEAR, csv(tmp_path, ""))


@pytest.mark.parametrize("value", ["maybe", "Yes", " yes", "1", ""])
def test_label_outside_the_two(value: str, tmp_path: Path) -> None:
    path = csv(tmp_path, f"x0,y\n1,yes\n1,no\n1,{value}\n")
    with pytest.raises(TableError, match="column 'y', row 3: .*(not one of the agreed labels|missing)"):
        exact_statistic(LOGISTIC, path)


def test_numbers_where_text_labels_are_agreed() -> None:
    with pytest.raises(TableError, match="column 'y' holds int64 values, but the agreed labels .* are text"):
        exact_statistic(LOGISTIC, pa.table({"x0": [1.0], "y": [1]}))


def test_text_where_number_labels_are_agreed() -> None:
    with pytest.raises(TableError, match="are whole numbers; convert the column"):
        exact_statistic(layout_of(bernoulli()), pa.table({"y": ["1", "0"]}))


def test_number_labels_in_any_number_type(tmp_path: Path) -> None:
    layout = layout_of(bernoulli())
    expected = exact_statistic(layout, pa.table({"y": [1, 0, 1]})).values
    path = csv(tmp_path, "y\n1\n0\n1.0\n")
    for source in (pa.table({"y": [True, False, True]}), pa.table({"y": [1.0, 0.0, 1.0]}), np.array([1, 0, 1]), path):
        assert exact_statistic(layout, source).values == expected
    with pytest.raises(TableError, match=r"row 2: 0.5 is not one of the agreed labels \[0, 1\]"):
        exact_statistic(layout, np.array([1, 0.5]))


def test_unknown_category() -> None:
    with pytest.raises(TableError, match="column 'y', row 2: 'z' is not one of the agreed labels"):
        exact_statistic(layout_of(categorical()), pa.table({"y": ["a", "z"]}))


@pytest.mark.parametrize("value", [2.5, -1])
def test_not_a_count(value: float) -> None:
    with pytest.raises(TableError, match=f"column 'y', row 3: {value} is not a count"):
        exact_statistic(layout_of(poisson()), np.array([1, 2, value]))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (np.zeros((5, 2)), r"shape \(5, 2\); this agreement needs \(rows, 3\): x0, x1, y"),
        (np.zeros(5), r"shape \(5,\)"),
        ((np.zeros((5, 2)), np.zeros(4)), r"shapes \(5, 2\) and \(4,\)"),
        ((np.zeros((5, 3)), np.zeros(5)), r"needs \(rows, 2\)"),
        ([[1, 2, 3]], "cannot read a table from list"),
        (None, "cannot read a table from NoneType"),
        ("nowhere.csv", "there is no file or folder"),
    ],
)
def test_wrong_shapes_and_kinds(source: object, says: str) -> None:
    with pytest.raises(TableError, match=says):
        exact_statistic(LINEAR, source)


def test_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    (tmp_path / "t.doc").write_bytes(b"PK")
    (tmp_path / "t.parquet").write_bytes(b"not parquet")
    (tmp_path / "t.arrow").write_bytes(b"not arrow")
    (tmp_path / "latin.csv").write_bytes("x0,x1,größe\n".encode("latin-1"))
    (tmp_path / "ragged.csv").write_text("x0,x1,y\n1,2,3\n1,2\n")
    (tmp_path / "nothing").mkdir()
    for name, says in (
        ("t.xlsx", "save the sheet as CSV"),
        ("t.doc", "do not know how to read"),
        ("t.parquet", "cannot read"),
        ("t.arrow", "cannot read"),
        ("latin.csv", "header of .* is not UTF-8"),
        ("ragged.csv", "Expected 3 columns, got 2.*as many cells as the header"),
        ("nothing", "holds no .parquet file"),
    ):
        with pytest.raises(TableError, match=says):
            exact_statistic(LINEAR, tmp_path / name)


def test_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"\xef\xbb\xbfx0,x1,y\n1,1,1\n")
    assert exact_statistic(LINEAR, path).count == 1


def test_other_columns_are_never_read(tmp_path: Path) -> None:
    path = csv(tmp_path, "name,x0,x1,y\nAnna,1,1,1\n,1,1,1\n")
    assert exact_statistic(LINEAR, path).ignored_columns == ("name",)


def test_an_agreed_label_is_never_a_missing_value(tmp_path: Path) -> None:
    layout = layout_of(agreement('kind = "categorical"\ntarget = { name = "y", categories = ["NA", "EU"] }'))
    path = csv(tmp_path, "y\nNA\nEU\nNA\n")
    assert exact_statistic(layout, path).values == (2 * 2**32, 2**32)
    with pytest.raises(TableError, match="row 2: the value is missing"):
        exact_statistic(layout, csv(tmp_path, "y,n\nNA,1\n,1\n"))


def test_line_breaks_inside_quotes_are_part_of_the_cell(tmp_path: Path) -> None:
    """Free-text columns have them, and one must not shift the cells of the rows after it, anywhere in the file."""
    row = '1,1,1,"a note\nof ""several""\nlines, with commas"\n'
    path = csv(tmp_path, "x0,x1,y,note\n" + row * 200_000)
    assert path.stat().st_size > 4 * 2**21
    assert exact_statistic(LINEAR, path).count == 200_000


def test_windows_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"x0,x1,y\r\n1,1,1\r\n2,2,2\r\n")
    assert exact_statistic(LINEAR, path).count == 2


def test_many_rows_in_one_arrow_batch() -> None:
    """One batch of 200,000 rows is still cut into pieces whose sums are exact."""
    values = np.ones(200_000)
    found = exact_statistic(LINEAR, pa.table({name: pa.array(values) for name in ("x0", "x1", "y")}))
    assert found.values == exact_statistic(LINEAR, np.ones((200_000, 3))).values


@pytest.mark.parametrize("text", ['1,1,1,"never closed\n2,2,2,b\n', '1,1,1,a\n2,2,2,"b\n3,3,3,c\n'])
def test_an_open_quotation_mark_cannot_swallow_rows(text: str, tmp_path: Path) -> None:
    path = csv(tmp_path, "x0,x1,y,note\n1,1,1,fine\n" + text)
    with pytest.raises(TableError, match="quotation mark without its partner"):
        exact_statistic(LINEAR, path)


def test_an_empty_line_of_a_single_column_is_a_missing_value(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="column 'y', row 2: the value is missing"):
        exact_statistic(layout_of(poisson()), csv(tmp_path, "y\n1\n\n3\n"))
    assert exact_statistic(LINEAR, csv(tmp_path, "x0,x1,y\n1,1,1\n\n1,1,1\n\n")).count == 2


def test_masked_values_are_missing() -> None:
    masked = np.ma.masked_array(np.ones((4, 3)), mask=np.eye(4, 3, dtype=bool))
    column = np.ma.masked_array(np.ones(4), mask=[False, True, False, False])
    for source in (masked, (np.ones((4, 2)), column)):
        with pytest.raises(TableError, match="masked values, which are missing"):
            exact_statistic(LINEAR, source)


def test_cut_off_files_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({name: pa.array(rng.normal(size=100_000)) for name in ("x0", "x1", "y")})
    with pa.output_stream(tmp_path / "t.csv.gz", compression="gzip") as stream:
        pa_csv.write_csv(table, stream)
    with pa.OSFile(str(tmp_path / "t.arrow"), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)
    pa_parquet.write_table(table, tmp_path / "t.parquet")
    for name in ("t.csv.gz", "t.arrow", "t.parquet"):
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) * 2 // 3])
        with pytest.raises(TableError):
            exact_statistic(LINEAR, tmp_path / name)


def test_old_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"x0,x1,y\r1,1,1\r2,2,2\r")
    assert exact_statistic(LINEAR, path).count == 2


def test_text_where_number_labels_are_agreed_in_a_csv(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"row 1: 'yes' is not one of the agreed labels \[0, 1\]"):
        exact_statistic(layout_of(bernoulli()), csv(tmp_path, "y\nyes\nno\n"))


def test_other_separators_are_named(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="single name 'x0;x1;y'.*say so with --delimiter"):
        exact_statistic(LINEAR, csv(tmp_path, "x0;x1;y\n1;1;1\n"))


def test_endings_in_capitals(tmp_path: Path) -> None:
    path = tmp_path / "T.CSV"
    path.write_text("x0,x1,y\n1,1,1\n")
    assert exact_statistic(LINEAR, path).count == 1


def test_a_strange_letter_in_a_column_never_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("x0,x1,y,name\n1,1,1,Müller\n".encode("latin-1"))
    assert exact_statistic(LINEAR, path).count == 1


def test_categories_of_frames() -> None:
    labels = ["a", "b", "a", "d"]
    layout = layout_of(categorical())
    expected = exact_statistic(layout, pa.table({"y": labels})).values
    for frame in (
        pd.DataFrame({"y": pd.Categorical(labels)}),
        pl.DataFrame({"y": pl.Series(labels, dtype=pl.Categorical)}),
        pl.DataFrame({"y": pl.Series(labels, dtype=pl.Enum(["d", "b", "a"]))}),
        pd.Series(labels, name="y"),
        {"y": labels},
    ):
        assert exact_statistic(layout, frame).values == expected


def test_numbered_columns_of_a_frame() -> None:
    layout = layout_of(agreement('kind = "gaussian"\ntarget = { name = "1", bounds = [0, 1] }'))
    assert exact_statistic(layout, pd.DataFrame(np.ones((3, 2)))).count == 3


@pytest.mark.parametrize(
    "source",
    [([[1, 2], [3]], [1, 2]), np.array([[10**30, 1, 1]], dtype=object), np.array([["\ud800", 1, 1]], dtype=object)],
)
def test_objects_that_are_no_table(source: Any) -> None:
    with pytest.raises(TableError):
        exact_statistic(LINEAR, source)


def test_labels_that_are_not_text(tmp_path: Path) -> None:
    bad = pa.array([b"no", b"\xff\xfe"], pa.binary()).view(pa.string())
    with pytest.raises(TableError, match="row 2: .* is not one of the agreed labels"):
        exact_statistic(LOGISTIC, pa.table({"x0": pa.array([1.0, 1.0]), "y": bad}))


def test_forbidden_folders_are_refused_with_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run as root nothing is forbidden, so the refusal itself is played."""

    def forbidden(self: Path) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "exists", forbidden)
    with pytest.raises(TableError, match="Permission denied"):
        exact_statistic(LINEAR, tmp_path / "t.csv")


@pytest.mark.parametrize("size", [1, 7, 30, 2**23])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_blocks_of_any_size_give_the_same_rows(
    size: int, end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["x0,x1,note,y"] + [f'{k},{k / 8},"a ""line""{end}break, {k}",{-k}' for k in range(20)]
    path = csv(tmp_path, end.join(lines) + end)
    monkeypatch.setattr(csv_stream, "BLOCK_BYTES", size)
    wanted = tuple(ColumnSpec(name, None) for name in ("x0", "x1", "y"))
    with open_table(path, wanted) as table:
        rows = [row for batch in table for row in zip(*(np.asarray(part) for part in batch.data), strict=True)]
    assert rows == [(k, k / 8, -k) for k in range(20)]


def test_a_malformed_line_is_numbered_as_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = csv(tmp_path, "x0,x1,y\n" + "1,1,1\n" * 30 + "1,1\n")
    wanted = tuple(ColumnSpec(name, None) for name in ("x0", "x1", "y"))
    for size in (2**23, 16):
        monkeypatch.setattr(csv_stream, "BLOCK_BYTES", size)
        with pytest.raises(TableError, match="Row #32"), open_table(path, wanted) as table:
            list(table)


def test_a_file_without_line_ends_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = csv(tmp_path, "x0,x1,y\n" + "1" * 500)
    monkeypatch.setattr(csv_stream, "BLOCK_BYTES", 64)
    monkeypatch.setattr(csv_stream, "LONGEST_LINE", 200)
    wanted = tuple(ColumnSpec(name, None) for name in ("x0", "x1", "y"))
    with pytest.raises(TableError, match="a line of more than 200 bytes"), open_table(path, wanted) as table:
        list(table)


@given(st.text(alphabet='a",\n', max_size=40))
def test_blocks_end_where_lines_end(text: str) -> None:
    data = text.encode()
    ends = [k + 1 for k, byte in enumerate(data) if byte == ord("\n") and data[:k].count(b'"') % 2 == 0]
    if b"\n" in data:
        assert csv_stream._last_line_end(data) == max(ends, default=0)


@pytest.mark.parametrize("ending", ["csv", "txt", "csv.gz"])
def test_semicolons_and_decimal_commas_are_read_when_said(ending: str, tmp_path: Path) -> None:
    text = "id;x;y\n1;1,5;-2,25\n2;-0,125;1e-1\n3;;4\n"
    path = tmp_path / f"rows.{ending}"
    path.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    wanted = (ColumnSpec("x", None), ColumnSpec("y", None))
    with open_table(CsvFile(path, ";", ","), wanted) as table:
        batches = list(table)
    first, second = batches[0].data
    assert first.to_pylist() == [1.5, -0.125, None]
    assert second.to_pylist() == [-2.25, 0.1, 4.0]
    assert table.ignored == ("id",)


def test_a_file_written_otherwise_says_what_to_say(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x;y\n1,5;2\n")
    wanted = (ColumnSpec("x", None), ColumnSpec("y", None))
    with pytest.raises(TableError, match="--delimiter ';'"):
        open_table(path, wanted)
    with (
        pytest.raises(TableError, match="'1,5' is not a number; if the file has decimal commas, say so with"),
        open_table(CsvFile(path, ";"), wanted) as table,
    ):
        list(table)
    path.write_text("x;y\n1.5;2\n")
    with (
        pytest.raises(TableError, match="'1.5' is not a number; if the file has decimal points, say so with"),
        open_table(CsvFile(path, ";", ","), wanted) as table,
    ):
        list(table)
    path.write_text("x;y\n1.234,5;2\n")  # a separator of thousands: never guessed
    with pytest.raises(TableError, match="correct the cell"), open_table(CsvFile(path, ";", ","), wanted) as table:
        list(table)


@pytest.mark.parametrize(
    ("delimiter", "decimal"), [(";;", "."), ("", "."), ('"', "."), ("5", "."), (";", ";"), (",", ",")]
)
def test_what_no_file_is_written_with(delimiter: str, decimal: str, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="cannot separate"):
        CsvFile(tmp_path / "rows.csv", delimiter, decimal)


def test_only_text_is_written_some_way(tmp_path: Path) -> None:
    (tmp_path / "rows.parquet").write_bytes(b"PAR1")
    with pytest.raises(TableError, match="is no text"):
        open_table(CsvFile(tmp_path / "rows.parquet", ";"), (ColumnSpec("x", None),))
    with pytest.raises(TableError, match="there is no file"):
        open_table(CsvFile(tmp_path / "none.csv", ";"), (ColumnSpec("x", None),))


def test_a_query_of_a_database_is_a_table() -> None:
    """DuckDB's relations have columns and a length and stream Arrow data; they cannot be indexed like a frame."""
    relation = duckdb.sql("select i::double / 8 as x, i % 2 as y, 'text' as note from range(100000) as t(i)")
    with open_table(relation, (ColumnSpec("x", None), ColumnSpec("y", None))) as table:
        batches = list(table)
    assert sum(batch.rows for batch in batches) == 100_000
    assert sum(sum(batch.data[0].to_pylist()) for batch in batches) == 99_999 * 100_000 / 16
    assert table.ignored == ("note",)
