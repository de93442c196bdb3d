"""What an experiment leaves behind: numbers as CSV, pictures, and verdicts on the paper's claims."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from equipoise.durable import replaced_file
from equipoise.experiments.verdict import Verdict

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """Rows of numbers, pictures, verdicts; `record` says how they were computed."""

    name: str
    rows: Sequence[Row]
    pictures: Sequence[Path]
    verdicts: Sequence[Verdict]
    record: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Everything but the numbers."""
        return {
            "name": self.name,
            "numbers": f"{self.name}.csv",
            "pictures": [path.name for path in self.pictures],
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            **self.record,
        }

    def save(self, folder: Path) -> None:
        """Write numbers and verdicts; the pictures are there already."""
        write_rows(folder / f"{self.name}.csv", self.rows)
        with replaced_file(folder / f"{self.name}.json") as partial:
            text = json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
            partial.write_text(text + "\n", encoding="utf-8")


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Write rows as CSV, numbers with six digits."""
    with replaced_file(path) as partial, partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{cell:.6g}" if isinstance(cell, float) else cell for key, cell in row.items()})
