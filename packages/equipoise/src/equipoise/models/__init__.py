"""Kinds of models: which sums a party releases, what they mean, and their wording. No sampler.

Adding a kind is two files called after it, here and in `inference/models`, and its name in `NAMES`
(`docs/howto/new-model.md`). Everything else, from the agreement's grammar to the command line's list, follows.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Protocol, Union

from pydantic import Field

from equipoise.models.base import Model
from equipoise.models.layout import (
    GRID,
    LARGEST_NOISE,
    UNIT,
    CodedColumn,
    Entry,
    GridColumn,
    Individuals,
    Layout,
    ScaledColumn,
)

__all__ = [
    "GRID",
    "KINDS",
    "LARGEST_NOISE",
    "UNIT",
    "AnyModel",
    "CodedColumn",
    "Entry",
    "GridColumn",
    "Individuals",
    "Layout",
    "Model",
    "ScaledColumn",
    "layout_of",
]

NAMES = ("linear", "logistic", "bernoulli", "categorical", "poisson", "exponential", "gaussian")

KINDS: dict[str, type[Model]] = {name: import_module(f"{__name__}.{name}").MODEL for name in NAMES}

if TYPE_CHECKING:
    AnyModel = Model
else:
    AnyModel = Annotated[Union[tuple(KINDS.values())], Field(discriminator="kind")]  # noqa: UP007 (made as it runs)


class HasLayout(Protocol):
    """An agreement, as far as releases depend on it."""

    @property
    def layout(self) -> Layout: ...


def layout_of(agreement: HasLayout) -> Layout:
    """Return the layout of the agreed statistic, with the sensitivity of the protected unit: row or individual."""
    return agreement.layout
