"""Readers that open a private table, in whatever format, as a stream of batches of the agreed columns.

Files are read a batch at a time, so memory does not grow with the table. All mistakes in the header are reported before
the first row is read.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

from equipoise._util.recognition import SPREADSHEETS, mixed_up
from equipoise.errors import TableError
from equipoise.party.csv_stream import COMPRESSIONS, DELIMITERS, CsvFile, open_csv
from equipoise.party.stream import BATCH_ROWS, ColumnSpec, Table, check_header, reading

_ARROW_ENDINGS = (".arrow", ".feather", ".ipc")


def open_table(source: Any, wanted: Sequence[ColumnSpec]) -> Table:
    """Open a CSV, Parquet or Arrow file, a folder of Parquet files, a data frame, an Arrow table or a NumPy array.

    A `CsvFile` says how a CSV file is written. Any object that exports an Arrow stream will do, such as a database
    result. A NumPy array has the features in agreed order and then the target; `(X, y)` is accepted too.
    """
    columns = tuple(wanted)
    if isinstance(source, CsvFile):
        with reading(repr(str(source.path))):
            return _open_stated(source, columns)
    if isinstance(source, str | Path):
        with reading(repr(str(source))):
            return _open_path(Path(source), columns)
    with reading("the table, which must have columns of one type each"):
        return _open_object(source, columns)


def _open_object(source: Any, columns: tuple[ColumnSpec, ...]) -> Table:
    if isinstance(source, np.ndarray) or (isinstance(source, tuple) and len(source) == 2):
        return _open_numpy(source, columns)
    if isinstance(source, pa.Table):
        return _open_arrow(source.schema.names, source.to_batches(), columns, total_rows=source.num_rows)
    if isinstance(source, dict):
        return _open_object(pa.table(source), columns)
    if isinstance(source, pa.RecordBatchReader):
        return _open_arrow(source.schema.names, source, columns)
    # A pandas or polars series is one column.
    if hasattr(source, "to_frame"):
        return _open_frame(source.to_frame(), columns)
    if hasattr(source, "__arrow_c_stream__"):
        return _open_frame(source, columns)
    raise TableError(
        f"cannot read a table from {type(source).__name__}; give a CSV, Parquet or Arrow file, a folder of Parquet "
        "files, a pandas or polars frame, an Arrow table or stream, a dictionary of columns, a NumPy array, or a tuple "
        "(X, y)"
    )


def _open_stated(file: CsvFile, wanted: tuple[ColumnSpec, ...]) -> Table:
    if not file.path.is_file():
        raise TableError(f"there is no file {str(file.path)!r}; check the path")
    _refuse_spreadsheet(file.path)
    if file.path.suffix.lower() in (".parquet", *_ARROW_ENDINGS):
        raise TableError(f"{str(file.path)!r} is no text: leave out what separates cells and decimals")
    return open_csv(file, wanted)


def _open_path(path: Path, wanted: tuple[ColumnSpec, ...]) -> Table:
    if not path.exists():
        raise TableError(f"there is no file or folder {str(path)!r}; check the path")
    _refuse_spreadsheet(path)
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.parquet") if not file.name.startswith((".", "_")))
        if not files:
            raise TableError(f"the folder {str(path)!r} holds no .parquet file; only Parquet is read from folders")
        return _open_parquet(files, wanted)
    ending = path.suffix.lower()
    if ending == ".parquet":
        return _open_parquet([path], wanted)
    if ending in _ARROW_ENDINGS:
        return _open_ipc(path, wanted)
    if is_delimited(path):
        return open_csv(CsvFile(path, DELIMITERS[_inner_ending(path)]), wanted)
    raise TableError(
        mixed_up(path, "a table")
        or f"do not know how to read {str(path)!r}; its name should end in .csv, .tsv (also .gz, .bz2, .zst), "
        f".parquet, {', '.join(_ARROW_ENDINGS)}"
    )


def _refuse_spreadsheet(path: Path) -> None:
    if path.suffix.lower() in SPREADSHEETS:
        raise TableError(
            f"{str(path)!r} is a spreadsheet, which is not read; save the sheet as CSV (UTF-8) with the names of its "
            "columns in the first line, and give that file"
        )


def is_rereadable(source: Any) -> bool:
    """Return whether a table names its columns and can be read more than once."""
    is_named = isinstance(source, str | Path | CsvFile | dict | pa.Table)
    return is_named or hasattr(source, "iloc") or hasattr(source, "get_columns")


def is_delimited(source: Any) -> bool:
    """Return whether a source is a text file of delimited cells."""
    return isinstance(source, CsvFile) or (
        isinstance(source, str | Path) and _inner_ending(Path(source)) in DELIMITERS and not Path(source).is_dir()
    )


def _inner_ending(path: Path) -> str:
    """Return the suffix of a file's name, without that of its compression."""
    ending = path.suffix.lower()
    return Path(path.stem).suffix.lower() if ending in COMPRESSIONS else ending


def _open_parquet(files: list[Path], wanted: tuple[ColumnSpec, ...]) -> Table:
    names = [want.name for want in wanted]
    total = 0
    for file in files:
        metadata = pa_parquet.read_metadata(file)
        check_header(metadata.schema.to_arrow_schema().names, wanted, where=f" of {file.name!r}")
        total += metadata.num_rows

    def batches() -> Iterator[pa.RecordBatch]:
        for file in files:
            # Buffered, unmapped reading keeps memory at a few pages per column, however large the row groups.
            with pa_parquet.ParquetFile(
                file, buffer_size=2**20, pre_buffer=False, page_checksum_verification=True
            ) as parquet:
                yield from parquet.iter_batches(BATCH_ROWS, columns=names)

    all_columns = tuple(pa_parquet.read_schema(files[0]).names)
    return Table(wanted, batches(), all_columns, total_rows=total)


def _open_ipc(path: Path, wanted: tuple[ColumnSpec, ...]) -> Table:
    with ExitStack() as opened:
        file = opened.enter_context(pa.OSFile(str(path), "rb"))
        try:
            reader = pa.ipc.open_file(file)
        except pa.ArrowInvalid:
            # This is not the file format; perhaps it is the stream format.
            file.seek(0)
            stream = pa.ipc.open_stream(file)
            return _open_arrow(stream.schema.names, stream, wanted, resources=opened.pop_all())
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        return _open_arrow(reader.schema.names, batches, wanted, resources=opened.pop_all())


def _open_numpy(source: Any, wanted: tuple[ColumnSpec, ...]) -> Table:
    for part in source if isinstance(source, tuple) else (source,):
        if np.ma.is_masked(part):
            raise TableError("the array has masked values, which are missing; fill them in, or remove their rows")
    if isinstance(source, tuple):
        features, target = np.asarray(source[0]), np.asarray(source[1])
        if features.ndim != 2 or target.shape != (len(features),) or features.shape[1] != len(wanted) - 1:
            raise TableError(
                f"(X, y) has shapes {features.shape} and {target.shape}; "
                f"this agreement needs (rows, {len(wanted) - 1}) and (rows,)"
            )
        return _columns_table([*features.T, target], wanted)
    if source.dtype.names is not None:
        check_header(list(source.dtype.names), wanted)
        return _columns_table([source[want.name] for want in wanted], wanted)
    matrix = source[:, np.newaxis] if source.ndim == 1 and len(wanted) == 1 else source
    if matrix.ndim != 2 or matrix.shape[1] != len(wanted):
        names = ", ".join(want.name for want in wanted)
        raise TableError(f"the array has shape {source.shape}; this agreement needs (rows, {len(wanted)}): {names}")
    if matrix.dtype.kind not in "fiub" or any(want.labels is not None for want in wanted):
        return _columns_table(list(matrix.T), wanted)
    return Table(wanted, iter([matrix]), tuple(want.name for want in wanted), total_rows=len(matrix))


def _columns_table(columns: list[Any], wanted: tuple[ColumnSpec, ...]) -> Table:
    arrays = [pa.array(np.ascontiguousarray(column), from_pandas=column.dtype == object) for column in columns]
    table = pa.table(dict(zip([want.name for want in wanted], arrays, strict=True)))
    return _open_arrow(table.schema.names, table.to_batches(), wanted, total_rows=len(table))


def _open_frame(frame: Any, wanted: tuple[ColumnSpec, ...]) -> Table:
    names, total_rows = None, None
    # Of pandas and polars frames, only wanted columns are converted.
    if hasattr(frame, "iloc") or hasattr(frame, "get_columns"):
        names, total_rows = [str(name) for name in frame.columns], len(frame)
        check_header(names, wanted)
    if names is not None and wanted:
        frame = frame[[frame.columns[names.index(want.name)] for want in wanted]]
        frame.columns = [want.name for want in wanted]
    reader = pa.RecordBatchReader.from_stream(frame)
    return _open_arrow(names or reader.schema.names, reader, wanted, total_rows=total_rows)


def _open_arrow(
    names: list[str],
    batches: Any,
    wanted: tuple[ColumnSpec, ...],
    *,
    total_rows: int | None = None,
    resources: ExitStack | None = None,
) -> Table:
    with resources or ExitStack() as held:
        check_header(names, wanted)
        return Table(wanted, iter(batches), tuple(names), total_rows=total_rows, resources=held.pop_all())
