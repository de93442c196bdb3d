"""The demo's simulated patients, and what their hospitals agree on before they look at them.

The first set of patients, simulated with seed 1, is used. Each hospital has specialities: nineteen in twenty of its
patients had one of two operations, the others one of four that other hospitals know better. The patients to predict had
any of the six. `benchmarks/demo_luck.py` plays the round with other patients and other noise.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[Any]]

# Patients and epsilon. At order 2 an epsilon of 1 is (4.89, 1e-6)-DP.
HOSPITALS = {"north": (500, 1.0), "south": (550, 0.9), "west": (600, 0.8)}
TEST_ROWS = 5_000
SEED = 2023
PATIENTS = 1  # seed of the simulated patients
SPECIALITIES = {
    "north": {"hip": 8, "spine": -14},  # points of recovery
    "south": {"hernia": 18, "bowel": -20},
    "west": {"thyroid": 14, "bladder": -6},
}
OPERATIONS = {name: points for three in SPECIALITIES.values() for name, points in three.items()}
# Share of a hospital's patients, chosen on 75 other sets of patients, with one distribution of features for all. With
# one for each hospital everybody gained with 98 % of 50 sets.
SPECIALISED = 0.95
CENTRE, MOBILITY, NOISE, SLOPE = 50.0, 5.0, 21.0, 16.0

_REST = f"""\
features = [
  {{ name = "mobility", bounds = [0, 4], typical = [0, 4] }},
  {{ name = "operation", kind = "category", levels = [
    {", ".join(f'"{name}"' for name in OPERATIONS)},
  ] }},
]
target = {{target}}

[model.data_prior]
scope = "per-party"  # hospitals have patients of other operations

[privacy]
order = 2
max_epsilon = 1.0
max_rows = 100_000

[[parties]]
name = "north"
[[parties]]
name = "south"
[[parties]]
name = "west"
"""


def _sizes() -> dict[str, int]:
    return {name: rows for name, (rows, _) in HOSPITALS.items()} | {"test": TEST_ROWS}


def _mix(name: str) -> NDArray[np.float64]:
    """Return the frequency of each operation in a hospital; without specialities all are equally frequent."""
    own = np.array([operation in SPECIALITIES.get(name, OPERATIONS) for operation in OPERATIONS])
    shares = np.where(own, SPECIALISED / own.sum(), (1 - SPECIALISED) / max((~own).sum(), 1))
    return np.asarray(shares / shares.sum())


@dataclass(frozen=True)
class Example:
    """An example round: the hospitals' agreement, and the outcome they want to predict."""

    title: str
    kind: Literal["linear", "logistic"]
    target: str
    outcome: str

    @property
    def agreement(self) -> str:
        """The text of the agreement file. Bounds and typical ranges are those of the questionnaire."""
        head = f'format = 3\ntitle = "{self.title}"\n\n[model]\nkind = "{self.kind}"\n'
        return head + _REST.replace("{target}", self.target)

    def load(self, seed: int = PATIENTS) -> Columns:
        """Simulate the patients of all hospitals, followed by those of none."""
        rng = np.random.default_rng(seed)
        operation = np.concatenate(
            [rng.choice(list(OPERATIONS), size=rows, p=_mix(name)) for name, rows in _sizes().items()]
        )
        mobility = rng.integers(0, 5, size=len(operation))
        expected = CENTRE + MOBILITY * (mobility - 2) + np.array([OPERATIONS[name] for name in operation])
        recovery = np.clip(np.round(expected + NOISE * rng.normal(size=len(operation))), 0, 100)
        home = np.where(rng.random(len(operation)) < 1 / (1 + np.exp(-(expected - CENTRE) / SLOPE)), "yes", "no")
        outcome = recovery if self.kind == "linear" else home
        return {"mobility": mobility.astype(float), "operation": operation, self.outcome: outcome}


EXAMPLES = {
    "regression": Example(
        "Recovery after surgery, three hospitals (demo)",
        "linear",
        '{ name = "recovery", bounds = [0, 100], typical = [5, 95] }',
        "recovery",
    ),
    "classification": Example(
        "Home within a week, three hospitals (demo)",
        "logistic",
        '{ name = "home", labels = ["no", "yes"] }',
        "home",
    ),
}


def split_rows(columns: Columns) -> dict[str, Columns]:
    """Return each hospital's patients; the remaining ones, "test", belong to no hospital."""
    cuts = np.cumsum([0, *_sizes().values()])
    return {
        name: {column: values[start:stop] for column, values in columns.items()}
        for name, start, stop in zip(_sizes(), cuts, cuts[1:], strict=False)
    }
