"""Files that appear on disk complete or not at all."""

import os
import platform
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from equipoise._util.canonical import sha256_hex

_HOST = sha256_hex(platform.node().encode())[:8]
_PARTIAL = re.compile(r"\.(?P<target>.+)\.(?P<host>[0-9a-f]{8})-(?P<process>[0-9]+)-[0-9a-f]{8}\.partial")
_writing: set[str] = set()  # names of partial files that this process has not finished


def write_new_file(path: Path, data: bytes, *, mode: int) -> None:
    """Write a file that must not exist yet; after a crash the name holds all of the data or does not exist."""
    # Unlike renaming, making a link never replaces an existing file.
    with _partial_file(path, mode, os.link) as partial:
        partial.write_bytes(data)


@contextmanager
def replaced_file(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """Yield a temporary file to write to, which replaces `path` once the block succeeds.

    Until then the old file stays. The temporary file exists, empty and readable by its owner alone, before anything is
    written. When it is complete it gets its `mode`, less what the system's mask takes.
    """
    with _partial_file(path, mode, os.replace) as partial:
        yield partial


@contextmanager
def partial_path(path: Path) -> Iterator[Path]:
    """Yield a new path beside this one for an incomplete file or folder; remove what is left there at the end.

    Leftovers of killed processes that tried to write the same target are removed first. The name holds host and
    process, which tell leftovers from files that are still being written.
    """
    # A folder that cannot be listed, or a leftover of another user, keeps nobody from saving.
    with suppress(OSError), os.scandir(path.parent) as entries:
        for entry in entries:
            if _is_leftover(entry.name, path.name):
                _remove(Path(entry))
    partial = path.with_name(f".{path.name}.{_HOST}-{os.getpid()}-{secrets.token_hex(4)}.partial")
    _writing.add(partial.name)
    try:
        yield partial
    finally:
        _remove(partial)
        _writing.discard(partial.name)


@contextmanager
def _partial_file(path: Path, mode: int, finish: Callable[[Path, Path], None]) -> Iterator[Path]:
    """Yield an empty partial file of mode 0600; once it is complete, `finish` gives it its final name."""
    with partial_path(path) as partial:
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            less_mask = stat.S_IMODE(os.fstat(handle).st_mode)
        finally:
            os.close(handle)
        partial.chmod(0o600)
        yield partial
        with partial.open("rb+") as file:
            partial.chmod(less_mask)
            os.fsync(file.fileno())
        finish(partial, path)
    fsync_folder(path.resolve().parent)


def _is_leftover(name: str, target: str) -> bool:
    """Tell whether a process that no longer runs left this file when it tried to write the target."""
    parts = _PARTIAL.fullmatch(name)
    if parts is None or (parts["target"], parts["host"]) != (target, _HOST) or os.name == "nt":
        return False
    process = int(parts["process"])
    if process == os.getpid():
        return name not in _writing
    try:
        # Signal 0 sends nothing, and fails if there is no such process.
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        # The process runs, as another user.
        return False
    return False


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def exists(path: Path) -> bool:
    """Return whether a path is visible; if it may not be looked at, a later attempt to open it says so."""
    try:
        return path.exists()
    except OSError:
        return False


def is_writable_folder(folder: Path) -> bool:
    """Return whether this process can create files in a folder."""
    return os.access(folder, os.W_OK | os.X_OK) and folder.is_dir()


def write_all(handle: int, data: bytes) -> None:
    """Write every byte, however many system calls that takes."""
    while data:
        data = data[os.write(handle, data) :]


def fsync_folder(folder: Path) -> None:
    """Make a new name in a folder durable, if the system can (Windows cannot open folders)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
