"""The shape of a statistic: grid columns, entries, weights, sensitivity.

Every model's statistic is a list of sums over rows, each either of one *grid column* or of a product of two. A grid
column holds integers in [−2¹⁶, 2¹⁶]: a number mapped publicly from its bounds to [−1, 1] and rounded to the 2⁻¹⁶
grid, or a code (−1, 0, 1) times 2¹⁶. Products, and single columns times the constant 2¹⁶, are integers in units of
2⁻³², so sums are exact in any order, and the sensitivity bound holds for the very numbers that are released.

An entry also carries a small integer *weight*. Entries that one row cannot push as far as the others get a larger
weight, as far as the sensitivity allows; the same noise on the weighted integers is then less noise on those entries,
for free (see the proofs in `linear.py`, `logistic.py` and `conjugate.py`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from equipoise.guarantee import Guarantee

GRID = 2**16  # grid steps per unit of a scaled column
UNIT = GRID * GRID  # steps per unit of an unweighted entry
LARGEST_NOISE = 2.0**58  # steps, of a standard deviation: sixteen fit beside the sums
BASE_WEIGHT = 8  # weight of an ordinary entry where others are up-weighted: 1/8 is fine enough to lose 7 % at most


@dataclass(frozen=True)
class ScaledColumn:
    """A numeric column mapped from its public bounds to [−1, 1] and clipped there."""

    name: str
    lower: float
    upper: float
    whole: bool = False

    @property
    def middle(self) -> float:
        """The value that maps to 0."""
        return self.lower + (self.upper - self.lower) / 2

    @property
    def half_width(self) -> float:
        """The distance that maps to 1."""
        return (self.upper - self.lower) / 2


@dataclass(frozen=True)
class CodedColumn:
    """A column with agreed values only, each replaced by its code −1, 0 or 1."""

    name: str
    labels: tuple[int | str, ...]
    codes: tuple[int, ...]


class Entry(NamedTuple):
    """One number of the statistic: sum of column `first` (times column `second`, unless None), weighted."""

    name: str
    first: int
    second: int | None
    weight: int


@dataclass(frozen=True)
class Layout:
    """Columns, entries and the proved ℓ₂-sensitivity of the weighted integer statistic under replacing one row.

    `squared_radius` is the agreed ℓ₂ ball of the first `ball_columns` columns, in squared grid steps; rows outside
    are pulled onto it. `sensitivity` is in grid steps of the weighted statistic and rounded up.
    """

    columns: tuple[ScaledColumn | CodedColumn, ...]
    entries: tuple[Entry, ...]
    sensitivity: int
    squared_radius: int | None = None
    ball_columns: int = 0

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def steps_per_unit(self) -> tuple[int, ...]:
        """What each released integer must be divided by to give the entry's value."""
        return tuple(UNIT * entry.weight for entry in self.entries)

    @cached_property
    def max_rows(self) -> int:
        """Most rows whose weighted sums surely stay below 2⁶², leaving as much again for the noise."""
        return 2**62 // max(self.steps_per_unit)

    @cached_property
    def row_limits(self) -> tuple[tuple[float, float], ...]:
        """Least and most that one row can add to each entry, in the entry's own units."""

        def of_column(index: int) -> tuple[float, float]:
            column = self.columns[index]
            return (min(column.codes), max(column.codes)) if isinstance(column, CodedColumn) else (-1.0, 1.0)

        found = []
        for entry in self.entries:
            low, high = of_column(entry.first)
            if entry.second == entry.first:
                low, high = 0.0, max(low**2, high**2)
            elif entry.second is not None:
                corners = [a * b for a in (low, high) for b in of_column(entry.second)]
                low, high = min(corners), max(corners)
            found.append((low, high))
        return tuple(found)

    def beyond_rows(self, values: Sequence[float], count: int, guarantee: Guarantee) -> list[float]:
        """How far each entry lies outside of what so many rows can add up to, in standard deviations of its noise."""
        return [
            max(count * low - value, value - count * high) / deviation
            for value, (low, high), deviation in zip(
                values, self.row_limits, self.noise_deviations(guarantee), strict=True
            )
        ]

    def noise_steps(self, guarantee: Guarantee) -> float:
        """Standard deviation of the noise on every released integer: σ = Δ/√(2ρ), in grid steps."""
        return self.sensitivity / math.sqrt(2 * guarantee.zcdp)

    def noise_deviations(self, guarantee: Guarantee) -> tuple[float, ...]:
        """Standard deviation of the noise on each entry, in the entry's own units."""
        sigma = self.noise_steps(guarantee)
        return tuple(sigma / steps for steps in self.steps_per_unit)


def ceil_sqrt(value: int) -> int:
    """Smallest integer whose square is at least `value`."""
    root = math.isqrt(value)
    return root if root * root == value else root + 1


class Ball(NamedTuple):
    """An agreed ℓ₂ ball of the features: squared radius in grid steps, and the sensitivity it proves."""

    squared_radius: int
    sensitivity: int


def norm_ball(norm_bound: float, width: int) -> Ball:
    r"""Sensitivity of linear and logistic regression when ‖x‖₂² ≤ r besides |x_j| ≤ 1, all entries weighted alike.

    Both models' docstrings end, with a = 1, at ‖g − g′‖² ≤ ½(2+s)² + ½(2+s′)² + ½ Σ(u_j − u′_j)², where u_j = x_j² is
    in [0, 1] and s = Σu_j ≤ r. There (u − u′)² ≤ |u − u′| = u + u′ − 2 min(u, u′), and Σ min(u, u′) is at least 0 and
    at least s + s′ − w, so the last sum is at most min(s + s′, 2w − s − s′). The bound then grows with s and s′ (its
    slope is at least 2 − ½), and is largest at s = s′ = r:

        **Δ² = (2 + r)² + min(r, w − r).**

    Tight when r and 2r ≤ w are whole: x and x′ have r ones each in different places, and y′ = −y. Without the box the
    last term would be r²; here every feature spans [−1, 1], so the box always holds.
    """
    r = Fraction(norm_bound) ** 2
    squared_steps = ((2 + r) ** 2 + min(r, width - r)) * (BASE_WEIGHT * UNIT) ** 2
    return Ball(math.floor(r * GRID**2), ceil_sqrt(math.ceil(squared_steps)))


def regression_entries(names: list[str], square_weights: list[int]) -> list[Entry]:
    """Sums of all columns, then of all products of two; squares have weights of their own, 0 to leave one out."""
    entries = [Entry(name, i, None, BASE_WEIGHT) for i, name in enumerate(names)]
    for i in range(len(names)):
        for j in range(i, len(names)):
            weight = square_weights[i] if i == j else BASE_WEIGHT
            if weight:
                entries.append(Entry(f"{names[i]} × {names[j]}", i, j, weight))
    return entries


def scaled(name: str, bounds: tuple[float, float], *, whole: bool = False) -> ScaledColumn:
    """Grid column of a bounded number."""
    return ScaledColumn(name=name, lower=bounds[0], upper=bounds[1], whole=whole)
