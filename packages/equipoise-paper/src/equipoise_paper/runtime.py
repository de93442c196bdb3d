"""Settings of JAX for the experiments: double precision, and compiled programs cached from one run to the next.

Other code in the process is not affected: precision is set for calls of this package only, and the compilation cache
only if none is set. Rounds and parties need no JAX, which is installed with `equipoise-paper`.
"""

import functools
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import jax
from jax.experimental.compilation_cache import compilation_cache

from equipoise._util.ownership import find_intruder
from equipoise._util.user_folders import make_private_folder, user_folder
from equipoise.errors import CacheWarning

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

CACHE_VARIABLE = "EQUIPOISE_CACHE_DIR"
OFF = "off"

# Held while a compiled program runs. XLA runs a CPU program on a pool with one thread per core, where the program may
# wait for parts of itself that queue for the same pool. So two programs can deadlock (jaxlib 0.10.2).
ONE_AT_A_TIME = threading.Lock()


def double_precision(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Run a function, and everything it compiles, in float64."""

    @functools.wraps(function)
    def inner(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return inner


def default_cache_directory() -> Path:
    """Return the folder of compiled programs that is used if `EQUIPOISE_CACHE_DIR` is not set."""
    return user_folder("cache") / "jax"


@functools.cache
def use_compilation_cache() -> Path | None:
    """Cache compiled programs on disk, so that later runs start at once; return the folder, or None without a cache.

    `EQUIPOISE_CACHE_DIR` chooses the folder, and "off" disables the cache; JAX's own setting takes precedence. If the
    folder cannot be written, programs are not cached, but run all the same. Compiled programs are code, so a folder
    that other users can write to, or that holds their files, is not used either; a warning says so.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen == OFF or jax.config.values["jax_compilation_cache_dir"] is not None:
        return None
    try:
        folder = Path(chosen) if chosen else default_cache_directory()
        make_private_folder(folder)
        # The owner of a symbolic link on the way could redirect it later.
        folder = folder.resolve()
        intruder = find_intruder(folder)
    # A RuntimeError says that there is no home directory.
    except (OSError, RuntimeError):
        return None
    if not os.access(folder, os.W_OK):
        return None
    if intruder is not None:
        warnings.warn(
            f"compiled programs are not kept in {str(folder)!r}: {intruder}, and who can write there decides what this "
            f"program computes. Delete the folder, or choose one of your own with {CACHE_VARIABLE}",
            CacheWarning,
            stacklevel=2,
        )
        return None
    _set("jax_compilation_cache_dir", str(folder))
    _set("jax_persistent_cache_min_compile_time_secs", 0.05)
    # An earlier compilation may have initialised the cache as disabled.
    compilation_cache.reset_cache()
    return folder


def _set(name: str, value: object) -> None:
    jax.config.update(name, value)  # type: ignore[no-untyped-call]


def compiler_options() -> dict[str, int]:
    """Return compiler options with few optimisations, because on a CPU most of them cost time and gain little here.

    XLA's fusion emitters make the first call take up to twice as long, and later calls no faster.
    """
    return {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}
