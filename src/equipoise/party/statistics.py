"""From rows to the exact statistic, as integers.

Every cell becomes an integer number of grid steps of at most 2¹⁶ in size, so a product is an integer of at most 2³² and
a float64 sum of up to 2²⁰ of them stays below 2⁵³: every partial sum is exact, whatever the order, the block size, the
number of threads or the BLAS. Blocks are then added up in int64. There is no rounding for the floating-point attacks
on differential privacy to exploit, and the sensitivity proved for the grid values is the sensitivity, with no slack.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from equipoise.errors import TableError
from equipoise.models import GRID, UNIT, CodedColumn, Layout, ScaledColumn
from equipoise.party.cells import label_positions, numbers, refuse_fractions, refuse_not_finite
from equipoise.party.stream import Batch, Table, Wanted
from equipoise.party.table import open_table

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Progress = Callable[[float | None, int], None]

MAX_EXACT_ROWS = 2**20  # rows of products of size 2³² that float64 adds exactly
_BLOCK_CELLS = 2**17  # about a megabyte: a block stays in cache through every pass over it


@dataclass(frozen=True)
class ExactStatistic:
    """The unprotected sums. They never leave this machine; only `release` may perturb them."""

    values: tuple[int, ...]
    count: int
    clipped: dict[str, float]
    ignored_columns: tuple[str, ...]


def exact_statistic(
    layout: Layout, source: Any, *, threads: int | None = None, progress: Progress | None = None
) -> ExactStatistic:
    """Sum the statistic over a table, streaming. `clipped` tells, per column, which share of the first rows was clipped."""
    wanted = wanted_columns(layout)
    adder: _Counts | _Moments = _Counts(layout) if _only_codes(layout) else _Moments(layout)
    workers = threads or len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads or 1
    with open_table(source, wanted) as table, threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(workers) as pool:
        count, sums = _add_up(layout, table, adder.of_batch, pool, 2 * workers, progress)
        ignored = table.ignored
    if sums is None:
        raise TableError("the table has no rows; a statistic needs at least one")
    return ExactStatistic(adder.entries(sums), count, dict(adder.clipped), ignored)


def wanted_columns(layout: Layout) -> tuple[Wanted, ...]:
    """Table columns behind a layout, each once."""
    wanted = (
        Wanted(column.name, column.labels if isinstance(column, CodedColumn) else None) for column in layout.columns
    )
    return tuple(dict.fromkeys(wanted))


class Sums(NamedTuple):
    """Sums of grid columns, and of their products where a model needs them."""

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
        for batch in table:
            count += batch.rows
            if count > layout.max_rows:
                raise TableError(
                    f"the table has more than {layout.max_rows:,} rows, the most whose sums this agreement keeps exact; "
                    "release a sample of the rows, or fewer features"
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


def _only_codes(layout: Layout) -> bool:
    return all(isinstance(column, CodedColumn) for column in layout.columns)


class _Counts:
    """Bernoulli and categorical: how often each label occurs."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        column = layout.columns[0]
        assert isinstance(column, CodedColumn)
        self.name, self.labels = column.name, column.labels
        self.clipped: dict[str, float] = {}

    def of_batch(self, batch: Batch) -> Sums:
        positions = label_positions(self.name, self.labels, batch.data[0], batch.first_row)
        return Sums(np.bincount(positions, minlength=len(self.labels)).astype(np.int64), None)

    def entries(self, sums: Sums) -> tuple[int, ...]:
        counts = [int(count) for count in sums.first]
        values = []
        for entry in self.layout.entries:
            column = self.layout.columns[entry.first]
            assert isinstance(column, CodedColumn)
            coded = sum(code * count for code, count in zip(column.codes, counts, strict=True) if code)
            values.append(coded * UNIT * entry.weight)
        return tuple(values)


class _Moments:
    """Regressions and bounded numbers: sums of grid columns and of their products."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.width = len(layout.columns)
        self.products = any(entry.second is not None for entry in layout.entries)
        self.block_rows = min(2**14, max(2**9, _BLOCK_CELLS // self.width))
        scales = [
            (column.middle, GRID / column.half_width) if isinstance(column, ScaledColumn) else (0.0, float(GRID))
            for column in layout.columns
        ]
        self.middles, self.steps = (np.array(part)[:, np.newaxis] for part in zip(*scales, strict=True))
        self.clipped: dict[str, float] = {}
        self._buffers = threading.local()

    def of_batch(self, batch: Batch) -> Sums:
        assert batch.rows <= MAX_EXACT_ROWS
        values = self._values(batch)
        first = np.zeros(self.width)
        second = np.zeros((self.width, self.width)) if self.products else None
        for start in range(0, batch.rows, self.block_rows):
            rows = slice(start, min(start + self.block_rows, batch.rows))
            block = self._grid_steps(values, rows, batch.first_row)
            first += block @ np.ones(block.shape[1])
            if second is not None:
                second += block @ block.T
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

    def _values(self, batch: Batch) -> "Floats | list[Floats]":
        """One row of values for each column: a transposed matrix, or separate arrays."""
        if isinstance(batch.data, np.ndarray):
            values: Floats | list[Floats] = batch.data.T
        else:
            values = [
                self._column(column, array, batch.first_row)
                for column, array in zip(self.layout.columns, batch.data, strict=True)
            ]
        for column, cells in zip(self.layout.columns, values, strict=True):
            if isinstance(column, ScaledColumn) and column.whole:
                refuse_not_finite(column.name, cells, batch.first_row)
                refuse_fractions(column.name, cells, batch.first_row)
            if isinstance(column, ScaledColumn) and batch.first_row == 0:
                outside = (cells < column.lower) | (cells > column.upper)
                self.clipped[column.name] = float(np.mean(outside))
        return values

    @staticmethod
    def _column(column: "ScaledColumn | CodedColumn", array: Any, first_row: int) -> Floats:
        if isinstance(column, ScaledColumn):
            return numbers(column.name, array, first_row)
        codes = np.array(column.codes, dtype=np.float64)
        return codes[label_positions(column.name, column.labels, array, first_row)]

    def _grid_steps(self, values: "Floats | list[Floats]", rows: slice, first_row: int) -> Floats:
        """Map, clip and round one block of rows; the result has one row for each column."""
        block, middles, steps = self._block(rows.stop - rows.start, row_major=isinstance(values, np.ndarray))
        with np.errstate(over="ignore", invalid="ignore"):
            if isinstance(values, np.ndarray):
                np.subtract(values[:, rows], middles, out=block)
            else:
                for cells, middle, out in zip(values, middles, block, strict=True):
                    np.subtract(cells[rows], middle, out=out)
            np.multiply(block, steps, out=block)
            finite = np.isfinite(block.sum())
        if not finite:  # the sum may also have overflowed: let each column say
            for column, cells in zip(self.layout.columns, values, strict=True):
                refuse_not_finite(column.name, np.asarray(cells[rows], dtype=np.float64), first_row + rows.start)
        np.clip(block, -GRID, GRID, out=block)
        np.rint(block, out=block)
        if self.layout.squared_radius is not None:
            _pull_into_ball(block[: self.layout.ball_columns], self.layout.squared_radius)
        return block

    def _block(self, rows: int, *, row_major: bool) -> tuple[Floats, Floats, Floats]:
        """Scratch space of this thread, laid out in memory like the input so that every pass is one straight run."""
        key = "row_major" if row_major else "column_major"
        if not hasattr(self._buffers, key):
            shape = (self.width, self.block_rows)
            if row_major:
                block = np.empty(shape, order="F")
                middles, steps = (np.asfortranarray(np.broadcast_to(a, shape)) for a in (self.middles, self.steps))
            else:
                block, middles, steps = np.empty(shape), self.middles, self.steps
            setattr(self._buffers, key, (block, middles, steps))
        block, middles, steps = getattr(self._buffers, key)
        if row_major:
            return block[:, :rows], middles[:, :rows], steps[:, :rows]
        return block[:, :rows], middles, steps


def _pull_into_ball(features: Floats, squared_radius: int) -> None:
    """Scale rows outside the ball down, in place, so that Σ steps² ≤ squared_radius holds exactly.

    The squared norm is an exact integer. The factor √(R²/norm²) is shrunk by 2⁻⁴⁰, far more than its rounding error,
    and rounding the scaled steps towards zero can only shrink them further.
    """
    norms = np.einsum("ij,ij->j", features, features)
    outside = norms > squared_radius
    if outside.any():
        factors = np.sqrt(squared_radius / norms[outside]) * (1 - 2.0**-40)
        features[:, outside] = np.trunc(features[:, outside] * factors)
