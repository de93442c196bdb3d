"""Columns of an agreement: a name, and public bounds or the values that a cell may have.

Features of a regression are of four kinds: a `number` with bounds, of which a monotone transform may be taken; a
`binary` with two labels; a `category` with levels of which one is the reference; an `ordinal` with levels in order,
each with a score. How their cells become numbers is public and decided row by row (`coding.py`).
"""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    field_validator,
    model_validator,
)

from equipoise._util.text import first_repeat
from equipoise.models.layout import TRANSFORMS
from equipoise.models.section import Finite, Section

MAX_CATEGORIES = 2_000
MAX_LEVELS = 50  # most levels of a feature; each is a column of its own
MIN_TYPICAL = 0.001  # least width of a typical range, as a share of the bounds' width

# Spreadsheets take a cell that begins with one of these for a formula (the last four are the full-width forms), some of
# them after blanks. A reader that separates columns by semicolons or tabs also begins a cell after one of these, which
# files of predictions do not quote, and after a line break, because to it the quote before stands in the middle of a
# cell. A comma is always within quotes, so labels such as "0, -1" remain possible.
_FORMULA = re.compile(r"(?:^|[;\t\r\n])[\s\ufeff]*[=+\-@＝＋－＠]|^[\t\r]")
_NUMBER_OR_SIGN = re.compile(r" *([+-]|[+-]?[0-9]+([.,][0-9]+)?%?)")


def _refuse_formula(text: str) -> str:
    """Refuse a name or label that a spreadsheet would run when somebody opens a file of predictions with it.

    Agreements are written by other people. A number, or a sign by itself, does no harm.
    """
    if _FORMULA.search(text) and not _NUMBER_OR_SIGN.fullmatch(text):
        raise ValueError(
            f"{text!r} begins like a formula of a spreadsheet, or has a semicolon, a tab or a line break with one "
            "behind it, which files of predictions would run; let a letter or a digit stand there"
        )
    return text


ColumnName = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_refuse_formula)]
Label = StrictInt | Annotated[StrictStr, Field(max_length=200), AfterValidator(_refuse_formula)]


def _distinct_labels(labels: tuple[int | str, ...]) -> tuple[int | str, ...]:
    if len({type(label) for label in labels}) > 1:
        raise ValueError(f"{list(labels)} mixes text and numbers; write all values in one way, as the table has them")
    if any(isinstance(label, int) and abs(label) > 2**53 for label in labels):
        raise ValueError("whole-number labels must lie within ±2^53; use text for longer codes")
    if repeated := first_repeat([str(label) for label in labels]):
        raise ValueError(f"the value {repeated!r} is listed twice")
    return labels


TwoLabels = Annotated[tuple[Label, Label], AfterValidator(_distinct_labels)]
Levels = Annotated[tuple[Label, ...], Field(min_length=2, max_length=MAX_LEVELS), AfterValidator(_distinct_labels)]
Categories = Annotated[
    tuple[Label, ...], Field(min_length=2, max_length=MAX_CATEGORIES), AfterValidator(_distinct_labels)
]


class NumberColumn(Section):
    """A numeric column and its public bounds; values outside are moved to the bounds, never dropped."""

    name: ColumnName
    bounds: tuple[Finite, Finite]

    @field_validator("bounds")
    @classmethod
    def _ordered(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        lower, upper = bounds
        if not lower < upper:
            raise ValueError(f"[{lower:g}, {upper:g}] is empty; write [lower, upper] with lower < upper")
        if not _can_be_scaled(lower, upper):
            raise ValueError(f"[{lower:g}, {upper:g}] cannot be mapped to [-1, 1]; choose other units")
        return bounds

    @property
    def scaled_range(self) -> tuple[float, float]:
        """The range that noise is scaled by; values beyond it are moved to its ends."""
        return self.bounds

    @property
    def valid_range(self) -> tuple[float, float] | None:
        """The range of valid values, if one is agreed."""
        return self.bounds


def _can_be_scaled(lower: float, upper: float) -> bool:
    return math.isfinite((upper - lower) * 2.0**20) and upper - lower >= 1e-300


class RegressionColumn(NumberColumn):
    """A numeric column of a regression, with three ranges that are public and never taken from the data.

    `typical` is where about 95 % of the values are believed to lie. `reach` scales the noise: values beyond it are
    moved to its ends. It should be about the typical range, for noise grows with it, and so does the square of noise on
    squares. `bounds` are the values that can be right. They may be left out if another range is given; without a reach
    they scale the noise themselves.

    From format 3 of agreements on, a typical range is the reach unless another is stated.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"reach"})

    typical: tuple[Finite, Finite] | None = None
    reach: tuple[Finite, Finite] | None = None

    @model_validator(mode="before")
    @classmethod
    def _complete_bounds(cls, document: Any) -> Any:
        if not isinstance(document, dict) or "bounds" in document:
            return document
        stated = [document[name] for name in ("reach", "typical") if document.get(name) is not None]
        if not stated:
            return document
        if not all(is_range(ends) for ends in stated):
            # The other range is wrong, and its own check reports that.
            return {**document, "bounds": [-1.0, 1.0]}
        return {**document, "bounds": list(_hull(stated))}

    @property
    def scaled_range(self) -> tuple[float, float]:
        return self.reach or self.bounds

    @property
    def valid_range(self) -> tuple[float, float] | None:
        stated = [ends for ends in (self.reach, self.typical) if ends is not None]
        return None if stated and self.bounds == _hull(stated) else self.bounds  # as where bounds are left out

    @property
    def moved_ends(self) -> tuple[bool, bool]:
        """The ends of `scaled_range` beyond which there may be values, which a release moves to the end.

        No value lies beyond a bound. Bounds that are what the other ranges span may have been left out: then values may
        lie beyond an end of the typical range, but none beyond an end of a reach that is wider.
        """
        (low, high), valid, usual = self.scaled_range, self.valid_range, self.typical or self.reach
        if valid is not None:
            return valid[0] < low, high < valid[1]
        assert usual is not None
        return usual[0] <= low, high <= usual[1]

    @model_validator(mode="after")
    def _check_ranges(self) -> Self:
        if self.typical is not None:
            self._check_range("typical", self.typical, "about 95 % of the values between them")
            (low, high), (lower, upper) = self.typical, self.scaled_range
            if high - low < MIN_TYPICAL * (upper - lower):
                raise ValueError(
                    f"typical = [{low:g}, {high:g}] is less than {MIN_TYPICAL:g} of [{lower:g}, {upper:g}], which "
                    "scales the noise: noise will hide such a column; state a narrower reach"
                )
        if self.reach is not None:
            self._check_range("reach", self.reach, "most of the values between them")
            if not _can_be_scaled(*self.reach):
                raise ValueError(f"reach = {list(self.reach)} cannot be mapped to [-1, 1]; choose other units")
            if self.typical is not None and max(self.reach[0], self.typical[0]) >= min(self.reach[1], self.typical[1]):
                raise ValueError(
                    f"reach = {list(self.reach)} has none of typical = {list(self.typical)}: nearly all values would "
                    "be moved to one end; state a reach about the typical range"
                )
        return self

    def _check_range(self, name: str, stated: tuple[float, float], meaning: str) -> None:
        (lower, upper), (low, high) = self.bounds, stated
        if not lower <= low < high <= upper:
            raise ValueError(
                f"{name} = [{low:g}, {high:g}] must be a range within the bounds [{lower:g}, {upper:g}]: "
                f"write [low, high] with {meaning}"
            )


def _hull(ranges: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Return the smallest range that contains all of them."""
    return min(ends[0] for ends in ranges), max(ends[1] for ends in ranges)


def is_range(stated: Any) -> bool:
    """Return whether a value is a pair of numbers."""
    is_pair = isinstance(stated, list | tuple) and len(stated) == 2
    return is_pair and all(isinstance(end, int | float) and not isinstance(end, bool) for end in stated)


Missing = Literal["refuse", "value", "indicator"]
Transform = Literal["log", "sqrt", "logit"]


class NumberFeature(RegressionColumn):
    """A number, or with `transform` its logarithm, square root or log odds; bounds are stated before the transform.

    With `since`, a date as in "2020-01-31", cells are dates, and the number is that of days since.

    A missing value is refused, counts as `fill` (`missing = "value"`), or is marked by an indicator with a weight of
    its own, the number then being at the middle of its scaled bounds (`missing = "indicator"`).
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"kind", "transform", "missing", "fill", "since", "reach"})

    kind: Literal["number"] = "number"
    transform: Transform | None = None
    missing: Missing = "refuse"
    fill: Finite | None = None
    since: str | None = None

    @field_validator("since")
    @classmethod
    def _is_date(cls, since: str | None) -> str | None:
        try:
            return None if since is None else date.fromisoformat(since).isoformat()
        except ValueError:
            raise ValueError(f'since = {since!r} is no date; write one as in "2020-01-31"') from None

    @model_validator(mode="after")
    def _check_coding(self) -> Self:
        lower, upper = self.bounds
        if self.transform == "log" and lower <= 0:
            raise ValueError(f'transform = "log" needs a lower bound above 0, not {lower:g}')
        if self.transform == "sqrt" and lower < 0:
            raise ValueError(f'transform = "sqrt" needs a lower bound of 0 or more, not {lower:g}')
        if self.transform == "logit" and not 0 < lower < upper < 1:
            raise ValueError(
                f'transform = "logit" needs bounds within 0 and 1, without them, not [{lower:g}, {upper:g}]'
            )
        if self.transform is not None:
            ends = self.scaled_range
            low, high = (float(TRANSFORMS[self.transform](np.asarray(end))) for end in ends)
            if not low < high:
                raise ValueError(
                    f'transform = "{self.transform}" leaves nothing between {ends[0]!r} and {ends[1]!r}; '
                    "leave it out, or agree on a wider range"
                )
        _check_fill(self.missing, self.fill)
        if self.fill is not None and not lower <= self.fill <= upper:
            raise ValueError(f"fill = {self.fill:g} is outside the bounds [{lower:g}, {upper:g}]")
        return self


class LevelFeature(Section, ABC):
    """The fields that features of agreed values share. `values` are those that a cell may have."""

    name: ColumnName
    missing: Missing = "refuse"
    fill: Label | None = None

    @property
    @abstractmethod
    def values(self) -> tuple[int | str, ...]:
        """All values that are agreed by name."""

    @model_validator(mode="after")
    def _check_missing(self) -> Self:
        _check_fill(self.missing, self.fill)
        if self.fill is not None and self.fill not in self.values:
            raise ValueError(f"fill = {self.fill!r} is not one of the agreed values {list(self.values)}")
        return self


class BinaryFeature(LevelFeature):
    """A feature with two agreed values, `labels = [reference, other]`."""

    kind: Literal["binary"]
    labels: TwoLabels

    @property
    def values(self) -> tuple[int | str, ...]:
        """All values that are agreed by name."""
        return self.labels

    @property
    def reference(self) -> int | str:
        """The value that the other is compared with."""
        return self.labels[0]


class CategoryFeature(LevelFeature):
    """A feature with agreed levels, each compared with the `reference`, the first unless stated.

    With `other = true` a value that is not listed is a level of its own; so is a missing one with `missing =
    "indicator"`.
    """

    kind: Literal["category"]
    levels: Levels
    reference: Label = ""
    other: StrictBool = False

    @model_validator(mode="before")
    @classmethod
    def _first_is_reference(cls, document: Any) -> Any:
        if isinstance(document, dict) and "reference" not in document and document.get("levels"):
            return {**document, "reference": document["levels"][0]}
        return document

    @model_validator(mode="after")
    def _known_reference(self) -> Self:
        if self.reference not in self.levels:
            raise ValueError(f"reference = {self.reference!r} is not one of the levels {list(self.levels)}")
        return self

    @property
    def values(self) -> tuple[int | str, ...]:
        """All values that are agreed by name."""
        return self.levels


class OrdinalFeature(LevelFeature):
    """A feature whose agreed levels have an order; `scores` say how far apart they are, evenly unless stated."""

    kind: Literal["ordinal"]
    levels: Levels
    scores: tuple[Finite, ...] | None = None

    @model_validator(mode="after")
    def _check_scores(self) -> Self:
        if self.scores is None:
            return self
        if len(self.scores) != len(self.levels):
            raise ValueError(f"scores has {len(self.scores)} numbers for {len(self.levels)} levels; give one for each")
        if any(score >= other for score, other in zip(self.scores, self.scores[1:], strict=False)):
            raise ValueError(f"scores = {list(self.scores)} must rise from level to level")
        if not _can_be_scaled(self.scores[0], self.scores[-1]):
            raise ValueError(f"scores = {list(self.scores)} cannot be mapped to [-1, 1]; choose other units")
        return self

    @property
    def values(self) -> tuple[int | str, ...]:
        """All values that are agreed by name."""
        return self.levels

    @property
    def places(self) -> tuple[float, ...]:
        """The scores of all levels, stated or not."""
        return tuple(float(rank) for rank in range(len(self.levels))) if self.scores is None else self.scores


def _kind_of(document: Any) -> str:
    kind = document.get("kind", "number") if isinstance(document, dict) else getattr(document, "kind", "number")
    return kind if isinstance(kind, str) else "number"


Feature = Annotated[
    Annotated[NumberFeature, Tag("number")]
    | Annotated[BinaryFeature, Tag("binary")]
    | Annotated[CategoryFeature, Tag("category")]
    | Annotated[OrdinalFeature, Tag("ordinal")],
    Discriminator(_kind_of),
]


def _check_fill(missing: str, fill: object) -> None:
    if missing == "value" and fill is None:
        raise ValueError('missing = "value" needs `fill`, the public value that a missing one counts as')
    if missing != "value" and fill is not None:
        raise ValueError(f'fill = {fill!r} is used with missing = "value" only; write that, or remove it')


class CountColumn(NumberColumn):
    """A column of non-negative whole numbers with public bounds."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.bounds[0] < 0 or any(bound != int(bound) for bound in self.bounds):
            raise ValueError(f"bounds of a count must be whole numbers from 0 up, not {list(self.bounds)}")
        return self


class DurationColumn(NumberColumn):
    """A column of non-negative numbers with public bounds."""

    @model_validator(mode="after")
    def _not_negative(self) -> Self:
        if self.bounds[0] < 0:
            raise ValueError(f"the lower bound must be 0 or more, not {self.bounds[0]:g}")
        return self


class CategoryColumn(Section):
    """A column whose every value is one of the agreed categories, all text or all whole numbers."""

    name: ColumnName
    categories: Categories

    @property
    def values(self) -> tuple[int | str, ...]:
        """All values that a cell may have."""
        return self.categories


class LabelColumn(Section):
    """A column with two agreed values: `labels = [negative, positive]`."""

    name: ColumnName
    labels: TwoLabels

    @property
    def values(self) -> tuple[int | str, ...]:
        """All values that a cell may have."""
        return self.labels


Column = NumberColumn | CategoryColumn | LabelColumn | LevelFeature
