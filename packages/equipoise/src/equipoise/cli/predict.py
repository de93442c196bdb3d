"""`equipoise predict`: predictions of a reward, or of a model at home, for a party's own rows."""

import csv
import io
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from equipoise._util.display import Table
from equipoise._util.files import exists, replaced_file
from equipoise._util.text import counted, first_few, visible
from equipoise.agreement import Agreement
from equipoise.cli.options import DecimalOption, DelimiterOption, JsonOption
from equipoise.cli.output import claim_output, echo, print_json, print_table
from equipoise.client.home.model import HomeModel, load_model
from equipoise.client.home.rows import is_missing, outside_bounds, read_columns, wanted_features, wanted_target
from equipoise.errors import MediationError, TableError
from equipoise.models.columns import CategoryColumn, LabelColumn
from equipoise.party.csv_stream import CsvFile, stated_table
from equipoise.party.stream import ANY_TEXT, ColumnSpec
from equipoise.party.table import open_table
from equipoise.reward.model import Reward
from equipoise.reward.summary import WEIGHT


def predict(
    path: Annotated[
        Path, typer.Argument(help="The reward, or a model at home, a .nc file.", metavar="REWARD", readable=False)
    ],
    data: Annotated[
        Path | None,
        typer.Option(help="CSV, Parquet or Arrow file with a column for each feature.", readable=False),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="CSV file to write [standard output].")] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Column of the data to write beside the predictions, such as an id; repeat for more."),
    ] = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = None,
    interval: Annotated[float, typer.Option(help="Probability that intervals are to hold.")] = 0.9,
    party: Annotated[str | None, typer.Option(help="Your name; a reward of somebody else is refused.")] = None,
    draws: Annotated[
        Path | None, typer.Option(help="Also write every draw of the parameters to this CSV file.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Predict the target of new rows, with intervals; what is known of the target is compared with it.

    Predictions go to standard output as CSV, each row after its features and the columns to keep; what was found out
    about the reward goes to standard error. Without data, the model is shown: its parameters in the columns' own units
    with intervals, and the odds ratios of a logistic regression.

    Example: equipoise predict out/for/north/reward.nc --data patients.csv --keep id --output predictions.csv
    """
    if not 0 < interval < 1:
        raise MediationError(f"--interval {interval:g} is not between 0 and 1; give 0.9 for 90 %")
    if not exists(path):
        raise MediationError(f"there is no file {str(path)!r}; rewards are in the folder `rewards` of a settlement")
    for target in (output, draws):
        if target is not None:
            claim_output(target, MediationError)
    reward = _load(path, party)
    results = Found(reward, interval)
    features = len(reward.feature_names_in_) > 0
    if features and data is None:
        for option, given in (("--output", output), ("--keep", keep)):
            if given:
                names = ", ".join(reward.feature_names_in_)
                raise MediationError(
                    f"{option} is for predictions, and this {reward.agreement.model.noun} predicts from {names}; "
                    "give a file with --data"
                )
    if keep and not (features and data):
        raise MediationError("--keep writes columns of --data beside the predictions of a model with features")
    if data is not None:
        results = read_and_compare(results, stated_table(data, delimiter, decimal), keep or ())
        if features:
            results = _predicted(results)
    if draws is not None:
        write_draws(reward, draws)
    show(results, output, as_json=as_json)


def _load(path: Path, party: str | None) -> Reward:
    reward = load_model(path)
    if party is not None and party != reward.party:
        raise MediationError(
            f"{str(path)!r} is the reward of {reward.party!r}, not of {party!r}; ask the mediator for {party}.nc, and "
            f"give this file to {reward.party}"
        )
    return reward


Source = Path | CsvFile
OUTPUT = ("prediction", "lower", "upper")  # besides the probability of a label
OBSERVATIONS = 100  # simulated for each draw of a model without features


@dataclass(frozen=True)
class Found:
    """The results so far: a reward, the rows that were read, their predictions, and a comparison with known targets."""

    reward: Reward
    interval: float
    columns: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, list[Any]] = field(default_factory=dict)
    predictions: dict[str, list[Any]] | None = None
    compared: dict[str, float | int] | None = None


def read_and_compare(results: Found, path: Source, keep: Sequence[str]) -> Found:
    """Read the features, and the target if the file has it; compare its known values with predictions."""
    agreement = results.reward.agreement
    features, target = wanted_features(agreement), wanted_target(agreement)
    header = header_of(path, features or [target])
    _check_kept(keep, header, path)
    wanted = [*features, *([target] if target.name in header else [])]
    read = {want.name for want in wanted}
    columns = read_columns(
        path, [*wanted, *(ColumnSpec(name, ANY_TEXT) for name in dict.fromkeys(keep) if name not in read)]
    )
    kept = {name: columns[name].to_pylist() for name in keep}
    answers = columns[target.name].to_pylist() if target.name in columns else []
    columns = {want.name: columns[want.name] for want in features}
    known = [index for index, answer in enumerate(answers) if not is_missing(answer)]
    results = replace(results, columns=columns, kept=kept)
    if not known:
        return results
    rows = {name: values.take(known) for name, values in columns.items()} if features else None
    given = [answers[index] for index in known]
    compared: dict[str, float | int] = {"rows": len(known), "loss": results.reward.loss(rows, given)}
    if features and len(known) > 1:
        compared["score"] = results.reward.score(rows, given)
    return replace(results, compared=compared)


def _check_kept(keep: Sequence[str], header: tuple[str, ...], path: Source) -> None:
    for name in keep:
        if name not in header:
            raise TableError(f"--keep {name!r} is no column of {str(path)!r}, which has {first_few(header, 12)}")
        if name in OUTPUT or name.startswith("probability["):
            raise TableError(f"--keep {name!r} is the name of a column of predictions, too; rename it in the data")


def _predicted(results: Found) -> Found:
    """Predict every row, with intervals."""
    reward, columns = results.reward, results.columns
    if reward.agreement.model.estimator_type == "regressor":
        expected, between = reward.predict(columns, return_interval=results.interval)
        predictions = {"prediction": expected.tolist()}
    else:
        target = reward.agreement.model.target
        assert isinstance(target, LabelColumn)
        positive = target.labels[1]
        probabilities, between = reward.predict_proba(columns, return_interval=results.interval)
        column = reward.classes_.tolist().index(positive)
        predictions = {
            "prediction": reward.classes_[np.argmax(probabilities, axis=1)].tolist(),
            f"probability[{positive}]": probabilities[:, column].tolist(),
        }
    predictions |= {"lower": between[:, 0].tolist(), "upper": between[:, 1].tolist()}
    return replace(results, predictions=predictions)


def write_draws(reward: Reward, path: Path) -> None:
    """Write the draws of the parameters to a CSV file."""
    try:
        reward.to_csv(path)
    except OSError as error:
        raise MediationError(f"cannot write {str(path)!r}: {error.strerror}; choose another place") from error


def show(results: Found, output: Path | None, *, as_json: bool) -> None:
    """Write predictions, or the summary of a model if there are none, to a file or to standard output."""
    table = _summary(results) if results.predictions is None else _inputs(results) | results.predictions
    reward = results.reward
    if as_json:
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        document = {
            "party": reward.party,
            "agreement": reward.agreement.identity,
            "value": {"value": reward.value.value, "error": reward.value.error},
            "converged": reward.posterior.converged,
            "interval": results.interval,
            "compared": results.compared,
            "outside_bounds": outside_bounds(reward.agreement, results.columns),
            "output": str(output) if output else None,
            "predictions" if results.predictions is not None else "summary": None if output else rows,
        }
        if output is not None:
            _write(_rounded(table), output)
        print_json(document)
        return
    for line in _remarks(results):
        echo(line, err=True)
    if output is not None:
        _write(_rounded(table), output)
        echo(f"Wrote {output}.", err=True)
    elif results.predictions is not None:
        text = _as_csv(_rounded(table))
        sys.stdout.write(visible(text) if sys.stdout.isatty() else text)
    else:
        cells = [[_shown(cell) for cell in row] for row in zip(*table.values(), strict=True)]
        print_table(Table(_title(results), list(table), cells))


def _remarks(results: Found) -> list[str]:
    reward = results.reward
    what = f"Reward of {reward.party}"
    if isinstance(reward, HomeModel):
        what = f"Model at home of {reward.party} (reward and {counted(reward.rows, 'own row')}; it must not leave it)"
    lines = [
        f"{what} under agreement {reward.agreement.identity[:12]}…, worth {reward.value} nats "
        f"({counted(len(reward.posterior), 'draw')})."
    ]
    if not reward.posterior.converged:
        problems = "; ".join(reward.posterior.diagnostics.problems)
        lines.append(f"Warning: its chains have not converged ({problems}); ask the mediator for more draws.")
    if outside := outside_bounds(reward.agreement, results.columns):
        named = ", ".join(f"{name} in {counted(rows, 'row')}" for name, rows in outside.items())
        lines.append(
            f"Warning: outside the agreed bounds: {named}. Nobody released such rows as they are; predictions take the "
            "nearest agreed value."
        )
    if results.compared is not None:
        score = (
            f"{reward.agreement.model.score_name} {results.compared['score']:.3f}, "
            if "score" in results.compared
            else ""
        )
        rows = counted(int(results.compared["rows"]), "row")
        lines.append(
            f"Compared with {reward.agreement.model.target.name} in {rows}: {score}mean negative log probability "
            f"{results.compared['loss']:.4g}."
        )
    return lines


def _inputs(results: Found) -> dict[str, list[Any]]:
    """Return kept columns, then features, without those named like a column of predictions."""
    features = {name: values.to_pylist() for name, values in results.columns.items()}
    return {
        name: values for name, values in (results.kept | features).items() if name not in (results.predictions or ())
    }


def _rounded(table: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Round predictions to a thousandth of a typical interval's width; more digits say nothing."""
    if "prediction" not in table:
        return table
    width = float(np.median(np.subtract(table["upper"], table["lower"])))
    places = 3 - math.floor(math.log10(width)) if 0 < width < math.inf else 6

    def short(name: str, cell: Any) -> Any:
        if not isinstance(cell, float):
            return cell
        if name not in OUTPUT and not name.startswith("probability["):
            return int(cell) if cell.is_integer() and abs(cell) < 2**53 else cell
        return f"{cell:.{places}f}" if places > 0 else f"{round(cell, places):.0f}"

    return {name: [short(name, cell) for cell in cells] for name, cells in table.items()}


def _summary(results: Found) -> dict[str, list[Any]]:
    """Tabulate mean and interval of a new observation, if it is a number, and of every parameter."""
    reward = results.reward
    tails = [(1 - results.interval) / 2, (1 + results.interval) / 2]
    table: dict[str, list[Any]] = {"quantity": [], "mean": [], "lower": [], "upper": []}

    def add(name: str, mean: float, lower: float, upper: float) -> None:
        for column, value in zip(table.values(), (name, mean, lower, upper), strict=True):
            column.append(value)

    target = reward.agreement.model.target
    if not (reward.n_features_in_ or isinstance(target, LabelColumn | CategoryColumn)):
        new = reward.sample_predictions(size=OBSERVATIONS)
        # This method keeps quantiles of counts whole.
        between = np.quantile(new, tails, method="inverted_cdf").tolist()
        add(f"a new {target.name}", float(new.mean()), *between)
    for name, values in reward.agreement.model.own_units(reward.posterior.draws).items():
        add(name, float(values.mean()), *np.quantile(values, tails).tolist())
        if reward.agreement.model.odds_ratios and name.startswith(WEIGHT):
            ratio = np.exp(values)
            add(
                f"odds ratio of {reward.agreement.model.said_of(name)}",
                float(np.median(ratio)),
                *np.quantile(ratio, tails).tolist(),
            )
    return table


def _title(results: Found) -> str:
    model = results.reward.agreement.model
    odds = "; an odds ratio is for one more of a column’s unit" if model.odds_ratios else ""
    return f"What the model knows of {model.target.name}, mean and {results.interval:.0%} interval in own units{odds}"


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


def _shown(cell: Any) -> str:
    return f"{cell:.4g}" if isinstance(cell, float) and math.isfinite(cell) else str(cell)


def header_of(path: Source, wanted: Sequence[ColumnSpec]) -> tuple[str, ...]:
    """Return all column names of a file that has the wanted columns."""
    with open_table(path, wanted) as table:
        return table.all_columns


def test_rows(path: Path, agreement: Agreement) -> tuple[Any, list[Any]]:
    """Return features by name (None if the model has none) and targets, for `mediate(test=…)`."""
    features, target = wanted_features(agreement), wanted_target(agreement)
    columns = read_columns(path, [*features, target])
    answers = columns.pop(target.name).to_pylist()
    if None in answers:
        raise TableError(
            f"column {target.name!r}, row {answers.index(None) + 1} of {str(path)!r}: the value is missing; leave the "
            "row out, test rows need a target"
        )
    if not features:
        return None, answers
    return columns, answers
