"""Seconds of whole rounds of tables as hospitals have them: numbers, categories, binary columns and gaps.

    messy    3 parties: a number, a category of three levels, a binary column (6 combinations)
    clinic   3 parties: sex, region, smoker, bmi with marked gaps, age, cost (80 combinations with the gaps)
    trial    5 parties: twelve covariates, six of them of two to five levels (720 combinations)

Parties have 800 to 3,000 rows and an ε of 1; rewards are degraded, as by default. Rows are drawn with fixed seeds, the
noise of releases is not.

    python benchmarks/clinical_rounds.py messy:linear clinic:linear clinic:logistic trial:logistic
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import equipoise as eq

Table = dict[str, Any]


class Category(NamedTuple):
    """A column of levels with their shares."""

    name: str
    shares: tuple[float, ...]

    @property
    def text(self) -> str:
        """Its line in an agreement."""
        names = ", ".join(f'"{level}"' for level in self.levels)
        kind, word = ("binary", "labels") if len(self.levels) == 2 else ("category", "levels")
        return f'{{ name = "{self.name}", kind = "{kind}", {word} = [{names}] }}'

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of its levels."""
        return tuple("abcde"[: len(self.shares)])


class Number(NamedTuple):
    """A column of numbers, about 95 % of them within ± 2 deviations, with a share of gaps."""

    name: str
    gaps: float = 0.0

    @property
    def text(self) -> str:
        """Its line in an agreement."""
        missing = ', missing = "indicator"' if self.gaps else ""
        return f'{{ name = "{self.name}", bounds = [-2, 2], typical = [-1, 1]{missing} }}'


CASES: dict[str, tuple[int, list[Category | Number]]] = {
    "messy": (3, [Category("sex", (0.5, 0.5)), Category("region", (0.5, 0.3, 0.2)), Number("age")]),
    "clinic": (
        3,
        [
            Category("sex", (0.5, 0.5)),
            Category("region", (0.3, 0.25, 0.2, 0.15, 0.1)),
            Category("smoker", (0.2, 0.3, 0.3, 0.2)),
            Number("bmi", gaps=0.15),
            Number("age"),
            Number("cost"),
        ],
    ),
    "trial": (
        5,
        [
            *(Category(f"c{k}", (1 / levels,) * levels) for k, levels in enumerate((2, 2, 3, 3, 4, 5))),
            *(Number(f"x{k}") for k in range(6)),
        ],
    ),
}


def agree(kind: str, parties: int, columns: list[Category | Number]) -> eq.Agreement:
    """Write an agreement with these columns."""
    target = "bounds = [-2, 2], typical = [-1, 1]" if kind == "linear" else 'labels = ["no", "yes"]'
    members = "".join(f'[[parties]]\nname = "hospital-{k}"\n' for k in range(parties))
    return eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "{kind}"\nfeatures = [{", ".join(one.text for one in columns)}]\n'
        f'target = {{ name = "y", {target} }}\n[privacy]\norder = 2\nmax_epsilon = 4.0\n{members}'
    )


def draw_table(kind: str, columns: list[Category | Number], rows: int, rng: np.random.Generator) -> Table:
    """Draw rows with effects of half a deviation of the target at most."""
    table: Table = {}
    level: NDArray[np.float64] = np.zeros(rows)
    for place, column in enumerate(columns):
        effect = 0.25 * np.cos(1.0 + place)
        if isinstance(column, Category):
            chosen = rng.choice(len(column.shares), rows, p=column.shares)
            table[column.name] = np.array(column.levels)[chosen].tolist()
            level += effect * (chosen - chosen.mean())
        else:
            values = np.clip(0.5 * rng.normal(size=rows), -2, 2)
            level += effect * values
            table[column.name] = np.where(rng.uniform(size=rows) < column.gaps, np.nan, values)
    if kind == "linear":
        table["y"] = np.clip(level + 0.4 * rng.normal(size=rows), -2, 2)
    else:
        table["y"] = np.where(rng.uniform(size=rows) < 1 / (1 + np.exp(-3 * level)), "yes", "no").tolist()
    return table


def settle(case: str, kind: str, processes: int | None) -> str:
    """Release, settle a round and say what it took."""
    parties, columns = CASES[case]
    agreement = agree(kind, parties, columns)
    rng = np.random.default_rng(len(columns))
    with tempfile.TemporaryDirectory() as folder:
        sent = []
        for name, rows in zip(agreement.party_names, np.linspace(800, 3_000, parties).round(), strict=True):
            table = draw_table(kind, columns, int(rows), rng)
            ledger = Path(folder) / f"{name}.ledger"
            sent.append(eq.release(agreement, table, party=name, epsilon=1.0, ledger=ledger))
        started, before = time.perf_counter(), _processor_seconds()
        settlement = eq.mediate(agreement, sent, processes=processes, progress=False, force=True)
        wall, cores = time.perf_counter() - started, _processor_seconds() - before
    values = ", ".join(f"{award.target.value:.1f}" for award in settlement.awards.values())
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in settlement.timings.items())
    return f"{case} {kind}: {wall:.1f} s, {cores:.1f} s of the processor ({stages}); targets {values} nats"


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", metavar="case:kind", help=f"one of {', '.join(CASES)}, linear or logistic")
    parser.add_argument("--processes", type=int, help="workers; without it threads")
    options = parser.parse_args()
    for asked in options.cases:
        case, _, kind = asked.partition(":")
        print(settle(case, kind, options.processes), flush=True)


if __name__ == "__main__":
    main()
