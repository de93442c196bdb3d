"""Predictions from a posterior: averages over draws, and intervals that cover noise and parameter uncertainty.

Arithmetic is in scaled units, so that columns far from zero lose no digits; inputs and outputs are in the columns' own
units. All functions of the draws are deterministic, but for `simulated`, which takes a seed.

Rows come with features by name (a data frame, an Arrow table, a dictionary of columns) or, without names, in the agreed
order. A number outside its agreed reach is moved to the nearer end of it, as in releases.
"""

import difflib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.text import first_few
from equipoise.agreement import Agreement
from equipoise.errors import MediationError, TableError
from equipoise.inference.posterior import Posterior
from equipoise.models import CodedColumn, GridColumn, ScaledColumn
from equipoise.models.cells import cells_of, number_values
from equipoise.models.columns import LabelColumn

if TYPE_CHECKING:
    from sklearn.utils import Tags

_STREAM = 0xE90


def sklearn_tags(agreement: Agreement) -> "Tags":
    """Return the tags that scikit-learn's tools ask of an estimator."""
    from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

    kind = agreement.model.estimator_type
    return Tags(
        estimator_type=kind,
        target_tags=TargetTags(required=False),
        classifier_tags=ClassifierTags(multi_class=False) if kind == "classifier" else None,
        regressor_tags=RegressorTags() if kind == "regressor" else None,
    )


def expected_target(agreement: Agreement, posterior: Posterior, rows: Any) -> Floats:
    """Return the predictive mean of the target in its own units [rows]."""
    return agreement.model.expected_target(posterior.draws, feature_matrix(agreement, rows))


def target_interval(agreement: Agreement, posterior: Posterior, rows: Any, share: float) -> Floats:
    """Return the central predictive interval of the target [rows, 2]: parameter uncertainty and residual noise."""
    tails = _tails(share)
    return agreement.model.target_interval(posterior.draws, feature_matrix(agreement, rows), tails)


def class_probabilities(agreement: Agreement, posterior: Posterior, rows: Any) -> Floats:
    """Return the probability of each label [rows, 2], averaged over draws, in the order of `Model.class_labels`."""
    positive = np.concatenate([part.mean(axis=1) for part in _positive_probabilities(agreement, posterior, rows)])
    both = np.column_stack([1 - positive, positive])
    target = agreement.model.target
    assert isinstance(target, LabelColumn)
    return both if agreement.model.class_labels()[1] == target.labels[1] else both[:, ::-1]


def probability_interval(agreement: Agreement, posterior: Posterior, rows: Any, share: float) -> Floats:
    """Return the central credible interval of the probability of the positive label [rows, 2]."""
    tails = _tails(share)
    intervals = [np.quantile(part, tails, axis=1).T for part in _positive_probabilities(agreement, posterior, rows)]
    return np.concatenate(intervals)


def simulated(agreement: Agreement, posterior: Posterior, rows: Any, size: int | None, seed: int) -> NDArray[Any]:
    """Simulate one observation for each draw and row [draws, rows]; without features, `size` for each draw."""
    rng = np.random.default_rng([_STREAM, seed])
    model, table = agreement.model, None
    if len(model.columns) > 1:
        if rows is None or size is not None:
            raise MediationError(f"a {model.noun} predicts from features: give rows, and no size")
        table = feature_matrix(agreement, rows)
    elif rows is not None:
        raise MediationError(f"a {model.noun} has no features to predict from; leave the rows out, or give a size")
    if size is not None and size < 1:
        raise MediationError(f"size = {size} is no number of observations; give 1 or more")
    return model.simulate(posterior.draws, table, size or 1, rng)


def _positive_probabilities(agreement: Agreement, posterior: Posterior, rows: Any) -> Iterator[Floats]:
    model = agreement.model
    if model.estimator_type == "regressor":
        raise MediationError(f"a {model.noun} predicts numbers, not probabilities; use predict(X, return_interval=0.9)")
    return model.positive_probabilities(posterior.draws, feature_matrix(agreement, rows))


def _tails(share: float) -> list[float]:
    if not 0 < share < 1:
        raise MediationError(f"return_interval = {share!r} is not a probability between 0 and 1; give 0.9 for 90 %")
    return [(1 - float(share)) / 2, (1 + float(share)) / 2]


def feature_matrix(agreement: Agreement, rows: Any) -> Floats:
    """Return features [rows, columns] in the agreed order: numbers, or positions among the agreed values.

    If the agreement takes them, NaN stands for a missing value and −1 for one that is not listed.
    """
    model = agreement.model
    if len(model.columns) == 1:
        raise MediationError(
            f"a {model.noun} has no features to predict from; simulate new observations with "
            "sample_predictions(), or look at the parameters with to_csv() or to_inferencedata()"
        )
    columns = _grid_columns(agreement)
    names = list(columns)
    named = _columns_of(rows)
    matrix = _array(rows, columns) if named is None else _by_name(*named, columns)
    for name, values in zip(names, matrix.T, strict=True):
        _refuse_not_finite(name, values, takes_missing=columns[name].takes_missing)
    return matrix


def _grid_columns(agreement: Agreement) -> dict[str, GridColumn]:
    """Return for each feature the first grid column that codes it."""
    features = {column.name for column in agreement.columns[:-1]}
    columns: dict[str, GridColumn] = {}
    for column in agreement.model.layout.columns:
        if column.name in features:
            columns.setdefault(column.name, column)
    return columns


def _columns_of(rows: Any) -> tuple[list[str], Callable[[int], Any]] | None:
    """Return the names of the columns and a function from index to column; None if there are no names."""
    if isinstance(rows, Mapping):
        keys = list(rows)
        return [str(key) for key in keys], lambda index: rows[keys[index]]
    if hasattr(rows, "column_names") and hasattr(rows, "column"):  # Arrow
        return list(rows.column_names), rows.column
    if hasattr(rows, "columns") and hasattr(rows, "__getitem__"):  # pandas, polars
        labels = list(rows.columns)
        return [str(label) for label in labels], lambda index: rows[labels[index]]
    return None


def _by_name(there: list[str], column: Callable[[int], Any], columns: dict[str, GridColumn]) -> Floats:
    names = list(columns)
    for name in names:
        if there.count(name) > 1:
            raise TableError(f"the column {name!r} appears {there.count(name)} times; keep one")
        if name not in there:
            others = {other.strip().casefold(): other for other in there if other not in names}
            close = difflib.get_close_matches(name.casefold(), others, n=1, cutoff=0.5)
            hint = f"; did you mean {others[close[0]]!r}?" if close else "."
            raise TableError(
                f"the feature {name!r} is not in the table{hint} The table's columns are "
                f"{first_few(there, 12) or 'none'}; rename the column to match the agreement"
            )
    features = [_cells(columns[name], column(there.index(name))) for name in names]
    lengths = {len(values) for values in features}
    if len(lengths) > 1 or lengths == {0}:
        counts = ", ".join(f"{name} {len(values)}" for name, values in zip(names, features, strict=True))
        raise TableError(f"the columns must have equally many rows, and at least one; they have: {counts}")
    return np.column_stack(features)


def _cells(column: GridColumn, cells: Any) -> Floats:
    """Return a feature's cells as they are coded; Arrow reads them, as it knows how each library marks missing ones."""
    name = column.name
    try:
        if not isinstance(cells, pa.Array | pa.ChunkedArray):
            if isinstance(cells, list | tuple | np.ndarray):
                cells = pa.array(cells, from_pandas=True)
            else:
                cells = pa.chunked_array(cells) if hasattr(cells, "__arrow_c_stream__") else pa.array(cells)
        if isinstance(cells, pa.ChunkedArray):
            cells = cells.combine_chunks()
        if _is_coded(column):
            return cells_of(column, cells, 0)
        if pa.types.is_null(cells.type):
            return np.full(len(cells), np.nan)
        return number_values(name, cells)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TableError(f"cannot read the feature {name!r} as one column: {error}") from error


def _is_coded(column: GridColumn) -> bool:
    """Return True if the cells are labels or dates rather than numbers."""
    return isinstance(column, CodedColumn) or (isinstance(column, ScaledColumn) and column.since is not None)


def _array(rows: Any, columns: dict[str, GridColumn]) -> Floats:
    names, coded = list(columns), [column for column in columns.values() if _is_coded(column)]
    try:
        matrix = np.asarray(rows, object if coded else float)
    except (TypeError, ValueError) as error:
        raise TableError(f"rows to predict must be numbers, as many in each row: {error}") from error
    if matrix.ndim != 2 or matrix.shape[1] != len(names) or not len(matrix):
        raise TableError(
            f"the rows to predict have the shape {matrix.shape}; give one row or more of {len(names)} features, in "
            f"this order: {', '.join(names)}"
        )
    if not coded:
        return np.asarray(matrix, float)
    features = [_cells(column, cells.tolist()) for column, cells in zip(columns.values(), matrix.T, strict=True)]
    return np.column_stack(features)


def _refuse_not_finite(name: str, values: Floats, *, takes_missing: bool) -> None:
    bad = np.flatnonzero(np.isinf(values) if takes_missing else ~np.isfinite(values))
    if len(bad):
        what = "missing" if np.isnan(values[bad[0]]) else "infinite"
        raise TableError(
            f"feature {name!r}, row {bad[0] + 1}: the value is {what}; fill in a number, or leave the row out"
        )
