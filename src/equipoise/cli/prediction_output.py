"""What `equipoise predict` reads and writes."""

import csv
import io
import math
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from equipoise._util.files import replaced_file
from equipoise._util.text import counted
from equipoise.cli.output import echo, print_json, print_table, visible
from equipoise.cli.rows import header_of, read_columns, wanted_features, wanted_target
from equipoise.errors import MediationError
from equipoise.models.schema import CategoryColumn, LabelColumn
from equipoise.reward.model import Reward
from equipoise.reward.units import own_units

OBSERVATIONS = 100  # simulated for each draw of a model without features


@dataclass(frozen=True)
class Found:
    """What is known of a reward's predictions so far."""

    reward: Reward
    interval: float
    columns: dict[str, Any] = field(default_factory=dict)
    predictions: dict[str, list[Any]] | None = None
    compared: dict[str, float | int] | None = None


def read_and_compare(found: Found, path: Path) -> Found:
    """Read the features, and the target if the file has it; compare what is known of the target with predictions."""
    agreement = found.reward.agreement
    features, target = wanted_features(agreement), wanted_target(agreement)
    if not features:
        columns = read_columns(path, [target])
    elif target.name in header_of(path, features):
        columns = read_columns(path, [*features, target])
    else:
        return replace(found, columns=read_columns(path, features))
    answers = columns.pop(target.name).to_pylist()
    known = [place for place, answer in enumerate(answers) if not _is_missing(answer)]
    if not known:
        return replace(found, columns=columns)
    rows = {name: values.take(known) for name, values in columns.items()} if features else None
    given = [answers[place] for place in known]
    compared: dict[str, float | int] = {"rows": len(known), "loss": found.reward.loss(rows, given)}
    if features and len(known) > 1:
        compared["score"] = found.reward.score(rows, given)
    return replace(found, columns=columns, compared=compared)


def predicted(found: Found) -> Found:
    """Predict every row, with intervals."""
    reward, columns = found.reward, found.columns
    if reward.agreement.model.kind == "linear":
        expected, between = reward.predict(columns, return_interval=found.interval)
        predictions = {"prediction": expected.tolist()}
    else:
        target = reward.agreement.model.target
        assert isinstance(target, LabelColumn)
        positive = target.labels[1]
        probabilities, between = reward.predict_proba(columns, return_interval=found.interval)
        place = reward.classes_.tolist().index(positive)
        predictions = {
            "prediction": reward.classes_[np.argmax(probabilities, axis=1)].tolist(),
            f"probability[{positive}]": probabilities[:, place].tolist(),
        }
    predictions |= {"lower": between[:, 0].tolist(), "upper": between[:, 1].tolist()}
    return replace(found, predictions=predictions)


def write_draws(reward: Reward, path: Path) -> None:
    """Write the draws of the parameters."""
    try:
        reward.to_csv(path)
    except OSError as error:
        raise MediationError(f"cannot write {str(path)!r}: {error.strerror}; choose another place") from error


def show(found: Found, output: Path | None, *, as_json: bool) -> None:
    """Write predictions, or the summary of a model without features, to a file or to standard output."""
    table = found.predictions if found.predictions is not None else _summary(found)
    reward = found.reward
    if as_json:
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        document = {
            "party": reward.party,
            "agreement": reward.agreement.identity,
            "value": {"value": reward.value.value, "error": reward.value.error},
            "converged": reward.posterior.converged,
            "interval": found.interval,
            "compared": found.compared,
            "output": str(output) if output else None,
            "predictions" if found.predictions is not None else "summary": None if output else rows,
        }
        if output is not None:
            _write(table, output)
        print_json(document)
        return
    for line in _remarks(found):
        echo(line, err=True)
    if output is not None:
        _write(table, output)
        echo(f"Wrote {output}.", err=True)
    elif found.predictions is not None:
        text = _as_csv(table)
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
    else:
        cells = [[_shown(cell) for cell in row] for row in zip(*table.values(), strict=True)]
        print_table(f"What the model knows of {reward.agreement.model.target.name}", list(table), cells)


def _remarks(found: Found) -> list[str]:
    reward = found.reward
    lines = [
        f"Reward of {reward.party} under agreement {reward.agreement.identity[:12]}…, worth {reward.value} nats "
        f"({counted(len(reward.posterior), 'draw')})."
    ]
    if not reward.posterior.converged:
        problems = "; ".join(reward.posterior.diagnostics.problems)
        lines.append(f"Warning: its chains have not converged ({problems}); ask the mediator for more draws.")
    if found.compared is not None:
        name = "R²" if reward.agreement.model.kind == "linear" else "accuracy"
        score = f"{name} {found.compared['score']:.3f}, " if "score" in found.compared else ""
        rows = counted(int(found.compared["rows"]), "row")
        lines.append(
            f"Compared with {reward.agreement.model.target.name} in {rows}: {score}mean negative log probability "
            f"{found.compared['loss']:.4g}."
        )
    return lines


def _summary(found: Found) -> dict[str, list[Any]]:
    """Mean and interval of a new observation, if it is a number, and of every parameter."""
    reward = found.reward
    tails = [(1 - found.interval) / 2, (1 + found.interval) / 2]
    table: dict[str, list[Any]] = {"quantity": [], "mean": [], "lower": [], "upper": []}

    def add(name: str, mean: float, lower: float, upper: float) -> None:
        for column, value in zip(table.values(), (name, mean, lower, upper), strict=True):
            column.append(value)

    target = reward.agreement.model.target
    if not isinstance(target, LabelColumn | CategoryColumn):
        new = reward.sample_predictions(size=OBSERVATIONS)
        between = np.quantile(new, tails, method="inverted_cdf").tolist()  # counts stay counts
        add(f"a new {target.name}", float(new.mean()), *between)
    for name, values in own_units(reward.agreement, reward.posterior.draws).items():
        add(name, float(values.mean()), *np.quantile(values, tails).tolist())
    return table


def _as_csv(table: dict[str, list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return text.getvalue()


def _write(table: dict[str, list[Any]], path: Path) -> None:
    try:
        with replaced_file(path) as partial:
            partial.write_text(_as_csv(table), encoding="utf-8")
    except OSError as error:
        raise MediationError(f"cannot write {str(path)!r}: {error.strerror}; choose another place") from error


def _is_missing(answer: Any) -> bool:
    return answer is None or (isinstance(answer, float) and math.isnan(answer))


def _shown(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) and math.isfinite(cell) else str(cell)
