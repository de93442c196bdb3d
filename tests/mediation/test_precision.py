"""Adaptive precision: draws go where the targets' errors come from, until the error or the budget is reached."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from equipoise.estimate import Estimate
from equipoise.mediation.coalitions import SMALLEST, PrecisionGoal, allocate, refine, required_errors
from equipoise.mediation.requests import Evaluation, Pooled
from equipoise.valuation.shapley import ShapleyValues

SPREAD = np.array([1.0, 5.0, 1.0, 20.0])  # of one draw
SLOPES = np.array([[1.0, 0.5, 0.0, 0.2], [0.0, 1.0, 0.0, 0.0]])


class Sampler:
    def __init__(self) -> None:
        self.rng, self.drawn = np.random.default_rng(0), np.zeros(4, int)

    def draw(self, index: int, draws: int) -> Evaluation:
        self.drawn[index] += draws
        error = SPREAD[index] / np.sqrt(draws)
        return Evaluation(Estimate(float(3 + error * self.rng.normal()), float(error)), draws, 1.0, float(draws))

    def more(self, extra: dict[int, int]) -> dict[int, Evaluation]:
        return {index: self.draw(index, draws) for index, draws in extra.items()}


def wanted(error: float) -> Callable[[Sequence[Estimate]], PrecisionGoal]:
    return lambda _: PrecisionGoal(SLOPES, np.full(2, error))


def errors(known: list[Pooled]) -> np.ndarray:
    each = np.array([one.value.error for one in known])
    return np.asarray(np.sqrt(np.sum((SLOPES * each) ** 2, axis=1)))


def test_the_error_asked_for_is_reached_where_it_matters() -> None:
    sampler = Sampler()
    known = [Pooled((sampler.draw(index, 1_000),)) for index in range(4)]
    assert errors(known).max() > 0.1
    known = refine(known, wanted(0.03), sampler.more, budget=10_000_000)
    assert errors(known).max() <= 0.03
    assert sampler.drawn[2] == 1_000  # nothing depends on it
    assert sampler.drawn[1] > sampler.drawn[0]
    for place, one in enumerate(known):
        assert one.draws == sampler.drawn[place]
        assert abs(one.value.value - 3) < 5 * one.value.error


def test_the_budget_is_kept() -> None:
    sampler = Sampler()
    known = [Pooled((sampler.draw(index, 1_000),)) for index in range(4)]
    refine(known, wanted(1e-4), sampler.more, budget=20_000)
    assert 4_000 < sampler.drawn.sum() <= 4_000 + 20_000 + 4 * SMALLEST


def test_nothing_is_drawn_that_is_not_needed() -> None:
    sampler = Sampler()
    known = [Pooled((sampler.draw(index, 1_000),)) for index in range(4)]
    assert refine(known, wanted(10.0), sampler.more, budget=10**9) == known


def test_neymans_allocation_is_the_cheapest() -> None:
    """Moving draws between any two coalitions makes the worst target worse."""
    sampler = Sampler()
    known = [Pooled((sampler.draw(index, 1_000),)) for index in range(4)]
    slopes = SLOPES[:1]
    wanted = allocate(known, slopes, np.array([0.05]))

    def variance(draws: np.ndarray) -> float:
        used = slopes[0] != 0
        return float(np.sum((slopes[0] * SPREAD)[used] ** 2 / draws[used]))

    least = variance(wanted)
    assert np.sqrt(least) == pytest.approx(0.9 * 0.05, rel=1e-6)
    for a, b in ((0, 1), (1, 3), (3, 0)):
        moved = wanted.copy()
        moved[a] *= 1.1
        moved[b] -= 0.1 * wanted[a]
        assert moved[b] < 0 or variance(moved) > least


def test_draws_are_asked_for_until_something_can_be_told_from_nothing() -> None:
    """Errors wanted of Shapley values: known ones need none, doubtful ones a quarter of what they seem to be."""
    values = np.array([1.0, 0.2, 0.08, 0.04, 0.001, -0.02])
    shapley = ShapleyValues(values, np.diag(np.full(6, 0.03**2)), Estimate(1.2, 0.03), np.zeros(6))
    wanted = required_errors(shapley, precision=0.06)
    np.testing.assert_allclose(wanted, [np.inf, np.inf, 0.02, 0.015, 0.02, 0.02])
