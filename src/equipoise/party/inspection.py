"""All problems of a table at once, for the party's eyes: what a release would refuse, and what is odd.

A release refuses at the first cell that is wrong. Here the table is gone through to its end, a batch at a time, and
every problem of every agreed column is counted. Nothing of it leaves the machine.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from equipoise._util.text import first_few
from equipoise.errors import TableError
from equipoise.models import CodedColumn, Layout, ScaledColumn
from equipoise.party.cells import decoded, is_text
from equipoise.party.csv_stream import CsvFile, is_number
from equipoise.party.statistics import wanted_columns
from equipoise.party.stream import Wanted, check_header
from equipoise.party.table import is_delimited, open_table

CODES_OF_GAPS = (-1.0, -9.0, -99.0, -999.0, 9.0, 99.0, 999.0, 9999.0)
MANY_OUTSIDE = 0.2  # of a column's values
_NO_LABEL = "\0"


@dataclass(frozen=True)
class Problem:
    """One kind of problem in one column: in how many rows, first in which (from 1), and what to do.

    `refused` says that a release would not take the table.
    """

    column: str
    problem: str
    count: int
    first_row: int | None
    remedy: str
    refused: bool = True


def problems_of(layout: Layout, source: Any) -> list[Problem]:
    """Every problem of a table that has names for its columns; arrays without are looked at by the release itself."""
    if isinstance(source, np.ndarray | tuple):
        return []
    wanted = wanted_columns(layout)
    with open_table(source, ()) as table:
        names = list(table.all_columns)
    if len(names) == 1:
        check_header(names, wanted)  # which knows files that are separated by something else
    found, present = [], []
    for want in wanted:
        try:
            check_header(names, (want,))
        except TableError as error:
            found.append(Problem(want.name, "not in the table", 0, None, str(error)))
        else:
            present.append(want)
    columns = {column.name: column for column in layout.columns}
    as_text = is_delimited(source)
    decimal = source.decimal if isinstance(source, CsvFile) else "."
    asked = tuple(Wanted(want.name, _labels_of(want)) if as_text else want for want in present)
    looked = [_Look(columns[want.name], decimal) for want in present]
    if asked:
        with open_table(source, asked) as table:
            for batch in table:
                for look, cells in zip(looked, batch.data, strict=True):
                    look.at(cells, batch.first_row)
    return [*found, *(problem for look in looked for problem in look.problems())]


def _labels_of(want: Wanted) -> tuple[int | str, ...]:
    """Labels by which a column of a text file is read as text, its own among them: "NA" may be one."""
    return (_NO_LABEL, *map(str, want.labels or ()))


class _Look:
    """What was seen of one column so far."""

    def __init__(self, column: ScaledColumn | CodedColumn, decimal: str) -> None:
        self.column, self.decimal, self.rows = column, decimal, 0
        self.seen: dict[str, tuple[int, int]] = {}  # kind of problem to count and first row
        self.outside: Counter[float] = Counter()
        self.strange: Counter[str] = Counter()

    def at(self, array: "pa.Array[Any]", first_row: int) -> None:
        """Look at the cells of a batch."""
        if pa.types.is_dictionary(array.type):
            array = decoded(array)
        self.rows += len(array)
        self._note("missing", np.asarray(array.is_null()), first_row)
        if isinstance(self.column, CodedColumn):
            self._labels(array, self.column, first_row)
        else:
            self._numbers(array, self.column, first_row)

    def _labels(self, array: "pa.Array[Any]", column: CodedColumn, first_row: int) -> None:
        agreed = {_spelt(label) for label in column.labels}
        texts = [None if value is None else _spelt(value) for value in array.to_pylist()]
        wrong = np.array([text is not None and text not in agreed for text in texts], bool)
        self._note("not an agreed label", wrong, first_row)
        self.strange.update(text for text, is_wrong in zip(texts, wrong, strict=True) if is_wrong and text is not None)

    def _numbers(self, array: "pa.Array[Any]", column: ScaledColumn, first_row: int) -> None:
        if is_text(array.type):
            texts = array.to_pylist()
            wrong = np.array([text is not None and not is_number(text, self.decimal) for text in texts], bool)
            self._note("not a number", wrong, first_row)
            self.strange.update(str(text) for text, is_wrong in zip(texts, wrong, strict=True) if is_wrong)
            values = np.array(
                [
                    float(text.replace(self.decimal, ".")) if text is not None and not is_wrong else np.nan
                    for text, is_wrong in zip(texts, wrong, strict=True)
                ]
            )
        else:
            try:
                values = np.asarray(pc.cast(array, pa.float64(), safe=False).to_numpy(zero_copy_only=False), float)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                self._note("not a number", np.ones(len(array), bool), first_row)
                return
            self._note("missing", np.isnan(values) & ~np.asarray(array.is_null()), first_row)
        self._note("infinite", np.isinf(values), first_row)
        finite = np.where(np.isfinite(values), values, column.middle)
        if column.whole:
            self._note("not a count", (finite != np.floor(finite)) | (finite < 0), first_row)
        outside = (finite < column.lower) | (finite > column.upper)
        self._note("outside the bounds", outside, first_row)
        self.outside.update(finite[outside].tolist()[:10_000])

    def _note(self, what: str, cells: Any, first_row: int) -> None:
        places = np.flatnonzero(cells)
        if len(places):
            count, first = self.seen.get(what, (0, first_row + int(places[0]) + 1))
            self.seen[what] = count + len(places), first

    def problems(self) -> Iterator[Problem]:
        """What is wrong or odd, in words."""
        for what, (count, first) in self.seen.items():
            yield Problem(self.column.name, what, count, first, *self._remedy(what, count))
        for code, count in self.outside.items():
            if code in CODES_OF_GAPS and count > 1:
                yield Problem(
                    self.column.name,
                    f"the value {code:g}, outside the bounds",
                    count,
                    None,
                    "is that how gaps are coded? It would be clipped to a bound: fill them in, or remove the rows",
                    refused=False,
                )

    def _remedy(self, what: str, count: int) -> tuple[str, bool]:
        """What to do about a problem, and whether a release would refuse it."""
        if what == "outside the bounds":
            share = count / self.rows
            unit = ": is the column in the agreed unit?" if share > MANY_OUTSIDE else ""
            return f"{share:.1%} of the values are clipped{unit}", False  # how much is too much, is for the release
        values = first_few([text for text, _ in self.strange.most_common(3)], 3)
        agreed = first_few(self.column.labels) if isinstance(self.column, CodedColumn) else ""
        remedies = {
            "missing": "fill them in, or remove the rows before releasing",
            "not an agreed label": f"the table has {values}; agreed are {agreed}: correct or recode them",
            "not a number": f"such as {values}: correct them" if values else "convert the column to numbers",
            "infinite": "replace them by numbers; what lies beyond the bounds is clipped",
            "not a count": "this kind of model needs whole numbers of 0 or more",
        }
        return remedies[what], True


def _spelt(value: object) -> str:
    """A label as text, whole numbers without a point, so that 1, 1.0 and "1" are one."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(int(value)) if isinstance(value, bool) else str(value)
