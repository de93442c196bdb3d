"""Families with a conjugate prior, one column each. Unbounded data are clipped to the agreed bounds."""

from equipoise.models.base import BASE_WEIGHT, UNIT, CodedColumn, Entry, Layout, ceil_sqrt, scaled
from equipoise.models.schema import (
    BernoulliModel,
    CategoricalModel,
    ExponentialModel,
    GaussianModel,
    PoissonModel,
)


def bernoulli_layout(model: BernoulliModel) -> Layout:
    """How many rows have the second label. One row changes the number by at most Δ = 1, and can."""
    target = model.target
    column = CodedColumn(target.name, target.labels, (0, 1))
    return Layout((column,), (Entry(f"{target.name} = {target.labels[1]}", 0, None, 1),), sensitivity=UNIT)


def categorical_layout(model: CategoricalModel) -> Layout:
    """How many rows fall in each category.

    Replacing a row lowers one count by 1 and raises another by 1, or changes nothing: Δ = √2, and it is reached.
    All counts are released although they sum to the public row count: leaving one out would not lower Δ, and the
    redundant one lets inference average some noise away.
    """
    target = model.target
    size = len(target.categories)
    columns = tuple(
        CodedColumn(target.name, target.categories, tuple(int(i == k) for i in range(size))) for k in range(size)
    )
    entries = tuple(Entry(f"{target.name} = {label}", k, None, 1) for k, label in enumerate(target.categories))
    return Layout(columns, entries, sensitivity=ceil_sqrt(2 * UNIT**2))


def poisson_layout(model: PoissonModel) -> Layout:
    """Sum of the clipped counts, mapped to [−1, 1]: one row moves it by at most Δ = 2 (from bound to bound)."""
    target = model.target
    column = scaled(target.name, target.bounds, whole=True)
    return Layout((column,), (Entry(target.name, 0, None, 1),), sensitivity=2 * UNIT)


def exponential_layout(model: ExponentialModel) -> Layout:
    """Sum of the clipped waiting times, mapped to [−1, 1]: Δ = 2, from bound to bound."""
    target = model.target
    return Layout((scaled(target.name, target.bounds),), (Entry(target.name, 0, None, 1),), sensitivity=2 * UNIT)


def gaussian_layout(model: GaussianModel) -> Layout:
    """Sums of x and a·x², x clipped and mapped to [−1, 1].

    With d = |x − x′| and s = |x + x′| ≤ 2 − d, one row changes (x, a x²) by d²(1 + a²s²) ≤ d²(1 + a²(2−d)²) in square.
    At d = 2 this is 4. It never exceeds 4 iff a² ≤ (2+d)/(d²(2−d)) for all d in (0, 2), whose minimum, at
    d = √5 − 1, is (11 + 5√5)/8 ≈ 2.77. So Δ = 2, reached by x = −x′ = 1, and a = 13/8 is free.
    """
    target = model.target
    entries = (
        Entry(target.name, 0, None, BASE_WEIGHT),
        Entry(f"{target.name} × {target.name}", 0, 0, 13),
    )
    return Layout((scaled(target.name, target.bounds),), entries, sensitivity=2 * BASE_WEIGHT * UNIT)
