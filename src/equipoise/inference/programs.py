"""Programs as JAX has traced them, kept on disk beside the compiled ones (`runtime.use_compilation_cache`).

JAX's own cache saves compiling, but each process traces a program anew to find out which one it is: seven seconds for a
posterior's two programs, where loading what was compiled takes one. A traced program is kept under a name that follows
from all that it was traced from: the sources of this package, the versions of JAX, the model and the arguments' shapes.
Only models of this package are kept, since sources of others are not known.

On an accelerator, where compiling takes longest, programs that a batch is going to need are compiled side by side and
ahead of their first calls.
"""

import functools
import hashlib
import importlib.util
import pickle
import platform
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export
from jax.tree_util import PyTreeDef

from equipoise._util.cores import usable_cores
from equipoise._util.files import replaced_file
from equipoise.inference.runtime import compiler_options, double_precision, on_accelerator, use_compilation_cache

PACKAGE = "equipoise."
CAN_KEEP = importlib.util.find_spec("flatbuffers") is not None  # which JAX writes programs with; not on a bare machine
_programs: dict[Any, Callable[..., Any]] = {}
_ahead: dict[Any, Future[Callable[..., Any]]] = {}
_ahead_lock = threading.Lock()


class CachedProgram:
    """A jitted function whose traces are cached on disk.

    Arguments at `static` places are hashable, the first of them the model. `like` is any tree of the result's
    structure, and needed unless that is a dictionary of arrays. Where nothing can be cached, the function is called as
    it is.
    """

    def __init__(self, function: Any, *, static: Sequence[int], effort: int, like: Any = None) -> None:
        functools.update_wrapper(self, function)
        self._function, self._static, self._effort, self._like = function, static, effort, like

    def __call__(self, *arguments: Any) -> Any:
        folder = use_compilation_cache() if CAN_KEEP and not on_accelerator() else None
        if folder is None or not type(arguments[self._static[0]]).__module__.startswith(PACKAGE):
            return self._compiled(arguments)
        fixed, given = self._parts(arguments)
        leaves, tree = jax.tree.flatten(given)
        plain = [_plain(leaf) for leaf in leaves]
        seen = tuple((leaf.shape, str(leaf.dtype), getattr(leaf, "weak_type", False)) for leaf in plain)
        place = (self._function.__name__, fixed, tree, seen)
        if place not in _programs:
            path = folder / f"{self._function.__name__}-{_name(fixed, tree, seen)}.program"
            exported = _load(path)
            if exported is None:
                keys = [_is_key(leaf) for leaf in leaves]
                flat = _flat(self._function.__wrapped__, fixed, self._static, tree, keys)
                exported = export.export(jax.jit(flat))(*plain)
                _save(path, exported)
            _programs[place] = jax.jit(exported.call, compiler_options=compiler_options(self._effort))
        found = _programs[place](*plain)
        return found if self._like is None else jax.tree.unflatten(jax.tree.structure(self._like), found)

    def compile_ahead(self, *arguments: Any) -> Any:
        """Begin to compile for arguments like these, for calls to wait for; say what the result will look like.

        Arrays can be given by their shapes and types alone.
        """
        traced = self._function.trace(*arguments)
        place = self._place(arguments)
        with _ahead_lock:
            if place not in _ahead:
                _ahead[place] = _compiling_pool().submit(_compile, traced)
        return traced.out_info

    def _compiled(self, arguments: Sequence[Any]) -> Any:
        place = self._place(arguments) if _ahead else None
        waiting = _ahead.get(place)
        if waiting is None:
            return self._function(*arguments)
        try:
            program = waiting.result()
        except (jax.errors.JaxRuntimeError, MemoryError, CancelledError):
            # Others compiled beside it, so that memory may be there now: JAX tries again, and raises if it is not.
            with _ahead_lock:
                _ahead.pop(place, None)
            return self._function(*arguments)
        return program(*self._parts(arguments)[1])

    def _parts(self, arguments: Sequence[Any]) -> tuple[tuple[Any, ...], list[Any]]:
        """Arguments that a program is made for, and those that it takes."""
        fixed = tuple(arguments[place] for place in self._static)
        return fixed, [one for place, one in enumerate(arguments) if place not in self._static]

    def _place(self, arguments: Sequence[Any]) -> Any:
        fixed, given = self._parts(arguments)
        leaves, tree = jax.tree.flatten(given)
        return self, fixed, tree, tuple((np.shape(leaf), str(jax.dtypes.result_type(leaf))) for leaf in leaves)


def cancel_compiling() -> None:
    """Cancel what has not begun to compile, since whoever wanted it has failed."""
    with _ahead_lock:
        for place, waiting in list(_ahead.items()):
            if waiting.cancel():
                del _ahead[place]


@functools.cache
def _compiling_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(usable_cores(), thread_name_prefix="compiler")


@double_precision
def _compile(traced: Any) -> Callable[..., Any]:
    compiled: Callable[..., Any] = traced.lower().compile()
    return compiled


def _flat(
    function: Callable[..., Any], fixed: Sequence[Any], static: Sequence[int], tree: PyTreeDef, keys: Sequence[bool]
) -> Callable[..., Any]:
    """A function of plain arrays to plain arrays, or to a dictionary of them."""

    def call(*plain: Any) -> Any:
        leaves = [jax.random.wrap_key_data(one) if key else one for one, key in zip(plain, keys, strict=True)]
        given = list(jax.tree.unflatten(tree, leaves))
        for place, one in sorted(zip(static, fixed, strict=True), key=lambda pair: pair[0]):
            given.insert(place, one)
        found = function(*given)
        return found if isinstance(found, dict) else tuple(jax.tree.leaves(found))

    return call


def _is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _plain(leaf: Any) -> Any:
    """An array without JAX's types; NumPy's are left to the program, which takes them sooner than `asarray` does."""
    if _is_key(leaf):
        return jax.random.key_data(leaf)
    return leaf if isinstance(leaf, np.ndarray | jax.Array) else jax.numpy.asarray(leaf)


def _name(*parts: Any) -> str:
    fixed, tree, seen = parts
    known = [sources(), version("jax"), version("jaxlib"), platform.machine(), str(tree), repr(seen)]
    return hashlib.sha256("\n".join(known).encode() + pickle.dumps(fixed)).hexdigest()


@functools.cache
def sources() -> str:
    """Digest of the sources that programs are traced from."""
    digest, here = hashlib.sha256(), Path(__file__).parent
    for path in sorted([*here.rglob("*.py"), *(here.parent / "_util").rglob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _load(path: Path) -> export.Exported | None:
    """A program as it was kept; None if it was not, or is damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, program = content[:32], content[32:]
    return export.deserialize(bytearray(program)) if hashlib.sha256(program).digest() == digest else None


def _save(path: Path, exported: export.Exported) -> None:
    """Keep a program; a folder that cannot be written costs the next process its time, not this one its run."""
    program = bytes(exported.serialize())
    try:
        with replaced_file(path, mode=0o600) as file:
            file.write_bytes(hashlib.sha256(program).digest() + program)
    except OSError:
        return
