"""Rewards by likelihood tempering (paper §5.2): one curve r(κ) for everybody, inverted for each target.

The posterior tempered to κ is the same for all recipients, so a few values of κ with common random numbers serve all
parties and all fairness exponents. r grows with κ from 0 at the prior (power rule), so the estimates are fitted by the
closest non-decreasing curve, and each target has one κ. Fresh draws verify it, and become the reward. If the verified
value misses the target, it joins the curve, so that the next attempt is closer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

# SciPy loads its parts, a second in all, when they are first used. Reports need only the numbers of this module.
import scipy

from equipoise._util.arrays import Floats
from equipoise.estimate import UNSURE, Estimate

# Targets are seldom far below the whole team's value, so the first evaluations are densest there.
FIRST_LOOK = (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 64, 1 / 256, 1 / 1024)
# Ratio of neighbouring κ beyond these, for targets close to 0.
FURTHER = 1 / 4
MAX_FURTHER = 20
MAX_TRIES = 5  # verifications of one target

AtKappas = Callable[[Sequence[float]], Sequence[Estimate]]


@dataclass(frozen=True)
class Point:
    """A value of κ, and the value of the posterior tempered to it."""

    kappa: float
    value: Estimate


class Curve:
    """r(κ) as known so far: (0, 0), (1, r(1)) and points between."""

    def __init__(self, whole: Estimate, points: Sequence[Point]) -> None:
        self.whole = whole
        self.points = tuple(sorted((*points, Point(1.0, whole)), key=lambda point: point.kappa))
        # The axis is logarithmic above this κ and linear below, so that κ = 0 lies on it.
        self._offset = self.points[0].kappa
        kappas = np.array([0.0, *(point.kappa for point in self.points)])
        values = np.array([0.0, *(point.value.value for point in self.points)])
        errors = np.array([0.0, *(point.value.error for point in self.points)])
        # The prior's value is known: its weight is that of a million draws.
        least = max(float(np.min(errors[1:])), 1e-9)
        fitted = scipy.optimize.isotonic_regression(values, weights=1 / np.maximum(errors, 1e-3 * least) ** 2).x
        fitted = np.maximum(fitted - fitted[0], 0.0)
        self._interpolate = scipy.interpolate.PchipInterpolator(self._on_axis(kappas), fitted)
        self.highest = float(fitted[-1])

    def __call__(self, kappa: float) -> float:
        return float(self._interpolate(self._on_axis(np.array([kappa])))[0])

    def kappa_of(self, value: float) -> float:
        """Return the κ at which the curve has a value; 1 for values that it does not reach."""
        if value <= 0:
            return 0.0
        if value >= self.highest:
            return 1.0
        return float(scipy.optimize.brentq(lambda kappa: self(kappa) - value, 0.0, 1.0, xtol=1e-12))

    def _on_axis(self, kappas: Floats) -> Floats:
        return np.log1p(kappas / self._offset)


def first_curve(whole: Estimate, lowest_target: float, at: AtKappas) -> Curve:
    """Evaluate r at some κ, and at ever smaller ones until the curve is below the lowest target."""
    points = [Point(kappa, value) for kappa, value in zip(FIRST_LOOK, at(FIRST_LOOK), strict=True)]
    for _ in range(MAX_FURTHER):
        last = points[-1].value
        # A value within its error of 0 cannot be told from the prior's; smaller κ would add nothing.
        if last.value < lowest_target or last.z_score <= UNSURE:
            break
        kappa = FURTHER * points[-1].kappa
        points.append(Point(kappa, at([kappa])[0]))
    return Curve(whole, points)


@dataclass(frozen=True)
class Tempered:
    """The κ of one target, the value verified there, and the number of sets of draws that were tried."""

    kappa: float
    attained: Estimate
    attempt: int  # counted from 0
    tries: int
    within_tolerance: bool


def temper(
    curve: Curve,
    targets: Sequence[tuple[float, float]],
    verify: Callable[[dict[int, tuple[float, int]]], dict[int, Estimate]],
) -> tuple[list[Tempered], Curve]:
    """Find κ for all (target, tolerance) pairs; also return the curve with every verified value.

    `verify` takes {index of target: (κ, try)} and returns values by fresh draws. If no try attains a target within its
    tolerance, the closest try is kept.
    """
    best: dict[int, Tempered] = {}
    points = [point for point in curve.points if point.kappa < 1]
    for attempt in range(MAX_TRIES):
        wanted = {
            index: (curve.kappa_of(target), attempt)
            for index, (target, _) in enumerate(targets)
            if index not in best or not best[index].within_tolerance
        }
        if not wanted:
            break
        for index, attained in verify(wanted).items():
            kappa, (target, tolerance) = wanted[index][0], targets[index]
            miss = abs(attained.value - target)
            if index not in best or miss < abs(best[index].attained.value - target):
                best[index] = Tempered(kappa, attained, attempt, attempt + 1, miss <= tolerance)
            if 0 < kappa < 1:
                points.append(Point(kappa, attained))
        curve = Curve(curve.whole, points)
    return [best[index] for index in range(len(targets))], curve
