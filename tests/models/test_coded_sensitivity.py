"""The adversary of `test_sensitivity.py` before coded columns: cells are raw, and the real code codes them."""

import math
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import coded
from equipoise.agreement import Agreement
from equipoise.models import UNIT, CodedColumn, ScaledColumn
from equipoise.models.coding import Coding
from equipoise.models.layout import BASE_WEIGHT, Layout
from equipoise.party.statistics import exact_statistic

pytestmark = pytest.mark.statistical

Kind = Literal["linear", "logistic"]
Floats = npt.NDArray[np.float64]
Row = tuple[int, ...]  # for every table column, which of the adversary's cells

NUMBER = '{ name = "n", bounds = [-1, 3] }'
LOG = '{ name = "l", bounds = [0.1, 20], transform = "log", missing = "indicator" }'
ROOT = '{ name = "r", bounds = [0, 9], transform = "sqrt", missing = "value", fill = 4.0 }'
LOGIT = '{ name = "p", bounds = [0.01, 0.7], transform = "logit", missing = "indicator" }'
NARROW = '{ name = "u", bounds = [2.0, 2.0000000000000004], transform = "log", missing = "indicator" }'
BINARY = '{ name = "b", kind = "binary", labels = [0, 1] }'
GAPPY = '{ name = "bg", kind = "binary", labels = ["no", "yes"], missing = "indicator" }'
CATEGORY = '{ name = "c", kind = "category", levels = ["x", "y", "z"], other = true, missing = "indicator" }'
FILLED = '{ name = "f", kind = "category", levels = [1, 2, 7], reference = 2, missing = "value", fill = 7 }'
ORDINAL = '{ name = "o", kind = "ordinal", levels = ["lo", "mid", "hi"], scores = [0, 1, 10], missing = "indicator" }'
SCORED = '{ name = "s", kind = "ordinal", levels = [1, 2, 3, 4], missing = "value", fill = 3 }'
MIXTURES = {
    "levels": [BINARY, CATEGORY],
    "gaps of all kinds": [LOG, GAPPY, ORDINAL],
    "gaps alone": [LOG, LOGIT, NARROW],
    "fills": [ROOT, FILLED, SCORED],
    "one with gaps among numbers": [NUMBER, ROOT, LOGIT, SCORED],
    "everything": [NUMBER, LOG, CATEGORY, ORDINAL, SCORED],
}


def _mixture(seed: int) -> str:
    """Features of any kinds, with bounds, levels, scores and fills as they come."""
    rng = np.random.default_rng(seed)
    features, cells = [], 1
    for place in range(int(rng.integers(1, 7))):
        kind = str(rng.choice(["number", "number", "binary", "category", "ordinal"]))
        missing = str(rng.choice(["refuse", "value", "indicator"]))
        lines = [f'name = "x{place}"', f'kind = "{kind}"', f'missing = "{missing}"']
        if kind == "number":
            transform = str(rng.choice(["", "log", "sqrt", "logit"]))
            low, high = np.sort(rng.uniform(0.001, 0.999, 2)) * (
                1 if transform == "logit" else 10 ** rng.uniform(-3, 3)
            )
            lines += [f"bounds = [{float(low)!r}, {float(high)!r}]"]
            lines += [f'transform = "{transform}"'] * bool(transform)
            fill = repr(float(rng.uniform(low, high)))
            ways = 1 + (missing == "indicator")
        else:
            size = 2 if kind == "binary" else int(rng.integers(2, 6))
            names: list[Any] = [f"level {k}" for k in range(size)]
            levels = names if rng.uniform() < 0.5 else [int(k) for k in np.cumsum(rng.integers(1, 5, size)) - 3]
            fill = _written(levels[rng.integers(size)])
            lines += [f"{'labels' if kind == 'binary' else 'levels'} = [{', '.join(map(_written, levels))}]"]
            other = kind == "category" and rng.uniform() < 0.5
            if kind == "category":
                lines += [f"other = {str(other).lower()}", f"reference = {_written(levels[rng.integers(size)])}"]
            if kind == "ordinal" and rng.uniform() < 0.7:
                lines += [f"scores = {np.cumsum(rng.exponential(size=size)).tolist()}"]
            ways = (1 if kind == "ordinal" else size + other) + (missing == "indicator")
        if cells * ways <= 64:
            cells *= ways
            features.append("{ " + ", ".join(lines + [f"fill = {fill}"] * (missing == "value")) + " }")
    return ", ".join(features)


def _written(level: int | str) -> str:
    return f'"{level}"' if isinstance(level, str) else str(level)


class Adversary(NamedTuple):
    """The cells that are tried in every column, and the terms that the real code makes of them."""

    layout: Layout
    cells: dict[str, list[Any]]
    terms: list[list[Floats]]

    def statistic(self, row: Row) -> Floats:
        """Weighted statistic of one row, in units of an entry."""
        z = np.concatenate([*(terms[cell] for terms, cell in zip(self.terms, row, strict=True)), [1.0]])
        entries = self.layout.entries
        first, second = (
            z[[one.first for one in entries]],
            z[[-1 if one.second is None else one.second for one in entries]],
        )
        return np.asarray([one.weight for one in entries] * first * second)

    def table(self, row: Row, rest: list[Row], place: int) -> dict[str, list[Any]]:
        """A table of the rest with a row among it."""
        rows = [*rest[:place], row, *rest[place:]]
        return {name: [cells[one[k]] for one in rows] for k, (name, cells) in enumerate(self.cells.items())}


def adversary(agreed: Agreement, rng: np.random.Generator) -> Adversary:
    """Cells at, near and far beyond bounds, outside of a transform's domain, of all levels and none, and missing."""
    cells = {column.name: _cells(column, rng) for column in agreed.columns}
    layout = agreed.model.layout
    most = max(map(len, cells.values()))
    found = []
    for k in range(most):  # each column's k-th cell, at once
        values = exact_statistic(layout, {n: [some[k % len(some)]] for n, some in cells.items()}, threads=1).values
        found.append(np.array(values[: len(layout.columns)]) / layout.steps_per_unit[: len(layout.columns)])
    places = {name: [k for k, one in enumerate(layout.columns) if one.name == name] for name in cells}
    terms = [[found[k][places[name]] for k in range(len(some))] for name, some in cells.items()]
    return Adversary(layout, cells, terms)


def _cells(column: Any, rng: np.random.Generator) -> list[Any]:
    gaps = [None] if getattr(column, "missing", "refuse") != "refuse" else []
    if not hasattr(column, "bounds"):
        unlisted: list[Any] = ["unlisted", ""] if isinstance(column.values[0], str) else [77, 1.5, -1]
        return [*column.values, *(unlisted if getattr(column, "other", False) else []), *gaps]
    lower, upper = column.bounds
    middle = ScaledColumn("", lower, upper, transform=getattr(column, "transform", None)).middle_value
    inside = rng.uniform(lower, upper, 2).tolist()
    beyond = [0, -0.0, -1, 1, lower - 1, upper + 1, math.nextafter(upper, math.inf), 1e308, -1e308, 5e-324]
    return [lower, upper, middle, *inside, *beyond, *gaps, *([math.nan] if gaps else [])]


def furthest(one: Adversary, rng: np.random.Generator, starts: int = 20) -> tuple[float, tuple[Row, Row]]:
    """Pair of rows that is furthest apart, found by exchanging one cell at a time."""
    sizes = [len(some) for some in one.cells.values()]
    best: tuple[float, tuple[Row, Row]] = (-1.0, ((), ()))
    for _ in range(starts):
        rows = [[int(rng.integers(size)) for size in sizes] for _ in range(2)]
        reached, before = 0.0, -1.0
        while reached > before:
            before = reached
            for place in rng.permutation(2 * len(sizes)):
                row, column = divmod(int(place), len(sizes))
                fixed = one.statistic(tuple(rows[1 - row]))
                trials = [(*rows[row][:column], cell, *rows[row][column + 1 :]) for cell in range(sizes[column])]
                distances = [float(np.linalg.norm(one.statistic(trial) - fixed)) for trial in trials]
                rows[row] = list(trials[int(np.argmax(distances))])
                reached = max(distances)
        best = max(best, (reached, (tuple(rows[0]), tuple(rows[1]))))
    return best


def search(agreed: Agreement, seed: int = 0, starts: int = 20) -> Fraction:
    """How far the worst neighbours are apart in the real code's integers, squared, as a share of the sensitivity's."""
    rng = np.random.default_rng(seed)
    one = adversary(agreed, rng)
    sizes = [len(some) for some in one.cells.values()]
    reached, pair = furthest(one, rng, starts)
    rest = [tuple(int(rng.integers(size)) for size in sizes) for _ in range(3)]
    found = 0
    for rows in (pair, (rest[0], rest[1])):
        tables = [_typed(one.table(row, rest, place=1)) for row in rows]
        first, second = (exact_statistic(one.layout, table, threads=1) for table in tables)
        assert first.count == second.count == 4
        found = max(found, sum((a - b) ** 2 for a, b in zip(first.values, second.values, strict=True)))
    assert math.sqrt(found) == pytest.approx(reached * UNIT, rel=1e-9), "no sum over rows, or coded otherwise in tables"
    return Fraction(found, one.layout.sensitivity**2)


def _typed(table: dict[str, list[Any]]) -> pa.Table:
    """Columns of texts dictionary-encoded, the others as numbers with nulls and NaN."""
    columns: dict[str, Any] = {}
    for name, cells in table.items():
        text = any(isinstance(cell, str) for cell in cells)
        whole = all(cell is None or isinstance(cell, int) for cell in cells)
        columns[name] = pa.array(cells) if text or whole else pa.array(cells, pa.float64())
        if text:
            columns[name] = columns[name].dictionary_encode()
    return pa.table(columns)


@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize("name", MIXTURES)
def test_no_neighbours_beat_the_bound_and_some_come_close(name: str, kind: Kind) -> None:
    assert 0.9**2 < search(coded.agreement(kind, ", ".join(MIXTURES[name]))) <= 1


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(k, marks=pytest.mark.slow) for k in range(8, 60))])
def test_no_neighbours_beat_the_bound_of_a_random_mixture(seed: int) -> None:
    features = _mixture(seed)
    for kind in ("linear", "logistic"):
        assert 0.79**2 < search(coded.agreement(kind, features), seed, 6) <= 1, features


BROKEN: dict[str, tuple[list[str], type, str, Any]] = {
    "levels of a block add up": (
        [CATEGORY.replace('"x", "y", "z"', '"u", "v", "w", "x", "y", "z"')],
        CodedColumn,
        "coded",
        coded.levels_that_add_up,
    ),
    "blocks cost nothing": ([NUMBER, BINARY, FILLED], Coding, "directions", property(lambda one: len(one.numbers))),
    "a block costs one for all": (
        [BINARY, GAPPY, FILLED],
        Coding,
        "directions",
        property(lambda one: len(one.numbers) + bool(one.blocks)),
    ),
    "a gap keeps a value": (
        [NUMBER.replace("}", ', missing = "indicator" }'), BINARY],
        ScaledColumn,
        "coded",
        coded.number_beside_its_indicator,
    ),
    "gaps cost nothing": (
        [LOG, LOGIT, ORDINAL],
        Coding,
        "sensitivity",
        lambda one, _: (one.directions + 2) * BASE_WEIGHT * UNIT,
    ),
}


@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize("name", BROKEN)
def test_broken_codings_are_caught(name: str, kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    features, of, method, broken = BROKEN[name]
    monkeypatch.setattr(of, method, broken)
    assert search(coded.agreement(kind, ", ".join(features))) > 1.001
