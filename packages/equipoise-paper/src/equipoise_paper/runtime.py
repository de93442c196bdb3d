"""JAX for what reproduces the paper: double precision, and compiled programs kept from one run to the next.

Neither is forced on the rest of the process. Precision is set for calls of this package only; the compilation cache is
set only if nobody has chosen one. Rounds and parties need no JAX, which comes with `equipoise-paper`.
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

# Held while compiled programs run. XLA runs a CPU program on a pool with a thread for each core, and lets it wait there
# for parts of itself that queue for the same pool: two programs can wait for each other for ever (jaxlib 0.10.2).
ONE_AT_A_TIME = threading.Lock()


def double_precision(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Run a function, and everything it compiles, in float64."""

    @functools.wraps(function)
    def inner(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        with jax.enable_x64(True):
            return function(*args, **kwargs)

    return inner


def default_cache_directory() -> Path:
    """Where compiled programs are kept unless `EQUIPOISE_CACHE_DIR` says otherwise."""
    return user_folder("cache") / "jax"


@functools.cache
def use_compilation_cache() -> Path | None:
    """Keep compiled programs on disk, so that the second run of anything starts at once.

    `EQUIPOISE_CACHE_DIR` chooses the folder, "off" turns it off; JAX's own setting, if there is one, is respected. A
    folder that cannot be written costs the cache, not the run. Compiled programs are code, so a folder that others can
    write, or that holds files of others, is not used either, and a warning says so.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen == OFF or jax.config.values["jax_compilation_cache_dir"] is not None:
        return None
    try:
        folder = Path(chosen) if chosen else default_cache_directory()
        make_private_folder(folder)
        folder = folder.resolve()  # Whoever owns a link on the way could lead it elsewhere later.
        intruder = find_intruder(folder)
    except (OSError, RuntimeError):  # the latter where there is no home directory
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
    compilation_cache.reset_cache()  # an earlier compile may have found it off
    return folder


def _set(name: str, value: object) -> None:
    jax.config.update(name, value)  # type: ignore[no-untyped-call]


def compiler_options() -> dict[str, int]:
    """Tell the compiler to try little: on a CPU it spends most of its time on what gains little here.

    XLA's fusion emitters make first calls up to twice as long, and later ones no faster.
    """
    return {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}
