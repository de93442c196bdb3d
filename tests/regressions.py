"""Regressions of all kinds of columns, and rows for them from a generator that shares no code with the model."""

import numpy as np
from numpy.typing import NDArray

from equipoise.agreement import Agreement
from equipoise.inference.regression.model import RegressionModel
from equipoise.models.regression import Regression

Floats = NDArray[np.float64]

COLUMNS = """
  { name = "age", bounds = [-1, 1], typical = [-0.98, 0.98] },
  { name = "region", kind = "category", levels = ["a", "b", "c"] },
  { name = "bmi", bounds = [-1, 1], typical = [-0.98, 0.98], missing = "indicator" },
"""


def agree(kind: str, columns: str = COLUMNS, more: str = "") -> Agreement:
    """Write an agreement of two parties."""
    target = "bounds = [-1, 1]" if kind == "linear" else 'labels = ["no", "yes"]'
    return Agreement.parse(f"""
format = 2
[model]
kind = "{kind}"
features = [{columns}]
target = {{ name = "y", {target} }}
{more}
[privacy]
order = 2
max_epsilon = 4.0
[[parties]]
name = "north"
[[parties]]
name = "south"
""")


def model_of(agreed: Agreement) -> RegressionModel:
    """Prepare the agreed regression."""
    assert isinstance(agreed.model, Regression)
    return RegressionModel.of(agreed.model)


def draw_rows(number: int, rng: np.random.Generator) -> Floats:
    """Draw terms of `COLUMNS`, correlated with each other, and a constant."""
    common = rng.normal(size=number)
    age, tilt, bmi = (0.6 * common + 0.8 * rng.normal(size=number) for _ in range(3))
    is_missing = rng.uniform(size=number) < 0.2
    return np.column_stack(
        [
            np.clip(age / 2, -1, 1),
            (tilt > 0.2) & (tilt <= 0.9),
            tilt > 0.9,
            np.where(is_missing, 0.0, np.clip(bmi / 2, -1, 1)),
            is_missing,
            np.ones(number),
        ]
    ).astype(float)


def draw_targets(kind: str, rows: Floats, weights: Floats, deviation: float, rng: np.random.Generator) -> Floats:
    """Draw a target for every row."""
    eta = rows @ weights
    if kind == "linear":
        return np.asarray(eta + deviation * rng.normal(size=len(rows)))
    return np.where(rng.uniform(size=len(rows)) < 1 / (1 + np.exp(-eta)), 1.0, -1.0)


def sums_of(model: RegressionModel, rows: Floats, target: Floats) -> Floats:
    """Add up all entries of the statistic, in the model's order."""
    whole = np.column_stack([rows, target])
    i, j = model.moments.pairs.T
    return np.asarray((whole[:, i] * whole[:, j]).sum(axis=0))
