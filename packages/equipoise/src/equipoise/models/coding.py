"""The coding of a regression's features as grid columns: one for a number, a block of 0/1 columns for a category.

The coding is public and decided row by row, so that whatever is proved of coded rows holds for the rows themselves. A
*term* is a grid column with a weight. Terms of a category are a *block*: at most one of them is 1, none where the level
is the reference. A number whose gaps are marked has an *indicator* beside it, and is 0 where the indicator is 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from equipoise.models.columns import BinaryFeature, CategoryFeature, NumberFeature, OrdinalFeature
from equipoise.models.layout import (
    BASE_WEIGHT,
    UNIT,
    CodedColumn,
    Entry,
    GapColumn,
    GridColumn,
    ScaledColumn,
    ceil_sqrt,
)


class Term(NamedTuple):
    """A grid column with its weight's name, and the wording of an effect over the agreed range."""

    column: GridColumn
    feature: str
    name: str
    effect: str
    width: float  # of the agreed range, in the unit of the weight
    centre: float = 0.0  # of an ordinal's scores

    @property
    def scale(self) -> float:
        """The value that maps to 1 in the grid column, in the unit of the weight."""
        if isinstance(self.column, ScaledColumn):
            return self.column.half_width
        return 1.0 if self.is_level else self.width / 2

    @property
    def middle(self) -> float:
        """The value that maps to 0 in the grid column, in the unit of the weight."""
        return self.column.middle if isinstance(self.column, ScaledColumn) else self.centre

    @property
    def step(self) -> str:
        """The change whose effect the weight is."""
        if self.is_level:
            return self.effect
        if isinstance(self.column, CodedColumn):
            return f"{self.name}: 1 more of its score"
        days = isinstance(self.column, ScaledColumn) and self.column.since is not None and self.name == self.feature
        return f"{self.name}: {'1 day later' if days else '1 more'}"

    @property
    def is_level(self) -> bool:
        """True if the column is 0 or 1."""
        return isinstance(self.column, GapColumn) or (
            isinstance(self.column, CodedColumn) and set(self.column.codes) <= {0.0, 1.0}
        )


@dataclass(frozen=True)
class Coding:
    """The terms of all features in order; the indices of numbers, of blocks, and of numbers with their indicators."""

    terms: tuple[Term, ...]
    numbers: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]  # of which at most one is 1; those of gaps are among them
    gaps: tuple[tuple[int, int], ...]  # a number, and the indicator of its gaps

    @property
    def only_numbers(self) -> bool:
        """True if every term is a number."""
        return not self.blocks

    @property
    def directions(self) -> int:
        """The number of terms of a row that can differ from 0 at once; a number and its indicator count as one."""
        return len(self.numbers) + len(self.blocks) - len(self.gaps)

    @cached_property
    def always_zero(self) -> frozenset[tuple[int, int]]:
        """Pairs of terms whose product is 0 in every row."""
        pairs = {(first, other) for block in self.blocks for first in block for other in block if first < other}
        return frozenset(pairs | {(min(pair), max(pair)) for pair in self.gaps})

    @property
    def level_terms(self) -> tuple[int, ...]:
        """The indices of all terms that are 0 or 1, in order."""
        return tuple(sorted(index for block in self.blocks for index in block))

    def entries(self, target: str, square_weight: int, target_weight: int) -> tuple[Entry, ...]:
        """Return sums of all columns, then of all products of two columns that carry information: see `sensitivity`."""
        names = [*(term.name for term in self.terms), target]
        weights = [0] * len(names)
        for index in self.numbers:
            weights[index] = square_weight
        weights[-1] = target_weight
        entries = [Entry(name, i, None, BASE_WEIGHT) for i, name in enumerate(names)]
        for i in range(len(names)):
            for j in range(i, len(names)):
                weight = weights[i] if i == j else 0 if (i, j) in self.always_zero else BASE_WEIGHT
                if weight:
                    entries.append(Entry(f"{names[i]} × {names[j]}", i, j, weight))
        return tuple(entries)

    def sensitivity(self, square_weight: int) -> int:
        r"""Return the sensitivity of a regression's statistic, in grid steps, if numbers' squares have a weight a.

        The proofs beside the layouts of both regressions bound ‖g − g′‖² for terms in [−1, 1], all of whose squares
        have the weight a, by a function of u_j = x_j² that is convex and at most n² at vertices, n = w + 2, if a² is
        not too large. Here

        * a block counts as one direction. Its terms' squares are the terms, and products within it are 0: neither is
          released. What is left out of ½‖zzᵀ − z′z′ᵀ‖² then has the coefficient −½ ≤ a² − ½ and can only lower the
          bound; and |z|² counts the block as Σ_l d_l ∈ {0, 1}. So w is the number of numbers and blocks.
        * a number x and the indicator m of its gaps count as one direction: x² + m ≤ 1. But one row may have x² = 1 and
          the other m = 1. Both then fill that direction, as no vertex above has them do, while x² − x′² = ±1: beyond
          the bound by a² − ½ for x² and by −½ for m. With G such features

            **Δ² = n² + G (a² − 1).**

        Row-wise coding cannot change more: replacing a row replaces one coded row.
        """
        a = Fraction(square_weight, BASE_WEIGHT)
        squared = (self.directions + 2) ** 2 + len(self.gaps) * max(a**2 - 1, Fraction(0))
        return ceil_sqrt(math.ceil(squared * (BASE_WEIGHT * UNIT) ** 2))


def coding_of(features: Sequence[NumberFeature | BinaryFeature | CategoryFeature | OrdinalFeature]) -> Coding:
    """Build the agreed coding."""
    terms: list[Term] = []
    numbers: list[int] = []
    blocks: list[tuple[int, ...]] = []
    gaps: list[tuple[int, int]] = []
    for feature in features:
        if isinstance(feature, NumberFeature | OrdinalFeature):
            numbers.append(len(terms))
            terms.append(_number(feature) if isinstance(feature, NumberFeature) else _ordinal(feature))
            if feature.missing == "indicator":
                gaps.append((len(terms) - 1, len(terms)))
                blocks.append((len(terms),))
                terms.append(_indicator(feature, terms[-1]))
        else:
            levels = _levels(feature)
            blocks.append(tuple(range(len(terms), len(terms) + len(levels))))
            terms += levels
    return Coding(tuple(terms), tuple(numbers), tuple(blocks), tuple(gaps))


def _number(feature: NumberFeature) -> Term:
    lower, upper = feature.scaled_range
    marked = feature.missing == "indicator"
    column = ScaledColumn(
        feature.name,
        lower,
        upper,
        transform=feature.transform,
        fill=feature.fill,
        gaps_marked=marked,
        since=feature.since,
        valid=None if feature.reach is None else feature.bounds,
    )
    days = "" if feature.since is None else f" days since {feature.since}"
    name = feature.name if feature.transform is None else f"{feature.transform}({feature.name})"
    return Term(column, feature.name, name, f"{feature.name}: {lower:g} → {upper:g}{days}", 2 * column.half_width)


def _ordinal(feature: OrdinalFeature) -> Term:
    places = feature.places
    half = (places[-1] - places[0]) / 2
    middle = places[0] + half
    codes = tuple((score - middle) / half for score in places)
    missing = {"refuse": None, "indicator": 0.0}.get(feature.missing)
    if feature.fill is not None:
        missing = codes[feature.levels.index(feature.fill)]
    column = CodedColumn(feature.name, feature.levels, codes, missing=missing)
    effect = f"{feature.name}: {feature.levels[0]} → {feature.levels[-1]}"
    return Term(column, feature.name, feature.name, effect, 2 * half, middle)


def _indicator(feature: NumberFeature | OrdinalFeature, term: Term) -> Term:
    column: GridColumn = GapColumn(feature.name)
    middle = ""
    if isinstance(feature, OrdinalFeature):
        column = CodedColumn(feature.name, feature.levels, (0.0,) * len(feature.levels), missing=1.0)
    elif isinstance(term.column, ScaledColumn):
        middle = f" against {term.column.middle_value:.3g}"
    return Term(column, feature.name, f"{feature.name} missing", f"{feature.name}: missing{middle}", 1.0)


def _levels(feature: BinaryFeature | CategoryFeature) -> list[Term]:
    """Return a 0/1 term for every level but the reference, then for unlisted and for missing values, as agreed."""
    reference = feature.reference
    other = isinstance(feature, CategoryFeature) and feature.other
    filled = None if feature.fill is None else feature.values.index(feature.fill)
    takes_missing = feature.missing != "refuse"

    def column(level: int | None, *, is_other: bool = False, is_missing: bool = False) -> CodedColumn:
        codes = tuple(float(position == level) for position in range(len(feature.values)))
        missing = float(is_missing or (filled is not None and filled == level)) if takes_missing else None
        return CodedColumn(feature.name, feature.values, codes, float(is_other) if other else None, missing)

    def term(name: str, grid: CodedColumn) -> Term:
        return Term(grid, feature.name, f"{feature.name}={name}", f"{feature.name}: {name} against {reference}", 1.0)

    terms = [term(str(value), column(k)) for k, value in enumerate(feature.values) if value != reference]
    if other:
        terms.append(term("(other)", column(None, is_other=True)))
    if feature.missing == "indicator":
        terms.append(term("(missing)", column(None, is_missing=True)))
    return terms
