"""Conversion of Arrow columns to numbers and label indices, with errors that name the wrong cell."""

from datetime import date
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from equipoise._util.arrays import Floats
from equipoise._util.text import first_few
from equipoise.errors import TableError
from equipoise.models.layout import CodedColumn, GridColumn, ScaledColumn

MISSING_IN_AGREEMENT = 'for a feature, agree on missing = "indicator", or on missing = "value" with a fill'


def cells_of(column: GridColumn, array: "pa.Array[Any]", first_row: int) -> Floats:
    """Return cells as a grid column codes them: numbers or label indices, NaN for allowed gaps, −1 for other values."""
    name, array = column.name, decoded(array)
    # Values that are not finite are refused later, when they are summed.
    if isinstance(column, ScaledColumn) and column.plain:
        _refuse_missing(name, array, first_row)
        return number_values(name, array)
    gaps = gaps_of(array)
    if gaps.any() and not column.takes_missing:
        _raise_missing(name, first_row + int(np.flatnonzero(gaps)[0]))
    # An empty column may have any type.
    if gaps.all():
        return np.full(len(array), np.nan)
    if not isinstance(column, CodedColumn):
        since = column.since if isinstance(column, ScaledColumn) else None
        values = number_values(name, array) if since is None else _days(name, array, since, first_row)
        refuse_not_finite(name, np.where(gaps, 0.0, values), first_row)
        return values
    places = label_places(name, column.labels, array).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.float64)
    places[gaps] = np.nan
    if column.other is None and np.any(places < 0):
        _raise_other(name, column.labels, array, int(np.flatnonzero(places < 0)[0]), first_row)
    return np.asarray(places)


def _days(name: str, array: "pa.Array[Any]", since: str, first_row: int) -> Floats:
    values = days_since(name, array, since)
    bad = np.flatnonzero(np.isnan(values) & ~gaps_of(array))
    if len(bad):
        raise TableError(
            f"column {name!r}, row {first_row + int(bad[0]) + 1}: {array[int(bad[0])].as_py()!r} is no date; write "
            "dates as in 2020-01-31"
        )
    return values


def days_since(name: str, array: "pa.Array[Any]", since: str) -> Floats:
    """Return days from a date to those of a column, NaN where cells are missing or hold no date; refuse numbers."""
    kind = array.type
    if is_text(kind):
        texts = array.cast(pa.string()).to_pylist()
        array = pa.array([None if text is None else _date(text) for text in texts], pa.date32())
    elif not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        raise TableError(f"column {name!r} holds {kind} values where dates are agreed; convert it to dates first")
    days = pc.cast(pc.cast(array, pa.date32(), safe=False), pa.int32()).cast(pa.float64())
    first = (date.fromisoformat(since) - date(1970, 1, 1)).days
    return np.asarray(days.to_numpy(zero_copy_only=False), float) - first


def _date(text: str) -> date | None:
    """Parse the date that a text begins with, as in 2020-01-31 or 2020-01-31T08:30."""
    try:
        return date.fromisoformat(text.strip()[:10])
    except ValueError:
        return None


def gaps_of(array: "pa.Array[Any]") -> npt.NDArray[np.bool_]:
    """Return a mask of missing cells: null, or NaN in a column of numbers."""
    return np.asarray(array.is_null(nan_is_null=True))


def number_values(name: str, array: "pa.Array[Any]") -> npt.NDArray[np.float64]:
    """Return float64 values of a numeric column, NaN for missing cells; refuse a column of another type."""
    array = decoded(array)
    kind = array.type
    if is_text(kind):
        raise TableError(f"column {name!r} holds text where numbers are agreed; convert the column to numbers first")
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        raise TableError(f"column {name!r} holds {kind} values, not numbers; convert the column first")
    if not pa.types.is_float64(kind):
        array = pc.cast(array, pa.float64(), safe=False)
    return np.asarray(array.to_numpy(zero_copy_only=False), dtype=np.float64)


def not_a_label(name: str, labels: tuple[int | str, ...], row: int, value: object) -> str:
    """Return the message for a cell that holds none of the agreed labels."""
    # Numbers are read as floats, whatever the type in the table.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return (
        f"column {name!r}, row {row + 1}: {value!r} is not one of the agreed labels [{first_few(labels)}]; "
        "correct the cell, recode the column, or agree on the labels it has"
    )


def _raise_other(
    name: str, labels: tuple[int | str, ...], array: "pa.Array[Any]", offset: int, first_row: int
) -> NoReturn:
    value = decoded(array)[offset]
    shown = value.cast(pa.binary()).as_py().decode(errors="replace") if is_text(value.type) else value.as_py()
    raise TableError(not_a_label(name, labels, first_row + offset, shown))


def label_places(name: str, labels: tuple[int | str, ...], array: "pa.Array[Any]") -> "pa.Array[Any]":
    """Return each cell's index among the agreed labels, null for other values; refuse a column of another type."""
    text, array = isinstance(labels[0], str), decoded(array)
    if text != is_text(array.type):
        raise TableError(
            f"column {name!r} holds {array.type} values, but the agreed labels [{first_few(labels)}] are "
            f"{'text' if text else 'whole numbers'}; convert the column to match the agreement"
        )
    if text:
        values: pa.Array[Any] = pa.array(labels, pa.string())
        array = array.cast(pa.string())
    else:
        values = pa.array([float(label) for label in labels], pa.float64())
        array = pa.array(number_values(name, array))
    positions: pa.Array[Any] = pc.index_in(array, value_set=values, skip_nulls=True)
    return positions


def refuse_not_finite(name: str, values: npt.NDArray[np.float64], first_row: int) -> None:
    """Raise for the first NaN or infinite value, if there is one."""
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        value = float(values[bad[0]])
        if np.isnan(value):
            _raise_missing(name, first_row + int(bad[0]))
        raise TableError(
            f"column {name!r}, row {first_row + int(bad[0]) + 1}: the value is infinite; "
            "replace it with a number (values beyond the agreed bounds are clipped)"
        )


def refuse_fractions(name: str, values: npt.NDArray[np.float64], first_row: int, kind: str) -> None:
    """Raise for the first value that is not a whole number of 0 or more, which a model of that kind needs."""
    bad = np.flatnonzero((values != np.floor(values)) | (values < 0))
    if len(bad):
        raise TableError(
            f"column {name!r}, row {first_row + int(bad[0]) + 1}: {values[bad[0]]:g} is not a count; "
            f"a {kind} model needs whole numbers of 0 or more"
        )


def _refuse_missing(name: str, array: "pa.Array[Any]", first_row: int) -> None:
    if array.null_count:
        missing = array.is_null().to_numpy(zero_copy_only=False)
        _raise_missing(name, first_row + int(np.flatnonzero(missing)[0]))


def _raise_missing(name: str, row: int) -> None:
    raise TableError(
        f"column {name!r}, row {row + 1}: the value is missing; fill it in, or remove the row from your table "
        f"before releasing (the row count is public), or {MISSING_IN_AGREEMENT}"
    )


def decoded(array: Any) -> "pa.Array[Any]":
    """Decode a dictionary-encoded column (pandas and polars categories), or a column of views, to plain values."""
    plain: pa.Array[Any] = array
    if pa.types.is_dictionary(array.type):
        plain = decoded(array.dictionary).take(array.indices)
    elif pa.types.is_string_view(array.type):
        # Arrow cannot gather views yet.
        plain = array.cast(pa.string())
    return plain


def is_text(kind: pa.DataType) -> bool:
    """Return whether an Arrow type is text."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
