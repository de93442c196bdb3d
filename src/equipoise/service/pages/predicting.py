"""Predictions on a row that somebody typed or pasted, with every mistake named. JAX is not needed for it."""

import csv
import io
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from equipoise.agreement import Agreement
from equipoise.canonical import sha256_hex
from equipoise.report.wording import number
from equipoise.schema import CategoryColumn, LabelColumn, LinearModel, LogisticModel, NumberColumn
from equipoise.service.kept import Kept
from equipoise.words import counted

if TYPE_CHECKING:
    from equipoise.reward.model import Reward

SHARE = 0.9  # of new observations that an interval should hold
MOST_ROWS = 50
OBSERVATIONS = 400_000  # simulated of a model without features, or one for each draw
_DELIMITERS = ("\t", ";", ",")

Row = list[float]

_PARAMETERS = {"mean": "mean", "sd": "standard deviation", "rate": "rate"}


@dataclass(frozen=True)
class Reading:
    """Rows as far as they could be read; mistakes by the place of the field, and those of a pasted text."""

    rows: list[Row] = field(default_factory=list)
    mistakes: dict[int, str] = field(default_factory=dict)
    pasted: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Prediction:
    """Of one row: the values, what is predicted, an interval, and remarks."""

    values: tuple[str, ...]
    prediction: str
    interval: str
    remarks: tuple[str, ...] = ()


def features(agreement: Agreement) -> tuple[NumberColumn, ...]:
    """What a model predicts from, in the agreed order."""
    model = agreement.model
    return model.features if isinstance(model, LinearModel | LogisticModel) else ()


def typed(agreement: Agreement, texts: Sequence[str]) -> Reading:
    """One row from fields, one for each feature."""
    row: Row = []
    mistakes: dict[int, str] = {}
    for place, (column, text) in enumerate(zip(features(agreement), texts, strict=True)):
        if not text.strip():
            mistakes[place] = f"A number for {column.name} is missing."
            continue
        value = _number(text)
        if value is None:
            mistakes[place] = f"{_quoted(text)} is not a number; write it as 12.5, without a unit."
        else:
            row.append(value)
    return Reading(mistakes=mistakes) if mistakes else Reading([row])


def pasted(agreement: Agreement, text: str) -> Reading:
    """Rows of a text as spreadsheets and CSV files have them, with or without a first line of names."""
    names = [column.name for column in features(agreement)]
    first = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = next((one for one in _DELIMITERS if one in first), ",")
    try:
        lines = [line for line in csv.reader(io.StringIO(text.strip("\n")), delimiter=delimiter) if any(line)]
    except csv.Error as error:
        return Reading(pasted=[f"The text cannot be read as CSV: {error}."])
    lines = lines or [[]]  # nothing but empty cells
    header = [cell.strip() for cell in lines[0]]
    places = list(range(len(names)))
    has_names = any(_number(cell) is None and cell for cell in header) and (len(lines) > 1 or set(header) & set(names))
    if has_names:
        if missing := [name for name in names if name not in header]:
            return Reading(pasted=[f"The first line names no column {_names(missing)}; it names {_names(header)}."])
        if twice := [name for name in names if header.count(name) > 1]:
            return Reading(pasted=[f"The first line names {_names(twice)} more than once; keep one."])
        places = [header.index(name) for name in names]
        lines = lines[1:]
        if not lines:
            return Reading(pasted=["There is only a line of names; paste a row of numbers below it."])
    if len(lines) > MOST_ROWS:
        words = f"{len(lines)} rows are too many for a page; at most {MOST_ROWS}. Use `equipoise predict` for a file."
        return Reading(pasted=[words])
    return _cells(lines, names, places, header if has_names else None)


def _cells(lines: list[list[str]], names: list[str], places: list[int], header: list[str] | None) -> Reading:
    rows, wrong = [], []
    width = len(header) if header else len(names)
    needed = (
        f"the line of names has {width}."
        if header
        else (f"the model needs {width}, in this order: {_names(names)}; or put a line of names above it.")
    )
    for count, line in enumerate(lines, start=1):
        if len(line) != width:
            wrong.append(f"Row {count} has {counted(len(line), 'cell')}; {needed}")
            continue
        row: Row = []
        for name, place in zip(names, places, strict=True):
            value = _number(line[place])
            if value is None:
                given = f"{_quoted(line[place])} is not a number" if line[place].strip() else "the number is missing"
                wrong.append(f"Row {count}, {name}: {given}.")
            else:
                row.append(value)
        rows.append(row)
    return Reading(pasted=wrong) if wrong else Reading(rows)


def predictions(reward: "Reward", rows: list[Row]) -> list[Prediction]:
    """What the reward says of each row, with an interval."""
    target = reward.agreement.model.target
    if isinstance(target, LabelColumn):
        positive = target.labels[1]
        found, between = reward.predict_proba(rows, return_interval=SHARE)
        likely = found[:, reward.classes_.tolist().index(positive)].tolist()
        labels = [target.labels[one >= 0.5] for one in likely]
        told = [f"{label} ({positive}: {_percent(one)})" for label, one in zip(labels, likely, strict=True)]
        intervals = [f"{positive}: {_percent(low)} to {_percent(high)}" for low, high in between.tolist()]
    else:
        expected, between = reward.predict(rows, return_interval=SHARE)
        told = [number(one, 4) for one in expected.tolist()]
        intervals = [f"{number(low, 4)} to {number(high, 4)}" for low, high in between.tolist()]
    columns = features(reward.agreement)
    return [
        Prediction(tuple(number(value, 6) for value in row), prediction, interval, _beyond(columns, row))
        for row, prediction, interval in zip(rows, told, intervals, strict=True)
    ]


def new_observation(reward: "Reward") -> list[tuple[str, str, str]]:
    """What a model without features knows: a new observation and its parameters, each with an interval."""
    import numpy as np

    from equipoise.reward.units import own_units

    tails = [(1 - SHARE) / 2, (1 + SHARE) / 2]
    table: list[tuple[str, str, str]] = []
    target = reward.agreement.model.target
    if not isinstance(target, LabelColumn | CategoryColumn):
        new = reward.sample_predictions(size=max(1, OBSERVATIONS // len(reward.posterior)))
        low, high = np.quantile(new, tails, method="inverted_cdf").tolist()  # counts stay counts
        table.append((f"a new {target.name}", number(float(new.mean()), 4), f"{number(low, 4)} to {number(high, 4)}"))
    for name, values in own_units(reward.agreement, reward.posterior.draws).items():
        low, high = np.quantile(values, tails).tolist()
        words = f"{_PARAMETERS[name]} of {target.name}" if name in _PARAMETERS else _share(name, target)
        table.append((words, number(float(values.mean()), 4), f"{number(low, 4)} to {number(high, 4)}"))
    return table


_opened: "Kept[Reward]" = Kept(8)


def opened(content: bytes) -> "Reward":
    """A reward from the bytes of its file. Reading takes a moment, so the latest few are kept."""
    return _opened.get(sha256_hex(content), lambda: _read(content))


def _read(content: bytes) -> "Reward":
    from equipoise.reward.model import Reward

    with tempfile.TemporaryDirectory(prefix="equipoise-") as folder:
        path = Path(folder) / "reward.nc"
        path.write_bytes(content)
        return Reward.load(path)


def _number(text: str) -> float | None:
    stripped = text.strip().replace("\u2212", "-")
    if not stripped.isascii() or "_" in stripped:
        return None
    try:
        value = float(stripped)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _beyond(columns: Sequence[NumberColumn], row: Row) -> tuple[str, ...]:
    return tuple(
        f"{column.name} = {number(value, 6)} lies outside the agreed {number(column.bounds[0], 6)} to "
        f"{number(column.bounds[1], 6)}: nothing was learnt there."
        for column, value in zip(columns, row, strict=True)
        if not column.bounds[0] <= value <= column.bounds[1]
    )


def _share(name: str, target: NumberColumn | LabelColumn | CategoryColumn) -> str:
    """What a probability is of, as `own_units` names it: `probability`, `probability[A]`."""
    value = target.labels[1] if isinstance(target, LabelColumn) else name.partition("[")[2].removesuffix("]")
    return f"share of rows whose {target.name} is {value}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _quoted(text: str) -> str:
    return f"“{text.strip()[:40]}”"


def _names(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
