"""A stream of a CSV file's batches, with errors that name exactly the wrong cell."""

import csv
import io
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.csv as pa_csv

from equipoise.errors import TableError
from equipoise.models.cells import not_a_label
from equipoise.party.stream import ColumnSpec, Table, check_header

DELIMITERS = {".csv": ",", ".tsv": "\t"}
Compression = Literal["gzip", "bz2", "zstd"]
BLOCK_BYTES = 2**23
LONGEST_LINE = 2**26
COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


@dataclass(frozen=True)
class CsvFile:
    """A delimited text file whose name does not say how it is written.

    Parameters
    ----------
    path : path
        The file, compressed or not.
    delimiter : str
        What separates cells: one character, such as ";".
    decimal : str
        What separates whole from fraction: "." or ",".

    Raises
    ------
    TableError
        No file can be written so.
    """

    path: Path
    delimiter: str = ","
    decimal: str = "."

    def __str__(self) -> str:
        return str(self.path)

    def __post_init__(self) -> None:
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n.0123456789' or not self.delimiter.isascii():
            raise TableError(f"{self.delimiter!r} cannot separate cells; give one character, such as ';' or a tab")
        if self.decimal not in (".", ","):
            raise TableError(f"{self.decimal!r} cannot separate decimals; give '.' or ','")
        if self.delimiter == self.decimal:
            raise TableError(
                f"{self.decimal!r} cannot separate both cells and decimals; say what separates cells, such as ';'"
            )


def stated_table(path: Path, delimiter: str | None, decimal: str | None) -> Path | CsvFile:
    """Return the path, or a `CsvFile` if a delimiter or decimal sign is stated; `tab` stands for a tab."""
    if delimiter is None and decimal is None:
        return path
    usual = DELIMITERS.get((Path(path.stem) if path.suffix.lower() in COMPRESSIONS else path).suffix.lower(), ",")
    separator = usual if delimiter is None else "\t" if delimiter == "tab" else delimiter
    return CsvFile(path, separator, decimal or ".")


class Dialect(NamedTuple):
    """The format of a delimited file: its separators, compression and header."""

    delimiter: str
    decimal: str
    compression: Compression | None
    header: tuple[str, ...] = ()

    @property
    def one_column(self) -> bool:
        """True if lines have no delimiters."""
        return len(self.header) == 1


def open_csv(file: CsvFile, wanted: tuple[ColumnSpec, ...]) -> Table:
    """Open a delimited text file, compressed or not, and check its header."""
    path = file.path
    dialect = Dialect(file.delimiter, file.decimal, COMPRESSIONS.get(path.suffix.lower()))
    header = _csv_header(path, dialect)
    check_header(header, wanted)
    dialect = dialect._replace(header=tuple(header))
    resources = ExitStack()
    stream = resources.enter_context(path.open("rb"))
    return Table(
        wanted,
        _csv_batches(path, stream, dialect, wanted),
        tuple(header),
        stream=stream,
        total_bytes=path.stat().st_size,
        resources=resources,
    )


def _csv_batches(
    path: Path, stream: io.BufferedReader, dialect: Dialect, wanted: tuple[ColumnSpec, ...]
) -> Iterator[pa.RecordBatch]:
    try:
        yield from _csv_reader(stream, dialect, _conversions(dialect, wanted))
    except pa.ArrowInvalid as error:
        # Arrow's message seldom says which column and row: read again as text, up to the culprit.
        with path.open("rb") as again:
            as_text = _conversions(dialect, wanted, as_text=True)
            culprit = _first_bad_number(_csv_reader(again, dialect, as_text), wanted, dialect.decimal)
        raise TableError(
            culprit or f"cannot read {str(path)!r}: {error}; every line needs as many cells as the header has names"
        ) from error


def _conversions(
    dialect: Dialect, wanted: tuple[ColumnSpec, ...], *, as_text: bool = False
) -> list[pa_csv.ConvertOptions]:
    """Return how text becomes cells, by the texts that mean missing: "NA" is one unless it is an agreed value."""
    columns: dict[tuple[str, ...], dict[str, Any]] = {}
    for want in wanted:
        missing = tuple(text for text in pa_csv.ConvertOptions().null_values or () if text not in (want.labels or ()))
        columns.setdefault(missing, {})[want.name] = pa.string() if as_text or want.is_text else pa.float64()
    return [
        pa_csv.ConvertOptions(
            include_columns=list(types),
            column_types=types,
            strings_can_be_null=True,
            null_values=list(missing),
            decimal_point=dialect.decimal,
        )
        for missing, types in columns.items()
    ]


def _csv_reader(
    stream: io.BufferedReader, dialect: Dialect, conversions: list[pa_csv.ConvertOptions]
) -> Iterator[pa.RecordBatch]:
    """Parse a few megabytes of whole lines at a time.

    Arrow could stream by itself, but its threads would then keep references to the Python file; if one of them drops
    its reference while Python shuts down, the process aborts although everything was read.
    """
    parse = pa_csv.ParseOptions(
        delimiter=dialect.delimiter,
        newlines_in_values=True,
        ignore_empty_lines=not dialect.one_column,  # an empty line is then a missing value
    )

    def read_block(source: Any, names: list[str] | None, *, threads: bool) -> pa.Table:
        read = pa_csv.ReadOptions(block_size=2**21, column_names=names, use_threads=threads)
        columns: dict[str, Any] = {}
        for convert in conversions:
            source.seek(0)
            table = pa_csv.read_csv(source, read_options=read, parse_options=parse, convert_options=convert)
            columns |= zip(table.column_names, table.columns, strict=True)
        return pa.table(columns)

    names: list[str] | None = None  # read from the first block
    before = 0
    for block in _blocks_of_lines(_decompressed(stream, dialect)):
        source: Any = pa.BufferReader(_owned_by_arrow(block))
        try:
            table = read_block(source, names, threads=True)
        except pa.ArrowInvalid:
            try:
                # Without threads, Arrow's message has the row's number.
                table = read_block(source, names, threads=False)
            except pa.ArrowInvalid as error:
                raise pa.ArrowInvalid(_counted_from(before, str(error))) from error
        before += table.num_rows + (names is None)
        names = list(dialect.header)
        yield from table.to_batches()


def _counted_from(before: int, message: str) -> str:
    """Rewrite one of Arrow's messages so that rows are numbered within the file, not within a block."""
    return re.sub(r"Row #(\d+)", lambda match: f"Row #{int(match[1]) + before}", message)


def _blocks_of_lines(stream: Any) -> Iterator[bytes]:
    """Yield the bytes of a file, cut after line ends that are not within quotation marks.

    A quotation mark without its partner makes everything up to the next one a single cell: rows would vanish, and with
    them the exact count that neighbouring tables must share. Arrow does not complain, but an odd number of quotation
    marks reveals it.
    """
    kept = b""
    while data := stream.read(BLOCK_BYTES):
        kept += data
        cut = _last_line_end(kept)
        if cut:
            yield kept[:cut]
            kept = kept[cut:]
        elif len(kept) > LONGEST_LINE:
            break
    if kept.count(b'"') % 2:
        raise TableError("the file has a quotation mark without its partner; close or remove it, rows may be missing")
    if len(kept) > LONGEST_LINE:
        raise TableError(f"the file has a line of more than {LONGEST_LINE:,} bytes; is it text with one row per line?")
    if kept:
        yield kept


def _last_line_end(data: bytes) -> int:
    """Return the position after the last complete line, or 0 if there is none."""
    end = b"\n" if b"\n" in data else b"\r"
    odd = data.count(b'"') % 2
    stop = len(data)
    while stop:
        cut = data.rfind(end, 0, stop) + 1
        odd ^= data.count(b'"', cut, stop) % 2  # parity of the quotation marks before the cut
        if not odd:
            return cut
        stop = cut - 1 if cut else 0
    return 0


def _owned_by_arrow(block: bytes) -> pa.Buffer:
    """Copy into memory that no Python object owns, so that Arrow's threads may release it at any time."""
    buffer = pa.allocate_buffer(len(block))
    memoryview(buffer).cast("B")[:] = block
    return buffer


def _decompressed(stream: io.BufferedReader, dialect: Dialect) -> Any:
    return pa.CompressedInputStream(stream, dialect.compression) if dialect.compression else stream


def _first_bad_number(batches: Iterator[pa.RecordBatch], wanted: tuple[ColumnSpec, ...], decimal: str) -> str | None:
    row = 0
    try:
        for batch in batches:
            for want in wanted:
                if want.is_text:
                    continue
                for offset, text in enumerate(batch.column(want.name).to_pylist()):
                    if text is not None and not is_number(text, decimal):
                        if want.labels is not None:
                            return not_a_label(want.name, want.labels, row + offset, text)
                        other = "," if decimal == "." else "."
                        remedy = (
                            f"if the file has decimal {'commas' if other == ',' else 'points'}, say so with --decimal "
                            f"{other!r} (CsvFile(path, decimal={other!r}))"
                            if is_number(text, other)
                            else f"correct the cell, or write numbers with {decimal!r} before decimals, no separators"
                        )
                        return f"column {want.name!r}, row {row + offset + 1}: {text!r} is not a number; {remedy}"
            row += batch.num_rows
    except pa.ArrowInvalid:
        # The line is malformed, which Arrow's own message describes.
        return None
    return None


def is_number(text: str, decimal: str) -> bool:
    """Return whether a cell of a file with this decimal sign holds a number."""
    if decimal == ",":
        text = text.translate({ord(","): ".", ord("."): ","})
    try:
        float(text)
    except ValueError:
        return False
    # Python's `float()` accepts more than Arrow does.
    return text.isascii() and "_" not in text


def _csv_header(path: Path, dialect: Dialect) -> list[str]:
    with path.open("rb") as raw:
        start = _decompressed(raw, dialect).read(2**20)
    text = start.decode("utf-8-sig", errors="replace")
    header = next(
        (row for row in csv.reader(io.StringIO(text, newline=None), delimiter=dialect.delimiter) if row), None
    )
    if header is None:
        raise TableError(f"{str(path)!r} is empty; the first line must name the columns")
    if any("\ufffd" in name for name in header):
        raise TableError(
            f"the header of {str(path)!r} is not UTF-8 text; save it as UTF-8, or name it .gz if compressed"
        )
    return header
