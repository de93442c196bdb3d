"""Columns of an agreement: a name, and public bounds or the values that a cell may have."""

import math
from typing import Annotated, Self

from pydantic import Field, StrictInt, StrictStr, field_validator, model_validator

from equipoise._util.text import first_repeat
from equipoise.models.section import Finite, Section

MAX_CATEGORIES = 2_000
MIN_TYPICAL = 0.001  # of the width of the bounds

ColumnName = Annotated[str, Field(min_length=1, max_length=200)]
Label = StrictInt | Annotated[StrictStr, Field(max_length=200)]


class NumberColumn(Section):
    """A numeric column and its public bounds; values outside are clipped, never dropped."""

    name: ColumnName
    bounds: tuple[Finite, Finite]

    @field_validator("bounds")
    @classmethod
    def _ordered(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        lower, upper = bounds
        if not lower < upper:
            raise ValueError(f"[{lower:g}, {upper:g}] is empty; write [lower, upper] with lower < upper")
        if not math.isfinite((upper - lower) * 2.0**20) or upper - lower < 1e-300:
            raise ValueError(f"[{lower:g}, {upper:g}] cannot be mapped to [-1, 1]; choose other units")
        return bounds


class RegressionColumn(NumberColumn):
    """A numeric column of a regression; `typical` is where about 95 % of its values are believed to lie.

    It is public like the bounds and like them comes from common knowledge, never from the data. It moves beliefs, no
    noise: bounds must still hold every value that is not to be clipped.
    """

    typical: tuple[Finite, Finite] | None = None

    @model_validator(mode="after")
    def _check_typical(self) -> Self:
        if self.typical is None:
            return self
        (lower, upper), (low, high) = self.bounds, self.typical
        if not lower <= low < high <= upper:
            raise ValueError(
                f"typical = [{low:g}, {high:g}] must be a range within the bounds [{lower:g}, {upper:g}]: "
                "write [low, high] with about 95 % of the values between them"
            )
        if high - low < MIN_TYPICAL * (upper - lower):
            raise ValueError(
                f"typical = [{low:g}, {high:g}] is less than {MIN_TYPICAL:g} of the bounds [{lower:g}, {upper:g}]: "
                "noise will hide such a column; tighten its bounds"
            )
        return self


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
    categories: Annotated[tuple[Label, ...], Field(min_length=2, max_length=MAX_CATEGORIES)]

    @field_validator("categories")
    @classmethod
    def _distinct(cls, categories: tuple[int | str, ...]) -> tuple[int | str, ...]:
        return _distinct_labels(categories)

    @property
    def values(self) -> tuple[int | str, ...]:
        """Every value a cell may have."""
        return self.categories


class LabelColumn(Section):
    """A column with two agreed values: `labels = [negative, positive]`."""

    name: ColumnName
    labels: tuple[Label, Label]

    @field_validator("labels")
    @classmethod
    def _distinct(cls, labels: tuple[int | str, ...]) -> tuple[int | str, ...]:
        return _distinct_labels(labels)

    @property
    def values(self) -> tuple[int | str, ...]:
        """Every value a cell may have."""
        return self.labels


Column = NumberColumn | CategoryColumn | LabelColumn


def _distinct_labels(labels: tuple[int | str, ...]) -> tuple[int | str, ...]:
    if len({type(label) for label in labels}) > 1:
        raise ValueError(f"{list(labels)} mixes text and numbers; write all values in one way, as the table has them")
    if any(isinstance(label, int) and abs(label) > 2**53 for label in labels):
        raise ValueError("whole-number labels must lie within ±2^53; use text for longer codes")
    if repeated := first_repeat([str(label) for label in labels]):
        raise ValueError(f"the value {repeated!r} is listed twice")
    return labels
