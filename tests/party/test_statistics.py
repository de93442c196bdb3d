"""The statistic is exact: equal to rational arithmetic, whatever the order, chunking, threads or container."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as pa_feather
import pyarrow.parquet as pa_parquet
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from builders import ALL_MODELS, agreement, linear, random_table, reference_statistic
from equipoise.errors import TableError
from equipoise.models import Layout, layout_of
from equipoise.party import statistics
from equipoise.party.statistics import exact_statistic


def entries(layout: Layout, values: tuple[int, ...]) -> list[float]:
    return [value / steps for value, steps in zip(values, layout.steps_per_unit, strict=True)]


@pytest.mark.parametrize("name", ALL_MODELS)
def test_equals_rational_arithmetic(name: str) -> None:
    agreed = ALL_MODELS[name]
    layout = layout_of(agreed)
    table = random_table(agreed, 400, seed=7)
    expected = reference_statistic(agreed, table)
    exact = exact_statistic(layout, pa.table(table))
    assert exact.count == 400
    assert list(exact.values) == [e * s for e, s in zip(expected, layout.steps_per_unit, strict=True)]


@pytest.mark.statistical
@pytest.mark.parametrize("name", ALL_MODELS)
@given(data=st.data())
@settings(max_examples=25)
def test_any_order_any_chunking_any_threads(name: str, data: st.DataObject) -> None:
    agreed = ALL_MODELS[name]
    layout = layout_of(agreed)
    rows = data.draw(st.integers(1, 300), label="rows")
    table = pa.table(random_table(agreed, rows, seed=data.draw(st.integers(0, 99), label="seed")))
    whole = exact_statistic(layout, table, threads=1)
    order = data.draw(st.permutations(range(rows)), label="order")
    cuts = sorted(data.draw(st.lists(st.integers(0, rows), max_size=5), label="cuts"))
    shuffled = table.take(pa.array(order))
    pieces = [shuffled.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, rows], strict=True)]
    again = exact_statistic(layout, pa.concat_tables(pieces), threads=data.draw(st.integers(1, 5), label="threads"))
    assert again.values == whole.values
    assert again.count == whole.count


@pytest.mark.parametrize("block", [1, 2**9, 2**12, 2**20])
def test_any_block_size(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    agreed = ALL_MODELS["linear, ball"]
    layout = layout_of(agreed)
    table = random_table(agreed, 5000, seed=3)
    matrix = np.column_stack(list(table.values()))
    expected = exact_statistic(layout, matrix).values
    monkeypatch.setattr(statistics, "_BLOCK_CELLS", block)
    assert exact_statistic(layout, matrix).values == expected
    assert exact_statistic(layout, pa.table(table)).values == expected


def containers(table: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The same table in everything that can hold one."""
    arrow = pa.table(table)
    pa_csv.write_csv(arrow, folder / "t.csv")
    (folder / "t.tsv").write_bytes((folder / "t.csv").read_bytes().replace(b",", b"\t"))
    with pa.output_stream(folder / "t.csv.gz", compression="gzip") as stream:
        stream.write((folder / "t.csv").read_bytes())
    pa_parquet.write_table(arrow, folder / "t.parquet", row_group_size=70)
    (folder / "parts").mkdir()
    for k in range(3):
        pa_parquet.write_table(arrow.slice(k * 100, 100), folder / "parts" / f"{k}.parquet")
    pa_feather.write_feather(arrow, folder / "t.feather")
    with pa.OSFile(str(folder / "t.arrow"), "wb") as sink, pa.ipc.new_stream(sink, arrow.schema) as writer:
        writer.write_table(arrow)
    found = {
        **{ending: folder / f"t.{ending}" for ending in ("csv", "tsv", "csv.gz", "parquet", "feather", "arrow")},
        "folder": folder / "parts",
        "path as text": str(folder / "t.csv"),
        "arrow": arrow,
        "reader": arrow.to_reader(max_chunksize=37),
        "pandas": pd.DataFrame(table),
        "polars": pl.DataFrame(table),
        "extra columns": pd.DataFrame({"id": range(300), **table, "note": ["private"] * 300}),
    }
    if all(np.asarray(column).dtype.kind in "fi" for column in table.values()):
        matrix = np.column_stack(list(table.values()))
        found |= {
            "matrix": matrix,
            "column-major": np.asfortranarray(matrix),
            "slice": np.column_stack([matrix, matrix])[:, : matrix.shape[1]],
            "structured": np.array([tuple(row) for row in matrix], dtype=[(name, float) for name in table]),
        }
    if len(table) > 1:
        features = np.column_stack([table[name] for name in list(table)[:-1]])
        found["(X, y)"] = (features, np.array(list(table.values())[-1]))
    else:
        found["vector"] = np.array(next(iter(table.values())))
    return found


@pytest.mark.parametrize("name", ALL_MODELS)
def test_every_container_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    agreed = ALL_MODELS[name]
    layout = layout_of(agreed)
    table = random_table(agreed, 300, seed=11)
    expected = exact_statistic(layout, pa.table(table)).values
    for kind, source in containers(table, tmp_path).items():
        found = exact_statistic(layout, source)
        assert found.values == expected, kind
        assert found.count == 300, kind


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8", "uint16", "bool"])
def test_other_number_types(dtype: str) -> None:
    layout = layout_of(linear(2))
    values = (np.arange(30).reshape(10, 3) % 5).astype(dtype)
    expected = exact_statistic(layout, values.astype(float)).values
    assert exact_statistic(layout, values).values == expected
    columns = {name: pa.array(column) for name, column in zip(("x0", "x1", "y"), values.T, strict=True)}
    assert exact_statistic(layout, pa.table(columns)).values == expected


def test_values_beyond_the_bounds_count_as_the_bounds() -> None:
    layout = layout_of(linear(1))
    at_bounds = exact_statistic(layout, np.array([[2.0, 10.0], [-2.0, 0.0]]))
    beyond = exact_statistic(layout, np.array([[1e300, 1e300], [-1.7e308, -1e9]]))
    assert at_bounds.values == beyond.values
    assert beyond.count == 2
    assert beyond.clipped == {"x0": 1.0, "y": 1.0}


def test_bounds_map_to_minus_one_and_one() -> None:
    layout = layout_of(linear(1))
    low, high = (entries(layout, exact_statistic(layout, np.array([row])).values) for row in ([-2.0, 0.0], [2.0, 10.0]))
    assert low == [-1.0, -1.0, 1.0, 1.0, 1.0]
    assert high == [1.0, 1.0, 1.0, 1.0, 1.0]


@pytest.mark.statistical
@given(lower=st.floats(0, 1e12), width=st.floats(1e-6, 1e12), share=st.floats(0, 1))
def test_any_bounds_stay_on_the_grid(lower: float, width: float, share: float) -> None:
    """Whatever the rounding of the public map, no cell leaves [−1, 1], and bounds some way apart reach ±1."""
    upper = lower + width
    assume(upper - lower > 1e-6 * lower)
    layout = layout_of(agreement(f'kind = "exponential"\ntarget = {{ name = "y", bounds = [{lower!r}, {upper!r}] }}'))
    low, high, inside = (
        entries(layout, exact_statistic(layout, np.array([cell])).values)[0]
        for cell in (lower, upper, lower + share * width)
    )
    assert (low, high) == (-1, 1)
    assert -1 <= inside <= 1


@pytest.mark.statistical
def test_ball_holds_exactly() -> None:
    agreed = linear(4, norm_bound=1.25)
    layout = layout_of(agreed)
    rng = np.random.default_rng(0)
    assert layout.squared_radius is not None
    for row in rng.uniform(-2, 2, (300, 5)):
        values = exact_statistic(layout, row[np.newaxis]).values
        squares = [
            value // entry.weight
            for value, entry in zip(values, layout.entries, strict=True)
            if entry.first == entry.second and entry.first < 4
        ]
        assert sum(squares) <= layout.squared_radius


def test_too_many_rows_are_refused_before_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = layout_of(linear(1))
    assert layout.max_rows * max(layout.steps_per_unit) <= 2**62
    monkeypatch.setitem(layout.__dict__, "max_rows", 5)
    with pytest.raises(TableError, match="more than 5 rows"):
        exact_statistic(layout, np.zeros((6, 2)))


def test_progress_is_reported(tmp_path: Path) -> None:
    agreed = linear(1)
    table = random_table(agreed, 200_000, seed=1)
    pa_csv.write_csv(pa.table(table), tmp_path / "t.csv")
    pa_parquet.write_table(pa.table(table), tmp_path / "t.parquet")
    for source in (tmp_path / "t.csv", tmp_path / "t.parquet"):
        seen: list[tuple[float | None, int]] = []
        exact_statistic(layout_of(agreed), source, progress=lambda f, n, seen=seen: seen.append((f, n)))  # type: ignore[misc]
        fractions = [fraction for fraction, _ in seen if fraction is not None]
        assert len(fractions) > 1
        assert fractions == sorted(fractions)
        assert fractions[-1] == 1.0
        assert seen[-1][1] == 200_000
