"""What each model needs to know of the data: which sums, on which grid, and how much one row can change them.

`layout_of(agreement)` is the one entry. It returns a `Layout`, from which a party computes its statistic and both
sides compute the noise. Every layout's sensitivity is proved in the docstring of the function that builds it.
"""

from collections.abc import Callable
from typing import Any, Protocol

from equipoise.models.base import GRID, LARGEST_NOISE, UNIT, CodedColumn, Entry, Layout, ScaledColumn
from equipoise.models.conjugate import (
    bernoulli_layout,
    categorical_layout,
    exponential_layout,
    gaussian_layout,
    poisson_layout,
)
from equipoise.models.linear import linear_layout
from equipoise.models.logistic import logistic_layout
from equipoise.models.schema import Model

__all__ = ["GRID", "LARGEST_NOISE", "UNIT", "CodedColumn", "Entry", "Layout", "ScaledColumn", "layout_of"]

_LAYOUTS: dict[str, Callable[[Any], Layout]] = {
    "linear": linear_layout,
    "logistic": logistic_layout,
    "bernoulli": bernoulli_layout,
    "categorical": categorical_layout,
    "poisson": poisson_layout,
    "exponential": exponential_layout,
    "gaussian": gaussian_layout,
}


class HasModel(Protocol):
    """An agreement, as far as a layout depends on it."""

    @property
    def model(self) -> Model: ...


def layout_of(agreement: HasModel) -> Layout:
    """Statistic layout of the agreed model."""
    return _LAYOUTS[agreement.model.kind](agreement.model)
