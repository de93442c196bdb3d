"""A round among three hospitals, on data that ships with scikit-learn: regression or classification.

The table is split, an agreement written, and each hospital releases at its own ε into its own folder, exactly as three
strangers would on three machines. Then the mediator, who sees their submissions alone, settles. Some rows belong to no
hospital: they tell how well each reward predicts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise.agreement import Agreement
from equipoise.models import layout_of
from equipoise.party.ledger import Ledger
from equipoise.party.release import release
from equipoise.protocol.submission import Submission

if TYPE_CHECKING:
    from equipoise.mediation.settlement import Settlement

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
    from sklearn.datasets import load_diabetes  # only the demo needs these data

    data = load_diabetes(scaled=False)
    names = {"age": "age", "bmi": "bmi", "bp": "bp", "s5": "ltg"}
    columns = {ours: data.data[:, data.feature_names.index(theirs)] for theirs, ours in names.items()}
    return {**columns, "progression": data.target}


def _breast_cancer() -> Columns:
    from sklearn.datasets import load_breast_cancer

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


def settle_round(played: DemoRound, folder: Path, *, progress: bool | None = None) -> "Settlement":
    """Let the mediator settle, and keep its work and the reports in a folder."""
    from equipoise.mediation.mediator import mediate  # the party's half needs none of it
    from equipoise.report import write_reports

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
    import csv

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
