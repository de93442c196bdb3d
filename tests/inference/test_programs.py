"""Traced programs that are kept on disk: found again by what they were traced from, never by another, never damaged."""

from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equipoise.inference import programs
from equipoise.inference.models.bernoulli import Bernoulli
from equipoise.inference.runtime import double_precision

pytestmark = pytest.mark.engine


class Pair(NamedTuple):
    total: Any
    drawn: Any


class Traced:
    """A kept program that counts how often it is traced."""

    def __init__(self) -> None:
        self.times = 0

        @partial(programs.CachedProgram, static=(1,), effort=0, like=Pair(0, 0))
        @partial(jax.jit, static_argnames=("model",))
        def program(key: Any, model: Any, values: dict[str, Any]) -> Pair:
            self.times += 1
            return Pair(model.slots * values["a"].sum(), jax.random.normal(key, values["a"].shape))

        self.program = program

    @double_precision
    def __call__(self, size: int = 3, slots: int = 2, model: Any = None) -> Pair:
        values = {"a": jnp.arange(float(size)), "b": jnp.zeros(1)}
        found: Pair = jax.tree.map(np.asarray, self.program(jax.random.key(5), model or Bernoulli(slots), values))
        return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(programs, "use_compilation_cache", lambda: tmp_path)
    forget(monkeypatch)
    return tmp_path


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As another process would."""
    monkeypatch.setattr(programs, "_programs", {})


def test_another_process_does_not_trace_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Traced(), Traced()
    found = first()
    assert float(found.total) == 6
    np.testing.assert_array_equal(found.drawn, jax.random.normal(jax.random.key(5), (3,), dtype=float))
    assert len(list(folder.glob("program-*.program"))) == first.times == 1
    forget(monkeypatch)
    again = second()
    assert second.times == 0
    assert isinstance(again, Pair)
    np.testing.assert_array_equal(again.drawn, found.drawn)


def test_what_a_program_depends_on_is_in_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced()
    traced()
    assert float(traced(slots=4).total) == 12
    assert float(traced(size=4).total) == 12
    forget(monkeypatch)
    monkeypatch.setattr(programs, "sources", lambda: "changed")
    traced()
    assert traced.times == len(list(folder.iterdir())) == 4


def test_a_damaged_program_is_traced_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    traced = Traced()
    found = traced()
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    for damaged in (b"", whole[:-1], whole[:40] + b"x" + whole[41:]):
        path.write_bytes(damaged)
        forget(monkeypatch)
        np.testing.assert_array_equal(traced().drawn, found.drawn)
        assert path.read_bytes()[:32] != damaged[:32] or damaged[32:] != whole[32:]
        assert len(path.read_bytes()) == len(whole)


def test_a_folder_that_cannot_be_written_costs_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "use_compilation_cache", lambda: folder / "missing")
    assert float(Traced()().total) == 6
    assert not list(folder.iterdir())


def test_models_of_others_are_not_kept(folder: Path) -> None:
    class Own(Bernoulli):
        pass

    assert float(Traced()(model=Own(2)).total) == 6
    assert not list(folder.iterdir())


def test_a_program_compiled_ahead_is_the_one_that_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an accelerator: two shapes are compiled, one of them twice asked for, and calls trace nothing more."""
    monkeypatch.setattr(programs, "on_accelerator", lambda: True)
    monkeypatch.setattr(programs, "_ahead", {})
    traced = Traced()
    with jax.enable_x64(True):
        for size in (3, 4, 3):
            shapes = {"a": jax.ShapeDtypeStruct((size,), float), "b": jnp.zeros(1)}
            assert traced.program.compile_ahead(jax.random.key(0), Bernoulli(2), shapes).drawn.shape == (size,)
    assert len(programs._ahead) == traced.times == 2
    assert [float(traced(size=size).total) for size in (3, 4, 3)] == [6, 12, 6]
    assert traced.times == 2
    assert float(traced(size=5).total) == 20  # of which nobody spoke before
    assert float(traced(slots=4).total) == 12
    assert traced.times == 4


def test_what_could_not_be_compiled_ahead_is_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, for instance for want of memory."""
    monkeypatch.setattr(programs, "on_accelerator", lambda: True)
    monkeypatch.setattr(programs, "_ahead", {})
    traced = Traced()
    with jax.enable_x64(True), mock.patch.object(programs, "_compile", side_effect=MemoryError("for a moment")):
        traced.program.compile_ahead(jax.random.key(0), Bernoulli(2), {"a": jnp.arange(3.0), "b": jnp.zeros(1)})
        assert float(traced().total) == 6
    assert not programs._ahead
    assert float(traced().total) == 6


def test_what_has_not_begun_to_compile_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    going, waiting = Future[Any](), Future[Any]()
    going.set_running_or_notify_cancel()
    monkeypatch.setattr(programs, "_ahead", {"going": going, "waiting": waiting})
    programs.cancel_compiling()
    assert list(programs._ahead) == ["going"]


def test_sources_are_those_of_the_package() -> None:
    programs.sources.cache_clear()
    assert len(programs.sources()) == 64
