"""Draws of a posterior in the units of the table, as people read and plot them."""

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise._util.files import replaced_file
from equipoise.agreement import Agreement

Floats = NDArray[np.float64]


def own_units(agreement: Agreement, draws: Mapping[str, Floats]) -> dict[str, Floats]:
    """Parameters by name, each an array [draws], in the columns' own units.

    `weight[age]` is the change of the target, or of the log-odds of the positive label, when age grows by 1. Parameters
    of the features' distribution, which only inference needs, are left out.
    """
    return agreement.model.own_units(draws)


def write_csv(path: Path, own: Mapping[str, Floats], chains: int) -> None:
    """Write draws of all chains together, one line for each, in place of what is there."""
    length = len(next(iter(own.values()))) // chains
    with replaced_file(path, mode=0o600) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["chain", "draw", *own])
        for place, values in enumerate(zip(*(column.tolist() for column in own.values()), strict=True)):
            writer.writerow([*divmod(place, length), *values])
