"""Writer of reward files: the netCDF that ArviZ would write, without ArviZ, which takes seconds to load.

`tests/reward` compares the two outputs.
"""

import io
from collections.abc import Mapping

import h5netcdf
import numpy as np

from equipoise._util.arrays import Floats
from equipoise.reward.reading import DIAGNOSTICS, SUMS


def serialize(attributes: Mapping[str, str | int | float], groups: Mapping[str, Mapping[str, Floats]]) -> bytes:
    """Serialize arrays by group and name; each axis gets its indices as coordinate variable.

    Arrays are [chains, draws, …], but for those of diagnostics and of the others' sums. HDF5 writes into memory here,
    because it ends the whole process if the disk is full.
    """
    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        file.attrs.update(attributes)
        for name, variables in groups.items():
            _write_group(file.create_group(name), variables, () if name in (DIAGNOSTICS, SUMS) else ("chain", "draw"))
    return buffer.getvalue()


def _write_group(group: h5netcdf.Group, variables: Mapping[str, Floats], first: tuple[str, ...]) -> None:
    for name, values in variables.items():
        axes = first + tuple(f"{name}_dim_{axis}" for axis in range(values.ndim - len(first)))
        for axis, size in zip(axes, values.shape, strict=True):
            if axis not in group.dimensions:
                group.dimensions[axis] = size
                group.create_variable(axis, (axis,), data=np.arange(size), compression="gzip")
        group.create_variable(name, axes, data=values, fillvalue=np.nan, compression="gzip" if axes else None)
