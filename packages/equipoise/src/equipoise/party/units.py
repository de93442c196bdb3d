"""Units of privacy: what a guarantee protects, and what several guarantees add up to for one individual.

A guarantee compares two tables that differ in one *unit*. There are three kinds: one row; the rows of one individual
who has at most k of them; all rows of one individual, however many. Zero-concentrated ρ of different units must not be
added: the sum would bound neither what a row loses nor what a person does.

**Claim.** Let every individual have at most k rows in any table from which a spend at the unit "one row" was made. Then
all spends together are, for replacing the rows of one individual,

    Σ ρ(spends that protect individuals) + k² Σ ρ(spends that protect one row)    -zCDP.

**Argument.** *One spend.* Two tables that differ in the rows of one individual, of whom both have the same number, are
joined by a chain of at most k tables, each of which replaces one row of the last. A mechanism that is ρ-zCDP for one
replacement is k²ρ-zCDP for k of them (Bun & Steinke 2016, Proposition 1.9). Our own noise shows it at once: k
replacements move the statistic by at most kΔ, and (kΔ)²/(2σ²) = k²ρ. *All spends.* Each is now zCDP for the same unit,
and zCDP of one unit adds up, whatever was chosen after seeing earlier releases (Lemma 1.7 there).

**Without k nothing finite holds**: (kΔ)²/(2σ²) exceeds every number as k grows. A total of unlike units is therefore
infinite here, and a ledger spends nothing more, until somebody states k.

**Cohorts.** Releases about disjoint sets of individuals compose in parallel. If two tables differ in the rows of one
individual in cohort c, then every release about another cohort has the same distribution for both, whatever came before
it. So only releases about c and about everybody count, and the worst-off individual has lost

    Σ ρ(everybody) + max over cohorts c of Σ ρ(c),  each ρ as charged above.

**Preconditions.** The party states k, and which columns name the same individuals. Both come from knowledge of how the
tables are made and stay in the ledger with a reason; nobody can check them. Spends that protect one row hide what is in
somebody's rows, not how many there are. Everybody's cohort is public, such as the year of admission, and nobody is in
two: a row that could move from one cohort to another would change two.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from equipoise.models import Individuals

LARGEST_ROWS_PER_INDIVIDUAL = 1_000_000


@dataclass(frozen=True)
class Unit:
    """The unit that a guarantee protects: one row, or rows of one individual, whom a column names.

    `rows` is the most rows that anybody has, or None if a guarantee holds for any number of them.
    """

    individual: str | None = None
    rows: int | None = 1

    @classmethod
    def of(cls, individuals: Individuals | None) -> Self:
        """Return the unit that a release protects under an agreement, or under the options of `party bounds`."""
        if individuals is None:
            return cls()
        return cls(individuals.column, None if individuals.aggregate is not None else individuals.rows)

    @classmethod
    def from_entry(cls, entry: dict[str, Any]) -> Self:
        """Read the unit of a ledger's entry.

        Versions up to 0.14 wrote none. Their releases remembered the agreed column and number of rows among the public
        bounds, as in `"rows of one patient": [3]` or `[1, "aggregate = mean"]`; every other entry counts as one row,
        the unit that is charged most.
        """
        if "unit" in entry:
            return cls(entry["unit"]["individual"], entry["unit"]["rows"])
        for name, values in entry.get("domains", {}).items():
            # Bounds and labels of a column always have two values of one type, so that no column is mistaken for this.
            aggregated = len(values) == 2 and isinstance(values[0], int) and isinstance(values[1], str)
            if name.startswith(_BEFORE_015) and (len(values) == 1 or aggregated):
                return cls(name.removeprefix(_BEFORE_015), None if aggregated else values[0])
        return cls()

    def __str__(self) -> str:
        if self.individual is None:
            return "one row"
        if self.rows is None:
            return f"all rows of one {self.individual}"
        return f"the row of one {self.individual}" if self.rows == 1 else f"{self.rows} rows of one {self.individual}"


ONE_ROW = Unit()
_BEFORE_015 = "rows of one "


class Charge(Protocol):
    """A spend as an account sees it."""

    @property
    def zcdp(self) -> float:
        """The ρ for the unit of the spend."""

    @property
    def cohort(self) -> str:
        """The part of the individuals that the spend is about; everybody if empty."""

    @property
    def unit(self) -> Unit:
        """The unit that the spend protects."""


@dataclass(frozen=True)
class Planned:
    """A spend that has not happened yet."""

    zcdp: float
    cohort: str
    unit: Unit


@dataclass(frozen=True)
class Account:
    """All spends about the same individuals, and the party's statements about their rows.

    `rows_per_individual` is the most rows that anybody has in a table whose single rows were protected, None if nobody
    said; `same_individuals` are columns that all name the same individuals.
    """

    spends: Sequence[Charge]
    rows_per_individual: int | None = None
    same_individuals: frozenset[str] = frozenset()

    @property
    def individual(self) -> str | None:
        """The column whose individuals the total is for; None if it is for one row.

        A stated number of rows makes the total one of individuals, even before any spend names their column.
        """
        if self.columns:
            return self.columns[0]
        return None if self.rows_per_individual is None else "individual"

    @property
    def columns(self) -> list[str]:
        """The columns that name individuals, in the order of the spends that protect them."""
        columns = [spend.unit.individual for spend in self.spends if spend.unit.individual is not None]
        return list(dict.fromkeys(columns))

    def _are_same(self, column: str, other: str) -> bool:
        return column == other or {column, other} <= self.same_individuals

    @property
    def unit(self) -> str:
        """The unit that the total is for, in words."""
        return str(ONE_ROW if self.individual is None else Unit(self.individual, rows=None))

    @property
    def obstacle(self) -> str:
        """The reason why the spends cannot be added up, with a remedy; empty if they can."""
        others = [column for column in self.columns if not self._are_same(column, self.columns[0])]
        if others:
            return (
                f"spends that protect one {self.individual!r} and spends that protect one {others[0]!r} do not add up. "
                "If both columns name the same individuals, say so with `equipoise party amend LEDGER "
                f"--same-individuals {others[0]} --reason TEXT`; if not, agree on one of the columns"
            )
        rows = [spend for spend in self.spends if spend.unit.individual is None]
        if self.individual is None or self.rows_per_individual is not None or not rows:
            return ""
        return (
            f"spends that protect one row (zCDP {math.fsum(spend.zcdp for spend in rows):g}) and spends that protect "
            f"one {self.individual!r} do not add up: for somebody with k rows the former count k² times. State the "
            "most rows that anybody has in the tables of the former (1 if everybody has one) with `equipoise party "
            "amend LEDGER --rows-per-individual K --reason TEXT`, or protect the same unit in both"
        )

    def times(self, unit: Unit) -> float:
        """Return how often the ρ of a unit counts in the total: k² times for one row if individuals are counted."""
        if self.individual is None or unit.individual is not None:
            return 1.0
        return math.inf if self.rows_per_individual is None else float(self.rows_per_individual**2)

    def spent_on(self, cohort: str) -> float:
        """Add up what the individuals of a cohort have lost, to releases about it and about everybody."""
        if self.obstacle:
            return math.inf
        return math.fsum(self.times(spend.unit) * spend.zcdp for spend in self.spends if spend.cohort in ("", cohort))

    @property
    def cohorts(self) -> tuple[str, ...]:
        """The empty name, for everybody, and the named cohorts."""
        return tuple(dict.fromkeys(["", *(spend.cohort for spend in self.spends)]))

    @property
    def total(self) -> float:
        """The loss of the worst-off individual, or row; infinite if unlike units cannot be added up."""
        return max(map(self.spent_on, self.cohorts))
