"""A round of three hospitals on simulated patients: regression or classification.

The table is split, an agreement is written, and each hospital releases at its own ε into its own folder, exactly as
three strangers would on three machines. Then the mediator, who sees only their submissions, settles. Finally each
hospital combines its reward with its own rows, at home. Rows that belong to no hospital show how well each model
predicts.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from numpy.typing import NDArray

from equipoise._util.display import Table
from equipoise._util.text import short
from equipoise.agreement import Agreement
from equipoise.cli.demo.examples import EXAMPLES, HOSPITALS, SEED, Columns, split_rows
from equipoise.cli.demo.yardsticks import Yardsticks, measure
from equipoise.cli.demo.yardsticks import tables as shown
from equipoise.cli.interrupt import exit_on_interrupt
from equipoise.cli.options import JsonOption
from equipoise.cli.output import claim_folder, echo, print_json, print_lines, print_table
from equipoise.cli.settlement_output import show_settlement
from equipoise.errors import EquipoiseError
from equipoise.estimate import Estimate
from equipoise.mediation.mediator import mediate  # the party's half needs none of it
from equipoise.mediation.settlement import Settlement
from equipoise.models import layout_of
from equipoise.models.guarantee import DEFAULT_DELTA
from equipoise.party.ledger import Ledger
from equipoise.party.release import release
from equipoise.protocol.submission import Submission
from equipoise.report import write_reports
from equipoise.report.charts import save_losses
from equipoise.reward.scoring import scaled_rows

TEST_FILE = "test.csv"
PICTURE = "yardsticks.svg"


@dataclass(frozen=True)
class HospitalRound:
    """A hospital's part in the round: its files, the submission it sent, and the cost."""

    name: str
    folder: Path
    submission: Submission
    sent_bytes: int
    spent_zcdp: float
    sum_deviation: float


@dataclass(frozen=True)
class DemoRound:
    """A played round: its agreement, the hospitals' releases, and test rows that nobody released."""

    agreement: Agreement
    hospitals: list[HospitalRound]
    test: Columns

    @property
    def test_features(self) -> Any:
        """The features of the test rows, by name."""
        return {column.name: self.test[column.name] for column in self.agreement.columns[:-1]}

    @property
    def test_target(self) -> NDArray[Any]:
        """The targets of the test rows."""
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
    """Write the agreement, each hospital's table and the test rows; refuse to replace a file."""
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
    """Let the mediator settle; keep its work and the reports in a folder."""
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


def at_home(played: DemoRound, settlement: Settlement) -> dict[str, Yardsticks]:
    """Combine each hospital's reward with its own rows, and measure how well it can predict."""
    test = scaled_rows(played.agreement, played.test_features, played.test_target)
    yardsticks = {}
    for hospital in played.hospitals:
        award = settlement.awards[hospital.name]
        if award.reward is not None:
            yardsticks[hospital.name] = measure(award, hospital.folder / f"{hospital.name}.csv", test)
            yardsticks[hospital.name].model.save(hospital.folder / "model.nc")
    return yardsticks


def draw(by_party: Mapping[str, Yardsticks], path: Path) -> None:
    """Draw all losses, without their errors: those come from the choice of patients, which all models share."""
    losses = {
        party: {name: Estimate(x.value, 0.0) for name, x in yardsticks.losses.items()}
        for party, yardsticks in by_party.items()
    }
    save_losses(path, losses)


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
        echo("The mediator, who has seen only what left, settles (a few seconds).\n")
    with exit_on_interrupt():
        settlement = settle_round(played, folder, progress=False if as_json else None)
        yardsticks = at_home(played, settlement)
    draw(yardsticks, output / PICTURE)
    if as_json:
        print_json(_document(played, settlement, yardsticks, output))
        return
    show_settlement(settlement)
    _show_predictions(played, settlement)
    _show_yardsticks(played, yardsticks)
    first = played.hospitals[0]
    advise = f"equipoise party advise {output}/agreement.toml --party north --rows"
    echo(
        f"Look inside: all that left is in {first.folder / first.name}.submission.json and its siblings.\n"
        f"Try: {advise} {first.submission.count}\n"
        f"     {advise} 5000  # has enough of its own: not worth it\n"
        f"     equipoise predict {first.folder}/model.nc --data {output / TEST_FILE}\n\n"
        f"Picture: {output / PICTURE}\n"
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
                    hospital.name,
                    hospital.submission.count,
                    len(hospital.submission.statistic),
                    hospital.sent_bytes,
                    f"{hospital.submission.stated.epsilon_at():.3g}",
                    f"{hospital.submission.guarantee.epsilon:g}",
                    f"{hospital.spent_zcdp:g}",
                    f"±{hospital.sum_deviation:.3g}",
                )
                for hospital in played.hospitals
            ],
        )
    )


def _show_predictions(played: DemoRound, settlement: Settlement) -> None:
    """Print the rewards' predictions for the first test rows."""
    features = {name: values[:SHOWN_ROWS] for name, values in played.test_features.items()}
    answers = played.test_target[:SHOWN_ROWS].tolist()
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
    what = target if played.agreement.model.estimator_type == "regressor" else "probability of being home"
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


def _show_yardsticks(played: DemoRound, yardsticks: Mapping[str, Yardsticks]) -> None:
    for table in shown(played.agreement.model, yardsticks, len(played.test_target)):
        print_table(table)
    for sentence in (
        "own rows: the hospital's own table, fitted at home without noise. It has that without any round",
        "alone: the model of its release, noise and all; what the mediator calls alone",
        "at home: reward and own rows together, by `equipoise party combine`. It never leaves the hospital",
        "joining pays because each hospital has few patients of the operations that others specialise in. Advice "
        "knows row counts alone, not who has which patients: it is about hospitals that are alike",
    ):
        print_lines(sentence, bullet=True)
    echo()


def _document(
    played: DemoRound, settlement: Settlement, yardsticks: Mapping[str, Yardsticks], output: Path
) -> dict[str, Any]:
    return {
        "agreement": played.agreement.identity,
        "hospitals": [
            {
                "name": hospital.name,
                "submission": str(hospital.folder / f"{hospital.name}.submission.json"),
                "rows": hospital.submission.count,
                "epsilon": hospital.submission.guarantee.epsilon,
                "zcdp": hospital.spent_zcdp,
                "sent_bytes": hospital.sent_bytes,
            }
            for hospital in played.hospitals
        ],
        "settlement": {**settlement.to_json(), "audit": settlement.audit.to_json()},
        "yardsticks": {party: measured.to_json() for party, measured in yardsticks.items()},
        "picture": str(output / PICTURE),
        "report": str(output / "settlement" / "report.html"),
    }
