"""Reach: what scales the noise, what rows are moved to, and that no row changes the sums by more than is proved."""

import itertools
import math
from typing import Any
from unittest import mock

import numpy as np
import pytest

import equipoise as eq
from equipoise.client.home.rows import own_rows
from equipoise.errors import AgreementError
from equipoise.models.layout import GRID, UNIT
from equipoise.party.statistics import _Moments, exact_statistic

FEATURES = '{ name = "age", typical = [30, 70], bounds = [0, 120] }, { name = "bmi", typical = [18, 38] }'
TARGET = '{ name = "cost", typical = [1, 9], bounds = [0, 100] }'


def agreed(features: str = FEATURES, target: str = TARGET, *, version: int = 3) -> eq.Agreement:
    return eq.Agreement.parse(
        f'format = {version}\n[model]\nkind = "linear"\nfeatures = [{features}]\ntarget = {target}\n'
        '[privacy]\nmax_epsilon = 2.0\n[[parties]]\nname = "north"\n'
    )


def table(rows: list[tuple[float, ...]]) -> dict[str, Any]:
    return dict(zip(("age", "bmi", "cost"), np.array(rows, float).T, strict=True))


def test_a_typical_range_is_the_reach_since_the_third_format() -> None:
    third, stated = agreed(), agreed(FEATURES.replace("typical = [30, 70]", "typical = [30, 70], reach = [30, 70]"))
    assert third.identity == stated.identity
    assert [(c.lower, c.upper) for c in third.layout.columns] == [(30, 70), (18, 38), (1, 9)]  # type: ignore[union-attr]
    second = agreed(version=2)
    assert [(c.lower, c.upper) for c in second.layout.columns] == [(0, 120), (18, 38), (0, 100)]  # type: ignore[union-attr]
    other = agreed(FEATURES.replace("typical = [30, 70]", "typical = [30, 70], reach = [20, 90]"))
    assert other.layout.columns[0].upper == 90  # type: ignore[union-attr]
    assert eq.Agreement.model_validate(third.model_dump(mode="json")).identity == third.identity


def test_bounds_may_be_left_out() -> None:
    bmi = agreed().model.columns[1]
    assert (bmi.bounds, bmi.valid_range) == ((18.0, 38.0), None)  # type: ignore[union-attr]
    other = agreed('{ name = "age", typical = [0, 10], reach = [5, 15] }').model.columns[0]
    assert (other.bounds, other.valid_range) == ((0.0, 15.0), None)  # type: ignore[union-attr]
    assert agreed().model.columns[0].valid_range == (0.0, 120.0)  # type: ignore[union-attr]
    with pytest.raises(AgreementError, match=r"features\[0\].bounds is missing"):
        agreed('{ name = "age" }')


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ("bounds = [0, 100], reach = [20, 120]", r"reach = \[20, 120\] must be a range within the bounds \[0, 100\]"),
        ("bounds = [0, 100], reach = [50, 20]", "must be a range within"),
        ('typical = ["a", 3]', "must be a valid number"),
        ("reach = [1]", "reach"),
        ("typical = [60, 80], reach = [0, 10]", "has none of typical"),
        ('typical = [0.5, 2], transform = "log", bounds = [0, 3]', "needs a lower bound above 0"),
    ],
)
def test_mistakes(ranges: str, message: str) -> None:
    with pytest.raises(AgreementError, match=message):
        agreed(f'{{ name = "age", {ranges} }}')


def test_rows_beyond_the_reach_count_as_rows_at_its_ends() -> None:
    layout = agreed().layout
    beyond = exact_statistic(layout, table([(0, 60, 100), (119, 10, 0), (50, 20, 5)]))
    at_ends = exact_statistic(layout, table([(30, 38, 9), (70, 18, 1), (50, 20, 5)]))
    assert beyond.values == at_ends.values
    assert beyond.clipped == pytest.approx({"age": 2 / 3, "bmi": 2 / 3, "cost": 2 / 3})


def test_noise_in_own_units_falls_with_the_reach_and_its_square() -> None:
    wide, narrow = agreed(version=2), agreed()
    deviations = [one.layout.noise_deviations(one.guarantee(epsilon=1.0)) for one in (wide, narrow)]
    assert (
        deviations[0] == deviations[1]
    )  # in scaled units, of which one is 60 years in the former and 20 in the latter
    halves = [one.layout.columns[0].half_width for one in (wide, narrow)]  # type: ignore[union-attr]
    assert halves == [60.0, 20.0]


CORNERS = list(itertools.product((-1e6, 0, 30, 50, 70, 120, 1e9), (-1e3, 18, 28, 38, 200), (-5.0, 1.0, 5.0, 9.0, 1e4)))


def largest_change() -> float:
    """Return the largest distance between sums of tables that differ in one row, in units of the sensitivity."""
    layout = agreed().layout
    sums = np.array([exact_statistic(layout, table([row]), threads=1).values for row in CORNERS], float)
    distances = np.linalg.norm(sums[:, None] - sums[None], axis=2)
    return float(distances.max() / layout.sensitivity)


def test_no_row_changes_the_sums_by_more_than_the_sensitivity() -> None:
    assert 0.5 < largest_change() <= 1


def test_the_adversary_finds_rows_that_are_not_moved() -> None:
    def not_moved(self: _Moments, cells: Any, steps: Any) -> float:
        np.clip(cells, -2 * GRID, 2 * GRID, out=cells)  # to a range twice as wide
        np.rint(cells, out=cells)
        return float(cells.sum())

    with mock.patch.object(_Moments, "_clip_and_round", not_moved):
        assert largest_change() > 1


def test_a_prediction_moves_values_as_a_release_does() -> None:
    """The model is one of moved numbers: a patient of 110 years is predicted as one of 70."""
    model = agreed().model
    at_end, beyond, below = model.scaled_features(np.array([[70.0, 28.0], [110.0, 28.0], [1.0, 28.0]]))
    assert (at_end[0], beyond[0], below[0]) == (1.0, 1.0, -1.0)
    logged = agreed('{ name = "crp", typical = [1, 10], bounds = [0.1, 500], transform = "log" }', TARGET).model
    found = logged.scaled_features(np.array([[math.sqrt(10)], [100.0], [1e6]]))[:, 0]
    assert found == pytest.approx([0.0, 1.0, 1.0])


def test_a_model_is_one_of_the_rows_that_are_released() -> None:
    """Sums of `scaled_features` are those of a release, for rows within the ball, beyond it and beyond every reach."""
    columns = ", ".join(f'{{ name = "x{k}", typical = [-1, 1] }}' for k in range(6))
    within = agreed(columns, TARGET)
    ball = eq.Agreement.model_validate(
        {**within.model_dump(mode="json"), "model": {**within.model.model_dump(mode="json"), "norm_bound": 1.5}}
    )
    cells = np.random.default_rng(0).normal(size=(50, 6)) * np.linspace(0.2, 2, 50)[:, None]
    rows = dict(zip([f"x{k}" for k in range(6)], cells.T, strict=True)) | {"cost": np.full(50, 5.0)}
    for agreement in (within, ball):
        terms = agreement.model.scaled_features(cells)
        entries = agreement.layout.entries
        sums = np.array(exact_statistic(agreement.layout, rows, threads=1).values) / [
            UNIT * one.weight for one in entries
        ]
        for entry, found in zip(entries, sums, strict=True):
            if entry.second is None and entry.first < 6:
                assert found == pytest.approx(terms[:, entry.first].sum(), abs=1e-2)
    assert np.linalg.norm(ball.model.scaled_features(cells)[:, :6], axis=1).max() == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ('{ name = "cost", typical = [1, 9] }', [-7.0, 5.0, 9.5, 17.0]),
        ('{ name = "cost", typical = [1, 9], bounds = [0, 12] }', [0.0, 5.0, 9.5, 12.0]),
        ('{ name = "cost", typical = [2, 8], reach = [1, 9], bounds = [1, 9] }', [1.0, 5.0, 9.0, 9.0]),
    ],
)
def test_own_targets_count_as_they_are_but_for_mistakes(target: str, expected: list[float]) -> None:
    rows = table([(100, 28, -999.0), (60, 28, 5.0), (60, 28, 9.5), (60, 28, 999.0)])
    found = own_rows(agreed(FEATURES, target), rows, allow_clipping=True)
    assert found.rows.features is not None
    assert found.rows.features[0, 0] == 1.0  # a feature is moved to its reach
    assert found.rows.target * 4 + 5 == pytest.approx(expected)


@pytest.mark.parametrize(
    ("target", "expected"),
    [('{ name = "cost", typical = [1, 9] }', 8.0), ('{ name = "cost", typical = [2, 8], reach = [1, 9] }', 3.5)],
)
def test_errors_are_those_of_targets_as_they_are_but_within_bounds(target: str, expected: float) -> None:
    """Targets scatter by two half-widths of four units each; within bounds, nearly all lie at an end."""
    model = agreed(FEATURES, target).model
    truth = {"weights": np.zeros((2_000, 3)), "variance": np.full(2_000, 4.0)}
    found = model.expected_error(truth, truth, np.column_stack([np.zeros((50, 2)), np.ones(50)]))
    assert found == pytest.approx(expected, rel=0.05)


def test_steps_are_those_of_the_layout() -> None:
    layout = agreed().layout
    one = exact_statistic(layout, table([(60, 28, 5)]))
    assert one.values[0] == UNIT * layout.entries[0].weight // 2
