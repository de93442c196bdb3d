"""Summary of a posterior for people to read: quantiles of its parameters in the columns' own units."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from equipoise._util.display import Chart, Interval, Table
from equipoise.agreement import Agreement
from equipoise.models.regression import Regression

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
# Names of weights begin with this.
WEIGHT = "weight["

# From each parameter to its quantiles at `LEVELS`.
Summary = dict[str, list[float]]


def summarise(agreement: Agreement, draws: Mapping[str, NDArray[np.float64]]) -> Summary:
    """Return the quantiles of every parameter, by its name in `Model.own_units`."""
    return {
        name: [float(value) for value in np.quantile(values, LEVELS)]
        for name, values in agreement.model.own_units(draws).items()
    }


def coefficient_rows(agreement: Agreement, summary: Summary) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return headers and rows of a table of parameters: medians and 90 % intervals in own units, and odds ratios.

    An odds ratio is the factor by which the odds of the positive label grow when a feature grows by 1 of its unit. Only
    the weights of a logistic regression have one.
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
    """Return parameters in the columns' own units as a table with a chart, for notebooks and terminals.

    If the model has weights, the chart shows the effect of each: over half the width of its column's bounds, so that
    columns of different units can be compared, or of a level against the reference. Otherwise it has all parameters.
    """
    summary = summarise(agreement, draws)
    widths = {
        f"{WEIGHT}{term.name}]": term.scale
        for term in (agreement.model.coding.terms if isinstance(agreement.model, Regression) else ())
    }
    lines = [
        (name, [Interval("5 % to 95 %", *(widths.get(name, 1.0) * quantiles[level] for level in (0, 2, 4)))])
        for name, quantiles in summary.items()
        if not widths or name in widths
    ]
    unit = "effect of half the width of a column's bounds" if widths else "own units"
    return Table(title, *coefficient_rows(agreement, summary), Chart(unit, lines))
