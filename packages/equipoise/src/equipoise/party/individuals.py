"""The owners of rows, counted while a table is read, to bound everybody's rows or combine them into one.

Identifiers are compared as they are written, and never leave the machine: not in a submission, not in the ledger, not
in a message.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.text import counted
from equipoise.errors import TableError
from equipoise.models import CodedColumn, GridColumn, Individuals, Layout, ScaledColumn
from equipoise.models.cells import MISSING_IN_AGREEMENT, cells_of, decoded, is_text, refuse_fractions
from equipoise.party.stream import ANY_TEXT, BATCH_ROWS, Batch, ColumnSpec
from equipoise.party.table import is_rereadable, open_table

Places = NDArray[np.int64]


def check_stated_rows(source: Any, column: str, rows: int) -> None:
    """Refuse a table in which somebody has more rows than the party states, if a readable column shows it.

    Spends that protect single rows count for individuals by the stated number.
    """
    if not is_rereadable(source):
        return
    with open_table(source, ()) as table:
        if column not in table.all_columns:
            return
    owners = ContributionBounding(Individuals(column, rows, drop=False))
    with open_table(source, (owners.wanted,)) as table:
        for batch in table:
            if owners.too_many(batch.data[0], batch.first_row).any():
                raise TableError(
                    f"somebody has more rows in this table, by the column {column!r}, than the ledger says anybody has "
                    f"({rows:,}); state the right number with `equipoise party amend LEDGER --rows-per-individual K "
                    "--reason TEXT`. Nothing was spent"
                )


class ContributionBounding:
    """The number of rows of each individual so far."""

    def __init__(self, agreed: Individuals) -> None:
        self.agreed = agreed
        self._places: dict[Any, int] = {}
        self._rows = np.zeros(0, np.int64)
        self._kind: str | None = None  # kind of the owners' values, the same in all batches

    @property
    def numbers(self) -> dict[int, int]:
        """The number of individuals with each number of rows."""
        rows, individuals = np.unique(self._rows[: len(self._places)], return_counts=True)
        return dict(zip(rows.tolist(), individuals.tolist(), strict=True))

    def kept(self, batch: Batch) -> Batch:
        """Remove a batch's last column, which names the owners; mark rows above the agreed number as not counting."""
        *data, owners = batch.data
        too_many = self.too_many(owners, batch.first_row)
        if not too_many.any():
            return Batch(batch.first_row, data)
        if not self.agreed.drop:
            self._refuse(batch.first_row + int(np.flatnonzero(too_many)[0]))
        return Batch(batch.first_row, data, ~too_many)

    def too_many(self, owners: "pa.Array[Any]", first_row: int) -> NDArray[np.bool_]:
        """Return a mask of rows whose owner has already had the agreed number of rows."""
        whose, within = self._whose(owners, first_row)
        order = np.argsort(within, kind="stable")
        rows = np.bincount(within, minlength=len(whose))
        rank = np.empty(len(within), np.int64)  # of a row among those of the same owner in this batch
        rank[order] = np.arange(len(within)) - np.repeat(np.cumsum(rows) - rows, rows)
        before = self._rows[whose] - rows
        return np.asarray(rank + before[within] >= self.agreed.rows)

    def merged(
        self, batches: Iterable[Batch], columns: Sequence[GridColumn], told: Callable[[int], None]
    ) -> Iterator[Batch]:
        """Yield one row for each individual, made of all its rows, as cells of `columns`.

        `told` is called with the number of rows read. If the mean is agreed, a number is the mean of those present, and
        a level the most frequent of those present, the first in agreed order among equals and unlisted ones last.
        Otherwise the cell is the first or the last present, in the order of the table. A cell is missing if it is
        missing in all rows. Transforms, clipping and codes come after.

        **Why protecting an individual costs as much as protecting one row.** What comes out has one row of everybody,
        which is a function of that individual's rows and their order alone: counts are exact, and a mean is the
        quotient of a sum whose every addition is of the individual's own next value, wherever batches end (if sums
        depended on batches, floating-point rounding would reveal the difference, because somebody's additional row
        moves the others' rows to other batches). So two tables that differ in all rows of one individual, of any number
        but none, come out as tables that differ in one row. Memory grows with individuals and with the levels that each
        has, not with rows.
        """
        merged_cells, first_rows = self.cells_of_all(batches, columns, told)
        self._refuse_gaps(columns, merged_cells, first_rows)
        for start in range(0, len(first_rows), BATCH_ROWS):
            yield Batch(start, [cells[start : start + BATCH_ROWS] for cells in merged_cells], are_cells=True)

    def cells_of_all(
        self, batches: Iterable[Batch], columns: Sequence[GridColumn], told: Callable[[int], None] | None = None
    ) -> tuple[list[Floats], Floats]:
        """Return each column's cells as `merged` makes them, gaps or not, and each individual's first row."""
        made = [_aggregation(column, self.agreed) for column in columns]
        first_rows, rows = _Present(last=False), 0
        for batch in batches:
            *data, owners = batch.data
            places, individuals = self.places_of(owners, batch.first_row), self.number
            first_rows.add(places, batch.first_row + np.arange(len(places), dtype=float), individuals)
            for aggregation, column, cells in zip(made, columns, data, strict=True):
                aggregation.add(places, _cells(column, cells, batch.first_row), individuals)
            rows += batch.rows
            if told is not None:
                told(rows)
        count = len(self._places)
        return [aggregation.cells(count) for aggregation in made], first_rows.cells(count)

    @property
    def number(self) -> int:
        """The number of individuals seen so far."""
        return len(self._places)

    def places_of(self, owners: "pa.Array[Any]", first_row: int) -> Places:
        """Return the index of each row's owner among all seen so far, and count the rows."""
        whose, within = self._whose(owners, first_row)
        return whose[within]

    def _whose(self, owners: "pa.Array[Any]", first_row: int) -> tuple[Places, Places]:
        """Return the indices of a batch's distinct owners, and each row's owner among these; count the rows."""
        missing = np.asarray(owners.is_null(nan_is_null=True))
        if missing.any():
            row = first_row + int(np.flatnonzero(missing)[0])
            raise TableError(
                f"column {self.agreed.column!r}, row {row + 1}: the value is missing, and it is not known whose row "
                "this is; fill it in, or remove the row"
            )
        if pa.types.is_dictionary(owners.type):
            owners = decoded(owners)
        if pa.types.is_nested(owners.type):
            raise TableError(
                f"column {self.agreed.column!r} holds {owners.type} values, which name nobody; give one each"
            )
        if len(owners):
            self._refuse_other_kind(owners.type, first_row)
        # Text is compared as bytes, because invalid UTF-8 would raise an error that shows it.
        if is_text(owners.type):
            owners = decoded(owners).cast(pa.large_binary())
        encoded = owners.dictionary_encode()
        names: list[Any] = encoded.dictionary.to_pylist()
        indices = np.array([self._places.setdefault(name, len(self._places)) for name in names], np.int64)
        # Equal owners may have several codes, such as 0.0 and -0.0.
        whose, positions = np.unique(indices, return_inverse=True)
        within = positions[np.asarray(encoded.indices, np.int64)]
        self._rows = _grown(self._rows, len(self._places), 0)
        self._rows[whose] += np.bincount(within, minlength=len(whose))
        return whose, within

    def _refuse_other_kind(self, kind: pa.DataType, first_row: int) -> None:
        """Refuse a table, such as a folder of files, that writes owners as "1" here and as 1 there: both may be one."""
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        named = "number" if number else "text" if is_text(kind) else str(kind)
        if self._kind not in (None, named):
            raise TableError(
                f"column {self.agreed.column!r} holds {self._kind} values up to row {first_row} and {named} values "
                "from there on, and somebody may be in both; write all in one way"
            )
        self._kind = named

    def _refuse_gaps(
        self, columns: Sequence[GridColumn], cells_of_columns: Sequence[Floats], first_rows: Floats
    ) -> None:
        """Refuse a table in which somebody lacks a value that every individual needs; name all such columns."""
        told = []
        for column, cells in zip(columns, cells_of_columns, strict=True):
            if np.any(np.isinf(cells)):
                raise TableError(
                    f"column {column.name!r}: values of one {self.agreed.column!r} add up to more than numbers hold; "
                    "correct them"
                )
            without = np.flatnonzero(np.isnan(cells))
            if len(without) and not column.takes_missing:
                told.append(
                    f"column {column.name!r} is missing in all rows of {counted(len(without), 'individual')}, the "
                    f"first of whom begins in row {int(first_rows[without[0]]) + 1}"
                )
        if told:
            raise TableError(
                f"{'; '.join(told)}: fill it in, remove their rows from your table before releasing (how many "
                f"individuals it has is public), or {MISSING_IN_AGREEMENT}"
            )

    @property
    def much_alike(self) -> int:
        """The number of rows whose owner's name equals an earlier one up to surrounding spaces and capitals."""
        seen: set[str] = set()
        rows = 0
        for name, index in self._places.items():
            if isinstance(name, bytes):
                folded = name.decode(errors="replace").strip().casefold()
                rows += int(self._rows[index]) if folded in seen else 0
                seen.add(folded)
        return rows

    @classmethod
    def of(cls, layout: Layout, source: Any) -> "ContributionBounding | None":
        """Return the bounding that is agreed, or None if single rows are protected.

        A source whose columns have no names is refused, because it cannot say whose rows they are.
        """
        if layout.individuals is None:
            return None
        if isinstance(source, tuple) or (isinstance(source, np.ndarray) and source.dtype.names is None):
            raise TableError(
                f"the agreement protects individuals, whom the column {layout.individuals.column!r} names; give a "
                "table whose columns have names, not an array"
            )
        return cls(layout.individuals)

    @property
    def wanted(self) -> ColumnSpec:
        """The column to read."""
        return ColumnSpec(self.agreed.column, ANY_TEXT)

    @property
    def remedy(self) -> str:
        """The advice for a table with too many rows of somebody."""
        most = self.agreed.rows
        return (
            f"keep {most} of each, or agree on aggregate, which makes one row of all, on rows_per_individual, which "
            'costs as many times the noise, or on excess = "drop", which takes the first'
        )

    def _refuse(self, row: int) -> None:
        most = self.agreed.rows
        raise TableError(
            f"row {row + 1}: {self.agreed.column!r} is that of {counted(most, 'earlier row')}, and nobody may have "
            f"more than {most}; {self.remedy}"
        )


class _Aggregation(Protocol):
    """An aggregation of a column's cells to one cell for each individual."""

    def add(self, places: Places, cells: Floats, individuals: int) -> None:
        """Take cells of the individuals with these indices, NaN where one is missing."""

    def cells(self, individuals: int) -> Floats:
        """Return one cell for each individual, NaN if there was none."""


def _aggregation(column: GridColumn, agreed: Individuals) -> _Aggregation:
    if agreed.aggregate != "mean":
        return _Present(last=agreed.aggregate == "last")
    return _MostFrequent(len(column.labels)) if isinstance(column, CodedColumn) else _Mean()


def _cells(column: GridColumn, array: "pa.Array[Any]", first_row: int) -> Floats:
    """Return the cells of a column, which may still be missing here."""
    if isinstance(column, CodedColumn):
        return cells_of(replace(column, missing=0.0), array, first_row)
    # The first grid column of a number is the number itself, not the indicator of its gaps.
    assert isinstance(column, ScaledColumn)
    cells = cells_of(replace(column, gaps_marked=True), array, first_row)
    if column.whole:
        refuse_fractions(column.name, np.where(np.isnan(cells), 0.0, cells), first_row, column.whole_for)
    return cells


class _Present:
    """The first or the last cell that is present."""

    def __init__(self, *, last: bool) -> None:
        self._last = last
        self._values = np.zeros(0)

    def add(self, places: Places, cells: Floats, individuals: int) -> None:
        self._values = _grown(self._values, individuals, np.nan)
        chosen = ~np.isnan(cells) if self._last else ~np.isnan(cells) & np.isnan(self._values[places])
        # Of several assignments to an index, NumPy keeps the last.
        step = 1 if self._last else -1
        self._values[places[chosen][::step]] = cells[chosen][::step]

    def cells(self, individuals: int) -> Floats:
        return self._values[:individuals]


class _Mean:
    """The mean of the cells that are present."""

    def __init__(self) -> None:
        self._sums = np.zeros(0)
        self._numbers = np.zeros(0, np.int64)

    def add(self, places: Places, cells: Floats, individuals: int) -> None:
        self._sums = _grown(self._sums, individuals, 0.0)
        self._numbers = _grown(self._numbers, individuals, 0)
        present = ~np.isnan(cells)
        with np.errstate(over="ignore"):
            # `np.add.at` adds one value after another, in order.
            np.add.at(self._sums, places[present], cells[present])
        np.add.at(self._numbers, places[present], 1)

    def cells(self, individuals: int) -> Floats:
        with np.errstate(invalid="ignore"):
            return np.asarray(self._sums[:individuals] / self._numbers[:individuals])


class _MostFrequent:
    """The most frequent level; of equally frequent ones the first in agreed order, unlisted values last."""

    def __init__(self, levels: int) -> None:
        self._levels = levels
        self._counts: Counter[int] = Counter()  # individuals' levels, encoded as individual × (levels + 1) + level

    def add(self, places: Places, cells: Floats, individuals: int) -> None:  # noqa: ARG002
        present = ~np.isnan(cells)
        levels = np.where(cells < 0, self._levels, cells)[present].astype(np.int64)
        keys, counts = np.unique(places[present] * (self._levels + 1) + levels, return_counts=True)
        self._counts.update(dict(zip(keys.tolist(), counts.tolist(), strict=True)))

    def cells(self, individuals: int) -> Floats:
        keys = np.fromiter(self._counts.keys(), np.int64, len(self._counts))
        counts = np.fromiter(self._counts.values(), np.int64, len(self._counts))
        places, levels = np.divmod(keys, self._levels + 1)
        # Each individual's most frequent level comes last, and so is kept.
        order = np.lexsort((-levels, counts))
        chosen = np.full(individuals, np.nan)
        chosen[places[order]] = np.where(levels == self._levels, -1, levels)[order]
        return chosen


def _grown(values: NDArray[Any], size: int, fill: float) -> NDArray[Any]:
    """Return the values in an array of at least `size`; it at least doubles when it grows."""
    if size <= len(values):
        return values
    larger = np.full(max(size, 2 * len(values)), fill, values.dtype)
    larger[: len(values)] = values
    return larger
