"""The two public tables, read from a folder or fetched by scikit-learn."""

import os
from pathlib import Path

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.errors import ExperimentError

VARIABLE = "EQUIPOISE_DATA"
HOUSING, DIABETES = "california_housing.csv", "pima_indians_diabetes.csv"
SHAPES = {HOUSING: (20_640, 9), DIABETES: (768, 9)}  # the last column is the target


def load(name: str, folder: Path | None = None) -> Floats:
    """Load a table [rows, columns], its target last, from `folder`, else from `EQUIPOISE_DATA`, else fetch it."""
    chosen = folder or (Path(os.environ[VARIABLE]) if os.environ.get(VARIABLE) else None)
    table = _fetch(name) if chosen is None else _read(chosen / name)
    if table.shape != SHAPES[name]:
        raise ExperimentError(
            f"{name} should have {SHAPES[name][0]:,} rows of {SHAPES[name][1]} numbers, and this one has the shape "
            f"{table.shape}; get the original"
        )
    if not np.all(np.isfinite(table)):
        row, column = np.argwhere(~np.isfinite(table))[0].tolist()
        raise ExperimentError(f"{name} has no number in row {row + 1}, column {column + 1}; get the original")
    return table


def _read(path: Path) -> Floats:
    try:
        return np.asarray(np.genfromtxt(path, delimiter=",", skip_header=1), float)
    except (OSError, ValueError) as error:
        raise ExperimentError(
            f"cannot read {str(path)!r}: {error}; put {HOUSING} and {DIABETES} into one folder and name it with --data "
            f"or {VARIABLE}"
        ) from error


def _fetch(name: str) -> Floats:
    """Fetch a table through scikit-learn, which keeps a copy on disk."""
    from sklearn.datasets import fetch_california_housing, fetch_openml

    try:
        if name == HOUSING:
            data = fetch_california_housing()
            return np.column_stack([data.data, data.target])
        data = fetch_openml("diabetes", version=1, as_frame=False, parser="liac-arff")
        return np.column_stack([np.asarray(data.data, float), data.target == "tested_positive"])
    # URLError and HTTPError are OSErrors; those of OpenML are ValueErrors.
    except (OSError, ValueError) as error:
        raise ExperimentError(
            f"{name} cannot be fetched ({error}); offline, put it into a folder and name that with --data or {VARIABLE}"
        ) from error
