"""Reader of exports of a round: zip files from sources that may be hostile.

Only files with an export's names are read, and nothing is unpacked to disk. No file may be larger than it declares, or
than its kind allows: a few kilobytes can unpack to gigabytes, and parsed JSON takes ten times the memory of its text.
"""

import hashlib
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from equipoise._util.canonical import StrictJSONError, strict_json
from equipoise.errors import VerificationError
from equipoise.protocol.export import ANSWERS, EVENTS, MANIFEST, MAX_MANIFEST_BYTES, NAMES, PARTS

MAX_FILES = 50_000
# The limit for all files together, unpacked.
MAX_BYTES = 4 * 2**30
# The limit for the list of files, which is read at once.
MAX_DIRECTORY_BYTES = 16 * 2**20
MAX_DOCUMENT_BYTES = 128 * 2**20
MAX_LOG_BYTES, MAX_LINE_BYTES = 256 * 2**20, 2**20
# A line or value of two bytes takes fifty once it is read. The largest log of an honest service has six million.
MAX_VALUES = 10_000_000
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MAX_BYTES_OF = {MANIFEST: MAX_MANIFEST_BYTES, EVENTS: MAX_LOG_BYTES}
_ENCRYPTED = 0x1
# Exceptions that the library for zip files raises for damaged files.
_DAMAGES = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    RuntimeError,
    ValueError,
    LookupError,
    struct.error,
    MemoryError,
)
_CHUNK = 2**20


class _InParts(io.BufferedReader):
    """A file that limits the size of a single read."""

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = -1 if size is None else size
        data = super().read(min(wanted, MAX_DIRECTORY_BYTES + 1) if wanted >= 0 else MAX_DIRECTORY_BYTES + 1)
        if len(data) > MAX_DIRECTORY_BYTES:
            raise VerificationError(f"the export has a list of files of more than {MAX_DIRECTORY_BYTES:,} bytes")
        return data


class Archive:
    """An export that is open for reading; use it in a `with` block."""

    def __init__(self, path: Path) -> None:
        try:
            self._file = _InParts(io.FileIO(path))
        except (OSError, ValueError) as error:
            raise VerificationError(
                f"cannot read {str(path)!r}: {getattr(error, 'strerror', None) or error}"
            ) from error
        try:
            self._zip = zipfile.ZipFile(self._file)
            self.names = self._checked()
        except _DAMAGES as error:
            self._file.close()
            raise VerificationError(f"{str(path)!r} is not an export: {error}") from error
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()
        self._file.close()

    def _checked(self) -> tuple[str, ...]:
        entries = self._zip.infolist()
        if len(entries) > MAX_FILES:
            raise VerificationError(f"the export has {len(entries):,} files; at most {MAX_FILES:,} are read")
        if sum(entry.file_size for entry in entries) > MAX_BYTES:
            raise VerificationError(f"the export would unpack to more than {MAX_BYTES:,} bytes, which is not read")
        seen: set[str] = set()
        for entry in entries:
            if not NAMES.fullmatch(entry.filename):
                raise VerificationError(f"the export has a file {entry.filename[:100]!r}, which does not belong there")
            if entry.filename.casefold() in seen:
                raise VerificationError(f"the export has the file {entry.filename!r} twice")
            if entry.flag_bits & _ENCRYPTED or entry.compress_type not in _PLAIN:
                raise VerificationError(f"the file {entry.filename!r} is encrypted or packed in an unknown way")
            seen.add(entry.filename.casefold())
        return tuple(entry.filename for entry in entries)

    def chunks(self, name: str) -> Iterator[bytes]:
        """Yield a file in pieces."""
        if name not in self.names:
            raise VerificationError(f"the export has no file {name!r}")
        try:
            with self._zip.open(name) as file:
                while piece := file.read(_CHUNK):
                    yield piece
        except _DAMAGES as error:
            raise VerificationError(f"the file {name!r} of the export is damaged: {error}") from error

    def read(self, name: str) -> bytes:
        """Read a file into memory, if it is not too large for its kind."""
        most = _MAX_BYTES_OF.get(name, MAX_DOCUMENT_BYTES)
        if name in self.names and self._zip.getinfo(name).file_size > most:
            raise VerificationError(f"the file {name!r} is larger than {most:,} bytes, which is not read")
        return b"".join(self.chunks(name))

    def digest(self, name: str) -> str:
        """Return the SHA-256 of a file."""
        hasher = hashlib.sha256()
        for piece in self.chunks(name):
            hasher.update(piece)
        return hasher.hexdigest()

    def document(self, name: str) -> Any:
        """Parse a file of the export as JSON."""
        try:
            return strict_json(self._read_text(name), max_bytes=MAX_DOCUMENT_BYTES)
        except StrictJSONError as error:
            raise VerificationError(f"the file {name!r} of the export cannot be read: {error}") from error

    def events(self) -> list[dict[str, Any]]:
        """Read the log, which has one event on each line."""
        return self._lines(EVENTS, "the log")

    def answers(self) -> list[dict[str, Any]]:
        """Read the sampler's answers, one on each line."""
        return self._lines(ANSWERS, "the answers")

    def _lines(self, name: str, what: str) -> list[Any]:
        documents = []
        for number, line in enumerate(io.BytesIO(self._read_text(name)), start=1):
            try:
                documents.append(strict_json(line, max_bytes=MAX_LINE_BYTES))
            except StrictJSONError as error:
                raise VerificationError(f"line {number} of {what} cannot be read: {error}") from error
        return documents

    def _read_text(self, name: str) -> bytes:
        """Read a file of JSON; refuse one with so many lines and values that parsing it could take all memory."""
        text = self.read(name)
        values = sum(map(text.count, (b"\n", b",", b"[", b"{")))
        if values > MAX_VALUES:
            raise VerificationError(
                f"the file {name!r} has {values:,} lines and values; at most {MAX_VALUES:,} are read. No service "
                "writes so many: ask the operator for another export"
            )
        return text

    def parties_in(self, part: str) -> tuple[str, ...]:
        """Return the parties that have a file in `submissions`, `receipts` or `rewards`."""
        start, end = f"{part}/", PARTS[part]
        return tuple(
            sorted(name.removeprefix(start).removesuffix(end) for name in self.names if name.startswith(start))
        )
