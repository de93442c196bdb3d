"""A party's own rows as they are: read whole, checked, in the units that models take; nothing is clipped.

Which rows there are is as in a release: where the agreement makes one row of all that an individual has, or takes the
first few, so does this. The model is about those rows, and several of one individual are no independent ones.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.text import counted
from equipoise.agreement import Agreement
from equipoise.errors import MediationError, TableError
from equipoise.models import layout_of
from equipoise.models.base import Rows
from equipoise.models.cells import decoded, number_values
from equipoise.models.columns import CategoryColumn, LabelColumn, NumberColumn
from equipoise.party.csv_stream import CsvFile
from equipoise.party.individuals import RowsOfIndividuals
from equipoise.party.statistics import first_columns, wanted_columns
from equipoise.party.stream import Batch, Wanted, reading
from equipoise.party.table import open_table
from equipoise.reward.scoring import scaled_rows

FARTHEST = 1_000.0  # in half the width of a column's bounds; what is beyond is a mistake


def wanted_features(agreement: Agreement) -> list[Wanted]:
    """The columns a model predicts from."""
    return list(wanted_columns(agreement.model.layout)[:-1])


def wanted_target(agreement: Agreement) -> Wanted:
    """The column it predicts."""
    target = agreement.model.target
    return Wanted(target.name, target.values if isinstance(target, LabelColumn | CategoryColumn) else None)


def read_columns(source: Any, wanted: Sequence[Wanted]) -> dict[str, Any]:
    """The wanted columns of a table that has one row or more."""
    with open_table(source, wanted) as table:
        parts = [[*batch.data.T] if isinstance(batch.data, np.ndarray) else batch.data for batch in table]
    if not sum(len(part[0]) for part in parts):
        raise _without_rows(source)
    with reading(_named(source)):
        return {want.name: pa.chunked_array([part[place] for part in parts]) for place, want in enumerate(wanted)}


def outside_bounds(agreement: Agreement, columns: dict[str, Any]) -> dict[str, int]:
    """In how many rows a column lies outside its agreed bounds, of those where that happens."""
    counts = {}
    for column in _numbers(agreement, columns):
        values, (lower, upper) = _values(columns[column.name]), column.bounds
        counts[column.name] = int(np.count_nonzero((values < lower) | (values > upper)))
    return {name: rows for name, rows in counts.items() if rows}


class OwnRows(NamedTuple):
    """Rows, how many were left out because their target is missing, and columns beyond their bounds in how many.

    `owners` numbers the individuals whose rows they are, where somebody may have several; `read` is how many rows of
    the table they were made or taken from, where these are more.
    """

    rows: Rows
    without_target: int
    outside: dict[str, int]
    owners: NDArray[np.int64] | None = None
    read: int | None = None

    def __len__(self) -> int:
        return len(self.rows.target)

    @property
    def remarks(self) -> list[str]:
        """What a party should know of its table, in sentences."""
        told = []
        if self.read is not None:
            told.append(
                f"The table's {counted(self.read, 'row')} count as {counted(len(self) + self.without_target, 'row')}: "
                "several of one individual are made one or left out as in a release, as agreed."
            )
        if self.without_target:
            left_out = counted(self.without_target, "row")
            told.append(f"{left_out} of the table say nothing, since the target is missing there, and were left out.")
        if self.outside:
            named = ", ".join(f"{name} in {counted(rows, 'row')}" for name, rows in self.outside.items())
            told.append(
                f"Outside the agreed bounds: {named}. At home such rows count as they are, unless a transform is "
                "agreed; releases had them at the bounds. Correct those that are mistakes."
            )
        return told


def own_rows(agreement: Agreement, table: Any) -> OwnRows:
    """Read a table under an agreement; a row whose target is missing is left out."""
    whose = RowsOfIndividuals.of(layout_of(agreement), table)
    if whose is not None and whose.agreed.aggregate is not None:
        return _rows_made_one(agreement, table, whose)
    features, target = wanted_features(agreement), wanted_target(agreement)
    columns = read_columns(table, [*features, target, *([] if whose is None else [whose.wanted])])
    owners, read = None, None
    if whose is not None:
        names = columns.pop(whose.agreed.column).combine_chunks()
        keep = whose.kept(Batch(0, [names, names])).keep
        owners = np.asarray(decoded(names).dictionary_encode().indices, np.int64)
        if keep is not None:
            columns = {name: values.filter(pa.array(keep)) for name, values in columns.items()}
            owners, read = owners[keep], len(keep)
    known = [place for place, answer in enumerate(columns[target.name].to_pylist()) if not is_missing(answer)]
    if not known:
        raise _without_targets(target.name, table)
    left_out = len(columns[target.name]) - len(known)
    columns = {name: values.take(known) for name, values in columns.items()}
    named = {want.name: columns[want.name] for want in features}
    with _fitting(table):
        rows = scaled_rows(agreement, named or None, columns[target.name].to_pylist())
    _refuse_absurd(agreement, columns)
    outside = outside_bounds(agreement, columns)
    return OwnRows(rows, left_out, outside, None if owners is None else owners[known], read)


def _rows_made_one(agreement: Agreement, table: Any, whose: RowsOfIndividuals) -> OwnRows:
    """One row of each individual, as a release has it; who has no target is left out."""
    model = agreement.model
    with open_table(table, (*wanted_columns(model.layout), whose.wanted)) as opened:
        found, first_rows = whose.cells_of_all(opened, first_columns(model.layout))
    cells = dict(zip((column.name for column in first_columns(model.layout)), found, strict=True))
    if not len(first_rows):
        raise _without_rows(table)
    known = ~np.isnan(cells[model.target.name])
    if not known.any():
        raise _without_targets(model.target.name, table)
    cells = {name: values[known] for name, values in cells.items()}
    answers: Any = cells[model.target.name]
    if isinstance(model.target, LabelColumn | CategoryColumn):
        answers = [model.target.values[place] for place in answers.astype(int)]
    features = None
    with _fitting(table):
        if len(model.columns) > 1:
            features = model.scaled_features(np.column_stack([cells[column.name] for column in model.columns[:-1]]))
        rows = Rows(features, *model.check_targets(np.asarray(answers)), model)
    columns = {name: pa.chunked_array([values]) for name, values in cells.items()}
    _refuse_absurd(agreement, columns)
    read = sum(rows * individuals for rows, individuals in whose.numbers.items())
    merged = None if read == len(known) else read
    return OwnRows(rows, int(np.count_nonzero(~known)), outside_bounds(agreement, columns), None, merged)


@contextmanager
def _fitting(table: Any) -> Iterator[None]:
    try:
        yield
    except MediationError as error:
        raise TableError(f"{_named(table)} does not fit the agreement: {error}") from error


def _without_targets(target: str, table: Any) -> TableError:
    return TableError(f"the column {target!r} of {_named(table)} is empty; own rows need targets")


def _without_rows(table: Any) -> TableError:
    return TableError(f"{_named(table)} has no rows, only names of columns; give one row or more")


def _refuse_absurd(agreement: Agreement, columns: dict[str, Any]) -> None:
    """Refuse numbers so far beyond their bounds that they are mistakes, and would outweigh all other rows."""
    for column in _numbers(agreement, columns):
        if not getattr(column, "transform", None):
            values, (lower, upper) = _values(columns[column.name]), column.bounds
            distance = np.nan_to_num(np.abs(2 * values - lower - upper) / (upper - lower))
            place = int(np.argmax(distance))
            if distance[place] > FARTHEST:
                raise TableError(
                    f"column {column.name!r}, row {place + 1} of those with a target: {values[place]:g} is "
                    f"{distance[place]:,.0f} times as far from the middle of the agreed bounds as they are; correct "
                    "it, or leave the row out"
                )


def _values(column: Any) -> Floats:
    """Float64, whatever numbers a table has, such as decimals."""
    return number_values("", column.combine_chunks())


def _numbers(agreement: Agreement, columns: dict[str, Any]) -> list[NumberColumn]:
    """Columns that are numbers with bounds, and no dates."""
    return [
        column
        for column in agreement.columns
        if column.name in columns and isinstance(column, NumberColumn) and not getattr(column, "since", None)
    ]


def is_missing(answer: Any) -> bool:
    """Whether a cell is empty."""
    return answer is None or (isinstance(answer, float) and math.isnan(answer))


def _named(table: Any) -> str:
    return repr(str(table)) if isinstance(table, str | Path | CsvFile) else "the table"
