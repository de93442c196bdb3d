"""A round among three hospitals, on the diabetes-progression data that ships with scikit-learn.

The table is split, an agreement written, and each hospital releases at its own ε into its own folder, exactly as three
strangers would on three machines. Then the mediator, who sees their submissions alone, settles. Some rows belong to no
hospital: they tell how well each reward predicts.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.agreement import Agreement
from equipoise.models import ScaledColumn, layout_of
from equipoise.party.ledger import Ledger
from equipoise.party.release import release
from equipoise.wire import Submission

if TYPE_CHECKING:
    from equipoise.settlement import Settlement

# Bounds anyone could state without seeing these 442 patients.
AGREEMENT = """\
format = 1
title = "Diabetes progression, three hospitals (demo)"

[model]
kind = "linear"
features = [
  { name = "age", bounds = [18, 90] },
  { name = "bmi", bounds = [15, 50] },
  { name = "bp", bounds = [50, 150] },
  { name = "ltg", bounds = [3, 6.5] },
]
target = { name = "progression", bounds = [0, 400] }

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

# Share of the rows and epsilon: a small generous hospital, a middling one, a large cautious one.
HOSPITALS = {"north": (0.2, 4.0), "south": (0.3, 1.0), "west": (0.5, 0.25)}
TEST = "test"
TEST_SHARE = 0.2
SEED = 2023


@dataclass(frozen=True)
class HospitalRound:
    """What one hospital did: its files, what it sent, and what only it can see."""

    name: str
    folder: Path
    submission: Submission
    sent_bytes: int
    spent_zcdp: float
    true_mean: float
    released_mean: float
    released_deviation: float
    sum_deviation: float


def play_round(folder: Path) -> tuple[Agreement, list[HospitalRound]]:
    """Write the agreement into an empty folder, split the data, and let every hospital release."""
    agreement_file = folder / "agreement.toml"
    agreement_file.write_text(AGREEMENT, encoding="utf-8")
    agreement = Agreement.load(agreement_file)
    tables = split_rows()
    return agreement, [_release(agreement, folder / name, name, tables[name]) for name in HOSPITALS]


def settle_round(agreement: Agreement, hospitals: list[HospitalRound], folder: Path) -> "Settlement":
    """Let the mediator settle, and keep its work in a folder."""
    from equipoise.mediator import mediate  # the party's half needs none of it

    test = split_rows()[TEST]
    features = np.column_stack([test[column.name] for column in agreement.columns[:-1]])
    return mediate(
        agreement,
        [hospital.submission for hospital in hospitals],
        seed=SEED,
        test=(features, test[agreement.columns[-1].name]),
        folder=folder,
    )


def split_rows() -> dict[str, dict[str, Any]]:
    """Give each hospital its share of the rows, as columns in their own units; the rest is for testing."""
    from sklearn.datasets import load_diabetes  # only the demo needs scikit-learn

    data = load_diabetes(scaled=False)
    names = {"age": "age", "bmi": "bmi", "bp": "bp", "s5": "ltg"}
    columns = {ours: data.data[:, data.feature_names.index(theirs)] for theirs, ours in names.items()}
    columns["progression"] = data.target
    order = np.random.default_rng(SEED).permutation(len(data.target))
    shares = [(1 - TEST_SHARE) * share for share, _ in HOSPITALS.values()]
    cuts = np.round(np.cumsum([0.0, *shares, TEST_SHARE]) * len(order)).astype(int)
    return {
        name: {column: values[order[start:stop]] for column, values in columns.items()}
        for name, start, stop in zip([*HOSPITALS, TEST], cuts, cuts[1:], strict=False)
    }


def _release(agreement: Agreement, folder: Path, name: str, table: dict[str, Any]) -> HospitalRound:
    folder.mkdir()
    rows = np.column_stack(list(table.values()))
    source = folder / f"{name}.csv"
    np.savetxt(source, rows, delimiter=",", header=",".join(table), comments="", fmt="%.6g")
    ledger = folder / f"{name}.ledger"
    submission = release(
        agreement, source, party=name, epsilon=HOSPITALS[name][1], ledger=ledger, family=f"patients of {name}"
    )
    sent = submission.to_json()
    (folder / f"{name}.submission.json").write_bytes(sent)

    layout = layout_of(agreement)
    target = layout.columns[-1]
    assert isinstance(target, ScaledColumn)
    entry = len(layout.columns) - 1  # the sums of single columns come first
    mean = submission.values(agreement)[entry] / submission.count
    deviation = layout.noise_deviations(submission.stated)[entry]
    return HospitalRound(
        name=name,
        folder=folder,
        submission=submission,
        sent_bytes=len(sent),
        spent_zcdp=Ledger(ledger).read().total_zcdp,
        true_mean=float(np.mean(table["progression"])),
        released_mean=target.middle + target.half_width * mean,
        released_deviation=target.half_width * deviation / submission.count,
        sum_deviation=deviation,
    )
