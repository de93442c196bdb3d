"""What other proofs rely on: length of a statistic, smallest sensitivity, weights close to their limit."""

import math

import pytest

from builders import ALL_MODELS, categorical, linear, logistic
from equipoise.models import layout_of
from equipoise.models.guarantee import MAX_STATISTIC_LENGTH, MIN_SENSITIVITY_STEPS
from equipoise.models.layout import BASE_WEIGHT
from equipoise.models.regression import MAX_FEATURES

LARGEST = {
    "linear, most features": linear(MAX_FEATURES),
    "logistic, most features": logistic(MAX_FEATURES),
    "linear, most features in a ball": linear(MAX_FEATURES, norm_bound=1.0),
    "categories": categorical(26),
}


@pytest.mark.parametrize("name", [*ALL_MODELS, *LARGEST])
def test_the_lattice_gap_covers_every_layout(name: str) -> None:
    """`guarantee.LATTICE_GAP` assumes at most 2¹⁵ entries and a sensitivity of at least 2³² steps."""
    layout = layout_of({**ALL_MODELS, **LARGEST}[name])
    assert len(layout) <= MAX_STATISTIC_LENGTH
    assert layout.sensitivity >= MIN_SENSITIVITY_STEPS


@pytest.mark.parametrize("width", [1, 2, 3, 4, 6, 10, 50, 250])
def test_squares_have_nearly_the_largest_free_weight(width: int) -> None:
    for layout, limit in ((layout_of(linear(width)), (width + 4) / 2), (layout_of(logistic(width)), (width + 5) / 2)):
        weights = {entry.weight / BASE_WEIGHT for entry in layout.entries if entry.first == entry.second}
        assert all(0.93 * math.sqrt(limit) <= weight <= math.sqrt(limit) for weight in weights)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_entries_are_the_upper_triangle_without_the_constants(width: int) -> None:
    pairs = {(entry.first, entry.second) for entry in layout_of(linear(width)).entries}
    expected: set[tuple[int, int | None]] = {(i, None) for i in range(width + 1)}
    expected |= {(i, j) for i in range(width + 1) for j in range(i, width + 1)}
    assert pairs == expected
    assert {(e.first, e.second) for e in layout_of(logistic(width)).entries} == expected - {(width, width)}
