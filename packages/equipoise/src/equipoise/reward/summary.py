"""A posterior in a few numbers that people can read: quantiles of its parameters in the columns' own units."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from equipoise._util.display import Chart, Interval, Table
from equipoise.agreement import Agreement
from equipoise.models.regression import Regression

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
WEIGHT = "weight["  # begins the names of weights

Summary = dict[str, list[float]]  # parameter to its quantiles at `LEVELS`


def summarise(agreement: Agreement, draws: Mapping[str, NDArray[np.float64]]) -> Summary:
    """Quantiles of every parameter, under its name in `Model.own_units`."""
    return {
        name: [float(value) for value in np.quantile(values, LEVELS)]
        for name, values in agreement.model.own_units(draws).items()
    }


def coefficient_rows(agreement: Agreement, summary: Summary) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Headers and rows of a table of parameters: median and 90 % interval in own units, and odds ratios of weights.

    An odds ratio is by how much the odds of the positive label are multiplied when a feature grows by 1 of its unit.
    """
    is_odds = agreement.model.odds_ratios
    rows = []
    for name, (low, _, middle, _, high) in summary.items():
        cells = [name, f"{middle:.3g}", f"{low:.3g} to {high:.3g}"]
        if is_odds:
            ratio = f"{np.exp(middle):.3g} ({np.exp(low):.3g} to {np.exp(high):.3g})"
            cells.append(ratio if name.startswith(WEIGHT) else "")
        rows.append(tuple(cells))
    return ("parameter", "median", "5 % to 95 %", *(["odds ratio (5 % to 95 %)"] if is_odds else [])), rows


def displayed(agreement: Agreement, draws: Mapping[str, NDArray[np.float64]], title: str) -> Table:
    """Parameters in the columns' own units as a table that shows itself.

    The chart has weights if there are any, each for half the width of its column's bounds, so that columns of different
    units can be compared, and for a level against the reference; otherwise all parameters.
    """
    summary = summarise(agreement, draws)
    widths = {
        f"{WEIGHT}{term.name}]": term.scale
        for term in (agreement.model.coding.terms if isinstance(agreement.model, Regression) else ())
    }
    lines = [
        (name, [Interval("5 % to 95 %", *(widths.get(name, 1.0) * one[place] for place in (0, 2, 4)))])
        for name, one in summary.items()
        if not widths or name in widths
    ]
    unit = "effect of half the width of a column's bounds" if widths else "own units"
    return Table(title, *coefficient_rows(agreement, summary), Chart(unit, lines))
