"""Files that are on disk whole, or not there."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_new_file(path: Path, data: bytes, *, mode: int) -> None:
    """Write a file that must not exist yet; a crash leaves all of it or nothing under that name."""
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        try:
            write_all(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.link(partial, path)  # unlike renaming, never replaces what is there
    finally:
        partial.unlink()
    fsync_folder(path.resolve().parent)


@contextmanager
def replaced_file(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """A file to write to, which takes this one's place once it is whole; what was there stays until then.

    It is there, empty and with its `mode` (less what the system's mask takes), before anything is written.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
    os.close(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
    try:
        yield partial
        with partial.open("rb+") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    fsync_folder(path.resolve().parent)


def exists(path: Path) -> bool:
    """Whether something can be seen at a path; what may not be looked at is found out when it is opened."""
    try:
        return path.exists()
    except OSError:
        return False


def is_writable_folder(folder: Path) -> bool:
    """Whether files can be made in a folder."""
    return os.access(folder, os.W_OK | os.X_OK) and folder.is_dir()


def write_all(handle: int, data: bytes) -> None:
    """Write every byte, however many calls that takes."""
    while data:
        data = data[os.write(handle, data) :]


def fsync_folder(folder: Path) -> None:
    """Make a new name in a folder durable, where the system can (Windows cannot open folders)."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
