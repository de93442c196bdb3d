"""The exact statistic of a table's rows, as integers.

Every cell becomes an integer number of grid steps of at most 2¹⁶ in size, so a product is an integer of at most 2³² and
a float64 sum of up to 2²⁰ of them stays below 2⁵³: every partial sum is exact, whatever the order, the block size, the
number of threads or the BLAS. Blocks are then added up in int64. There is no rounding for the floating-point attacks on
differential privacy to exploit, and the sensitivity proved for the grid values is the sensitivity, with no slack.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from threadpoolctl import threadpool_limits

from equipoise._util.arrays import Floats
from equipoise._util.cores import usable_cores
from equipoise.errors import TableError
from equipoise.models import GRID, UNIT, CodedColumn, GridColumn, Layout, ScaledColumn
from equipoise.models.cells import cells_of, refuse_fractions, refuse_not_finite
from equipoise.party.individuals import ContributionBounding
from equipoise.party.stream import ANY_TEXT, Batch, ColumnSpec, Table
from equipoise.party.table import open_table

Integers = npt.NDArray[np.int64]
Progress = Callable[[float | None, int], None]

MAX_EXACT_ROWS = 2**20  # rows of products of size 2³² that float64 adds exactly
CLIPPED_IS_MANY = 0.2  # share of a column's values
_BLOCK_CELLS = 2**17  # a megabyte: a block stays in cache through every pass over it
_TILE_CELLS = 2**9
_LOOKED_AT = 2**13


@dataclass(frozen=True)
class ExactStatistic:
    """The unprotected sums. They never leave this machine; only `release` may perturb them."""

    values: tuple[int, ...]
    count: int
    clipped: dict[str, float]
    ignored_columns: tuple[str, ...]
    individuals: dict[int, int]  # number of individuals by their number of rows, if the agreement names owners


def exact_statistic(
    layout: Layout, source: Any, *, threads: int | None = None, progress: Progress | None = None
) -> ExactStatistic:
    """Sum the statistic over a table, streaming; also note which share of each column's first cells is clipped."""
    wanted = wanted_columns(layout)
    owners = ContributionBounding.of(layout, source)
    if owners is not None:
        wanted = (*wanted, owners.wanted)
    workers = threads or usable_cores()
    adder: _Counts | _Moments = _Counts(layout) if _only_counts(layout) else _Moments(layout)
    with (
        open_table(source, wanted) as table,
        threadpool_limits(1, user_api="blas"),
        ThreadPoolExecutor(workers) as pool,
    ):
        if owners is None or owners.agreed.aggregate is None:
            batches = iter(table) if owners is None else map(owners.kept, table)
        else:

            def told(rows: int, tell: Progress | None = progress) -> None:
                if tell is not None:
                    tell(table.fraction_read(rows), rows)

            batches, progress = owners.merged(table, first_columns(layout), told), None
        count, sums = _add_up(layout, table, batches, adder.of_batch, pool, 2 * workers, progress)
        ignored = table.ignored
    if sums is None:
        raise TableError("the table has no rows; a statistic needs at least one")
    individuals = {} if owners is None else owners.numbers
    return ExactStatistic(adder.entries(sums), count, dict(adder.clipped), ignored, individuals)


def wanted_columns(layout: Layout) -> tuple[ColumnSpec, ...]:
    """Return the table columns behind a layout, each once."""
    wanted = []
    for column in first_columns(layout):
        dates = isinstance(column, ScaledColumn) and column.since is not None
        labels = column.labels if isinstance(column, CodedColumn) else ANY_TEXT if dates else None
        wanted.append(ColumnSpec(column.name, labels))
    return tuple(wanted)


def first_columns(layout: Layout) -> tuple[GridColumn, ...]:
    """Return the first grid column of each table column: a number comes before the indicator of its gaps."""
    columns: dict[str, GridColumn] = {}
    for column in layout.columns:
        columns.setdefault(column.name, column)
    return tuple(columns.values())


class Sums(NamedTuple):
    """Sums of grid columns, and of their products if a model needs them."""

    first: Integers
    second: Integers | None

    def plus(self, other: "Sums") -> "Sums":
        """Add entry by entry."""
        if self.second is None or other.second is None:
            return Sums(self.first + other.first, None)
        return Sums(self.first + other.first, self.second + other.second)


def _add_up(
    layout: Layout,
    table: Table,
    batches: Iterator[Batch],
    of_batch: Callable[[Batch], Sums],
    pool: ThreadPoolExecutor,
    in_flight: int,
    progress: Progress | None,
) -> tuple[int, Sums | None]:
    """Hand batches to the pool, at most `in_flight` at a time, and add their sums in order."""
    total: Sums | None = None
    count = 0
    pending: deque[Future[Sums]] = deque()

    def finished(down_to: int) -> Iterator[Sums]:
        while len(pending) > down_to:
            yield pending.popleft().result()

    try:
        for batch in batches:
            if not batch.rows:
                continue
            count += batch.rows
            if count > layout.max_rows:
                why = "the most that can be summed exactly"
                if layout.max_rows == layout.agreed_rows:
                    why = "the most that is agreed (max_rows)"
                raise TableError(
                    f"the table has more than {layout.max_rows:,} rows, {why}; release fewer rows, or agree on more"
                )
            pending.append(pool.submit(of_batch, batch))
            for sums in finished(down_to=in_flight):
                total = total.plus(sums) if total else sums
            if progress:
                progress(table.fraction_read(count), count)
        for sums in finished(down_to=0):
            total = total.plus(sums) if total else sums
    finally:
        for future in pending:
            future.cancel()
    return count, total


def _only_counts(layout: Layout) -> bool:
    return len({column.name for column in layout.columns}) == 1 and isinstance(layout.columns[0], CodedColumn)


class _Counts:
    """The statistic of Bernoulli and categorical models: the frequency of each label."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        column = layout.columns[0]
        assert isinstance(column, CodedColumn)
        self.column = column
        self.clipped: dict[str, float] = {}

    def of_batch(self, batch: Batch) -> Sums:
        positions = _read(self.column, batch, 0).astype(np.int64)
        if batch.keep is not None:
            positions = positions[batch.keep]
        return Sums(np.bincount(positions, minlength=len(self.column.labels)).astype(np.int64), None)

    def entries(self, sums: Sums) -> tuple[int, ...]:
        counts = [int(count) for count in sums.first]
        values = []
        for entry in self.layout.entries:
            column = self.layout.columns[entry.first]
            assert isinstance(column, CodedColumn)
            coded = sum(code * count for code, count in zip(column.codes, counts, strict=True) if code)
            values.append(int(coded) * UNIT * entry.weight)
        return tuple(values)


class _Moments:
    """The statistic of regressions and bounded numbers: sums of grid columns and of their products."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.width = len(layout.columns)
        self.products = any(entry.second is not None for entry in layout.entries)
        self.block_rows = _power_of_two(_BLOCK_CELLS // self.width)
        self.tile_rows = min(self.block_rows, _power_of_two(_TILE_CELLS // self.width))
        names = [want.name for want in wanted_columns(layout)]
        self.sources = [names.index(column.name) for column in layout.columns]
        self.plain = [isinstance(column, ScaledColumn) and column.plain for column in layout.columns]
        scales = [
            (column.middle, GRID / column.half_width)
            if isinstance(column, ScaledColumn) and column.plain
            else (0.0, float(GRID))  # a coded column arrives in scaled units
            for column in layout.columns
        ]
        self.middles, self.steps = (np.array(part) for part in zip(*scales, strict=True))
        self.tiled_middles, self.tiled_steps = (np.tile(a, self.tile_rows) for a in (self.middles, self.steps))
        self.clipped: dict[str, float] = {}
        self._scratch = threading.local()

    def of_batch(self, batch: Batch) -> Sums:
        assert batch.rows <= MAX_EXACT_ROWS
        if isinstance(batch.data, np.ndarray) and all(self.plain):
            matrix = np.ascontiguousarray(batch.data)
            cells: Floats | list[Floats] = matrix.T
            blocks = self._matrix_blocks(matrix)
        else:
            cells = self._cells(batch)
            columns = [
                values if plain else column.coded(values)
                for column, values, plain in zip(self.layout.columns, cells, self.plain, strict=True)
            ]
            if batch.keep is not None:
                columns = [values[batch.keep] for values in columns]
            blocks = self._column_blocks(columns)
        self._look_at_cells(cells, batch.first_row)
        first = np.zeros(self.width)
        second = np.zeros((self.width, self.width)) if self.products else None
        unclipped = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for block in blocks:
                unclipped += block.unclipped
                first += block.first
                if second is not None:
                    # Unlike `@`, `np.dot` releases the interpreter for other threads.
                    second += np.dot(block.steps, block.steps.T)
        # The sum may merely have overflowed, so check each uncoded column by itself.
        if not np.isfinite(unclipped):
            for column, values, plain in zip(self.layout.columns, cells, self.plain, strict=True):
                if plain:
                    refuse_not_finite(column.name, np.asarray(values, dtype=np.float64), batch.first_row)
        return Sums(first.astype(np.int64), None if second is None else second.astype(np.int64))

    def entries(self, sums: Sums) -> tuple[int, ...]:
        values = []
        for entry in self.layout.entries:
            if entry.second is None:
                steps = int(sums.first[entry.first]) * GRID
            else:
                assert sums.second is not None
                steps = int(sums.second[entry.first, entry.second])
            values.append(steps * entry.weight)
        return tuple(values)

    def _matrix_blocks(self, matrix: Floats) -> "Iterator[_Block]":
        """Yield blocks of a row-major matrix.

        Several rows are viewed as one long row, and middles and steps are repeated to match: NumPy then runs over
        hundreds of cells at a time instead of one short row after another, which matters when features are few.
        """
        for start in range(0, len(matrix), self.block_rows):
            part = matrix[start : start + self.block_rows]
            tile = self.tile_rows if len(part) % self.tile_rows == 0 else 1
            length = tile * self.width
            cells = self._scratch_space()[: part.size]
            long_rows = cells.reshape(-1, length)
            np.subtract(part.reshape(long_rows.shape), self.tiled_middles[:length], out=long_rows)
            np.multiply(long_rows, self.tiled_steps[:length], out=long_rows)
            steps = cells.reshape(part.shape).T
            unclipped = self._clip_and_round(cells, steps)
            yield _Block(steps, long_rows.sum(axis=0).reshape(tile, self.width).sum(axis=0), unclipped)

    def _column_blocks(self, columns: list[Floats]) -> "Iterator[_Block]":
        """Yield blocks of separate columns, as Arrow holds them."""
        for start in range(0, len(columns[0]), self.block_rows):
            rows = slice(start, min(start + self.block_rows, len(columns[0])))
            cells = self._scratch_space()[: self.width * (rows.stop - rows.start)]
            steps = cells.reshape(self.width, -1)
            for column, middle, scale, out in zip(columns, self.middles, self.steps, steps, strict=True):
                np.subtract(column[rows], middle, out=out)
                np.multiply(out, scale, out=out)
            unclipped = self._clip_and_round(cells, steps)
            yield _Block(steps, steps.sum(axis=1), unclipped)

    def _clip_and_round(self, cells: Floats, steps: Floats) -> float:
        """Clip to the agreed box, round to whole grid steps, clip to the ball, in place; return the sum before."""
        unclipped = float(cells.sum())
        np.clip(cells, -GRID, GRID, out=cells)
        np.rint(cells, out=cells)
        if self.layout.squared_radius is not None:
            _clip_to_ball(steps, self.layout.ball_columns, self.layout.squared_radius)
        return unclipped

    def _cells(self, batch: Batch) -> list[Floats]:
        """Return the cells behind every grid column, reading each table column once: numbers, or label indices."""
        if isinstance(batch.data, np.ndarray):
            batch = batch._replace(data=[pa.array(column) for column in batch.data.T])
        cells: dict[int, Floats] = {}
        for column, source in zip(self.layout.columns, self.sources, strict=True):
            if source not in cells:
                cells[source] = _read(column, batch, source)
        return [cells[source] for source in self.sources]

    def _look_at_cells(self, columns: "Floats | list[Floats]", first_row: int) -> None:
        """Refuse fractions where counts are agreed; note how much of the first batch will be clipped."""
        for column, cells in zip(self.layout.columns, columns, strict=True):
            if isinstance(column, ScaledColumn):
                if column.whole:
                    refuse_not_finite(column.name, np.asarray(cells, dtype=np.float64), first_row)
                    refuse_fractions(column.name, cells, first_row, column.whole_for)
                if first_row == 0:
                    # A missing cell (NaN) is neither below nor above.
                    some = cells[:_LOOKED_AT]
                    self.clipped[column.name] = float(np.mean((some < column.lower) | (some > column.upper)))

    def _scratch_space(self) -> Floats:
        if not hasattr(self._scratch, "cells"):
            self._scratch.cells = np.empty(self.width * self.block_rows)
        cells: Floats = self._scratch.cells
        return cells


class _Block(NamedTuple):
    """Grid steps of some rows, one array row for each column; their sums; the sum of all cells before clipping."""

    steps: Floats
    first: Floats
    unclipped: float


def _read(column: GridColumn, batch: Batch, source: int) -> Floats:
    """Return the cells of a batch's column."""
    cells: Floats = batch.data[source]
    return cells if batch.are_cells else cells_of(column, batch.data[source], batch.first_row)


def _power_of_two(limit: int) -> int:
    return 1 << max(0, limit.bit_length() - 1)


def _clip_to_ball(steps: Floats, places: tuple[int, ...], squared_radius: int) -> None:
    """Scale some columns of rows outside the ball down, in place, so that Σ steps² ≤ squared_radius holds exactly.

    The squared norm is an exact integer. The factor √(R²/norm²) is shrunk by 2⁻⁴⁰, far more than its rounding error,
    and rounding the scaled steps towards zero can only shrink them further.
    """
    columns = list(places)
    features = steps[columns]
    norms = np.einsum("ij,ij->j", features, features)
    outside = norms > squared_radius
    if outside.any():
        factors = np.sqrt(squared_radius / norms[outside]) * (1 - 2.0**-40)
        steps[np.ix_(columns, outside)] = np.trunc(features[:, outside] * factors)
