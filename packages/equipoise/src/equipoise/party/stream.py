"""A table as a stream of batches of the agreed columns, and the check of its header."""

import csv
import difflib
import io
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from equipoise._util.text import first_few
from equipoise.errors import TableError

BATCH_ROWS = 2**16  # also keeps every sum of a batch exact; see statistics.py


ANY_TEXT = ("\0",)  # matches no cell; makes a column of a text file be read as text


class ColumnSpec(NamedTuple):
    """A column that the agreement asks for; `labels` are its agreed values, or None for a number."""

    name: str
    labels: tuple[int | str, ...] | None

    @property
    def is_text(self) -> bool:
        """True if the column holds text rather than numbers."""
        return self.labels is not None and isinstance(self.labels[0], str)


class Batch(NamedTuple):
    """Consecutive rows: Arrow arrays in agreed order, or a matrix of as many columns; `keep` masks the rows that count.

    With `are_cells`, `data` holds the cells of grid columns, as `cells_of` reads them from Arrow arrays.
    """

    first_row: int
    data: "Sequence[Any] | np.ndarray[Any, Any]"
    keep: "NDArray[np.bool_] | None" = None
    are_cells: bool = False

    @property
    def rows(self) -> int:
        """The number of rows that count."""
        if self.keep is not None:
            return int(np.count_nonzero(self.keep))
        return len(self.data) if isinstance(self.data, np.ndarray) else len(self.data[0])


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn any error that a file or a library raises while it is read into a clear `TableError`."""
    try:
        yield
    except (pa.ArrowException, csv.Error, OSError, OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise TableError(f"cannot read {what}: {error}") from error


@dataclass
class Table(AbstractContextManager["Table"]):
    """An open table. Iterate once, inside `with`."""

    wanted: tuple[ColumnSpec, ...]
    source: Iterator["pa.RecordBatch | np.ndarray[Any, Any]"]
    all_columns: tuple[str, ...] = ()
    total_rows: int | None = None
    stream: io.BufferedReader | None = None
    total_bytes: int = 0
    resources: ExitStack = field(default_factory=ExitStack)

    def __exit__(self, *_: object) -> None:
        self.resources.close()

    def __iter__(self) -> Iterator[Batch]:
        first_row = 0
        while True:
            with reading("the table"):
                piece = next(self.source, None)
            if piece is None:
                return
            for start in range(0, len(piece), BATCH_ROWS):
                part = piece[start : start + BATCH_ROWS]
                if isinstance(part, np.ndarray):
                    batch = Batch(first_row, part)
                else:
                    batch = Batch(first_row, [part.column(want.name) for want in self.wanted])
                yield batch
                first_row += batch.rows

    @property
    def ignored(self) -> tuple[str, ...]:
        """The columns of the table that are never read."""
        names = {want.name for want in self.wanted}
        return tuple(name for name in self.all_columns if name not in names)

    def fraction_read(self, rows: int) -> float | None:
        """Return the fraction of the table that was read, from 0 to 1, or None if it is unknown."""
        if self.total_rows is not None:
            return rows / self.total_rows if self.total_rows else 1.0
        if self.stream is not None and self.total_bytes and not self.stream.closed:
            return self.stream.tell() / self.total_bytes
        return None


def refuse_other_separator(names: list[str]) -> None:
    """Refuse a header that is a single name with separators in it: the file has another delimiter than assumed."""
    if len(names) == 1 and any(separator in names[0] for separator in ";\t|"):
        raise TableError(
            f"the header is the single name {names[0][:80]!r}; the file seems to be separated by something else than "
            "its ending says: say so with --delimiter, such as --delimiter ';' (CsvFile(path, delimiter=';'))"
        )


def check_header(names: list[str], wanted: tuple[ColumnSpec, ...], where: str = "") -> None:
    """Refuse a table that lacks an agreed column or has it twice; other columns do not matter."""
    if wanted and names != [want.name for want in wanted]:
        refuse_other_separator(names)
    for want in wanted:
        times = names.count(want.name)
        if times > 1:
            raise TableError(f"the column {want.name!r}{where} appears {times} times; keep one")
        if times == 0:
            others = {name.strip().casefold(): name for name in names if name not in {want.name for want in wanted}}
            close = difflib.get_close_matches(want.name.casefold(), others, n=1, cutoff=0.5)
            hint = f"; did you mean {others[close[0]]!r}?" if close else "."
            raise TableError(
                f"the agreed column {want.name!r} is not in the table{where}{hint} "
                f"The table's columns are {first_few(names, 12) or 'none'}; rename the column to match the agreement"
            )
