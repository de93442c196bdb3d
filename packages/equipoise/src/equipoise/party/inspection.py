"""All problems of a table at once, for the party's eyes: refusals of a release, and oddities.

A release refuses at the first wrong cell. Here the table is read to its end, a batch at a time, and every problem of
every agreed column is counted. None of it leaves the machine.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.display import Table
from equipoise._util.text import counted, first_few
from equipoise.errors import TableError
from equipoise.models import CodedColumn, GridColumn, Layout, ScaledColumn
from equipoise.models.cells import (
    MISSING_IN_AGREEMENT,
    days_since,
    decoded,
    gaps_of,
    is_text,
    label_places,
    number_values,
)
from equipoise.party.csv_stream import CsvFile, is_number
from equipoise.party.individuals import ContributionBounding
from equipoise.party.statistics import CLIPPED_IS_MANY, first_columns, wanted_columns
from equipoise.party.stream import ANY_TEXT, ColumnSpec, check_header
from equipoise.party.table import is_delimited, is_rereadable, open_table

OUTSIDE = "beyond the agreed range"
Role = Literal["feature", "target", "all"]
CODES_OF_GAPS = (-1.0, -9.0, -99.0, -999.0, 9.0, 99.0, 999.0, 9999.0)


@dataclass(frozen=True)
class Problem:
    """A kind of problem in a column: in how many rows, the first of them (from 1), and the remedy.

    `refused` says that a release would not take the table.
    """

    column: str
    problem: str
    count: int
    first_row: int | None
    remedy: str
    refused: bool = True


def odd_problems(layout: Layout, source: Any) -> tuple[Problem, ...]:
    """Return oddities of a table, besides clipping; refuse a table with errors, listing all of them."""
    problems = problems_of(layout, source)
    wrong = [problem for problem in problems if problem.refused]
    if wrong:
        rows = [
            (problem.column, problem.problem, problem.count or "", problem.first_row or "", problem.remedy)
            for problem in wrong
        ]
        table = Table("", ("column", "problem", "rows", "first row", "what to do"), rows, numeric_from=9)
        raise TableError(
            f"the table cannot be released as it is; nothing was spent. {counted(len(wrong), 'problem')}:{table}"
        )
    return tuple(problem for problem in problems if problem.problem != OUTSIDE)


def problems_of(layout: Layout, source: Any) -> list[Problem]:
    """Return every problem of a table that is rereadable and names its columns; the release checks others."""
    if not is_rereadable(source):
        return []
    wanted = wanted_columns(layout)
    with open_table(source, ()) as table:
        names = list(table.all_columns)
    if len(names) == 1:
        # Its message covers files with another delimiter.
        check_header(names, wanted)
    problems, present = [], []
    owners = ContributionBounding.of(layout, source)
    for want in (*wanted, *([] if owners is None else [owners.wanted])):
        try:
            check_header(names, (want,))
        except TableError as error:
            what = "there more than once" if want.name in names else "not in the table"
            problems.append(Problem(want.name, what, 0, None, str(error)))
        else:
            present.append(want)
    columns = {column.name: column for column in first_columns(layout)}
    as_text = is_delimited(source)
    decimal = source.decimal if isinstance(source, CsvFile) else "."
    if owners is not None and present and present[-1] == owners.wanted:
        problems += _of_individuals(owners, source)
        present.pop()
    asked = tuple(ColumnSpec(want.name, _labels_of(want)) if as_text else want for want in present)
    merged = None
    if owners is not None and owners.agreed.aggregate is not None and not any(problem.refused for problem in problems):
        merged = ContributionBounding(owners.agreed)
    looked = [
        _ColumnInspector(columns[want.name], decimal, as_text=as_text, merged=merged, role=_role(want, wanted))
        for want in present
    ]
    if asked:
        with open_table(source, asked if merged is None else (*asked, merged.wanted)) as table:
            for batch in table:
                whose = None if merged is None else merged.places_of(batch.data[-1], batch.first_row)
                for look, cells in zip(looked, batch.data, strict=merged is None):
                    look.at(cells, batch.first_row, whose)
    return [*problems, *(problem for look in looked for problem in look.problems())]


def _of_individuals(owners: ContributionBounding, source: Any) -> Iterator[Problem]:
    """Yield problems of owners: more rows than agreed, and names that may be spellings of the same individual."""
    count, first = 0, None
    try:
        with open_table(source, (owners.wanted,)) as table:
            for batch in table:
                places = np.flatnonzero(owners.too_many(batch.data[0], batch.first_row))
                if len(places) and first is None:
                    first = batch.first_row + int(places[0]) + 1
                count += len(places)
    except TableError as error:
        yield Problem(owners.agreed.column, "not known whose rows", 0, None, str(error))
    if alike := owners.much_alike:
        remedy = "they count as different individuals; if they are not, nobody is protected as agreed: write all alike"
        yield Problem(owners.agreed.column, "alike but for spaces and capitals", alike, None, remedy, refused=False)
    if owners.agreed.aggregate is not None:
        return
    if count and owners.agreed.drop:
        yield Problem(owners.agreed.column, "more rows than agreed", count, first, "dropped, as agreed", refused=False)
    elif count:
        yield Problem(owners.agreed.column, "more rows than agreed", count, first, owners.remedy)


def _role(want: ColumnSpec, wanted: tuple[ColumnSpec, ...]) -> Role:
    """Return the role of a column in the model; the target comes last, and may be the only column."""
    if len(wanted) == 1:
        return "all"
    return "target" if want == wanted[-1] else "feature"


def _labels_of(want: ColumnSpec) -> tuple[int | str, ...]:
    """Return the labels that make a text file's column be read as text, its own among them: "NA" may be one."""
    return (*ANY_TEXT, *map(str, want.labels or ()))


class _Gaps:
    """Missing cells of a column by individual, if rows of an individual are combined."""

    def __init__(self) -> None:
        self._missing, self._rows = np.zeros(0, np.int64), np.zeros(0, np.int64)

    def add(self, whose: NDArray[np.int64], missing: NDArray[np.bool_], individuals: int) -> None:
        """Count the cells of a batch, whose rows belong to these individuals."""
        self._missing = _counted_on(self._missing, whose[missing], individuals)
        self._rows = _counted_on(self._rows, whose, individuals)

    @property
    def filled(self) -> int:
        """The number of missing cells whose individual has the value in another row."""
        return int(self._missing[self._missing < self._rows].sum())

    @property
    def individuals_without(self) -> int:
        """The number of individuals who have the value in no row."""
        return int(np.count_nonzero(self._missing == self._rows))


def _counted_on(counts: NDArray[np.int64], places: NDArray[np.int64], number: int) -> NDArray[np.int64]:
    """Add how often each of `number` indices occurs to the counts; new indices begin at 0."""
    total = np.bincount(places, minlength=number)
    total[: len(counts)] += counts
    return total


class _ColumnInspector:
    """The inspection of a column; with `merged`, rows of an individual are combined."""

    def __init__(
        self, column: GridColumn, decimal: str, *, as_text: bool, merged: ContributionBounding | None, role: Role
    ) -> None:
        self.column, self.decimal, self.as_text, self.rows = column, decimal, as_text, 0
        self.merged, self.role, self.gaps = merged, role, _Gaps()
        self.present, self.values = 0, set[Any]()  # number of cells that are present, and two distinct values of them
        self.seen: dict[str, tuple[int, int]] = {}  # kind of problem to count and first row
        self.codes: Counter[float] = Counter()  # values outside the range that may be codes of gaps
        self.strange: Counter[str] = Counter()
        self.other_type = ""

    def at(self, array: "pa.Array[Any]", first_row: int, whose: NDArray[np.int64] | None) -> None:
        """Inspect the cells of a batch; `whose` holds the individuals' indices if their rows are combined."""
        column, name = self.column, self.column.name
        self.rows += len(array)
        array = decoded(array)
        missing = gaps_of(array)
        wrong = np.zeros(len(array), bool)
        try:
            if isinstance(column, ScaledColumn) and column.since is not None and not missing.all():
                array, wrong = self._from_dates(array, column.since, first_row)
            elif self.as_text and not (isinstance(column, CodedColumn) and isinstance(column.labels[0], str)):
                array, wrong = self._from_text(array, first_row)
            missing |= gaps_of(array) & ~wrong
            # An empty column may have any type.
            if missing.all():
                pass
            elif isinstance(column, ScaledColumn):
                values = number_values(name, array)
                self._numbers(values, column, first_row)
            elif isinstance(column, CodedColumn):
                others = np.asarray(label_places(name, column.labels, array).is_null()) & ~missing & ~wrong
                self._note("not an agreed label", others, first_row)
                self.strange.update(map(str, array.filter(pa.array(others)).to_pylist()))
        except TableError as error:
            # The error is about the whole column.
            self.other_type = str(error)
            self._note("of another type", np.ones(len(array), bool), first_row)
        else:
            self._note_values(array.filter(pa.array(~missing & ~wrong)))
        if self.merged is not None and whose is not None:
            self.gaps.add(whose, missing, self.merged.number)
        self._note("missing", missing, first_row)

    def _note_values(self, cells: "pa.Array[Any]") -> None:
        """Count the cells that are present, and keep two different ones of them."""
        self.present += len(cells)
        if len(self.values) < 2:
            # Text is compared as bytes, because it may be invalid UTF-8.
            cells = cells.cast(pa.large_binary()) if is_text(cells.type) else cells
            self.values.update(cells.unique()[:2].to_pylist())

    def _from_dates(
        self, array: "pa.Array[Any]", since: str, first_row: int
    ) -> "tuple[pa.Array[Any], NDArray[np.bool_]]":
        """Return the days since a date, NaN for other content, and a mask of that other content."""
        days = days_since(self.column.name, array, since)
        wrong = np.isnan(days) & ~gaps_of(array)
        self._note("not a date", wrong, first_row)
        self.strange.update(map(str, array.filter(pa.array(wrong)).to_pylist()))
        return pa.array(days), wrong

    def _from_text(self, array: "pa.Array[Any]", first_row: int) -> "tuple[pa.Array[Any], NDArray[np.bool_]]":
        """Return the numbers in a text column, NaN for other content, and a mask of that other content."""
        texts = array.to_pylist()
        wrong = np.array([text is not None and not is_number(text, self.decimal) for text in texts], bool)
        self._note("not a number", wrong, first_row)
        self.strange.update(str(text) for text, is_wrong in zip(texts, wrong, strict=True) if is_wrong)
        values = np.array(
            [
                math.nan if text is None or is_wrong else float(text.replace(self.decimal, "."))
                for text, is_wrong in zip(texts, wrong, strict=True)
            ]
        )
        return pa.array(values), wrong

    def _numbers(self, values: Floats, column: ScaledColumn, first_row: int) -> None:
        self._note("infinite", np.isinf(values), first_row)
        finite = np.where(np.isfinite(values), values, column.lower)
        if column.whole:
            counted = np.where(np.isfinite(values), values, 0.0)
            self._note("not a count", (counted != np.floor(counted)) | (counted < 0), first_row)
        outside = (finite < column.lower) | (finite > column.upper)
        self._note(OUTSIDE, outside, first_row)
        for code in CODES_OF_GAPS:
            self.codes[code] += int(np.count_nonzero(finite[outside] == code))

    def _note(self, what: str, cells: Any, first_row: int) -> None:
        places = np.flatnonzero(cells)
        if len(places):
            count, first = self.seen.get(what, (0, first_row + int(places[0]) + 1))
            self.seen[what] = count + len(places), first

    def problems(self) -> Iterator[Problem]:
        """Yield every problem, in words."""
        for what, (count, first) in self.seen.items():
            if what == "missing" and self.merged is not None:
                yield from self._merged_gaps(count, first)
            else:
                yield Problem(self.column.name, what, count, first, *self._remedy(what, count))
        if len(self.values) == 1 and self.present > 1 and self.role != "all":
            remedy = (
                "nothing can be learnt of what the target depends on; correct the column"
                if self.role == "target"
                else "nothing can be learnt of what depends on it; correct the column, or agree to leave it out"
            )
            yield Problem(self.column.name, "the same value", self.present, None, remedy, refused=False)
        for code, count in self.codes.items():
            if count > 1:
                yield Problem(
                    self.column.name,
                    f"the value {code:g}, {OUTSIDE}",
                    count,
                    None,
                    "is that how gaps are coded? It would be moved to an end of the range: fill them in, or leave "
                    "the rows out",
                    refused=False,
                )

    def _merged_gaps(self, count: int, first: int) -> Iterator[Problem]:
        """Yield gaps filled from an individual's other rows apart from those of individuals without any value."""
        name, filled, without = self.column.name, self.gaps.filled, self.gaps.individuals_without
        if filled:
            remedy = "taken from the individual's other rows, as agreed; how many there are stays here"
            yield Problem(name, "missing", filled, first, remedy, refused=False)
        if without:
            told = f"missing in all rows of {counted(without, 'individual')}"
            yield Problem(name, told, count - filled, None, *self._remedy("missing", count - filled))

    def _remedy(self, what: str, count: int) -> tuple[str, bool]:
        """Return the remedy of a problem, and whether a release would refuse the table."""
        if what == OUTSIDE:
            share = count / self.rows
            unit = ": is the column in the agreed unit?" if share > CLIPPED_IS_MANY else ""
            # How much is too much, the release decides.
            return f"{share:.1%} of the values are moved to its ends{unit}", False
        values = first_few([text for text, _ in self.strange.most_common(3)], 3)
        agreed = first_few(self.column.labels) if isinstance(self.column, CodedColumn) else ""
        gaps = "the column is empty: fill it in" if count == self.rows else "fill them in"
        agreeing = f"; or {MISSING_IN_AGREEMENT}" if self.role == "feature" else ""
        remedies = {
            "missing": f"{gaps}, or remove the rows{agreeing}",
            "not an agreed label": f"the table has {values}; agreed are {agreed}: correct or recode them",
            "not a number": f"such as {values}: correct them",
            "not a date": f"such as {values}: write them as in 2020-01-31",
            "of another type": self.other_type,
            "infinite": "replace them by numbers; what lies beyond the agreed range is moved to its ends",
            "not a count": "this kind of model needs whole numbers of 0 or more",
        }
        if what == "missing" and self.column.takes_missing:
            empty = ", and nothing can be learnt of the column, which is empty" if count == self.rows else ""
            return f"coded as agreed{empty}; how many there are stays here", False
        if what == "not an agreed label" and isinstance(self.column, CodedColumn) and self.column.other is not None:
            return f"the table has {values}; they count as the level for other values, as agreed", False
        return remedies[what], True
