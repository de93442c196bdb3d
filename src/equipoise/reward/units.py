"""Draws of a posterior in the units of the table, as people read and plot them.

The engine works in scaled units, z = (value − middle) / half width, where every column's public bounds are ±1. Linear
regression, z_y = Σ w_j z_j + b, is in the columns' own units

    y = intercept + Σ weight_j x_j,   weight_j = w_j h_y / h_j,   intercept = m_y + h_y (b − Σ w_j m_j / h_j)

with middles m and half widths h; logistic regression is the same with m_y = 0 and h_y = 1, because log-odds have no
unit. Rates and probabilities are in their own units already.
"""

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise._util.files import replaced_file
from equipoise.agreement import Agreement
from equipoise.models import Layout, ScaledColumn, layout_of
from equipoise.models.schema import BernoulliModel, CategoricalModel, GaussianModel, LinearModel, LogisticModel

Floats = NDArray[np.float64]


def own_units(agreement: Agreement, draws: Mapping[str, Floats]) -> dict[str, Floats]:
    """Parameters by name, each an array [draws], in the columns' own units.

    `weight[age]` is the change of the target, or of the log-odds of the positive label, when age grows by 1. Parameters
    of the features' distribution, which only inference needs, are left out.
    """
    model, layout = agreement.model, layout_of(agreement)
    if isinstance(model, LinearModel):
        target = _scaled(layout.columns[-1])
        weights, intercept = _regression(layout, draws["weights"], target.half_width)
        deviation = target.half_width * np.sqrt(draws["variance"])
        return {**weights, "intercept": target.middle + intercept, "residual_sd": deviation}
    if isinstance(model, LogisticModel):
        weights, intercept = _regression(layout, draws["weights"], 1.0)
        return {**weights, "intercept": intercept}
    if isinstance(model, BernoulliModel):
        return {"probability": draws["probability"]}
    if isinstance(model, CategoricalModel):
        columns = zip(model.target.categories, draws["probabilities"].T, strict=True)
        return {f"probability[{category}]": values for category, values in columns}
    if isinstance(model, GaussianModel):
        target = _scaled(layout.columns[0])
        return {
            "mean": target.middle + target.half_width * draws["mean"],
            "sd": target.half_width * np.sqrt(draws["variance"]),
        }
    return {"rate": draws["rate"]}


def write_csv(path: Path, own: Mapping[str, Floats], chains: int) -> None:
    """Write draws of all chains together, one line for each, in place of what is there."""
    length = len(next(iter(own.values()))) // chains
    with replaced_file(path, mode=0o600) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["chain", "draw", *own])
        for place, values in enumerate(zip(*(column.tolist() for column in own.values()), strict=True)):
            writer.writerow([*divmod(place, length), *values])


def _regression(layout: Layout, weights: Floats, target_width: float) -> tuple[dict[str, Floats], Floats]:
    """Weights by name, and what they leave for the intercept besides the target's middle."""
    features = [_scaled(column) for column in layout.columns[:-1]]
    intercept = target_width * weights[:, -1]
    named = {}
    for column, scaled in zip(features, weights.T, strict=False):
        slope = scaled * (target_width / column.half_width)
        named[f"weight[{column.name}]"] = slope
        intercept = intercept - slope * column.middle
    return named, intercept


def _scaled(column: object) -> ScaledColumn:
    assert isinstance(column, ScaledColumn)
    return column
