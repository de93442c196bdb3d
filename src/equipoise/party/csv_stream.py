"""Stream a CSV file, and say exactly which cell is wrong when one is."""

import csv
import io
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv as pa_csv

from equipoise.errors import TableError
from equipoise.party.stream import Table, Wanted, check_header

DELIMITERS = {".csv": ",", ".tsv": "\t"}
Compression = Literal["gzip", "bz2", "zstd"]
COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}


def open_csv(path: Path, delimiter: str, wanted: tuple[Wanted, ...]) -> Table:
    """Open a delimited text file, compressed or not, by its header."""
    compression = COMPRESSIONS.get(path.suffix)
    header = _csv_header(path, delimiter, compression)
    check_header(header, wanted)
    resources = ExitStack()
    stream = resources.enter_context(path.open("rb"))
    size = path.stat().st_size
    return Table(
        wanted,
        _csv_batches(path, stream, delimiter, compression, wanted),
        tuple(header),
        stream=stream,
        total_bytes=size,
        resources=resources,
    )


def _csv_batches(
    path: Path, stream: io.BufferedReader, delimiter: str, compression: Compression | None, wanted: tuple[Wanted, ...]
) -> Iterator[pa.RecordBatch]:
    types: dict[str, Any] = {want.name: pa.string() if want.is_text else pa.float64() for want in wanted}
    try:
        yield from _csv_reader(stream, delimiter, compression, types)
    except pa.ArrowInvalid as error:
        # Arrow's message seldom says which column and row: read again as text, up to the culprit.
        with path.open("rb") as again:
            culprit = _first_bad_number(
                _csv_reader(again, delimiter, compression, dict.fromkeys(types, pa.string())), wanted
            )
        raise TableError(culprit or f"cannot read {str(path)!r}: {error}") from error


def _csv_reader(
    stream: io.BufferedReader, delimiter: str, compression: Compression | None, types: dict[str, Any]
) -> Iterator[pa.RecordBatch]:
    opened: Any = pa.CompressedInputStream(stream, compression) if compression else stream
    yield from pa_csv.open_csv(
        opened,
        read_options=pa_csv.ReadOptions(block_size=2**21),
        parse_options=pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=False),
        convert_options=pa_csv.ConvertOptions(
            include_columns=list(types), column_types=types, strings_can_be_null=True
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


def _csv_header(path: Path, delimiter: str, compression: Compression | None) -> list[str]:
    with path.open("rb") as raw:
        opened = pa.CompressedInputStream(raw, compression) if compression else raw
        start = opened.read(2**20)
    try:
        text = start.decode("utf-8-sig", errors="strict" if len(start) < 2**20 else "ignore")
    except UnicodeDecodeError as error:
        raise TableError(f"{str(path)!r} is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    header = next(csv.reader(io.StringIO(text), delimiter=delimiter), None)
    if header is None:
        raise TableError(f"{str(path)!r} is empty; the first line must name the columns")
    return header
