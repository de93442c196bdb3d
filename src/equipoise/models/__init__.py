"""What each model needs to know of the data: which sums, on which grid, and how much one row can change them.

`layout_of(agreement)` is the one entry. It returns a `Layout`, from which a party computes its statistic and both
sides compute the noise. Every layout's sensitivity is proved in the docstring of the function that builds it.
"""

from equipoise.agreement import Agreement
from equipoise.models.base import GRID, UNIT, CodedColumn, Entry, Layout, ScaledColumn
from equipoise.models.conjugate import (
    bernoulli_layout,
    categorical_layout,
    exponential_layout,
    gaussian_layout,
    poisson_layout,
)
from equipoise.models.linear import linear_layout
from equipoise.models.logistic import logistic_layout
from equipoise.schema import (
    BernoulliModel,
    CategoricalModel,
    ExponentialModel,
    LinearModel,
    LogisticModel,
    PoissonModel,
)

__all__ = ["GRID", "UNIT", "CodedColumn", "Entry", "Layout", "ScaledColumn", "layout_of"]


def layout_of(agreement: Agreement) -> Layout:
    """Statistic layout of the agreed model."""
    model = agreement.model
    if isinstance(model, LinearModel):
        return linear_layout(model)
    if isinstance(model, LogisticModel):
        return logistic_layout(model)
    if isinstance(model, BernoulliModel):
        return bernoulli_layout(model)
    if isinstance(model, CategoricalModel):
        return categorical_layout(model)
    if isinstance(model, PoissonModel):
        return poisson_layout(model)
    if isinstance(model, ExponentialModel):
        return exponential_layout(model)
    return gaussian_layout(model)
