"""Stream a CSV file, and say exactly which cell is wrong when one is."""

import csv
import io
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.csv as pa_csv

from equipoise.errors import TableError
from equipoise.party.stream import Table, Wanted, check_header

DELIMITERS = {".csv": ",", ".tsv": "\t"}
Compression = Literal["gzip", "bz2", "zstd"]
COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


class Dialect(NamedTuple):
    """How a file is written, and which texts in it mean that a value is missing."""

    delimiter: str
    compression: Compression | None
    missing: list[str]


def open_csv(path: Path, delimiter: str, wanted: tuple[Wanted, ...]) -> Table:
    """Open a delimited text file, compressed or not, by its header."""
    agreed = {label for want in wanted for label in want.labels or ()}
    # "NA" is a missing value, unless it is an agreed label.
    missing = [text for text in pa_csv.ConvertOptions().null_values or () if text not in agreed]
    dialect = Dialect(delimiter, COMPRESSIONS.get(path.suffix), missing)
    header = _csv_header(path, dialect)
    check_header(header, wanted)
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
    path: Path, stream: io.BufferedReader, dialect: Dialect, wanted: tuple[Wanted, ...]
) -> Iterator[pa.RecordBatch]:
    types: dict[str, Any] = {want.name: pa.string() if want.is_text else pa.float64() for want in wanted}
    try:
        yield from _csv_reader(stream, dialect, types)
    except pa.ArrowInvalid as error:
        # Arrow's message seldom says which column and row: read again as text, up to the culprit.
        with path.open("rb") as again:
            as_text = dict.fromkeys(types, pa.string())
            culprit = _first_bad_number(_csv_reader(again, dialect, as_text), wanted)
        raise TableError(culprit or f"cannot read {str(path)!r}: {error}") from error


def _csv_reader(stream: io.BufferedReader, dialect: Dialect, types: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    opened: Any = pa.CompressedInputStream(stream, dialect.compression) if dialect.compression else stream
    yield from pa_csv.open_csv(
        opened,
        read_options=pa_csv.ReadOptions(block_size=2**21),
        parse_options=pa_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            include_columns=list(types), column_types=types, strings_can_be_null=True, null_values=dialect.missing
        ),
    )


def _first_bad_number(batches: Iterator[pa.RecordBatch], wanted: tuple[Wanted, ...]) -> str | None:
    row = 0
    try:
        for batch in batches:
            for want in wanted:
                if want.is_text:
                    continue
                for offset, text in enumerate(batch.column(want.name).to_pylist()):
                    if text is not None and not _is_number(text):
                        return text_in_number_column(want.name, row + offset, text)
            row += batch.num_rows
    except pa.ArrowInvalid:
        return None  # not a bad number but a malformed line, which Arrow's own message describes
    return None


def text_in_number_column(name: str, row: int, text: object) -> str:
    """Message for a cell that should be a number."""
    return (
        f"column {name!r}, row {row + 1}: {text!r} is not a number; correct the cell, "
        "or write numbers with a decimal point and no separators"
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text  # Python's float() reads more than Arrow's


def _csv_header(path: Path, dialect: Dialect) -> list[str]:
    with path.open("rb") as raw:
        opened = pa.CompressedInputStream(raw, dialect.compression) if dialect.compression else raw
        start = opened.read(2**20)
    try:
        text = start.decode("utf-8-sig", errors="strict" if len(start) < 2**20 else "ignore")
    except UnicodeDecodeError as error:
        raise TableError(f"{str(path)!r} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    header = next(csv.reader(io.StringIO(text), delimiter=dialect.delimiter), None)
    if header is None:
        raise TableError(f"{str(path)!r} is empty; the first line must name the columns")
    return header
