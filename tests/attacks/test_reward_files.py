"""Rewards from a hostile mediator: files that would carry the reader's own files into the draws, and bombs."""

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from equipoise.errors import MediationError
from equipoise.reward import reading
from equipoise.reward.model import Reward
from program import equipoise
from reward_posteriors import some_reward

ROWS = 300
SHAPE = (2, ROWS // 2, 3)  # chains, draws, weights
PRIVATE = "age,bmi,ill\n" + "".join(f"{20 + row % 70},{15 + row % 30},no\n" for row in range(1_000))

Put = Callable[[h5py.Group, Path], Any]


def put_external(group: h5py.Group, private: Path) -> None:
    """Draws that lie in the reader's table."""
    group.create_dataset("weights", SHAPE, "<f8", external=[(str(private), 0, 8 * int(np.prod(SHAPE)))])


def put_virtual(group: h5py.Group, private: Path) -> None:
    """Draws that are those of another file."""
    with h5py.File(private.with_suffix(".h5"), "w") as other:
        other["rows"] = np.frombuffer(PRIVATE.encode()[: 8 * int(np.prod(SHAPE))]).reshape(SHAPE)
    layout = h5py.VirtualLayout(SHAPE, "<f8")
    layout[:] = h5py.VirtualSource(str(private.with_suffix(".h5")), "rows", SHAPE)
    group.create_virtual_dataset("weights", layout)


def put_external_link(group: h5py.Group, private: Path) -> None:
    """A link to draws in another file."""
    with h5py.File(private.with_suffix(".h5"), "w") as other:
        other["rows"] = np.zeros(SHAPE)
    group["weights"] = h5py.ExternalLink(str(private.with_suffix(".h5")), "/rows")


def put_soft_link(group: h5py.Group, private: Path) -> None:
    """A link to other draws of this file."""
    group["weights"] = h5py.SoftLink("/posterior/elsewhere")


def put_nothing_of_much(group: h5py.Group, private: Path) -> None:
    """Gigabytes of which none is in the file."""
    group.create_dataset("weights", (2, 2**26, 3), "<f8", chunks=(1, 2**20, 3), compression="gzip")


def put_a_huge_chunk(group: h5py.Group, private: Path) -> None:
    """A few numbers in a piece that takes gigabytes to unpack."""
    chunks = (2, 2**24, 3)
    group.create_dataset("weights", SHAPE, "<f8", chunks=chunks, maxshape=(None, None, None), compression="gzip")


def put_an_overfull_chunk(group: h5py.Group, private: Path) -> None:
    """A piece of the right size that goes on after its end: HDF5 makes room for all of it."""
    dataset = group.create_dataset("weights", SHAPE, "<f8", chunks=SHAPE, compression="gzip")
    dataset.id.write_direct_chunk((0, 0, 0), zlib.compress(bytes(8 * int(np.prod(SHAPE)) + 2**24)))


def put_a_torn_chunk(group: h5py.Group, private: Path) -> None:
    """A piece that is not packed as it says."""
    dataset = group.create_dataset("weights", SHAPE, "<f8", chunks=SHAPE, compression="gzip")
    dataset.id.write_direct_chunk((0, 0, 0), b"draws")


def put_packed_backwards(group: h5py.Group, private: Path) -> None:
    """Packed first and shuffled then, so that nobody sees how much it unpacks to."""
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_chunk(SHAPE)
    plan.set_deflate(4)
    plan.set_shuffle()
    h5py.h5d.create(group.id, b"weights", h5py.h5t.IEEE_F64LE, h5py.h5s.create_simple(SHAPE), plan)


def put_text(group: h5py.Group, private: Path) -> None:
    """Texts of any length."""
    group.create_dataset("weights", data=np.full(SHAPE, "9" * 99, object), dtype=h5py.string_dtype())


def put_small_numbers(group: h5py.Group, private: Path) -> None:
    """Numbers of fewer bits."""
    group.create_dataset("weights", data=np.zeros(SHAPE, "<f4"))


def put_a_strange_filter(group: h5py.Group, private: Path) -> None:
    """Packed as no reward is."""
    group.create_dataset("weights", data=np.zeros(SHAPE), compression="lzf")


def put_no_numbers(group: h5py.Group, private: Path) -> None:
    """Draws that are not finite."""
    group.create_dataset("weights", data=np.full(SHAPE, np.nan))


def put_other_shape(group: h5py.Group, private: Path) -> None:
    """More weights than the model has."""
    group.create_dataset("weights", data=np.zeros((*SHAPE[:2], 4)))


def put_other_chains(group: h5py.Group, private: Path) -> None:
    """Fewer draws of one parameter than of the others."""
    group.create_dataset("weights", data=np.zeros((2, 3, 3)))


def put_a_group(group: h5py.Group, private: Path) -> None:
    """Draws that are a group, in which is the file again."""
    group.create_group("weights")["again"] = group.file["/"]


def put_infinite_sums(group: h5py.Group, private: Path) -> None:
    """Weights whose products are no numbers."""
    group.create_dataset("weights", data=np.full(SHAPE, 1e308))


ATTACKS = {
    put_external: "in other files",
    put_virtual: "in other files",
    put_external_link: "a link to somewhere else",
    put_soft_link: "a link to somewhere else",
    put_nothing_of_much: "would unpack to",
    put_a_huge_chunk: "would unpack to",
    put_an_overfull_chunk: "unpack to more than its size",
    put_a_torn_chunk: "cannot be unpacked",
    put_packed_backwards: "packed in an unknown way",
    put_text: "something else than 64-bit numbers",
    put_small_numbers: "something else than 64-bit numbers",
    put_a_strange_filter: "packed in an unknown way",
    put_no_numbers: "not finite numbers",
    put_other_shape: "where the model has",
    put_other_chains: "not that of 300 draws",
    put_a_group: "holds no numbers",
    put_infinite_sums: "outside of",
}


def doctored(folder: Path, put: Put) -> Path:
    """A genuine reward whose weights are something else; every netCDF reader takes it for one."""
    path = folder / "reward.nc"
    some_reward("linear", number=ROWS).save(path)
    private = folder / "north.csv"
    private.write_text(PRIVATE)
    with h5py.File(path, "r+") as file:
        group = file["posterior"]
        notes = dict(group["weights"].attrs)
        group.move("weights", "elsewhere")
        put(group, private)
        found = group.get("weights", getlink=True)
        if isinstance(found, h5py.HardLink) and isinstance(group["weights"], h5py.Dataset):
            for name in ("_Netcdf4Coordinates", "_Netcdf4Dimid", "_FillValue"):
                group["weights"].attrs[name] = notes[name]
            for place, name in enumerate(("chain", "draw", "weights_dim_0")):
                group["weights"].dims[place].attach_scale(group[name])
        if not isinstance(found, h5py.SoftLink):
            del group["elsewhere"]
    return path


@pytest.mark.parametrize(("put", "says"), ATTACKS.items(), ids=[put.__name__ for put in ATTACKS])
def test_only_plain_numbers_of_the_file_itself_are_read(put: Put, says: str, tmp_path: Path) -> None:
    path = doctored(tmp_path, put)
    with pytest.raises(MediationError, match="cannot be read as a reward") as refused:
        Reward.load(path)
    assert says in str(refused.value)


def test_no_private_number_reaches_the_draws(tmp_path: Path) -> None:
    path = doctored(tmp_path, put_external)
    (tmp_path / "rows.csv").write_text("age,bmi\n50,25\n")
    said = equipoise("predict", path, "--data", "rows.csv", "--draws", "draws.csv", cwd=tmp_path, code=9)
    assert "'weights' has its numbers in other files, which a reward must not" in said
    assert not (tmp_path / "draws.csv").exists()


def test_neither_file_nor_texts_decide_how_much_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "reward.nc"
    some_reward("linear", number=ROWS).save(path)
    with h5py.File(path, "r+") as file:
        file.attrs["value"] = '{"value": 1, "error": ' + "1" * 5_000_000 + "}"
    with pytest.raises(MediationError, match="the document has 5,000,0"):
        Reward.load(path)
    monkeypatch.setattr(reading, "MAX_BYTES", 10_000)
    with pytest.raises(MediationError, match="more than 10,000 bytes"):
        Reward.load(path)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("value", "[" * 100_000, "nested too deeply"),
        ("value", '{"value": 3.0, "error": NaN}', "NaN is not a JSON number"),
        ("value", '{"value": "high", "error": 0.1}', "value"),
        ("scenario", "[]", "dictionary"),
        ("sampling", '{"method": "exact", "rule": "power", "seed": 0, "noise_seed": 0, "chains": 7}', "chains"),
        ("diagnostics", '{"draws": 300}', "dropped_chains"),
        ("deviations", '{"a": "b"}', "list"),
        ("agreement", "{}", "Field required"),
        ("format", "equipoise-something", "format 'equipoise-something'"),
        ("party", 7, "is no text"),
        ("version", "one", "is no whole number"),
        ("version", np.arange(1_000), "is no whole number"),
    ],
)
def test_texts_are_checked_as_well(name: str, value: Any, says: str, tmp_path: Path) -> None:
    path = tmp_path / "reward.nc"
    some_reward("linear", number=ROWS).save(path)
    with h5py.File(path, "r+") as file:
        file.attrs[name] = value
    with pytest.raises(MediationError, match=r"reward\.nc' cannot be read as a reward") as refused:
        Reward.load(path)
    assert says in str(refused.value)


def test_other_objects_have_no_place_in_a_reward(tmp_path: Path) -> None:
    for place, name in enumerate(("more", "posterior/type", "diagnostics/more")):
        path = tmp_path / f"{place}.nc"
        some_reward("gaussian", number=ROWS).save(path)
        with h5py.File(path, "r+") as file:
            if name.endswith("type"):
                file[name] = np.dtype("<f8")
            else:
                file.create_group(name)
        with pytest.raises(MediationError, match="which no reward has|holds no numbers"):
            Reward.load(path)
    path = tmp_path / "many.nc"
    some_reward("gaussian", number=ROWS).save(path)
    with h5py.File(path, "r+") as file:
        for number in range(reading.MAX_OBJECTS):
            file["posterior"].create_dataset(f"x{number}", shape=(2, ROWS // 2), dtype="<f8")
    with pytest.raises(MediationError, match="objects in one group"):
        Reward.load(path)


def test_texts_that_hdf5_reads_for_ever(tmp_path: Path) -> None:
    """An object of no size in the heap of texts; 0.6 never came back from such a file."""
    path = tmp_path / "reward.nc"
    some_reward("gaussian", number=ROWS).save(path)
    data = bytearray(path.read_bytes())
    first = data.index(b"GCOL") + 16
    data[first : first + 16] = bytes(16)
    path.write_bytes(data)
    with pytest.raises(MediationError, match="as no reward has them"):
        Reward.load(path)


def test_names_that_are_packed(tmp_path: Path) -> None:
    """HDF5 may pack the heap that names and attributes lie in, too."""
    path = tmp_path / "reward.nc"
    some_reward("gaussian", number=ROWS).save(path)
    data = bytearray(path.read_bytes())
    filters = data.index(b"FRHP") + 7
    assert data[filters : filters + 2] == bytes(2)
    data[filters] = 20
    path.write_bytes(data)
    with pytest.raises(MediationError, match="names and attributes are packed"):
        Reward.load(path)
