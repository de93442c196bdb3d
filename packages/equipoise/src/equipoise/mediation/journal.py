"""Journal of finished work, so that a run that was killed can continue.

A journal holds results by key. `FileJournal` is a file with one JSON document a line. Its first line identifies the
inputs by their digest, and a journal of other inputs is refused. If the inputs differ only in settings that no result
depends on, the journal is taken over for the new inputs. A line counts once it is complete: if a crash left part of a
line at the end, it is cut off. Each line has a digest (up to version 0.6 it had none), so that disk errors change no
decision. One process at a time writes the file; if several share a run, a database keeps the journal.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from filelock import FileLock, Timeout

from equipoise._util.canonical import StrictJSONError, canonical_json, sha256_hex, strict_json
from equipoise._util.files import fsync_folder, replaced_file, write_all
from equipoise.errors import MediationError

FORMAT = "equipoise-journal"
VERSION = 1
DIGEST = "sha256"


class Journal(Protocol):
    """Results by key, both plain JSON; `put` returns once a result is stored."""

    def __contains__(self, key: dict[str, Any], /) -> bool: ...

    def __getitem__(self, key: dict[str, Any], /) -> Any: ...

    def put(self, key: dict[str, Any], result: Any, /) -> None:
        """Store a result; if the key is already there, the result must be the same."""
        ...


class FileJournal:
    """A journal of one process: on disk before `put` returns if it has a path, otherwise in memory."""

    def __init__(self, path: Path | None, inputs: str, values: str | None = None) -> None:
        """Make a journal of inputs with a digest; `values` is the digest of those inputs that results depend on."""
        self._path, self._inputs, self._values = path, inputs, values
        self._entries: dict[str, Any] = {}
        self._handle: int | None = None
        self._lock: FileLock | None = None

    def __enter__(self) -> Self:
        if self._path is not None:
            self._lock = FileLock(self._path.with_name(f"{self._path.name}.lock"))
            try:
                self._lock.acquire(timeout=0)
            except Timeout as error:
                raise MediationError(
                    f"another process is at work in {str(self._path.parent)!r}; wait for it, or choose another folder"
                ) from error
            try:
                self._open(self._path)
            except OSError as error:
                self._lock.release()
                raise MediationError(
                    f"cannot use {str(self._path)!r}: {error.strerror}; choose another folder"
                ) from error
            except BaseException:
                self._lock.release()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        if self._lock is not None:
            self._lock.release()

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: dict[str, Any]) -> bool:
        return name_of(key) in self._entries

    def __getitem__(self, key: dict[str, Any]) -> Any:
        return self._entries[name_of(key)]

    def put(self, key: dict[str, Any], result: Any) -> None:
        """Store a result; if the journal has a path, it is on disk when this returns."""
        if self._handle is not None:
            self._append(self._handle, canonical_json(_with_digest({"key": key, "result": result})) + b"\n")
        self._entries[name_of(key)] = result

    def _append(self, handle: int, line: bytes) -> None:
        """Write a line to disk, or nothing: a later line must not follow half a line after a failure."""
        size = os.fstat(handle).st_size
        try:
            write_all(handle, line)
            os.fsync(handle)
        except OSError as error:
            os.ftruncate(handle, size)
            raise MediationError(
                f"cannot write {str(self._path)!r}: {error.strerror}; what it holds so far is kept. Free some room, "
                "and run it again to go on from there"
            ) from error

    def _open(self, path: Path) -> None:
        header = {"format": FORMAT, "version": VERSION, "inputs": self._inputs}
        if self._values is not None:
            header["values"] = self._values
        data = path.read_bytes() if path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if whole and not self._read(path, whole.splitlines()):
            whole = data = canonical_json(header) + b"\n" + whole.partition(b"\n")[2]
            with replaced_file(path, mode=0o600) as partial:
                partial.write_bytes(whole)
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if len(whole) < len(data):
                os.ftruncate(self._handle, len(whole))
            if not whole:
                write_all(self._handle, canonical_json(header) + b"\n")
                os.fsync(self._handle)
                fsync_folder(path.resolve().parent)
        except BaseException:
            os.close(self._handle)
            self._handle = None
            raise

    def _read(self, path: Path, lines: list[bytes]) -> bool:
        """Read all results; return True if the journal's inputs are exactly these."""
        try:
            header, *entries = [_parse_line(number, line) for number, line in enumerate(lines, start=1)]
            if (header["format"], header["version"]) != (FORMAT, VERSION):
                raise ValueError(f"version {header['version']!r}")
            inputs = header["inputs"]
            for number, entry in enumerate(entries, start=2):
                if DIGEST in entry and entry != _with_digest({"key": entry["key"], "result": entry["result"]}):
                    raise ValueError(f"line {number} does not match its digest")
            results = {name_of(entry["key"]): entry["result"] for entry in entries}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise MediationError(
                f"{str(path)!r} cannot be read as the journal of a mediation ({error}); choose another folder, or "
                "delete the file to begin anew"
            ) from error
        if inputs != self._inputs and (self._values is None or header.get("values") != self._values):
            raise MediationError(
                f"{str(path)!r} belongs to other inputs: another agreement, other submissions, another seed or other "
                "options. Keep noise.secret where rewards are degraded: with another secret, noise could be averaged "
                "away. Then delete this file to begin anew, or choose another folder and copy noise.secret there"
            )
        self._entries = results
        return bool(inputs == self._inputs)


def _parse_line(number: int, line: bytes) -> Any:
    """Parse one line of a journal; an error names the line."""
    try:
        return strict_json(line, max_bytes=len(line))
    except StrictJSONError as error:
        raise ValueError(f"line {number}: {error}") from error


def _with_digest(entry: dict[str, Any]) -> dict[str, Any]:
    return {**entry, DIGEST: sha256_hex(canonical_json(entry))}


def name_of(key: dict[str, Any]) -> str:
    """Return a key as text; equal keys have equal texts."""
    return canonical_json(key).decode("ascii")
