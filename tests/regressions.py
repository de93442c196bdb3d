"""Regressions of all kinds of columns, and rows for them from a generator that shares no code with the model."""

from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.agreement import Agreement
from equipoise.inference.regression.model import RegressionModel
from equipoise.models.regression import Regression
from equipoise.party.release import release
from equipoise.protocol.submission import Submission
from rounds import seeded

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


def release_tables(
    agreed: Agreement, kind: str, weights: Floats, folder: Path, epsilons: tuple[float, float] = (4.0, 1.0)
) -> list[Submission]:
    """Release rows of two parties."""
    found = []
    folder.mkdir(exist_ok=True)
    for seed, (party, epsilon) in enumerate(zip(agreed.party_names, epsilons, strict=True)):
        rng = np.random.default_rng(seed)
        rows = draw_rows(400 + 400 * seed, rng)
        y = draw_targets(kind, rows, weights, 0.25, rng)
        frame = pd.DataFrame({"age": rows[:, 0], "bmi": np.where(rows[:, 4] > 0, np.nan, rows[:, 3])})
        frame["region"] = np.select([rows[:, 1] > 0, rows[:, 2] > 0], ["b", "c"], "a")
        frame["y"] = np.clip(y, -1, 1) if kind == "linear" else np.where(y > 0, "yes", "no")
        if "region" not in [one.name for one in agreed.columns]:
            frame["bmi"] = frame["bmi"].fillna(0.0)
        ledger = folder / f"{party}.ledger"
        with mock.patch("equipoise.party.release.perturb", seeded(seed)):  # the same noise in every run
            found.append(release(agreed, frame, party=party, epsilon=epsilon, ledger=ledger))
    return found
