"""Agreements and tables for tests, and a slow, obvious reference for the exact statistic."""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from equipoise.agreement import Agreement
from equipoise.models.columns import LabelColumn, LevelFeature

GRID = 2**16
UNIT = 2**32

TAIL = """
[privacy]
order = {order}
max_epsilon = {max_epsilon}

[[parties]]
name = "north"
[[parties]]
name = "south"
"""


def _features(width: int, norm_bound: float | None) -> str:
    columns = ", ".join(f'{{ name = "x{k}", bounds = [-2, 2] }}' for k in range(width))
    return f"features = [{columns}]" + (f"\nnorm_bound = {norm_bound}" if norm_bound else "")


def agreement(model: str, *, order: float = 2.0, max_epsilon: float = 100.0, extra: str = "") -> Agreement:
    """An agreement from the lines of its [model] section."""
    return Agreement.parse(
        f"format = 1\n{extra}\n[model]\n{model}\n" + TAIL.format(order=order, max_epsilon=max_epsilon)
    )


def linear(width: int = 3, *, norm_bound: float | None = None, **options: Any) -> Agreement:
    """Linear regression on x0 … with bounds [-2, 2], target y with bounds [0, 10]."""
    return agreement(
        f'kind = "linear"\n{_features(width, norm_bound)}\ntarget = {{ name = "y", bounds = [0, 10] }}', **options
    )


def logistic(width: int = 3, *, norm_bound: float | None = None, **options: Any) -> Agreement:
    """Logistic regression on x0 … with bounds [-2, 2], target y with labels no and yes."""
    model = f'kind = "logistic"\n{_features(width, norm_bound)}\ntarget = {{ name = "y", labels = ["no", "yes"] }}'
    return agreement(model, **options)


def bernoulli() -> Agreement:
    """Share of ones in y."""
    return agreement('kind = "bernoulli"\ntarget = { name = "y", labels = [0, 1] }')


def categorical(size: int = 4) -> Agreement:
    """Shares of the letters a, b, c … in y."""
    letters = ", ".join(f'"{chr(97 + k)}"' for k in range(size))
    return agreement(f'kind = "categorical"\ntarget = {{ name = "y", categories = [{letters}] }}')


def poisson() -> Agreement:
    """Rate of a count y in [0, 20]."""
    return agreement('kind = "poisson"\ntarget = { name = "y", bounds = [0, 20] }')


def exponential() -> Agreement:
    """Rate of a waiting time y in [0, 5]."""
    return agreement('kind = "exponential"\ntarget = { name = "y", bounds = [0, 5] }')


def gaussian() -> Agreement:
    """Mean and variance of y in [-3, 3]."""
    return agreement('kind = "gaussian"\ntarget = { name = "y", bounds = [-3, 3] }')


ALL_MODELS = {
    "linear": linear(),
    "linear, ball": linear(4, norm_bound=1.25),
    "logistic": logistic(),
    "logistic, ball": logistic(4, norm_bound=1.25),
    "bernoulli": bernoulli(),
    "categorical": categorical(),
    "poisson": poisson(),
    "exponential": exponential(),
    "gaussian": gaussian(),
}


def random_table(agreed: Agreement, rows: int, seed: int) -> dict[str, Any]:
    """Columns that fit an agreement, some of them beyond their bounds."""
    rng = np.random.default_rng(seed)
    table: dict[str, Any] = {}
    for column in agreed.columns:
        if hasattr(column, "bounds"):
            lower, upper = column.bounds
            values = rng.normal((lower + upper) / 2, (upper - lower) / 3, rows)
            table[column.name] = np.abs(np.round(values)) if agreed.model.kind == "poisson" else values
        else:
            labels = column.values
            table[column.name] = [labels[k] for k in rng.integers(len(labels), size=rows)]
    return table


def reference_statistic(agreed: Agreement, table: Mapping[str, Sequence[Any]]) -> list[Fraction]:
    """The statistic in exact arithmetic, entry by entry and one row at a time."""
    kind = agreed.model.kind
    total: list[Fraction] = []
    for row in zip(*(table[column.name] for column in agreed.columns), strict=True):
        g = _row_statistic(agreed, kind, row)
        total = [a + b for a, b in zip(total, g, strict=True)] if total else g
    return total


def _row_statistic(agreed: Agreement, kind: str, row: tuple[Any, ...]) -> list[Fraction]:
    target = agreed.columns[-1]
    if kind == "bernoulli":
        return [Fraction(int(row[0] == target.labels[1]))]  # type: ignore[union-attr]
    if kind == "categorical":
        return [Fraction(int(row[0] == label)) for label in target.categories]  # type: ignore[union-attr]
    if any(isinstance(one, LevelFeature) or getattr(one, "missing", "refuse") != "refuse" for one in agreed.columns):
        return _coded_entries(agreed, row)
    features = [_on_grid(value, column) for value, column in zip(row, agreed.columns, strict=False)][: len(row) - 1]
    radius = getattr(agreed.model, "norm_bound", None)
    if radius is not None:
        features = _pulled_in(features, radius)
    if isinstance(target, LabelColumn):
        return _regression_entries(features, Fraction(1 if row[-1] == target.labels[1] else -1), kind)
    y = _on_grid(row[-1], target)
    if kind in ("poisson", "exponential"):
        return [y]
    return _regression_entries(features, y, kind)


def _regression_entries(features: list[Fraction], y: Fraction, kind: str) -> list[Fraction]:
    z = [*features, y]
    products = [z[i] * z[j] for i in range(len(z)) for j in range(i, len(z))]
    return [*z, *(products[:-1] if kind == "logistic" else products)]


def _coded_entries(agreed: Agreement, row: tuple[Any, ...]) -> list[Fraction]:
    """Entries of a row whose features are coded: of every feature's terms with one another, the squares of numbers."""
    *features, target = agreed.columns
    coded = [_coded(feature, cell) for feature, cell in zip(features, row, strict=False)]
    labels = target.labels if isinstance(target, LabelColumn) else None
    y = Fraction(1 if row[-1] == labels[1] else -1) if labels else _on_grid(row[-1], target)
    terms = [(value, place, square) for place, one in enumerate(coded) for value, square in one]
    terms.append((y, len(coded), labels is None))
    products = [
        first * second
        for i, (first, of, square) in enumerate(terms)
        for j, (second, other, _) in enumerate(terms[i:], start=i)
        if of != other or (i == j and square)
    ]
    return [*(value for value, _, _ in terms), *products]


def _coded(feature: Any, cell: Any) -> list[tuple[Fraction, bool]]:
    """Terms of one cell of a feature, and whether they have squares; None and NaN are gaps."""
    gap = cell is None or (isinstance(cell, float) and math.isnan(cell))
    indicator = [(Fraction(gap), False)] if feature.missing == "indicator" else []
    if gap and feature.missing == "value":
        cell, gap = feature.fill, False
    if feature.kind == "number":
        return [(Fraction(0) if gap else _on_grid(cell, feature), True), *indicator]
    if feature.kind == "ordinal":
        scores = feature.scores or range(len(feature.levels))
        middle, half = (scores[0] + scores[-1]) / 2, (scores[-1] - scores[0]) / 2
        score = middle if gap else scores[feature.levels.index(cell)]
        return [(Fraction(round((score - middle) / half * GRID), GRID), True), *indicator]
    shown = [level for level in feature.values if level != feature.reference]
    found = [(Fraction(not gap and cell == level), False) for level in shown]
    if getattr(feature, "other", False):
        found.append((Fraction(not gap and cell not in feature.values), False))
    return found + indicator


def _on_grid(value: Any, column: Any) -> Fraction:
    if not hasattr(column, "bounds"):
        return Fraction(0)
    value, (lower, upper) = float(value), column.bounds
    if transform := getattr(column, "transform", None):
        transforms: dict[str, Callable[[float], float]] = {
            "log": math.log,
            "sqrt": math.sqrt,
            "logit": lambda share: math.log(share / (1 - share)),
        }
        of = transforms[transform]
        value, lower, upper = of(min(max(value, lower), upper)), of(lower), of(upper)
    middle, half = lower + (upper - lower) / 2, (upper - lower) / 2
    scaled = min(max((value - middle) * (GRID / half), -GRID), GRID)
    return Fraction(round(scaled), GRID)


def _pulled_in(features: list[Fraction], radius: float) -> list[Fraction]:
    norm2 = sum(x * x for x in features)
    limit = Fraction(math.floor(Fraction(radius) ** 2 * UNIT), UNIT)
    if norm2 <= limit:
        return features
    factor = math.sqrt(int(limit * UNIT) / int(norm2 * UNIT)) * (1 - 2.0**-40)
    return [Fraction(math.trunc(int(x * GRID) * factor), GRID) for x in features]
