"""The form of a statistic: grid columns, entries, weights, sensitivity.

Every model's statistic is a list of sums over rows, each either of one *grid column* or of a product of two. A grid
column holds integers in [−2¹⁶, 2¹⁶]: a number mapped publicly from its bounds to [−1, 1] and rounded to the 2⁻¹⁶ grid,
or a code within [−1, 1], mostly −1, 0 or 1, times 2¹⁶. Products, and single columns times the constant 2¹⁶, are
integers in units of 2⁻³², so sums are exact in any order, and the sensitivity bound holds for the very numbers that are
released.

An entry also carries a small integer *weight*. Entries that one row cannot push as far as the others get a larger
weight, as far as the sensitivity allows; the same noise on the weighted integers is then less noise on those entries,
for free (see the proofs beside the layouts of the kinds).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.models.guarantee import Guarantee

GRID = 2**16  # grid steps per unit of a scaled column
UNIT = GRID * GRID  # steps per unit of an unweighted entry
LARGEST_NOISE = 2.0**58  # most grid steps of a standard deviation: sixteen of them fit beside the sums
BASE_WEIGHT = 8  # weight of an ordinary entry where others are up-weighted: 1/8 is fine enough to lose 7 % at most


TRANSFORMS: dict[str, Callable[[Floats], Floats]] = {
    "log": np.log,
    "sqrt": np.sqrt,
    "logit": lambda share: np.log(share / (1 - share)),
}


@dataclass(frozen=True)
class ScaledColumn:
    """A numeric column mapped from a public range, its reach, to [−1, 1] and clipped there.

    With a transform, the transformed ends are mapped, so the middle is not halfway between the untransformed ones. A
    missing cell (NaN) counts as `fill`, if that is agreed. If gaps are marked by an indicator, the cell becomes exactly
    0, which the sensitivity relies on: not a value that maps to 0 only up to rounding.
    """

    name: str
    lower: float
    upper: float
    whole_for: str = ""  # the kind of model that takes whole numbers only, if this is a column of one
    transform: str | None = None
    fill: float | None = None
    gaps_marked: bool = False
    since: str | None = None  # a date: cells are dates, and numbers are days since
    valid: tuple[float, float] | None = None  # wider than the range, perhaps: where a transform is taken

    @property
    def middle(self) -> float:
        """The value that maps to 0, transformed."""
        lower, upper = self._ends
        return lower + (upper - lower) / 2

    @property
    def half_width(self) -> float:
        """The distance that maps to 1, transformed."""
        lower, upper = self._ends
        return (upper - lower) / 2

    @property
    def _ends(self) -> tuple[float, float]:
        return self.transformed(self.lower), self.transformed(self.upper)

    def transformed(self, value: float) -> float:
        """Transform a value within the bounds as the column does before scaling."""
        return value if self.transform is None else float(TRANSFORMS[self.transform](np.asarray(value)))

    @property
    def middle_value(self) -> float:
        """The value that maps to 0, before the transform."""
        if self.transform is None:
            return self.middle
        inverse: dict[str, Callable[[float], float]] = {
            "log": math.exp,
            "sqrt": lambda root: root**2,
            "logit": lambda odds: 1 / (1 + math.exp(-odds)),
        }
        return inverse[self.transform](self.middle)

    @property
    def whole(self) -> bool:
        """True if every value must be a whole number."""
        return bool(self.whole_for)

    @property
    def plain(self) -> bool:
        """True if scaling is just a subtraction and a division."""
        return self.transform is None and self.since is None and not self.takes_missing

    @property
    def takes_missing(self) -> bool:
        """True if a cell may be missing."""
        return self.fill is not None or self.gaps_marked

    def coded(self, cells: Floats) -> Floats:
        """Return cells in scaled units, not clipped; but values are moved to valid ones before a transform."""
        if self.fill is not None:
            cells = np.where(np.isnan(cells), self.fill, cells)
        if self.transform is not None:
            cells = TRANSFORMS[self.transform](np.clip(cells, *(self.valid or (self.lower, self.upper))))
        # A huge value is clipped like any other.
        with np.errstate(over="ignore"):
            values = (cells - self.middle) / self.half_width
        return np.where(np.isnan(cells), 0.0, values) if self.gaps_marked else np.asarray(values)


@dataclass(frozen=True)
class CodedColumn:
    """A column with agreed values, each replaced by its code in [−1, 1].

    Cells are given as indices of labels, −1 for a value that is not one of them and NaN for a missing one; `other` and
    `missing` are the codes of those, if they are agreed.
    """

    name: str
    labels: tuple[int | str, ...]
    codes: tuple[float, ...]
    other: float | None = None
    missing: float | None = None

    @property
    def takes_missing(self) -> bool:
        """True if a cell may be missing."""
        return self.missing is not None

    def coded(self, cells: Floats) -> Floats:
        """Return the codes of label indices."""
        codes = np.array([*self.codes, self.other or 0.0, self.missing or 0.0])
        places = np.where(np.isnan(cells), len(codes) - 1, np.where(cells < 0, len(codes) - 2, cells))
        return np.asarray(codes[places.astype(np.int64)])


@dataclass(frozen=True)
class GapColumn:
    """An indicator: 1 where the number of that name is missing, otherwise 0."""

    name: str

    @property
    def takes_missing(self) -> bool:
        """True: marking missing cells is the column's purpose."""
        return True

    def coded(self, cells: Floats) -> Floats:
        """Return 1 for missing cells, otherwise 0."""
        return np.isnan(cells).astype(float)


GridColumn = ScaledColumn | CodedColumn | GapColumn


class Entry(NamedTuple):
    """A number of the statistic: sum of column `first` (times column `second`, unless None), weighted."""

    name: str
    first: int
    second: int | None
    weight: int


Aggregate = Literal["mean", "first", "last"]


class Individuals(NamedTuple):
    """The column that names a row's owner, the most rows that anybody may have, and a flag to drop further ones.

    With `aggregate`, all rows of an individual are combined into one before it is coded, and `rows` is 1.
    """

    column: str
    rows: int
    drop: bool
    aggregate: Aggregate | None = None


@dataclass(frozen=True)
class Layout:
    """The columns, entries and proved ℓ₂-sensitivity of the weighted integer statistic under replacing one row.

    `squared_radius` is the agreed ℓ₂ ball of the columns with indices `ball_columns`, in squared grid steps; rows
    outside are pulled onto it. `sensitivity` is in grid steps of the weighted statistic and rounded up. With
    `individuals`, it is that of replacing all rows of one of them. `agreed_rows` is the most rows that a party may
    release, if agreed.
    """

    columns: tuple[GridColumn, ...]
    entries: tuple[Entry, ...]
    sensitivity: int
    squared_radius: int | None = None
    ball_columns: tuple[int, ...] = ()
    individuals: Individuals | None = None
    agreed_rows: int | None = None

    def for_individuals(self, individuals: Individuals) -> "Layout":
        """Return the same sums with the sensitivity for all rows of an individual.

        An individual with at most k rows is replaced by another one with as many, row by row: k replacements of one
        row, each of which changes the sums by at most Δ. By the triangle inequality they change by at most **k Δ**, and
        do if all k rows are alike. Of an individual with more rows, the first k are used; which of the others' rows are
        used does not depend on that. The number of rows is public, so the number of somebody's rows is not protected,
        only their content.

        If rows are aggregated, k = 1: `ContributionBounding.merged` makes one row of all rows that somebody has, from
        nobody else's. Replacing them by any others, of any number but none, replaces that one row, and the sums change
        by at most **Δ**. The number of individuals is public; the number of somebody's rows is protected like their
        content.
        """
        return replace(self, sensitivity=individuals.rows * self.sensitivity, individuals=individuals)

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def steps_per_unit(self) -> tuple[int, ...]:
        """The divisors that turn released integers into the entries' values."""
        return tuple(UNIT * entry.weight for entry in self.entries)

    @cached_property
    def max_rows(self) -> int:
        """The most rows that can be released: as agreed, if their weighted sums surely stay below 2⁶².

        That leaves as much again for the noise.
        """
        summable = 2**62 // max(self.steps_per_unit)
        return summable if self.agreed_rows is None else min(self.agreed_rows, summable)

    @cached_property
    def row_limits(self) -> tuple[tuple[float, float], ...]:
        """The least and most that one row can add to each entry, in the entry's own units."""

        def of_column(index: int) -> tuple[float, float]:
            column = self.columns[index]
            if isinstance(column, CodedColumn):
                codes = [*column.codes, *(code for code in (column.other, column.missing) if code is not None)]
                return min(codes), max(codes)
            return (0.0, 1.0) if isinstance(column, GapColumn) else (-1.0, 1.0)

        limits = []
        for entry in self.entries:
            low, high = of_column(entry.first)
            if entry.second == entry.first:
                low, high = 0.0, max(low**2, high**2)
            elif entry.second is not None:
                corners = [a * b for a in (low, high) for b in of_column(entry.second)]
                low, high = min(corners), max(corners)
            limits.append((low, high))
        return tuple(limits)

    def beyond_rows(self, values: Sequence[float], count: float, noise: Sequence[float]) -> list[float]:
        """Return how far each entry lies outside the possible sums of `count` rows, in deviations of its noise."""
        return [
            max(count * low - value, value - count * high) / deviation
            for value, (low, high), deviation in zip(values, self.row_limits, noise, strict=True)
        ]

    def contradiction(
        self, values: Sequence[float], count: float, noise: Sequence[float], deviations: float
    ) -> str | None:
        """Name sums that no rows have together, even if the noise of each is off by `deviations`.

        By the Cauchy–Schwarz inequality (Σx)² ≤ n Σx² and (Σxy)² ≤ Σx² Σy². Each sum is moved in favour of the rows by
        `deviations` of its noise, so an honest release contradicts itself only if some noise is farther off. The
        condition on all columns together is checked last.
        """
        sums = {(entry.first, entry.second): index for index, entry in enumerate(self.entries)}
        most = {
            entry.first: values[index] + deviations * noise[index]
            for index, entry in enumerate(self.entries)
            if entry.second == entry.first
        }
        for (first, second), index in sums.items():
            if first == second or first not in most or (second is not None and second not in most):
                continue
            least = max(0.0, abs(values[index]) - deviations * noise[index])
            square = most[first] * (count if second is None else most[second])
            if least**2 > square:
                others = [self.entries[sums[column, column]].name for column in (first, second) if column is not None]
                return f"{self.entries[index].name!r} is {values[index]:.4g}, too large for {' and '.join(others)}"
        return self._negative_square(values, count, noise, deviations)

    def _negative_square(
        self, values: Sequence[float], count: float, noise: Sequence[float], deviations: float
    ) -> str | None:
        """Name a weighted sum of columns whose squares add up to less than 0 by more than the noise explains.

        For z = (1, x) of every row, M = Σ z zᵀ has no negative eigenvalue. A release has M + E, and by Weyl's
        inequality its smallest eigenvalue is at least −‖E‖ ≥ −‖E‖_F. An entry with noise σg stands in E once if it is a
        square, otherwise twice: ‖E‖_F² = Σ a g², with a = σ² or 2σ². The g are sub-Gaussian with variance 1, so that E
        exp(λg²) ≤ (1 − 2λ)^−½, which is all that the proof of Laurent and Massart (2000, lemma 1) needs:

            P(Σ a g² > Σ a + 2 √t |a|₂ + 2 t max a) ≤ e^−t,

        here with t = deviations²/2. Columns without a sum of squares, such as levels, are left out: the remaining block
        of M has no negative eigenvalue either.
        """
        squared = [entry.first for entry in self.entries if entry.second == entry.first]
        index: dict[int | None, int] = {
            None: 0,
            **{column: position for position, column in enumerate(squared, start=1)},
        }
        matrix = np.zeros((len(index), len(index)))
        matrix[0, 0] = count
        a = []
        for entry, value, deviation in zip(self.entries, values, noise, strict=True):
            if entry.first in index and entry.second in index:
                row, column = index[entry.first], index[entry.second]
                matrix[row, column] = matrix[column, row] = value
                a.append(deviation**2 if row == column else 2 * deviation**2)
        # No squares at all, as of shares, or a product that is not released: nothing follows.
        if not a or len(a) < len(matrix) * (len(matrix) + 1) // 2 - 1:
            return None
        t = deviations**2 / 2
        largest = math.sqrt(sum(a) + 2 * math.sqrt(t) * math.hypot(*a) + 2 * t * max(a))
        eigenvalues, vectors = np.linalg.eigh(matrix)
        rounding = 1e-12 * float(np.abs(eigenvalues).max())
        if eigenvalues[0] >= -largest - rounding:
            return None
        names = ["1", *(repr(self.columns[column].name) for column in squared)]
        foremost = [names[position] for position in np.argsort(-np.abs(vectors[:, 0]))[:4]]
        return f"squares of a weighted sum of {', '.join(foremost)} add up to {eigenvalues[0]:.4g}"

    def noise_steps(self, guarantee: Guarantee) -> float:
        """Return the standard deviation of the noise on every released integer: σ = Δ/√(2ρ), in grid steps."""
        return self.sensitivity / math.sqrt(2 * guarantee.zcdp)

    def noise_deviations(self, guarantee: Guarantee) -> tuple[float, ...]:
        """Return the standard deviation of the noise on each entry, in the entry's own units."""
        sigma = self.noise_steps(guarantee)
        return tuple(sigma / steps for steps in self.steps_per_unit)


def ceil_sqrt(value: int) -> int:
    """Return the smallest integer whose square is at least `value`."""
    root = math.isqrt(value)
    return root if root * root == value else root + 1


def scaled(name: str, bounds: tuple[float, float], *, whole_for: str = "") -> ScaledColumn:
    """Return the grid column of a bounded number."""
    return ScaledColumn(name=name, lower=bounds[0], upper=bounds[1], whole_for=whole_for)
