"""The file of a ledger: JSON lines, each with the hash of the one before, appended durably.

Reading verifies the whole chain. A line torn by a crash while being written never counted, since fsync had not
returned; readers skip it, and the next writer drops it. Any other line that does not fit was changed or damaged.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from equipoise._util.canonical import MAX_DOCUMENT_BYTES, StrictJSONError, canonical_json, sha256_hex, strict_json
from equipoise._util.files import fsync_folder, write_all
from equipoise._util.recognition import mixed_up
from equipoise.errors import LedgerError

LOCK_SECONDS = 30.0
_FIRST = "0" * 64
_BEGINNINGS = (b'{"agreement":"', b'{"cap":', b'{"cohort":', b'{"hash":"')  # of spend, amendment, other, release


class Chain:
    """An append-only file of entries. Reading takes no lock; a writer holds it from reading to appending."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the file's lock, which every change needs."""
        lock = FileLock(f"{self.path}.lock", timeout=LOCK_SECONDS, mode=0o600)
        try:
            lock.acquire()
        except Timeout as error:
            raise LedgerError(
                f"another process has held {str(self.path)!r} for {LOCK_SECONDS:g} seconds; wait for it to finish"
            ) from error
        except OSError as error:
            raise LedgerError(f"cannot lock {str(self.path)!r}: {error.strerror}; nothing was spent") from error
        try:
            yield
        finally:
            lock.release()

    def entries(self) -> tuple[list[dict[str, Any]], int]:
        """Read and verify all entries; also return the length of the file up to the last complete one."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return [], 0
        except OSError as error:
            raise LedgerError(f"cannot read the ledger {str(self.path)!r}: {error.strerror}") from error
        entries: list[dict[str, Any]] = []
        end = 0
        for number, line in enumerate(data.splitlines(keepends=True), start=1):
            last = end + len(line) == len(data)
            try:
                entry = _verified(line, len(entries), entries[-1]["hash"] if entries else _FIRST)
            except _BrokenEntryError as error:
                if last and not line.endswith(b"\n") and _is_cut_short(line):
                    # The line was torn while being written: fsync never returned, so nothing was released on it.
                    break
                if not entries:
                    raise LedgerError(
                        mixed_up(self.path, "a ledger")
                        or f"{str(self.path)!r} is not a ledger, or was changed: line 1 {error}; check the path, or "
                        "restore it from a backup"
                    ) from error
                raise LedgerError(
                    f"line {number} of the ledger {str(self.path)!r} {error}; it was changed or damaged. Restore it "
                    "from a backup: without it nobody can say what has been spent"
                ) from error
            entries.append(entry)
            end += len(line)
        return entries, end

    def append(self, entries: list[dict[str, Any]], end: int, content: dict[str, Any]) -> str:
        """Write an entry after the last complete one, durably, and return its hash."""
        entry = {
            "sequence": len(entries),
            "previous": entries[-1]["hash"] if entries else _FIRST,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            **content,
        }
        digest = sha256_hex(canonical_json(entry))
        line = canonical_json({**entry, "hash": digest}) + b"\n"
        if len(line) > MAX_DOCUMENT_BYTES:
            raise LedgerError(
                f"the entry would have {len(line):,} bytes, and no ledger reads more than {MAX_DOCUMENT_BYTES:,}; "
                "shorten labels, family or reason. Nothing was recorded"
            )
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.lseek(handle, max(end - 1, 0), os.SEEK_SET)
                if end and os.read(handle, 1) != b"\n":
                    # The last entry is whole, but its newline was lost.
                    line = b"\n" + line
                os.ftruncate(handle, end)
                write_all(handle, line)
                os.fsync(handle)
            finally:
                os.close(handle)
            if not entries:
                fsync_folder(self.path.parent)
        except OSError as error:
            raise LedgerError(
                f"cannot write to the ledger {str(self.path)!r}: {error.strerror}; nothing was recorded"
            ) from error
        return digest


class _BrokenEntryError(ValueError):
    """A line that is not the next entry of the chain."""


def _verified(line: bytes, sequence: int, previous: str) -> dict[str, Any]:
    try:
        entry = strict_json(line)
    except StrictJSONError as error:
        raise _BrokenEntryError(f"cannot be read ({error})") from error
    if not isinstance(entry, dict) or not isinstance(entry.get("hash"), str):
        raise _BrokenEntryError("is not an entry")
    content = {key: value for key, value in entry.items() if key != "hash"}
    if sha256_hex(canonical_json(content)) != entry["hash"]:
        raise _BrokenEntryError("does not match its hash")
    if entry.get("previous") != previous or entry.get("sequence") != sequence:
        raise _BrokenEntryError("does not follow the one before it")
    return entry


def _is_cut_short(line: bytes) -> bool:
    """Return whether a line is just the start of an entry, as a crash leaves it; some file systems pad with zeros."""
    written = line.rstrip(b"\0")
    if not any(written.startswith(start[: len(written)]) for start in _BEGINNINGS):
        # The file is somebody else's, and not ours to overwrite.
        return False
    try:
        json.JSONDecoder().raw_decode(written.decode("ascii", errors="replace"))
    except (ValueError, RecursionError):
        return True
    return False
