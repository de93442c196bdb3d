"""Whose rows they are: counted while a table is read, so that nobody has more than agreed.

Identifiers are compared as they are written, and never leave the machine: not in a submission, not in the ledger, not
in a message.
"""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from equipoise._util.text import counted
from equipoise.errors import TableError
from equipoise.models import Individuals, Layout
from equipoise.models.cells import decoded
from equipoise.party.stream import ANY_TEXT, Batch, Wanted


class RowsOfIndividuals:
    """How many rows everybody had so far."""

    def __init__(self, agreed: Individuals) -> None:
        self.agreed = agreed
        self._rows: Counter[Any] = Counter()

    def kept(self, batch: Batch) -> Batch:
        """A batch whose last column says whose rows they are, without it; rows that are too many do not count."""
        *data, owners = batch.data
        too_many = self.too_many(owners, batch.first_row)
        if not too_many.any():
            return Batch(batch.first_row, data)
        if not self.agreed.drop:
            self._refuse(batch.first_row + int(np.flatnonzero(too_many)[0]))
        return Batch(batch.first_row, data, ~too_many)

    def too_many(self, owners: "pa.Array[Any]", first_row: int) -> NDArray[np.bool_]:
        """Which rows are of somebody who has had as many as agreed already."""
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
        encoded = owners.dictionary_encode()
        names: list[Any] = encoded.dictionary.to_pylist()
        places = np.asarray(encoded.indices)
        order = np.argsort(places, kind="stable")
        rows = np.bincount(places, minlength=len(names))
        rank = np.empty(len(places), np.int64)  # of a row among those of the same owner in this batch
        rank[order] = np.arange(len(places)) - np.repeat(np.cumsum(rows) - rows, rows)
        before = np.array([self._rows[name] for name in names])
        self._rows.update(dict(zip(names, rows.tolist(), strict=True)))
        return np.asarray(rank + before[places] >= self.agreed.rows)

    @classmethod
    def of(cls, layout: Layout, source: Any) -> "RowsOfIndividuals | None":
        """As agreed, if individuals are protected; a source without names for its columns cannot say whose rows are."""
        if layout.individuals is None:
            return None
        if isinstance(source, tuple) or (isinstance(source, np.ndarray) and source.dtype.names is None):
            raise TableError(
                f"the agreement protects individuals, whom the column {layout.individuals.column!r} names; give a "
                "table whose columns have names, not an array"
            )
        return cls(layout.individuals)

    @property
    def wanted(self) -> Wanted:
        """The column to read."""
        return Wanted(self.agreed.column, ANY_TEXT)

    @property
    def remedy(self) -> str:
        """What to do about rows that are too many."""
        most = self.agreed.rows
        return (
            f"keep {most} of each, or agree on rows_per_individual, which costs as many times the noise, or on "
            'excess = "drop", which takes the first'
        )

    def _refuse(self, row: int) -> None:
        most = self.agreed.rows
        raise TableError(
            f"row {row + 1}: {self.agreed.column!r} is that of {counted(most, 'earlier row')}, and nobody may have "
            f"more than {most}; {self.remedy}"
        )
