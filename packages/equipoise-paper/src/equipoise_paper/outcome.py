"""The outcome of an experiment: numbers as CSV, pictures, and verdicts on the paper's claims."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from equipoise._util.files import replaced_file
from equipoise.estimate import Estimate
from equipoise_paper.verdict import Verdict, mean_of_runs

Row = Mapping[str, Any]
RUN, ERROR, RHAT = "run", "_error", "rhat"


@dataclass(frozen=True)
class Outcome:
    """Rows of numbers with standard errors, pictures and verdicts; `record` describes how they were computed.

    `runs` holds the rows of every single run, if `rows` are means over several runs.
    """

    name: str
    rows: Sequence[Row]
    pictures: Sequence[Path]
    verdicts: Sequence[Verdict]
    runs: Sequence[Row] = ()
    record: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_runs(
        cls, name: str, runs: Sequence[Row], by: Sequence[str], pictures: Sequence[Path], verdicts: Sequence[Verdict]
    ) -> Self:
        """Build an outcome whose rows are means over runs, one for each combination of values in the columns `by`."""
        return cls(name, means_of(runs, by), pictures, verdicts, runs)

    def to_json(self) -> dict[str, Any]:
        """Return everything except the numbers, as plain values."""
        return {
            "name": self.name,
            "numbers": f"{self.name}.csv",
            "runs": runs_file(self.name) if self.runs else None,
            "pictures": [path.name for path in self.pictures],
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            **self.record,
        }

    def save(self, folder: Path) -> None:
        """Write numbers and verdicts into a folder that holds the pictures already."""
        write_rows(folder / f"{self.name}.csv", self.rows)
        if self.runs:
            write_rows(folder / runs_file(self.name), self.runs)
        with replaced_file(folder / f"{self.name}.json") as partial:
            text = json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
            partial.write_text(text + "\n", encoding="utf-8")


def runs_file(name: str) -> str:
    """Return the name of the file with an item's single runs."""
    return f"{name}-runs.csv"


def means_of(runs: Sequence[Row], by: Sequence[str]) -> list[dict[str, Any]]:
    """Average every column, with standard errors, over the runs with equal values of `by`; of R-hat take the worst."""
    keys = list(dict.fromkeys(tuple(row[name] for name in by) for row in runs))
    groups = [[row for row in runs if tuple(row[name] for name in by) == key] for key in keys]
    rows: list[dict[str, Any]] = [dict(zip(by, key, strict=True)) for key in keys]
    for name in runs[0]:
        if name in (*by, RUN) or name.endswith(ERROR):
            continue
        if name == RHAT:
            for row, group in zip(rows, groups, strict=True):
                row[name] = max(run[name] for run in group)
            continue
        means = mean_of_runs([[_estimate(run, name) for run in group] for group in groups])
        for row, mean in zip(rows, means, strict=True):
            row |= {name: mean.value, f"{name}{ERROR}": mean.error}
    return rows


def _estimate(row: Row, name: str) -> Estimate | float:
    error = row.get(f"{name}{ERROR}")
    return float(row[name]) if error is None else Estimate(row[name], error)


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as CSV, with six significant digits."""
    with replaced_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{cell:.6g}" if isinstance(cell, float) else cell for key, cell in row.items()})
