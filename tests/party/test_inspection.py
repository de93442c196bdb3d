"""A table's problems are named all at once, and a table without any is one that a release takes."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import equipoise as eq
from builders import agreement, bernoulli, linear, logistic, poisson
from equipoise.errors import TableError
from equipoise.models import Layout, layout_of
from equipoise.party.csv_stream import CsvFile
from equipoise.party.inspection import Problem, problems_of
from equipoise.party.statistics import exact_statistic

LOGISTIC = layout_of(logistic(2))  # x0 and x1 in [-2, 2], y no or yes
MESSY = "x0,y,id\n0.5,yes,1\n,no,2\nabc,maybe,3\n-9,no,4\n-9,,5\n1.5,Yes,6\ninf,no,7\n"


def found(problems: list[Problem]) -> dict[tuple[str, str], tuple[int, int | None]]:
    return {(one.column, one.problem): (one.count, one.first_row) for one in problems}


def is_refused(layout: Layout, table: Any) -> bool:
    try:
        exact_statistic(layout, table)
    except TableError:
        return True
    return False


def test_everything_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(MESSY)
    problems = problems_of(LOGISTIC, path)
    assert found(problems) == {
        ("x1", "not in the table"): (0, None),
        ("x0", "missing"): (1, 2),
        ("x0", "not a number"): (1, 3),
        ("x0", "infinite"): (1, 7),
        ("x0", "beyond the agreed range"): (2, 4),
        ("x0", "the value -9, beyond the agreed range"): (2, None),
        ("y", "missing"): (1, 5),
        ("y", "not an agreed label"): (2, 3),
    }
    assert all(one.remedy for one in problems)
    assert "maybe" in next(one.remedy for one in problems if one.problem == "not an agreed label")
    path.write_text(MESSY.replace(",", ";").replace(".", ","))
    assert found(problems_of(LOGISTIC, CsvFile(path, ";", ","))) == found(problems)
    path.write_text("x0;x1;y\n1;2;no\n")
    with pytest.raises(TableError, match="--delimiter"):
        problems_of(LOGISTIC, path)


def test_frames_have_problems_too(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x0": [1.0, np.nan, 0.0], "x1": ["a", "b", "c"], "y": pd.Categorical(["no", "yes", "?"])})
    expected = {
        ("x0", "missing"): (1, 2),
        ("x1", "of another type"): (3, 1),
        ("y", "not an agreed label"): (1, 3),
    }
    assert found(problems_of(LOGISTIC, frame)) == expected
    frame.to_parquet(tmp_path / "t.parquet")
    assert found(problems_of(LOGISTIC, tmp_path / "t.parquet")) == expected


def test_counts_are_counts() -> None:
    layout = layout_of(poisson())
    name = layout.columns[0].name
    problems = found(problems_of(layout, pd.DataFrame({name: [0.0, 1.5, -1.0, 2.0]})))
    assert problems[name, "not a count"] == (2, 2)


CELLS = st.sampled_from(["0.5", "-1", "", "NA", "x", "inf", "nan", "3", "1e1", "-9"])


@given(rows=st.lists(st.tuples(CELLS, CELLS, st.sampled_from(["no", "yes", "", "NO"])), min_size=1, max_size=6))
@settings(max_examples=60)
def test_what_is_refused_is_what_a_release_refuses(
    rows: list[tuple[str, str, str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_text("x0,x1,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in rows))
    assert any(one.refused for one in problems_of(LOGISTIC, path)) == is_refused(LOGISTIC, path)


CODES = layout_of(agreement('kind = "bernoulli"\ntarget = { name = "y", labels = [0, 1] }'))


@given(
    cells=st.lists(
        st.sampled_from(["0", "1", "1.0", "01", "1e0", "2", "", "x", "NAN", "true", " 1"]), min_size=1, max_size=5
    )
)
@settings(max_examples=80)
def test_labels_that_are_numbers_are_refused_as_by_a_release(
    cells: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_text("y,id\n" + "".join(f"{cell},1\n" for cell in cells))
    assert any(one.refused for one in problems_of(CODES, path)) == is_refused(CODES, path)


@pytest.mark.parametrize("values", [["0", "1"], [0, 1], [0.0, 1.0], [True, False], [0.5, 1], [None, 1], ["a", "b"]])
def test_frames_are_refused_as_by_a_release(values: list[Any]) -> None:
    for layout, name in ((CODES, "y"), (layout_of(poisson()), layout_of(poisson()).columns[0].name)):
        frame = pd.DataFrame({name: values})
        assert any(one.refused for one in problems_of(layout, frame)) == is_refused(layout, frame)


@pytest.mark.parametrize("table", [np.zeros((3, 3)), (np.zeros((3, 2)), np.zeros(3))])
def test_arrays_without_names_are_left_to_the_release(table: Any) -> None:
    assert problems_of(layout_of(linear(2)), table) == []


def test_columns_that_say_nothing_are_remarked_on() -> None:
    table = pd.DataFrame({"x0": [0.5, 0.5, 0.5], "x1": [0.1, 0.2, np.nan], "y": ["no", "no", "no"]})
    remarks = {one.column: one for one in problems_of(LOGISTIC, table.fillna(0.3))}
    assert set(remarks) == {"x0", "y"}
    for name, says in (("x0", "agree to leave it out"), ("y", "what the target depends on; correct the column")):
        assert (remarks[name].problem, remarks[name].count, remarks[name].refused) == ("the same value", 3, False)
        assert says in remarks[name].remedy
    assert problems_of(layout_of(bernoulli()), pd.DataFrame({"y": [0, 0, 0]})) == []  # a share of none is a finding
    assert not is_refused(LOGISTIC, table.fillna(0.3))


def test_columns_of_any_type_can_be_looked_at() -> None:
    offsets, letters = pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes()), pa.py_buffer(b"\xff\xfe")
    no_text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, letters])
    for cells in (pa.array([[1], [2]]), pa.array([{"a": 1}, None]), no_text, pa.array([b"a", b"b"])):
        problems = problems_of(LOGISTIC, pa.table({"x0": cells, "x1": [0.1, 0.2], "y": ["no", "yes"]}))
        assert ("x0", "of another type") in found(problems)


def test_an_empty_column_is_told_what_missing_may_mean(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x0,x1,y\n,0.5,\n,0.7,\n")
    feature, target = problems_of(LOGISTIC, tmp_path / "t.csv")
    assert (feature.problem, feature.count, feature.refused) == ("missing", 2, True)
    assert "the column is empty" in feature.remedy
    assert 'missing = "indicator", or on missing = "value" with a fill' in feature.remedy
    assert (target.column, target.refused) == ("y", True)
    assert "missing =" not in target.remedy  # which only features may have
    with pytest.raises(TableError, match='agree on missing = "indicator"'):
        exact_statistic(LOGISTIC, tmp_path / "t.csv")


def test_a_table_that_noise_hides_is_called_so(tmp_path: Path) -> None:
    few = pd.DataFrame({"x0": [0.5, 0.1, 0.2], "x1": [0.1, 0.2, 0.3], "y": ["no", "yes", "no"]})
    many = pd.concat([few] * 100, ignore_index=True)

    def remarks(table: pd.DataFrame) -> list[str]:
        options: dict[str, Any] = {"party": "north", "epsilon": 1.0, "ledger": tmp_path / "l"}
        return [one.problem for one in eq.preview(logistic(2), table, **options).odd]

    assert remarks(few) == ["hidden by noise"]
    assert remarks(many) == []
