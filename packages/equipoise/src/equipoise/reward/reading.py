"""Reading a reward file, whoever it is from.

A netCDF file is an HDF5 file, and one of those can name any file of its reader's as the place where its numbers are,
link to other files, or unpack from a few bytes to gigabytes. Hence everything is looked at before any number is read:
groups, links, storage, filters, types and sizes must be those that `Reward.save` writes, and numbers must be what the
agreed model can have drawn. All of it is read into memory first, so that nobody can change the file between the two.

Rewards of every version so far are such files and must open, and ArviZ reads them; another format would need this
reader all the same.
"""

import math
import re
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import h5py
import numpy as np
from h5py import h5d, h5l, h5t, h5z
from pydantic import BaseModel, ConfigDict, Field, RootModel

from equipoise._util.arrays import Floats
from equipoise._util.canonical import read_limited, strict_json
from equipoise.agreement import Agreement
from equipoise.models import layout_of
from equipoise.models.regression import Regression
from equipoise.models.section import Finite
from equipoise.protocol.submission import IMPOSSIBLE

POSTERIOR, UNCONSTRAINED, DIAGNOSTICS = "posterior", "unconstrained_posterior", "diagnostics"
OTHERS, SUMS = "others_evidence", "others_sums"
COORDINATES = "coordinates"
MOST_ROWS = 1e12
MAX_BYTES = 2**30  # of a file, and of its numbers unpacked
MAX_PACKED, ALWAYS_ALLOWED = 100, 64 * 2**20  # draws hardly get smaller when packed
MAX_OBJECTS = 200  # in a group
MAX_DIMENSIONS = 8
LARGEST_COORDINATE = 1e6  # of what is N(0, 1) under the prior
OTHER_DRAW = 1e-3  # of a parameter's spread and size, by which arithmetic never differs
MAX_TEXTS = 10_000  # in heaps, with those that are for netCDF
_HEAP, _OBJECT = rb"GCOL\x01\0\0\0", struct.Struct("<HHxxxxQ")  # as HDF5's specification has them
_PACKED_HEAP = rb"FRHP\0[\s\S]{2}(?!\0\0)"  # one with filters, which would unpack whatever it is to
REQUIRED = ("format", "party", "agreement", "value", "scenario", "sampling", "diagnostics")
RELEASE = "release"
OPTIONAL = ("deviations", "home", RELEASE)


class _Document(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class _Value(_Document):
    value: Finite
    error: Annotated[Finite, Field(ge=0)]


class _Scenario(_Document):
    coalition: list[str]
    kappa: Finite
    tau: dict[str, Finite]


class _Sampling(_Document):
    method: str
    rule: str
    seed: int
    noise_seed: int | str


class _Diagnostics(_Document):
    draws: Annotated[int, Field(ge=1)]
    dropped_chains: list[int]
    divergences: int
    acceptance: Finite
    thin: Annotated[int, Field(ge=1)]
    gradients: int


class _Home(_Document):
    rows: Annotated[int, Field(ge=1)]
    parts: Annotated[int, Field(ge=1)]
    misfit: _Value | None
    notice: str
    effective: Annotated[Finite, Field(ge=0)] | None = None
    heterogeneity: Annotated[list[Finite], Field(min_length=3, max_length=3)] | None = None
    own: dict[str, Annotated[list[Finite], Field(min_length=5, max_length=5)]] | None = None


class _Deviations(RootModel[list[str]]):
    model_config = ConfigDict(frozen=True, strict=True)


_DOCUMENTS: dict[str, type[_Document]] = {
    "value": _Value,
    "scenario": _Scenario,
    "sampling": _Sampling,
    DIAGNOSTICS: _Diagnostics,
    "home": _Home,
}


@dataclass(frozen=True)
class RewardFile:
    """What a reward file holds: texts, its version, and numbers by group and name."""

    texts: dict[str, str]
    version: int
    groups: dict[str, dict[str, Floats]]

    @classmethod
    def read(cls, path: Path) -> "RewardFile":
        """Read one, or raise whatever shows that it is none."""
        data = read_limited(path, max_bytes=MAX_BYTES)
        if len(data) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
        _refuse_endless_heaps(data)
        if re.search(_PACKED_HEAP, data):
            raise ValueError("its names and attributes are packed, which no reward's are")
        with h5py.File(h5py.h5f.open_file_image(data)) as file:
            if file.id.get_create_plist().get_sizes() != (8, 8):
                raise ValueError("it has other offsets than a reward")
            datasets = {name: dict(_datasets(group)) for name, group in _groups(file)}
            every = [one for group in datasets.values() for one in group.values()]
            _refuse_bombs(every, len(data))
            for one in every:
                _refuse_packed_bombs(one)
            return cls(
                {name: _text(file, name) for name in (*REQUIRED, *(one for one in OPTIONAL if one in file.attrs))},
                _whole_number(file, "version"),
                {
                    group: {name: one[...] for name, one in members.items() if _is_float(one)}
                    for group, members in datasets.items()
                },
            )

    def document(self, name: str) -> dict[str, Any]:
        """An attribute that is one JSON object, with its numbers as they were written."""
        found: dict[str, Any] = strict_json(self.texts[name].encode())
        _DOCUMENTS[name].model_validate(found)
        return found

    @property
    def deviations(self) -> list[str]:
        """Where the round was settled otherwise than agreed, in words."""
        return _Deviations.model_validate(strict_json(self.texts.get("deviations", "[]").encode())).root

    def check(self, agreement: Agreement, draws: int) -> None:
        """Refuse numbers that are no draws of the agreed model, so many in all."""
        by_chain = self.groups[POSTERIOR]
        coordinates = self.groups.get(UNCONSTRAINED, {})
        shapes = {name: values.shape for name, values in (*by_chain.items(), *coordinates.items())}
        for name, shape in shapes.items():
            if len(shape) < 2 or shape[:2] != next(iter(shapes.values()))[:2] or math.prod(shape[:2]) != draws:
                raise ValueError(f"{name!r} has the shape {shape}, which is not that of {draws} draws in chains")
        for name, values in (*by_chain.items(), *coordinates.items()):
            if not np.all(np.isfinite(values)):
                raise ValueError(f"{name!r} has values that are not finite numbers")
        for name, (shape, low, high) in agreement.model.parameters.items():
            values = by_chain[name]
            if values.shape[2:] != shape:
                raise ValueError(f"{name!r} has the shape {values.shape[2:]} where the model has {shape}")
            if values.min() < low or values.max() > high:
                raise ValueError(f"{name!r} has values that it cannot have, outside of [{low:g}, {high:g}]")
        if len({values.shape for values in self.groups[DIAGNOSTICS].values()}) != 1:
            raise ValueError("its diagnostics differ in number")
        self._check_coordinates(agreement)
        self._check_others(len(agreement.model.coordinate_names()))
        self._check_sums(agreement)

    def _check_coordinates(self, agreement: Agreement) -> None:
        """Refuse draws that are not those of the coordinates beside them: a reward is valued by the latter."""
        if UNCONSTRAINED not in self.groups:
            return
        coordinates = self.groups[UNCONSTRAINED][COORDINATES]
        dimension = len(agreement.model.coordinate_names())
        if coordinates.shape[2:] != (dimension,):
            raise ValueError(f"it has coordinates of the shape {coordinates.shape[2:]} where the model has {dimension}")
        for name, expected in agreement.model.at_coordinates(coordinates.reshape(-1, dimension)).items():
            drawn = self.groups[POSTERIOR][name].reshape(expected.shape)
            if np.any(np.abs(drawn - expected) > OTHER_DRAW * (np.std(expected, axis=0) + np.abs(expected))):
                raise ValueError(f"its draws of {name!r} are not those that its value was computed from")

    def _check_others(self, dimension: int) -> None:
        if OTHERS not in self.groups:
            return
        values = self.groups[OTHERS][COORDINATES]
        if values.ndim != 3 or values.shape[2] != dimension or 0 in values.shape:
            raise ValueError(f"the others' evidence has the shape {values.shape} where the model has {dimension}")
        if not np.all(np.abs(values) <= LARGEST_COORDINATE):
            raise ValueError("the others' evidence has values that no coordinate has")

    def _check_sums(self, agreement: Agreement) -> None:
        """Refuse sums of another statistic, where no mediator hands them over, and those that no rows have."""
        if SUMS not in self.groups:
            return
        if OTHERS in self.groups:
            raise ValueError("it has the others' evidence twice, as draws and as sums")
        if (
            not isinstance(agreement.model, Regression)
            or getattr(agreement.model.data_prior, "scope", "") == "per-party"
        ):
            raise ValueError("it has sums of the others' releases, which no reward of this kind of model has")
        if self.document("scenario")["kappa"] != 1:
            raise ValueError("it has sums of the others' releases, though it is tempered")
        layout, found = layout_of(agreement), self.groups[SUMS]
        shapes = [found[name].shape if name in found else None for name in ("rows", "statistic", "variance")]
        if len(found) != len(shapes) or shapes != [(1,), (len(layout),), (len(layout),)]:
            raise ValueError(f"the others' sums have the shapes {shapes} where the statistic has {len(layout)} entries")
        rows, statistic, variance = (found[name] for name in ("rows", "statistic", "variance"))
        if not (np.all((rows > 0) & (rows < MOST_ROWS)) and np.all((variance > 0) & (variance < MOST_ROWS**2))):
            raise ValueError("the others' sums are of no rows, or have noise that no releases have")
        number, noise = float(rows[0]), np.sqrt(variance).tolist()
        are_finite = bool(np.all(np.isfinite(statistic)))
        if not are_finite or max(layout.beyond_rows(statistic.tolist(), number, noise)) > IMPOSSIBLE:
            raise ValueError("the others' sums are larger than those of rows within the agreed range")
        if contradiction := layout.contradiction(statistic.tolist(), number, noise, IMPOSSIBLE):
            raise ValueError(f"the others' sums are those of no rows: {contradiction}")


def _refuse_endless_heaps(data: bytes) -> None:
    """Refuse a heap of texts with an object of no size, which HDF5 (up to 2.0 at least) goes round for ever."""
    steps = 0
    for found in re.finditer(_HEAP, data):
        place, end = found.end() + 8, found.start() + int.from_bytes(data[found.end() : found.end() + 8], "little")
        while place + _OBJECT.size <= min(end, len(data)):
            index, _, size = _OBJECT.unpack_from(data, place)
            step = _OBJECT.size + -(-size // 8) * 8 if index else size  # object 0 is what is left
            steps += 1
            if step < _OBJECT.size or steps > MAX_TEXTS:
                raise ValueError("its texts lie in it as no reward has them")
            place += step


def _groups(file: h5py.File) -> Iterator[tuple[str, h5py.Group]]:
    for name, group in _members(file):
        if name not in (POSTERIOR, UNCONSTRAINED, DIAGNOSTICS, OTHERS, SUMS) or not isinstance(group, h5py.Group):
            raise ValueError(f"it has {name!r}, which no reward has")
        yield name, group


def _datasets(group: h5py.Group) -> Iterator[tuple[str, h5py.Dataset]]:
    for name, dataset in _members(group):
        if not isinstance(dataset, h5py.Dataset):
            raise ValueError(f"{name!r} holds no numbers")
        _refuse_strange_storage(name, dataset)
        yield name, dataset


def _members(group: h5py.Group) -> Iterator[tuple[str, Any]]:
    """What is in a group itself, and not behind a link to elsewhere."""
    if len(group) > MAX_OBJECTS:
        raise ValueError(f"it has {len(group):,} objects in one group; a reward has {MAX_OBJECTS} at most")
    for name in group:
        if group.id.links.get_info(name.encode()).type != h5l.TYPE_HARD:
            raise ValueError(f"{name!r} is a link to somewhere else")
        yield name, group[name]


def _refuse_strange_storage(name: str, dataset: h5py.Dataset) -> None:
    """Refuse numbers that lie in other files or are packed otherwise than ours, and what are no numbers."""
    plan = dataset.id.get_create_plist()
    if plan.get_external_count() or plan.get_layout() not in (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED):
        raise ValueError(f"{name!r} has its numbers in other files, which a reward must not")
    filters = [plan.get_filter(place)[0] for place in range(plan.get_nfilters())]
    if filters not in ([], [h5z.FILTER_SHUFFLE], [h5z.FILTER_DEFLATE], [h5z.FILTER_SHUFFLE, h5z.FILTER_DEFLATE]):
        raise ValueError(f"{name!r} is packed in an unknown way")
    kind = dataset.id.get_type()
    if not _is_float(dataset) and not (kind.get_class() == h5t.INTEGER and kind.get_size() <= 8):  # counts a dimension
        raise ValueError(f"{name!r} has something else than 64-bit numbers")
    if dataset.shape is None or len(dataset.shape) > MAX_DIMENSIONS:
        raise ValueError(f"{name!r} has the shape {dataset.shape}")


def _is_float(dataset: h5py.Dataset) -> bool:
    return bool(dataset.id.get_type().equal(h5t.IEEE_F64LE))


def _refuse_bombs(datasets: list[h5py.Dataset], size: int) -> None:
    """Refuse what would unpack to more than a file of this size can honestly hold."""
    unpacked = sum(8 * max(math.prod(one.shape), math.prod(one.chunks or ())) for one in datasets)
    allowed = min(MAX_BYTES, max(ALWAYS_ALLOWED, MAX_PACKED * size))
    if unpacked > allowed:
        raise ValueError(f"its {size:,} bytes would unpack to {unpacked:,}; at most {allowed:,} are read")


def _refuse_packed_bombs(dataset: h5py.Dataset) -> None:
    """Refuse a chunk that unpacks to more than its size, which HDF5 would make room for, however much it is."""
    plan = dataset.id.get_create_plist()
    filters = [plan.get_filter(place)[0] for place in range(plan.get_nfilters())]
    if h5z.FILTER_DEFLATE not in filters:
        return
    as_it_is = 1 << filters.index(h5z.FILTER_DEFLATE)
    size = math.prod(dataset.chunks) * dataset.id.get_type().get_size()
    places: list[tuple[int, ...]] = []
    dataset.id.chunk_iter(lambda found: places.append(found.chunk_offset))
    for place in places:
        skipped, packed = dataset.id.read_direct_chunk(place)
        try:
            if not skipped & as_it_is and len(zlib.decompressobj().decompress(packed, size + 1)) > size:
                raise ValueError("it has a chunk that would unpack to more than its size")
        except zlib.error as error:
            raise ValueError(f"it has a chunk that cannot be unpacked: {error}") from error


def _text(file: h5py.File, name: str) -> str:
    found = file.attrs.get_id(name)
    if found.shape != () or h5py.check_string_dtype(found.dtype) is None:
        raise ValueError(f"its attribute {name!r} is no text")
    text = file.attrs[name]  # which is as long as its place in the file: attributes are not packed
    return text if isinstance(text, str) else bytes(text).decode()


def _whole_number(file: h5py.File, name: str) -> int:
    found = file.attrs.get_id(name)
    if math.prod(found.shape) != 1 or found.get_type().get_class() != h5t.INTEGER:
        raise ValueError(f"its attribute {name!r} is no whole number")
    return int(np.ravel(file.attrs[name])[0])
