"""A posterior in a few numbers that people can read: quantiles of its parameters in the columns' own units."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from equipoise.agreement import Agreement
from equipoise.reward.units import own_units

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)

Summary = dict[str, list[float]]  # parameter to its quantiles at `LEVELS`


def summarise(agreement: Agreement, draws: Mapping[str, NDArray[np.float64]]) -> Summary:
    """Quantiles of every parameter, under its name in `own_units`."""
    return {
        name: [float(value) for value in np.quantile(values, LEVELS)]
        for name, values in own_units(agreement, draws).items()
    }
