"""A regression with columns of every kind, and rows for it from a generator that knows nothing of the package."""

from typing import Any, Literal

import numpy as np
import pandas as pd

import equipoise as eq
from equipoise.models import CodedColumn, ScaledColumn

FEATURES = """
  { name = "age", bounds = [0, 100] },
  { name = "smoker", kind = "binary", labels = ["no", "yes"] },
  { name = "creatinine", bounds = [0.1, 20], transform = "log", missing = "indicator" },
  { name = "region", kind = "category", levels = ["north", "south", "west"], other = true },
  { name = "pain", kind = "ordinal", levels = ["none", "some", "much"], scores = [0, 1, 3] },
"""
TARGETS = {
    "linear": '{ name = "outcome", bounds = [-8, 8] }',
    "logistic": '{ name = "outcome", labels = ["no", "yes"] }',
}


def agreement(
    kind: Literal["linear", "logistic"], features: str = FEATURES, parties: int = 3, scope: str = "shared"
) -> eq.Agreement:
    """An agreement of so many parties, p0 and on."""
    members = "".join(f'[[parties]]\nname = "p{place}"\n' for place in range(parties))
    return eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "{kind}"\nfeatures = [{features}]\ntarget = {TARGETS[kind]}\n'
        f'[model.data_prior]\nscope = "{scope}"\n[privacy]\nmax_epsilon = 64.0\n{members}'
    )


_codes = CodedColumn.coded


def levels_that_add_up(column: CodedColumn, cells: Any) -> Any:
    """A broken `CodedColumn.coded`: a level's term is 1 from that level on, so that a row has several 1s of a block."""
    if 1.0 not in column.codes or -1.0 in column.codes:
        return _codes(column, cells)
    return np.where(cells >= column.codes.index(1.0), 1.0, 0.0)


def number_beside_its_indicator(column: ScaledColumn, cells: Any) -> Any:
    """A broken `ScaledColumn.coded`: where the indicator is 1, the number is not at its middle."""
    return (np.where(np.isnan(cells), column.upper, cells) - column.middle) / column.half_width


def rows(kind: str, number: int, rng: np.random.Generator) -> tuple[pd.DataFrame, dict[str, float]]:
    """So many rows, and the effects they were made with, by the names of `Model.own_units`."""
    smoker = rng.uniform(size=number) < 0.3
    age = np.clip(rng.normal(52 + 6 * smoker, 15), 0, 100)
    creatinine = np.exp(rng.normal(0.2, 0.5, size=number))
    gap = rng.uniform(size=number) < 0.15
    region = rng.choice(["north", "south", "west", "abroad"], size=number, p=[0.5, 0.3, 0.15, 0.05])
    pain = rng.choice(["none", "some", "much"], size=number, p=[0.5, 0.3, 0.2])
    middle = np.log(0.1 * 20) / 2  # of what is counted where creatinine is missing
    truth = {
        "weight[age]": 0.02,
        "weight[smoker=yes]": 1.6,
        "weight[log(creatinine)]": 0.7,
        "weight[creatinine missing]": -0.5,
        "weight[region=south]": 0.6,
        "weight[region=west]": -0.8,
        "weight[region=(other)]": 0.4,
        "weight[pain]": 0.3,
    }
    predictor = (
        -2.0
        + 0.02 * age
        + 1.6 * smoker
        + np.where(gap, 0.7 * middle - 0.5, 0.7 * np.log(creatinine))
        + pd.Series(region).map({"north": 0.0, "south": 0.6, "west": -0.8, "abroad": 0.4}).to_numpy()
        + 0.3 * pd.Series(pain).map({"none": 0, "some": 1, "much": 3}).to_numpy()
    )
    outcome: Any = predictor + rng.normal(size=number)
    if kind == "logistic":
        outcome = np.where(rng.uniform(size=number) < 1 / (1 + np.exp(-predictor)), "yes", "no")
    columns = {
        "age": age,
        "smoker": np.where(smoker, "yes", "no"),
        "creatinine": np.where(gap, np.nan, creatinine),
        "region": region,
        "pain": pain,
        "outcome": outcome,
    }
    return pd.DataFrame(columns), truth
