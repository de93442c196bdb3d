"""Reader of reward files from untrusted sources.

A netCDF file is an HDF5 file. Such a file can name any file of its reader as the storage of its numbers, link to other
files, or unpack from a few bytes to gigabytes. Hence the reader checks everything before it reads a number: groups,
links, storage, filters, types and sizes must be those that `Reward.save` writes, and the numbers must be ones that the
agreed model can have drawn. The file is read into memory first, so that nobody can change it between check and use.

Rewards of every version so far are such files and must open, and ArviZ reads them. Another format would not make this
reader unnecessary.
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
# The limit for a file, and for its numbers when unpacked.
MAX_BYTES = 2**30
# Numbers may unpack to 100 times the file, or to 64 MiB if that is more: draws hardly compress.
MAX_PACKED, ALWAYS_ALLOWED = 100, 64 * 2**20
# Objects in a group.
MAX_OBJECTS = 200
MAX_DIMENSIONS = 8
# The limit for coordinates, which are N(0, 1) under the prior.
LARGEST_COORDINATE = 1e6
# Arithmetic on different machines never differs by this share of a parameter's spread and size.
OTHER_DRAW = 1e-3
# Objects in heaps of texts, including those that netCDF needs.
MAX_TEXTS = 10_000
# A global heap and an object in it, after HDF5's specification.
_HEAP, _OBJECT = rb"GCOL\x01\0\0\0", struct.Struct("<HHxxxxQ")
# A fractal heap with filters, which could unpack to any size.
_PACKED_HEAP = rb"FRHP\0[\s\S]{2}(?!\0\0)"
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
    """The contents of a reward file: texts, version, and arrays by group and name."""

    texts: dict[str, str]
    version: int
    groups: dict[str, dict[str, Floats]]

    @classmethod
    def read(cls, path: Path) -> "RewardFile":
        """Read a reward file, or raise an exception that says why it is not a valid one."""
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
            every = [dataset for group in datasets.values() for dataset in group.values()]
            _refuse_bombs(every, len(data))
            for dataset in every:
                _refuse_packed_bombs(dataset)
            return cls(
                {name: _text(file, name) for name in (*REQUIRED, *(name for name in OPTIONAL if name in file.attrs))},
                _whole_number(file, "version"),
                {
                    group: {name: dataset[...] for name, dataset in members.items() if _is_float(dataset)}
                    for group, members in datasets.items()
                },
            )

    def document(self, name: str) -> dict[str, Any]:
        """Return an attribute that is a JSON object, with its numbers as they were written."""
        document: dict[str, Any] = strict_json(self.texts[name].encode())
        _DOCUMENTS[name].model_validate(document)
        return document

    @property
    def deviations(self) -> list[str]:
        """The points in which the settlement departed from the agreement, in words."""
        return _Deviations.model_validate(strict_json(self.texts.get("deviations", "[]").encode())).root

    def check(self, agreement: Agreement, draws: int) -> None:
        """Refuse arrays that cannot be `draws` draws of the agreed model."""
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
        """Refuse draws that do not follow from the coordinates in the file, by which the reward was valued."""
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
        """Refuse sums of another statistic, sums in rewards that never have them, and sums that no rows can have."""
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
        layout, arrays = layout_of(agreement), self.groups[SUMS]
        shapes = [arrays[name].shape if name in arrays else None for name in ("rows", "statistic", "variance")]
        if len(arrays) != len(shapes) or shapes != [(1,), (len(layout),), (len(layout),)]:
            raise ValueError(f"the others' sums have the shapes {shapes} where the statistic has {len(layout)} entries")
        rows, statistic, variance = (arrays[name] for name in ("rows", "statistic", "variance"))
        if not (np.all((rows > 0) & (rows < MOST_ROWS)) and np.all((variance > 0) & (variance < MOST_ROWS**2))):
            raise ValueError("the others' sums are of no rows, or have noise that no releases have")
        number, noise = float(rows[0]), np.sqrt(variance).tolist()
        are_finite = bool(np.all(np.isfinite(statistic)))
        if not are_finite or max(layout.beyond_rows(statistic.tolist(), number, noise)) > IMPOSSIBLE:
            raise ValueError("the others' sums are larger than those of rows within the agreed range")
        if contradiction := layout.contradiction(statistic.tolist(), number, noise, IMPOSSIBLE):
            raise ValueError(f"the others' sums are those of no rows: {contradiction}")


def _refuse_endless_heaps(data: bytes) -> None:
    """Refuse a heap of texts with an object of size 0, on which HDF5 (up to 2.0 at least) loops for ever."""
    steps = 0
    for heap in re.finditer(_HEAP, data):
        position, end = heap.end() + 8, heap.start() + int.from_bytes(data[heap.end() : heap.end() + 8], "little")
        while position + _OBJECT.size <= min(end, len(data)):
            index, _, size = _OBJECT.unpack_from(data, position)
            # Object 0 is the free space, whose size includes its header.
            step = _OBJECT.size + -(-size // 8) * 8 if index else size
            steps += 1
            if step < _OBJECT.size or steps > MAX_TEXTS:
                raise ValueError("its texts lie in it as no reward has them")
            position += step


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
    """Yield the members of a group by name; refuse links to elsewhere."""
    if len(group) > MAX_OBJECTS:
        raise ValueError(f"it has {len(group):,} objects in one group; a reward has {MAX_OBJECTS} at most")
    for name in group:
        if group.id.links.get_info(name.encode()).type != h5l.TYPE_HARD:
            raise ValueError(f"{name!r} is a link to somewhere else")
        yield name, group[name]


def _refuse_strange_storage(name: str, dataset: h5py.Dataset) -> None:
    """Refuse numbers in other files or packed otherwise than ours, and anything that is not 64-bit numbers."""
    plan = dataset.id.get_create_plist()
    if plan.get_external_count() or plan.get_layout() not in (h5d.COMPACT, h5d.CONTIGUOUS, h5d.CHUNKED):
        raise ValueError(f"{name!r} has its numbers in other files, which a reward must not")
    filters = [plan.get_filter(index)[0] for index in range(plan.get_nfilters())]
    if filters not in ([], [h5z.FILTER_SHUFFLE], [h5z.FILTER_DEFLATE], [h5z.FILTER_SHUFFLE, h5z.FILTER_DEFLATE]):
        raise ValueError(f"{name!r} is packed in an unknown way")
    kind = dataset.id.get_type()
    # Coordinate variables of dimensions are whole numbers.
    if not _is_float(dataset) and not (kind.get_class() == h5t.INTEGER and kind.get_size() <= 8):
        raise ValueError(f"{name!r} has something else than 64-bit numbers")
    if dataset.shape is None or len(dataset.shape) > MAX_DIMENSIONS:
        raise ValueError(f"{name!r} has the shape {dataset.shape}")


def _is_float(dataset: h5py.Dataset) -> bool:
    return bool(dataset.id.get_type().equal(h5t.IEEE_F64LE))


def _refuse_bombs(datasets: list[h5py.Dataset], size: int) -> None:
    """Refuse datasets that would unpack to more than a file of this size can honestly hold."""
    unpacked = sum(8 * max(math.prod(dataset.shape), math.prod(dataset.chunks or ())) for dataset in datasets)
    allowed = min(MAX_BYTES, max(ALWAYS_ALLOWED, MAX_PACKED * size))
    if unpacked > allowed:
        raise ValueError(f"its {size:,} bytes would unpack to {unpacked:,}; at most {allowed:,} are read")


def _refuse_packed_bombs(dataset: h5py.Dataset) -> None:
    """Refuse a chunk that unpacks to more than its declared size; HDF5 would allocate any amount of memory for it."""
    plan = dataset.id.get_create_plist()
    filters = [plan.get_filter(index)[0] for index in range(plan.get_nfilters())]
    if h5z.FILTER_DEFLATE not in filters:
        return
    as_it_is = 1 << filters.index(h5z.FILTER_DEFLATE)
    size = math.prod(dataset.chunks) * dataset.id.get_type().get_size()
    offsets: list[tuple[int, ...]] = []
    dataset.id.chunk_iter(lambda chunk: offsets.append(chunk.chunk_offset))
    for offset in offsets:
        skipped, packed = dataset.id.read_direct_chunk(offset)
        try:
            if not skipped & as_it_is and len(zlib.decompressobj().decompress(packed, size + 1)) > size:
                raise ValueError("it has a chunk that would unpack to more than its size")
        except zlib.error as error:
            raise ValueError(f"it has a chunk that cannot be unpacked: {error}") from error


def _text(file: h5py.File, name: str) -> str:
    attribute = file.attrs.get_id(name)
    if attribute.shape != () or h5py.check_string_dtype(attribute.dtype) is None:
        raise ValueError(f"its attribute {name!r} is no text")
    # Attributes are not packed, so the text is no longer than the file.
    text = file.attrs[name]
    return text if isinstance(text, str) else bytes(text).decode()


def _whole_number(file: h5py.File, name: str) -> int:
    attribute = file.attrs.get_id(name)
    if math.prod(attribute.shape) != 1 or attribute.get_type().get_class() != h5t.INTEGER:
        raise ValueError(f"its attribute {name!r} is no whole number")
    return int(np.ravel(file.attrs[name])[0])
