"""A first draft of an agreement from a table's column names and types alone, with questions for people to answer.

It holds no value of the table: neither bounds nor levels, which must come from common knowledge. A draft becomes an
agreement once every question is answered: `equipoise agreement check` refuses remaining question marks.
"""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from equipoise._util.text import first_few, toml_string
from equipoise.agreement.validation import OPEN
from equipoise.errors import TableError
from equipoise.models.cells import is_text
from equipoise.models.regression import useful_ball
from equipoise.party.csv_stream import CsvFile, is_number
from equipoise.party.stream import ANY_TEXT, ColumnSpec, refuse_other_separator
from equipoise.party.table import is_delimited, open_table

LOOKED_AT = 100_000  # rows read to tell types
_OWNER = re.compile(r"(^|[_ .-])(id|nr|no|mrn|uuid|key)$|^(patient|person|subject|customer|member)", re.IGNORECASE)
Kind = Literal["number", "text", "truth", "date", "nothing"]
_Cell = Kind | Literal["number with the other decimal"]


class Seen(NamedTuple):
    """A column: its name, and the kind of its cells. Others must not learn if some are missing."""

    name: str
    kind: Kind


def drafted(source: Any, target: str | None, parties: tuple[str, ...]) -> str:
    """Return the TOML text of an agreement with open questions for everything that people must decide."""
    columns = seen_columns(source)
    names = [column.name for column in columns]
    if target is not None and target not in names:
        raise TableError(f"there is no column {target!r} to predict; the table has {first_few(names, 12)}")
    predicted = next((column for column in columns if column.name == target), None)
    owners = [column.name for column in columns if _OWNER.search(column.name) and column.name != target]
    features = [column for column in columns if column.name not in (target, *owners)]
    lines = [
        "# Drafted from the names and types of columns; no value was used. Answer every question, that is replace",
        f'# every "{OPEN}", from common knowledge and never from the data, then run: equipoise agreement check FILE',
        "",
        "format = 3",
        'title = ""  # in a few words, for people',
        "",
        "[model]",
        *_kind_lines(predicted),
        "# Features: remove those that are not wanted, each costs noise. Has every party all of them, by these names?",
        '# Where values may be missing, say what they count as: missing = "indicator", or missing = "value", fill = …',
        "# The typical range of a number is where about 95 % of its values are believed to lie. Noise is scaled by it,",
        "# and values beyond it are moved to its ends. bounds = [least, most] may say which values can be right. One",
        '# that is skewed, as an income, may be transformed: transform = "log", or "sqrt", or "logit" for a share.',
        "# Typical ranges and bounds stay in the unit of the column.",
        "features = [",
        *(line for column in features for line in _feature_lines(column)),
        "]",
        *_ball_lines(features),
        *_target_lines(predicted),
        "",
        "[privacy]",
        f'max_epsilon = "{OPEN}"  # the weakest privacy anyone may choose; 1.0 is a start',
        "max_rows = 100_000  # the largest table anyone may claim to have: a claim costs nothing, and counts for much",
        "# Is a row a person? If one may have several rows, say by which column they are told apart: repeats are then",
        "# refused, made one row, or all protected at rows_per_individual times the noise.",
        *(f"# individual = {toml_string(name)}" for name in owners or ["NAME OF A COLUMN"]),
        '# aggregate = "mean"',
        "# rows_per_individual = 1",
        "",
        "[reward]",
        'mechanism = "degraded"  # rewards stay as given; "tempering" predicts better, but can be undone',
    ]
    for name in parties or (OPEN,):
        lines += ["", "[[parties]]", f"name = {toml_string(name)}"]
    return "\n".join(lines) + "\n"


def seen_columns(source: Any) -> list[Seen]:
    """Read names and kinds of all columns."""
    with open_table(source, ()) as table:
        names = list(table.all_columns)
    as_text = is_delimited(source)
    if as_text:
        refuse_other_separator(names)
    decimal = source.decimal if isinstance(source, CsvFile) else "."
    kinds: dict[str, set[_Cell]] = {name: set() for name in names}
    rows = 0
    with open_table(source, tuple(ColumnSpec(name, ANY_TEXT if as_text else None) for name in names)) as table:
        for batch in islice(table, 1 + LOOKED_AT // 2**16):
            rows += batch.rows
            for name, cells in zip(names, batch.data, strict=True):
                kinds[name] |= _kinds_of(cells, decimal, as_text=as_text)
    if not rows:
        raise TableError("the table has no rows; types of columns are drafted from, and there are none")
    return [Seen(name, _one_kind(name, kinds[name], decimal)) for name in names]


def _kinds_of(cells: "pa.Array[Any]", decimal: str, *, as_text: bool) -> set[_Cell]:
    if as_text:
        return {_kind_of_text(text, decimal) for text in cells.unique().to_pylist() if text is not None}
    kind = cells.type.value_type if pa.types.is_dictionary(cells.type) else cells.type
    if pa.types.is_null(kind):
        return set()
    if pa.types.is_boolean(kind):
        return {"truth"}
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return {"date"}
    return {"text"} if is_text(kind) else {"number"}


def _kind_of_text(text: str, decimal: str) -> _Cell:
    if is_number(text, decimal):
        return "number"
    if is_number(text, _other(decimal)):
        return "number with the other decimal"
    return "date" if re.fullmatch(r"\d{4}-\d\d-\d\d([T ].*)?", text) else "text"


def _other(decimal: str) -> str:
    return "," if decimal == "." else "."


def _one_kind(name: str, kinds: set[_Cell], decimal: str) -> Kind:
    if "number with the other decimal" in kinds and kinds <= {"number", "number with the other decimal"}:
        other = _other(decimal)
        raise TableError(
            f"column {name!r} holds numbers that are written with {other!r}: say so with --decimal {other!r} "
            f"(CsvFile(path, decimal={other!r})), or leave out what separates thousands"
        )
    if len(kinds) != 1:
        return "text" if kinds else "nothing"
    kind = next(iter(kinds))
    assert kind != "number with the other decimal"
    return kind


def _kind_lines(target: Seen | None) -> list[str]:
    if target is None:
        return [f'kind = "{OPEN}"  # what is predicted: "linear" (a number) or "logistic" (one of two labels)']
    if target.kind == "number":
        return ['kind = "linear"  # or "logistic", if the target is a code for one of two labels']
    return ['kind = "logistic"  # of one of two labels']


def _feature_lines(column: Seen) -> list[str]:
    name = toml_string(column.name)
    if column.kind == "number":
        ask = "a number: between which values do about 95 % lie? transform? If a code, what are its labels?"
        line = f'{{ name = {name}, typical = ["{OPEN}", "{OPEN}"] }},'
    elif column.kind == "truth":
        ask = "true or false"
        line = f'{{ name = {name}, kind = "binary", labels = [0, 1] }},'
    elif column.kind == "text":
        ask = 'text: which levels are there, the reference first? If two, kind = "binary", labels = [reference, other]'
        line = f'{{ name = {name}, kind = "category", levels = ["{OPEN}", "{OPEN}"], other = true }},'
    elif column.kind == "date":
        ask = "a date, which counts in days: since when, and between which numbers of days do about 95 % lie?"
        line = f'{{ name = {name}, since = "{OPEN}", typical = ["{OPEN}", "{OPEN}"] }},'
    else:
        return [f"  # empty: {name}"]
    return [f"  # {ask}", f"  {line}"]


def _ball_lines(features: Sequence[Seen]) -> list[str]:
    """Propose a limit for the norm of a row's numbers, if that lowers the noise of most entries."""
    numbers = sum(column.kind in ("number", "date") for column in features)
    levels = sum(column.kind in ("truth", "text") for column in features)
    ball = useful_ball(numbers, numbers + levels, levels)
    if ball is None:
        return []
    radius, share = ball
    return [
        "# Few rows are extreme in all numbers at once. Rows whose numbers, each scaled to [-1, 1], have a larger norm",
        f"# are pulled in: 2.5 % of typical ones. Noise of sums and products falls to {share:.0%}. It fits",
        f"# {numbers} numbers and {levels} others; if you change these, remove it, and `agreement check` suggests one.",
        f"norm_bound = {radius:g}",
    ]


def _target_lines(target: Seen | None) -> list[str]:
    if target is None:
        return [f'target = {{ name = "{OPEN}", typical = ["{OPEN}", "{OPEN}"] }}  # or labels = [negative, positive]']
    name = toml_string(target.name)
    if target.kind == "number":
        return [f'target = {{ name = {name}, typical = ["{OPEN}", "{OPEN}"] }}  # where about 95 % of the values lie']
    return [f'target = {{ name = {name}, labels = ["{OPEN}", "{OPEN}"] }}  # [negative, positive]']
