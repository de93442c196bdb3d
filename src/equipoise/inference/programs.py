"""Programs as JAX has traced them, kept on disk beside the compiled ones (`runtime.use_compilation_cache`).

JAX's own cache saves compiling, but each process traces a program anew to find out which one it is: seven seconds for a
posterior's two programs, where loading what was compiled takes one. A traced program is kept under a name that follows
from all that it was traced from: the sources of this package, the versions of JAX, the model and the arguments' shapes.
Only models of this package are kept, since sources of others are not known.
"""

import functools
import hashlib
import importlib.util
import pickle
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax import export
from jax.tree_util import PyTreeDef

from equipoise._util.files import replaced_file
from equipoise.inference.runtime import compiler_options, on_accelerator, use_compilation_cache

PACKAGE = "equipoise."
CAN_KEEP = importlib.util.find_spec("flatbuffers") is not None  # which JAX writes programs with; not on a bare machine
_programs: dict[Any, Callable[..., Any]] = {}


def kept(function: Any, *, static: Sequence[int], effort: int, like: Any = None) -> Callable[..., Any]:
    """A jitted function whose traces are kept; arguments at `static` places are hashable, the first of them the model.

    `like` is any tree of the result's structure, and needed unless that is a dictionary of arrays. Where nothing can be
    kept, the function is called as it is.
    """

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        folder = use_compilation_cache() if CAN_KEEP and not on_accelerator() else None
        if folder is None or not type(arguments[static[0]]).__module__.startswith(PACKAGE):
            return function(*arguments)
        fixed = tuple(arguments[place] for place in static)
        leaves, tree = jax.tree.flatten([one for place, one in enumerate(arguments) if place not in static])
        plain = [_plain(leaf) for leaf in leaves]
        seen = tuple((leaf.shape, str(leaf.dtype), getattr(leaf, "weak_type", False)) for leaf in plain)
        place = (function.__name__, fixed, tree, seen)
        if place not in _programs:
            path = folder / f"{function.__name__}-{_name(fixed, tree, seen)}.program"
            exported = _load(path)
            if exported is None:
                flat = _flat(function.__wrapped__, fixed, static, tree, [_is_key(leaf) for leaf in leaves])
                exported = export.export(jax.jit(flat))(*plain)
                _save(path, exported)
            _programs[place] = jax.jit(exported.call, compiler_options=compiler_options(effort))
        found = _programs[place](*plain)
        return found if like is None else jax.tree.unflatten(jax.tree.structure(like), found)

    return call


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
    """Digest of this package's sources, from which its programs are traced."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
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
