"""A round among three hospitals, on data that ships with scikit-learn: regression or classification.

The table is split, an agreement written, and each hospital releases at its own ε into its own folder, exactly as three
strangers would on three machines. Then the mediator, who sees their submissions alone, settles. Some rows belong to no
hospital: they tell how well each reward predicts.
"""

import csv
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes

from equipoise._util.display import Table
from equipoise._util.text import short
from equipoise.agreement import Agreement
from equipoise.cli.options import JsonOption
from equipoise.cli.output import claim_folder, echo, print_json, print_table
from equipoise.cli.settlement_output import show_settlement
from equipoise.errors import EquipoiseError
from equipoise.mediation.mediator import mediate  # the party's half needs none of it
from equipoise.mediation.settlement import Settlement
from equipoise.models import layout_of
from equipoise.models.guarantee import DEFAULT_DELTA
from equipoise.party.ledger import Ledger
from equipoise.party.release import release
from equipoise.protocol.submission import Submission
from equipoise.report import write_reports
from equipoise.report.tables import error_text

Columns = dict[str, NDArray[Any]]

# Share of the rows and epsilon: a small generous hospital, a middling one, a large cautious one.
HOSPITALS = {"north": (0.2, 4.0), "south": (0.3, 1.0), "west": (0.5, 0.25)}
TEST_SHARE = 0.2
SEED = 2023
TEST_FILE = "test.csv"

_REST = """
[privacy]
order = 2
max_epsilon = 4.0

[[parties]]
name = "north"
[[parties]]
name = "south"
[[parties]]
name = "west"
"""

# Bounds and typical ranges anyone could state without seeing these patients.
_PROGRESSION = f"""\
format = 2
title = "Diabetes progression, three hospitals (demo)"

[model]
kind = "linear"
features = [
  {{ name = "age", bounds = [18, 90], typical = [25, 75] }},
  {{ name = "bmi", bounds = [15, 50], typical = [18, 38] }},
  {{ name = "bp", bounds = [50, 150], typical = [65, 125] }},
  {{ name = "ltg", bounds = [3, 6.5], typical = [3.6, 5.8] }},
]
target = {{ name = "progression", bounds = [0, 400], typical = [40, 320] }}
{_REST}"""

_TUMOURS = f"""\
format = 2
title = "Malignant breast tumours, three hospitals (demo)"

[model]
kind = "logistic"
features = [
  {{ name = "radius", bounds = [5, 25], typical = [8, 22] }},
  {{ name = "texture", bounds = [5, 35], typical = [11, 30] }},
  {{ name = "smoothness", bounds = [0.05, 0.15], typical = [0.07, 0.13] }},
]
target = {{ name = "diagnosis", labels = ["benign", "malignant"] }}
{_REST}"""


def _diabetes() -> Columns:
    data = load_diabetes(scaled=False)
    names = {"age": "age", "bmi": "bmi", "bp": "bp", "s5": "ltg"}
    columns = {ours: data.data[:, data.feature_names.index(theirs)] for theirs, ours in names.items()}
    return {**columns, "progression": data.target}


def _breast_cancer() -> Columns:
    data = load_breast_cancer()
    names = [str(name) for name in data.feature_names]
    columns = {ours: data.data[:, names.index(f"mean {ours}")] for ours in ("radius", "texture", "smoothness")}
    return {**columns, "diagnosis": np.where(data.target == 0, "malignant", "benign")}


@dataclass(frozen=True)
class Example:
    """Data that ship with scikit-learn, and what the hospitals agree on before they look at theirs."""

    agreement: str
    load: Callable[[], Columns]


EXAMPLES = {"regression": Example(_PROGRESSION, _diabetes), "classification": Example(_TUMOURS, _breast_cancer)}


@dataclass(frozen=True)
class HospitalRound:
    """What one hospital did: its files, what it sent, and what it cost."""

    name: str
    folder: Path
    submission: Submission
    sent_bytes: int
    spent_zcdp: float
    sum_deviation: float


@dataclass(frozen=True)
class DemoRound:
    """An agreement, what the hospitals did, and rows that nobody released."""

    agreement: Agreement
    hospitals: list[HospitalRound]
    test: Columns

    @property
    def test_features(self) -> NDArray[np.float64]:
        """Features of the rows nobody released, in agreed order."""
        return np.column_stack([self.test[column.name] for column in self.agreement.columns[:-1]])

    @property
    def test_target(self) -> NDArray[Any]:
        """Their targets."""
        return self.test[self.agreement.columns[-1].name]


def play_round(folder: Path, example: str = "regression") -> DemoRound:
    """Write the agreement into an empty folder, split the data, and let every hospital release."""
    agreement_file = folder / "agreement.toml"
    agreement_file.write_text(EXAMPLES[example].agreement, encoding="utf-8")
    agreement = Agreement.load(agreement_file)
    tables = split_rows(EXAMPLES[example].load())
    write_table(folder / TEST_FILE, tables["test"])
    hospitals = [_release(agreement, folder / name, name, tables[name]) for name in HOSPITALS]
    return DemoRound(agreement, hospitals, tables["test"])


def write_tables(folder: Path, example: str = "regression") -> dict[str, Path]:
    """Write the agreement, each hospital's table and the rows nobody releases; none that is there is replaced."""
    tables = split_rows(EXAMPLES[example].load())
    files = {"agreement": folder / "agreement.toml"}
    files |= {name: folder / (TEST_FILE if name == "test" else f"{name}.csv") for name in tables}
    for path in files.values():
        if path.exists():
            raise EquipoiseError(f"{str(path)!r} exists; choose an empty folder with --output")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files["agreement"].write_text(EXAMPLES[example].agreement, encoding="utf-8")
        for name, table in tables.items():
            write_table(files[name], table)
    except OSError as error:
        raise EquipoiseError(f"cannot write into {str(folder)!r}: {error.strerror}; choose another folder") from error
    return files


def settle_round(played: DemoRound, folder: Path, *, progress: bool | None = None) -> Settlement:
    """Let the mediator settle, and keep its work and the reports in a folder."""
    settlement = mediate(
        played.agreement,
        [hospital.submission for hospital in played.hospitals],
        seed=SEED,
        test=(played.test_features, played.test_target),
        folder=folder,
        progress=progress,
    )
    write_reports(settlement, folder)
    return settlement


def split_rows(columns: Columns) -> dict[str, Columns]:
    """Give each hospital its share of the rows; the rest is for testing."""
    order = np.random.default_rng(SEED).permutation(len(next(iter(columns.values()))))
    shares = [(1 - TEST_SHARE) * share for share, _ in HOSPITALS.values()]
    cuts = np.round(np.cumsum([0.0, *shares, TEST_SHARE]) * len(order)).astype(int)
    return {
        name: {column: values[order[start:stop]] for column, values in columns.items()}
        for name, start, stop in zip([*HOSPITALS, "test"], cuts, cuts[1:], strict=False)
    }


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row])


def _release(agreement: Agreement, folder: Path, name: str, table: Columns) -> HospitalRound:
    folder.mkdir()
    source = folder / f"{name}.csv"
    write_table(source, table)
    ledger = folder / f"{name}.ledger"
    submission = release(
        agreement, source, party=name, epsilon=HOSPITALS[name][1], ledger=ledger, family=f"patients of {name}"
    )
    sent = folder / f"{name}.submission.json"
    submission.save(sent)
    return HospitalRound(
        name=name,
        folder=folder,
        submission=submission,
        sent_bytes=sent.stat().st_size,
        spent_zcdp=Ledger(ledger).read().total_zcdp,
        sum_deviation=layout_of(agreement).noise_deviations(submission.stated)[0],
    )


SHOWN_ROWS = 5


def demo(
    kind: Annotated[str, typer.Argument(help="regression or classification")] = "regression",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="New folder for the round's files [demo-out; with --tables, here]."),
    ] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="Write the agreement and everybody's table, to play the round yourself.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Play a whole round: agreement, private releases of three hospitals, settlement, audit, rewards, predictions.

    Example: equipoise demo classification --output demo-out
    """
    if kind not in EXAMPLES:
        raise EquipoiseError(f"there is no demo {kind!r}; choose one of {', '.join(EXAMPLES)}")
    if tables:
        _show_tables(write_tables(output or Path(), kind), as_json=as_json)
        return
    output = output or Path("demo-out")
    claim_folder(output)
    played = play_round(output, kind)
    folder = output / "settlement"
    if not as_json:
        _show_releases(played)
        echo("The mediator, who has seen only what left, settles (a minute; two when it first compiles).\n")
    settlement = settle_round(played, folder, progress=False if as_json else None)
    if as_json:
        print_json(_document(played, settlement, folder))
        return
    show_settlement(settlement)
    _show_predictions(played, settlement)
    first = played.hospitals[0]
    echo(
        f"Look inside: all that left is in {first.folder / first.name}.submission.json and its siblings.\n"
        f"Try: equipoise party advise {output}/agreement.toml --party north --rows {first.submission.count}\n"
        f"     equipoise predict {folder}/for/north/reward.nc --data {output / TEST_FILE}\n\n"
        f"Report: {folder / 'report.html'}"
    )


def _show_tables(files: dict[str, Path], *, as_json: bool) -> None:
    if as_json:
        print_json({name: str(path) for name, path in files.items()})
        return
    for path in files.values():
        echo(f"Wrote {path}.")
    first = next(name for name in HOSPITALS)
    echo(
        f"Begin with: equipoise agreement check {files['agreement']}\n"
        f"            equipoise party release {files['agreement']} {files[first]} --party {first} --epsilon 1 "
        f"--ledger {first}.ledger --dry-run"
    )


def _show_releases(played: DemoRound) -> None:
    echo(f"{played.agreement.title}\nidentity {played.agreement.identity}\n")
    print_table(
        Table(
            "What left each hospital, and what its ledger says it cost",
            (
                "hospital",
                "rows",
                "sums",
                "bytes",
                f"(eps, {short(DEFAULT_DELTA)})",
                "epsilon",
                "zCDP",
                "noise on a sum",
            ),
            [
                (
                    one.name,
                    one.submission.count,
                    len(one.submission.statistic),
                    one.sent_bytes,
                    f"{one.submission.stated.epsilon_at():.3g}",
                    f"{one.submission.guarantee.epsilon:g}",
                    f"{one.spent_zcdp:g}",
                    f"±{one.sum_deviation:.3g}",
                )
                for one in played.hospitals
            ],
        )
    )


def _show_predictions(played: DemoRound, settlement: Settlement) -> None:
    """What the rewards say about the first rows that nobody released."""
    features, answers = played.test_features[:SHOWN_ROWS], played.test_target[:SHOWN_ROWS].tolist()
    target = played.agreement.columns[-1].name
    rewards = {party: award.reward for party, award in settlement.awards.items() if award.reward is not None}
    columns = []
    for reward in rewards.values():
        if played.agreement.model.estimator_type == "regressor":
            expected, between = reward.predict(features, return_interval=0.9)
            columns.append([f"{m:.0f} ({a:.0f}–{b:.0f})" for m, (a, b) in zip(expected, between, strict=True)])
        else:
            shares, between = reward.predict_proba(features, return_interval=0.9)
            certain = zip(shares[:, 1], between, strict=True)
            columns.append([f"{p:.0%} ({100 * a:.0f}–{b:.0%})" for p, (a, b) in certain])
    what = target if played.agreement.model.estimator_type == "regressor" else "probability of malignant"
    print_table(
        Table(
            f"Predicted {what} of patients nobody released, with 90 % intervals",
            ("patient", f"true {target}", *rewards),
            [
                (number, f"{answer:g}" if isinstance(answer, float) else answer, *row)
                for number, (answer, *row) in enumerate(zip(answers, *columns, strict=True), start=1)
            ],
        )
    )
    rows, model = len(played.test_target), played.agreement.model
    measure = "its R² (1 is perfect)" if played.agreement.model.estimator_type == "regressor" else "its accuracy"
    print_table(
        Table(
            f"How each hospital ends up, on {rows} such patients",
            ("hospital", "typical error alone", "with its reward", measure),
            [
                (
                    party,
                    error_text(model, settlement.awards[party].errors["alone"]),
                    error_text(model, settlement.awards[party].errors["reward"]),
                    f"{reward.score(played.test_features, played.test_target):.3f}",
                )
                for party, reward in rewards.items()
            ],
        )
    )


def _document(played: DemoRound, settlement: Settlement, folder: Path) -> dict[str, Any]:
    return {
        "agreement": played.agreement.identity,
        "hospitals": [
            {
                "name": one.name,
                "submission": str(one.folder / f"{one.name}.submission.json"),
                "rows": one.submission.count,
                "epsilon": one.submission.guarantee.epsilon,
                "zcdp": one.spent_zcdp,
                "sent_bytes": one.sent_bytes,
            }
            for one in played.hospitals
        ],
        "settlement": {**settlement.to_json(), "audit": settlement.audit.to_json()},
        "report": str(folder / "report.html"),
    }
