"""The tempering curve: monotone, inverted, verified, for curves that are known."""

from collections.abc import Sequence

import numpy as np
import pytest

from equipoise.estimate import Estimate
from equipoise.reward.tempering import FIRST_LOOK, Curve, Point, first_curve, temper

DIMENSION, INFORMATION = 4, 500.0


def truth(kappa: float) -> float:
    """Surprise of a normal posterior of a normal prior, with information κ · 500 in each of four coordinates."""
    precision = 1 + kappa * INFORMATION
    shift = kappa * INFORMATION / precision
    return float(0.5 * DIMENSION * (np.log(precision) + 1 / precision - 1) + 0.5 * shift**2)


class Noisy:
    def __init__(self, error: float, seed: int = 0) -> None:
        self.error, self.rng, self.asked = error, np.random.default_rng(seed), 0

    def at(self, kappas: Sequence[float]) -> list[Estimate]:
        self.asked += len(kappas)
        return [Estimate(truth(kappa) + self.error * self.rng.normal(), self.error) for kappa in kappas]

    def verify(self, wanted: dict[int, tuple[float, int]]) -> dict[int, Estimate]:
        return {index: self.at([kappa])[0] for index, (kappa, _) in wanted.items()}


def test_the_curve_never_falls_and_meets_both_ends() -> None:
    noisy = Noisy(0.3)
    curve = first_curve(Estimate(truth(1), 0.3), 0.2, noisy.at)
    grid = np.concatenate([[0.0], np.geomspace(1e-6, 1, 500)])
    values = np.array([curve(kappa) for kappa in grid])
    assert np.all(np.diff(values) >= -1e-9)
    assert values[0] == pytest.approx(0, abs=1e-9)
    assert values[-1] == pytest.approx(curve.highest)
    for value in (0.01, 0.5, 3.0, 0.99 * curve.highest):
        assert curve(curve.kappa_of(value)) == pytest.approx(value, abs=1e-6)
    assert curve.kappa_of(0.0) == 0
    assert curve.kappa_of(curve.highest + 1) == 1


def test_targets_are_attained_in_one_or_two_tries() -> None:
    noisy = Noisy(0.01)
    targets = [0.05, 1.0, 4.0, 7.5, 0.95 * truth(1)]
    tempered, curve = temper(
        first_curve(Estimate(truth(1), 0.01), min(targets), noisy.at), [(one, 0.05) for one in targets], noisy.verify
    )
    for target, one in zip(targets, tempered, strict=True):
        assert one.within_tolerance
        assert one.tries <= 2
        assert truth(one.kappa) == pytest.approx(target, abs=0.08)
    assert len(curve.points) > len(FIRST_LOOK)  # verifications joined the curve


def test_targets_next_to_nothing_are_looked_for_further_down() -> None:
    noisy = Noisy(1e-6)
    curve = first_curve(Estimate(truth(1), 1e-6), 1e-4, noisy.at)
    assert min(point.kappa for point in curve.points) < min(FIRST_LOOK)
    assert truth(curve.kappa_of(1e-4)) == pytest.approx(1e-4, rel=0.3)


def test_what_cannot_be_attained_is_said() -> None:
    """A verification that always comes out elsewhere: the closest try is kept, and marked."""

    def verify(wanted: dict[int, tuple[float, int]]) -> dict[int, Estimate]:
        return {index: Estimate(8.0, 0.01) for index in wanted}

    curve = first_curve(Estimate(truth(1), 0.01), 4.0, Noisy(0.01).at)
    tempered, _ = temper(curve, [(4.0, 0.05)], verify)
    assert not tempered[0].within_tolerance
    assert tempered[0].attained.value == 8.0


def test_outliers_do_not_break_the_order() -> None:
    points = [Point(0.25, Estimate(3.0, 0.01)), Point(0.5, Estimate(2.0, 5.0))]
    curve = Curve(Estimate(4.0, 0.01), points)
    assert curve(0.25) == pytest.approx(3.0, abs=0.01)
    assert 3.0 <= curve(0.5) + 0.01 <= 4.02
