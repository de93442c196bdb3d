"""A party's own rows: read completely, checked, and in the units that models take.

Rows are prepared as in a release, because one cell of 999 would otherwise outweigh a thousand rows. Features beyond the
agreed reach are moved to it. Targets of a regression are moved to their bounds or, without bounds, to three times their
reach. Gaps are coded as agreed. A table is refused if much of it would be moved. If the agreement merges the rows of an
individual, or takes the first few, so does this module, because several rows of one individual are not independent.
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
from equipoise.models import ScaledColumn, layout_of
from equipoise.models.base import Model, Rows
from equipoise.models.cells import decoded, number_values
from equipoise.models.columns import CategoryColumn, LabelColumn, NumberColumn, RegressionColumn
from equipoise.party.csv_stream import CsvFile
from equipoise.party.individuals import ContributionBounding
from equipoise.party.statistics import CLIPPED_IS_MANY, first_columns, wanted_columns
from equipoise.party.stream import Batch, ColumnSpec, reading
from equipoise.party.table import open_table
from equipoise.reward.prediction import feature_matrix


def wanted_features(agreement: Agreement) -> list[ColumnSpec]:
    """Return the columns that a model predicts from."""
    return list(wanted_columns(agreement.model.layout)[:-1])


def wanted_target(agreement: Agreement) -> ColumnSpec:
    """Return the column that a model predicts."""
    target = agreement.model.target
    return ColumnSpec(target.name, target.values if isinstance(target, LabelColumn | CategoryColumn) else None)


def read_columns(source: Any, wanted: Sequence[ColumnSpec]) -> dict[str, Any]:
    """Read the wanted columns of a table; refuse a table without rows."""
    with open_table(source, wanted) as table:
        parts = [[*batch.data.T] if isinstance(batch.data, np.ndarray) else batch.data for batch in table]
    if not sum(len(part[0]) for part in parts):
        raise _without_rows(source)
    with reading(_named(source)):
        return {want.name: pa.chunked_array([part[index] for part in parts]) for index, want in enumerate(wanted)}


def outside_bounds(agreement: Agreement, columns: dict[str, Any]) -> dict[str, int]:
    """Count the rows in which a column lies outside its agreed bounds, by column; omit columns without such rows."""
    counts = {}
    for column in _numbers(agreement, columns):
        if column.valid_range is None:
            continue
        values, (lower, upper) = _values(columns[column.name]), column.valid_range
        counts[column.name] = int(np.count_nonzero((values < lower) | (values > upper)))
    return {name: rows for name, rows in counts.items() if rows}


# Without agreed bounds, targets are moved to this many half-widths of their reach from its middle.
FARTHEST_TARGET = 3.0


class Moved(NamedTuple):
    """Cells of one column that were moved to an end of its range: their number, and the one moved farthest."""

    rows: int
    farthest: float
    bound: float

    def __str__(self) -> str:
        return f"{counted(self.rows, 'row')} (the farthest from {self.farthest:g} to {self.bound:g})"


class OwnRows(NamedTuple):
    """Rows, the number left out because their target is missing, and cells that were moved to bounds, by column.

    If individuals may have several rows, `owners` has the number of each row's individual. `read` is the number of rows
    of the table, if the rows were merged or selected from more.
    """

    rows: Rows
    without_target: int
    moved: dict[str, Moved]
    owners: NDArray[np.int64] | None = None
    read: int | None = None

    def __len__(self) -> int:
        return len(self.rows.target)

    @property
    def remarks(self) -> list[str]:
        """Remarks on the table that a party should read, as sentences."""
        told = []
        if self.read is not None:
            told.append(
                f"The table's {counted(self.read, 'row')} count as {counted(len(self) + self.without_target, 'row')}: "
                "several of one individual are made one or left out as in a release, as agreed."
            )
        if self.without_target:
            left_out = counted(self.without_target, "row")
            told.append(f"{left_out} of the table say nothing, since the target is missing there, and were left out.")
        if self.moved:
            named = ", ".join(f"{name} in {moved}" for name, moved in self.moved.items())
            told.append(
                f"Moved to the ends of the agreed range, as in a release: {named}. Correct those that are "
                "mistakes, or that stand for a gap."
            )
        return told


def own_rows(agreement: Agreement, table: Any, *, allow_clipping: bool = False) -> OwnRows:
    """Read a table under an agreement; leave out rows whose target is missing."""
    whose = ContributionBounding.of(layout_of(agreement), table)
    if whose is not None and whose.agreed.aggregate is not None:
        return _rows_made_one(agreement, table, whose, allow_clipping=allow_clipping)
    features, target = wanted_features(agreement), wanted_target(agreement)
    columns, left_out = columns_with_target(agreement, table)
    owners, read = None, None
    if whose is not None:
        names = columns.pop(whose.agreed.column).combine_chunks()
        keep = whose.kept(Batch(0, [names, names])).keep
        owners = np.asarray(decoded(names).dictionary_encode().indices, np.int64)
        if keep is not None:
            columns = {name: values.filter(pa.array(keep)) for name, values in columns.items()}
            owners, read = owners[keep], left_out + len(keep)
    cells: dict[str, Any] = {}
    with _fitting(table):
        if features:
            matrix = feature_matrix(agreement, {want.name: columns[want.name] for want in features})
            cells |= {want.name: matrix[:, index] for index, want in enumerate(features)}
        answers = columns[target.name]
        is_number = isinstance(agreement.model.target, NumberColumn)
        cells[target.name] = _values(answers) if is_number else np.asarray(answers.to_pylist())
        rows, moved = _prepared(agreement, cells, table, allow_clipping=allow_clipping)
    return OwnRows(rows, left_out, moved, owners, read)


def columns_with_target(agreement: Agreement, table: Any) -> tuple[dict[str, Any], int]:
    """Read the columns that a release needs, without the rows whose target is missing, and count these."""
    individuals = layout_of(agreement).individuals
    whose = [] if individuals is None else [ContributionBounding(individuals).wanted]
    target = wanted_target(agreement)
    columns = read_columns(table, [*wanted_features(agreement), target, *whose])
    known = [index for index, answer in enumerate(columns[target.name].to_pylist()) if not is_missing(answer)]
    if not known:
        raise _without_targets(target.name, table)
    left_out = len(columns[target.name]) - len(known)
    return ({name: values.take(known) for name, values in columns.items()} if left_out else columns), left_out


def _rows_made_one(agreement: Agreement, table: Any, whose: ContributionBounding, *, allow_clipping: bool) -> OwnRows:
    """Merge the rows of each individual into one, as a release does; leave out individuals without a target."""
    model = agreement.model
    with open_table(table, (*wanted_columns(model.layout), whose.wanted)) as opened:
        merged_cells, first_rows = whose.cells_of_all(opened, first_columns(model.layout))
    cells: dict[str, Any] = dict(
        zip((column.name for column in first_columns(model.layout)), merged_cells, strict=True)
    )
    if not len(first_rows):
        raise _without_rows(table)
    known = ~np.isnan(cells[model.target.name])
    if not known.any():
        raise _without_targets(model.target.name, table)
    cells = {name: values[known] for name, values in cells.items()}
    if isinstance(model.target, LabelColumn | CategoryColumn):
        labels = [model.target.values[position] for position in cells[model.target.name].astype(int)]
        cells[model.target.name] = np.asarray(labels)
    with _fitting(table):
        rows, moved = _prepared(agreement, cells, table, allow_clipping=allow_clipping)
    read = sum(rows * individuals for rows, individuals in whose.numbers.items())
    merged = None if read == len(known) else read
    return OwnRows(rows, int(np.count_nonzero(~known)), moved, None, merged)


def _prepared(
    agreement: Agreement, cells: dict[str, Any], table: Any, *, allow_clipping: bool
) -> tuple[Rows, dict[str, Moved]]:
    """Move cells to the agreed bounds and scale them; return the rows and the moved cells.

    Cells are numbers, positions of levels, or the target's labels, by column.
    """
    model, moved = agreement.model, {}
    # Refuse targets that no release would take.
    model.check_targets(cells[model.target.name])
    for column in first_columns(model.layout):
        if not isinstance(column, ScaledColumn):
            continue
        values = cells[column.name]
        if np.isinf(values).any():
            raise TableError(f"column {column.name!r} of {_named(table)} has an infinite value; replace it by a number")
        within = np.clip(values, *_home_range(model, column))
        distance = np.nan_to_num(np.abs(values - within))
        if distance.any():
            farthest = int(np.argmax(distance))
            number_moved = int(np.count_nonzero(distance))
            moved[column.name] = Moved(number_moved, float(values[farthest]), float(within[farthest]))
        cells[column.name] = within
    number = len(cells[model.target.name])
    much = {name: cell.rows / number for name, cell in moved.items() if cell.rows > CLIPPED_IS_MANY * number}
    if much and not allow_clipping:
        shares = ", ".join(f"{share:.0%} of {name!r}" for name, share in much.items())
        raise TableError(
            f"{shares} in {_named(table)} lie beyond the agreed range and would be moved to its ends; is the table in "
            "the agreed units? If it is, go on with --allow-clipping (allow_clipping=True)"
        )
    features = None
    if len(model.columns) > 1:
        features = model.scaled_features(np.column_stack([cells[column.name] for column in model.columns[:-1]]))
    return Rows(features, *model.check_targets(cells[model.target.name]), model), moved


def _home_range(model: Model, column: ScaledColumn) -> tuple[float, float]:
    """Return the range that values are moved to: for the target of a regression, the bounds or three times the reach.

    A regression uses moved features but targets as they are (`Regression.scaled_features`); the wide range for targets
    only catches mistakes.
    """
    lower, upper = column.lower, column.upper
    if column.name == model.target.name and isinstance(model.target, RegressionColumn):
        farthest = FARTHEST_TARGET * column.half_width
        least, most = model.target.valid_range or (column.middle - farthest, column.middle + farthest)
        below, above = model.target.moved_ends
        return least if below else lower, most if above else upper
    return lower, upper


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


def _values(column: Any) -> Floats:
    """Convert a column of any numbers, such as decimals, to float64."""
    return number_values("", column.combine_chunks())


def _numbers(agreement: Agreement, columns: dict[str, Any]) -> list[NumberColumn]:
    """Return the columns that are numbers, but no dates."""
    return [
        column
        for column in agreement.columns
        if column.name in columns and isinstance(column, NumberColumn) and not getattr(column, "since", None)
    ]


def is_missing(answer: Any) -> bool:
    """Return True if a cell is empty."""
    return answer is None or (isinstance(answer, float) and math.isnan(answer))


def _named(table: Any) -> str:
    return repr(str(table)) if isinstance(table, str | Path | CsvFile) else "the table"
