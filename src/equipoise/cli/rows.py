"""Rows that a user predicts or tests with: columns of the agreement, read from a file of the user's own."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from equipoise.agreement import Agreement
from equipoise.errors import TableError
from equipoise.models.schema import CategoryColumn, LabelColumn
from equipoise.party.stream import Wanted
from equipoise.party.table import open_table


def wanted_features(agreement: Agreement) -> list[Wanted]:
    """The columns a model predicts from."""
    return [Wanted(column.name, None) for column in agreement.columns[:-1]]


def wanted_target(agreement: Agreement) -> Wanted:
    """The column it predicts."""
    target = agreement.model.target
    return Wanted(target.name, target.values if isinstance(target, LabelColumn | CategoryColumn) else None)


def header_of(path: Path, wanted: Sequence[Wanted]) -> tuple[str, ...]:
    """All columns of a file that has the wanted ones."""
    with open_table(path, wanted) as table:
        return table.all_columns


def read_columns(path: Path, wanted: Sequence[Wanted]) -> dict[str, Any]:
    """The wanted columns of a file that has one row or more."""
    with open_table(path, wanted) as table:
        parts = [batch.data for batch in table]
    if not sum(len(part[0]) for part in parts):
        raise TableError(f"{str(path)!r} has no rows, only names of columns; give one row or more")
    return {want.name: pa.chunked_array([part[place] for part in parts]) for place, want in enumerate(wanted)}


def test_rows(path: Path, agreement: Agreement) -> tuple[Any, list[Any]]:
    """Features [rows, columns], None for a model that has none, and targets, for `mediate(test=…)`."""
    import numpy as np

    features, target = wanted_features(agreement), wanted_target(agreement)
    columns = read_columns(path, [*features, target])
    answers = columns.pop(target.name).to_pylist()
    if None in answers:
        raise TableError(
            f"column {target.name!r}, row {answers.index(None) + 1} of {str(path)!r}: the value is missing; leave the "
            "row out, test rows need a target"
        )
    if not features:
        return None, answers
    return np.column_stack([columns[want.name].to_numpy() for want in features]), answers
