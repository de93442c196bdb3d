"""How the engine uses JAX: double precision, programs kept from one run to the next, several of them at a time.

Little is forced on the rest of the process. Precision is set for the engine's own calls only; the compilation cache is
set only if nobody has chosen one; threads are asked for only if JAX has not started yet.
"""

import functools
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import jax
from jax._src import xla_bridge  # nothing public tells whether JAX has started
from jax.experimental.compilation_cache import compilation_cache

from equipoise.cores import usable_cores

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

CACHE_VARIABLE = "EQUIPOISE_CACHE_DIR"
OFF = "off"
POOL_VARIABLE = "NPROC"  # read by XLA when it makes its pool
THREADS_FOR_EACH_PROGRAM = 4


def double_precision(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Run a function, and everything it compiles, in float64."""

    @functools.wraps(function)
    def inner(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return inner


def default_cache_directory() -> Path:
    """Where compiled programs are kept unless `EQUIPOISE_CACHE_DIR` says otherwise."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return base / "equipoise" / "jax"


@functools.cache
def use_compilation_cache() -> Path | None:
    """Keep compiled programs on disk, so that the second run of anything starts at once.

    `EQUIPOISE_CACHE_DIR` chooses the folder, "off" turns it off; JAX's own setting, if there is one, is respected. A
    folder that cannot be written costs the cache, not the run.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen == OFF or jax.config.values["jax_compilation_cache_dir"] is not None:
        return None
    folder = Path(chosen) if chosen else default_cache_directory()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return None
    if not os.access(folder, os.W_OK):
        return None
    _set("jax_compilation_cache_dir", str(folder))
    _set("jax_persistent_cache_min_compile_time_secs", 0.5)
    compilation_cache.reset_cache()  # an earlier compile may have found it off
    return folder


def _set(name: str, value: object) -> None:
    jax.config.update(name, value)  # type: ignore[no-untyped-call]


def compiler_options(effort: int) -> dict[str, int] | None:
    """How hard the compiler should try, 0 to 3. On a CPU it spends most of its time on what gains little here."""
    return None if on_accelerator() else {"xla_backend_optimization_level": effort}


def on_accelerator() -> bool:
    """Whether programs run on something wider than a few CPU cores."""
    concurrent_programs()  # settled before JAX starts
    return jax.default_backend() != "cpu"


@functools.cache
def concurrent_programs() -> int:
    """How many threads may run compiled programs at once.

    XLA runs a CPU program on its pool of threads, and lets it wait there for parts of itself that queue for the same
    pool. As many programs as threads can then wait for each other for ever (seen with jaxlib 0.10.2). So the pool gets
    several threads for each core, which is possible only before JAX has started. Otherwise programs take turns.
    """
    if POOL_VARIABLE not in os.environ and not xla_bridge.backends_are_initialized():
        os.environ[POOL_VARIABLE] = str(THREADS_FOR_EACH_PROGRAM * max(2, usable_cores()))
        try:
            jax.devices()
            return usable_cores()
        finally:
            del os.environ[POOL_VARIABLE]
    return 1


@functools.cache
def _turns() -> threading.BoundedSemaphore:
    return threading.BoundedSemaphore(concurrent_programs())


def one_of_the_programs() -> threading.BoundedSemaphore:
    """Held while running compiled programs: threads beyond `concurrent_programs` wait."""
    return _turns()
