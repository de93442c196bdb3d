"""Rewards by noise addition (paper §5.1): more noise on every statistic until the posterior is worth its target.

The noise of a recipient is one fixed draw scaled by √τ, or for degraded rewards a path at time τ, on the others'
releases alone. r(τ) tends to 0, or to what the party knows alone, but need not fall all the way (the paper's Fig. 4d).
A cheap approximation guides the search: r(τ) differs from it by an amount that changes slowly with τ. τ grows in steps
from where it hardly matters. The first step at which the corrected approximation is below the target is evaluated
together with the step before; an estimate below the target closes the bracket. If the evaluations cannot exclude a
smaller root, the result says so. The reward itself is drawn anew. If its value misses the target, the value joins the
evaluations and the search goes on.

A recipient learns its τ. Therefore every τ that is tried lies on one grid, which follows from the agreement alone, so
the digits of τ tell nothing about the others' choices beyond where r(τ) crosses the target. For the same reason, notes
describe the search in words without numbers; only the operator has the curve.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.estimate import UNSURE, Estimate

# The first τ, in units of 1/ε; so little added noise hardly matters beside the party's own.
FIRST = 2.0**-6
GROWTH = 2.0
# Grid points between a τ and its double, 0.07 % apart.
FINEST = 1024
# The grid ends this many octaves below the first τ that is tried.
LEAST_OCTAVES = 12
MAX_STEPS = 48
MAX_HALVINGS = 12
# The approximation may be off by this many nats: expected values up to this far above the target are worth evaluating.
NEAR = 0.3
# A dip is worth evaluating if r(τ) is expected to rise by this many nats after it.
RISE = 0.1
# Steps that are approximated at once.
LOOKED_AHEAD = 4
# Every evaluation shortens the bracket by at least this share.
LEAST_STEP = 0.05
# Points that are approximated within a bracket, and around the expected crossing.
WITHIN, AROUND = 7, 5
# Verifications of one target.
MAX_TRIES = 5

NO_ROOT = "even with the most noise that was tried the reward is worth more than its target; no root was found"
EARLIER_ROOT = (
    "with less noise the reward may be worth the target already, though with some amount between it is worth more again"
)

AtTaus = Callable[[Sequence[float]], Sequence[Estimate]]
# Yields NaN where there is no approximation.
Approximate = Callable[[Sequence[float]], Sequence[float]]


@dataclass(frozen=True)
class Noised:
    """The τ of one target, the value verified there, and the number of the try, from 0.

    `doubt` says in words why a smaller root cannot be excluded; it is empty if no evaluation suggests one.
    """

    tau: float
    attained: Estimate
    attempt: int
    within_tolerance: bool
    doubt: str


class Curve:
    """The curve r(τ) as known so far: estimates, and an approximation that they correct."""

    def __init__(self, whole: Estimate, scale: float, at: AtTaus, approximate: Approximate) -> None:
        self.known: dict[float, Estimate] = {0.0: whole}
        self._scale, self._at, self._approximate = scale, at, approximate
        self._approximated: dict[float, float] = {}

    def look(self, taus: Sequence[float]) -> None:
        """Evaluate r at those τ where it is not known."""
        fresh = [tau for tau in taus if tau not in self.known]
        self.known.update(zip(fresh, self._at(fresh), strict=True))

    def expect(self, taus: Sequence[float]) -> Floats:
        """Predict r(τ): the approximation, corrected by its error at the nearest evaluations."""
        fresh = [tau for tau in (*self.known, *taus) if tau not in self._approximated]
        self._approximated.update(zip(fresh, self._approximate(fresh), strict=True))
        approximations = {tau: value for tau, value in self._approximated.items() if math.isfinite(value)}
        seen = sorted(self.known)
        points, approximated = (
            self._on_axis(sorted(approximations)),
            [approximations[tau] for tau in sorted(approximations)],
        )

        def approximation(at: Sequence[float]) -> Floats:
            return np.interp(self._on_axis(at), points, approximated) if approximations else np.zeros(len(at))

        off = [self.known[tau].value for tau in seen] - approximation(seen)
        return np.asarray(approximation(taus) + np.interp(self._on_axis(taus), self._on_axis(seen), off))

    def _on_axis(self, taus: Sequence[float]) -> Floats:
        return np.log1p(np.asarray(taus) / self._scale)

    def crossing(self, low: float, high: float, target: float) -> float:
        """Return the τ between two evaluations, one above the target and one below, at which r(τ) should be the target.

        A path is rough, and so is r(τ) along it. So of several points around the crossing, the result is the one whose
        predicted value is nearest to the target.
        """
        ends = self._on_axis([low, high]).tolist()
        inside = self._grid(np.linspace(ends[0], ends[1], WITHIN + 2)[1:-1])
        taus = [low, *(tau for tau in inside if low < tau < high), high]
        expected, places = self.expect(taus), self._on_axis(taus)
        first = 1 + int(np.argmax(expected[1:] < target))
        above, below = expected[first - 1], expected[first]
        width = places[first] - places[first - 1]
        middle = places[first - 1] + (above - target) / (above - below) * width
        around = np.clip(middle + width * np.linspace(-0.4, 0.4, AROUND), *_inner(*ends))
        near = self._grid(around)
        return near[int(np.argmin(np.abs(self.expect(near) - target)))]

    def _grid(self, places: Floats) -> list[float]:
        return sorted({on_grid(float(tau), self._scale) for tau in np.expm1(places) * self._scale})


def _inner(low: float, high: float) -> tuple[float, float]:
    """Return the interior of an interval without a margin at both ends, so that the bracket always becomes shorter."""
    return low + LEAST_STEP * (high - low), high - LEAST_STEP * (high - low)


def add_noise(
    whole: Estimate,
    target: float,
    scale: float,
    at: AtTaus,
    verify: Callable[[float], Estimate],
    approximate: Approximate,
    tolerance: float,
    octaves: int = 1,
) -> Noised:
    """Find the smallest τ with r(τ) = target that can be certified; `scale` is 1/ε of the weakest guarantee allowed.

    `at` evaluates r at several τ with common random numbers, `verify` at one τ by fresh draws, and `approximate`
    cheaply estimates it at several. Each step multiplies τ by 2 to the power `octaves`.
    """
    curve = Curve(whole, scale, at, approximate)
    known = curve.known
    steps = [scale * FIRST * GROWTH ** (octaves * step) for step in range(MAX_STEPS // octaves)]

    def is_bracketed() -> bool:
        """Try more noise until some τ is known to be worth less than the target; return False if none is."""
        while not any(value.value < target for value in known.values()):
            ahead = [tau for tau in steps if tau > max(known)]
            if not ahead:
                return False
            curve.look(_worth_looking_at(curve, ahead, target))
        return True

    best: Noised | None = None
    for attempt in range(MAX_TRIES):
        # A verification may undo the bracket: pooled with its draws, the only τ below the target may be above it.
        if not is_bracketed():
            break
        tau = _narrow(curve, target, tolerance)
        attained = verify(tau)
        miss = abs(attained.value - target)
        if best is None or miss < abs(best.attained.value - target):
            best = Noised(tau, attained, attempt, miss <= tolerance, _doubt(known, tau, target))
        if miss <= tolerance:
            break
        known[tau] = _pooled(known[tau], attained)
    if best is None:
        last = max(known)
        attained = verify(last)
        # A degraded reward cannot be worth less than the party's own release, which may be within the tolerance.
        is_met = abs(attained.value - target) <= tolerance
        return Noised(last, attained, 0, is_met, "" if is_met else NO_ROOT)
    return best


def _worth_looking_at(curve: Curve, ahead: Sequence[float], target: float) -> list[float]:
    """Select steps to evaluate: the first that should be below the target, the one before it, and dips near it."""
    expected: list[float] = []
    for first in range(0, len(ahead), LOOKED_AHEAD):
        expected += curve.expect(ahead[first : first + LOOKED_AHEAD]).tolist()
        if min(expected) < target:
            break
    last = next((index for index, value in enumerate(expected) if value < target), len(expected) - 1)
    dips = [
        index
        for index in range(last - 1)
        if expected[index] < min(target + NEAR, max(expected[index + 1 : last + 1]) - RISE)
    ]
    return [ahead[index] for index in sorted({*dips, max(last - 1, 0), last})]


def _narrow(curve: Curve, target: float, tolerance: float) -> float:
    """Evaluate within the first bracket until one of its ends attains the target; return that end."""
    known = curve.known
    high = min(tau for tau, value in known.items() if value.value < target)
    low = max(tau for tau in known if tau < high)
    best = min((low, high), key=lambda tau: abs(known[tau].value - target))
    for _ in range(MAX_HALVINGS):
        if abs(known[best].value - target) <= 0.5 * tolerance and best > 0:
            break
        middle = curve.crossing(low, high, target)
        if not low < middle < high:
            break
        curve.look([middle])
        low, high = (low, middle) if known[middle].value < target else (middle, high)
        best = min((low, high), key=lambda tau: abs(known[tau].value - target))
    return best if best > 0 else high


def on_grid(tau: float, scale: float) -> float:
    """Return the nearest τ of the grid, which ends far below the first τ, where noise has no effect."""
    index = max(round(FINEST * math.log(tau / (scale * FIRST), GROWTH)), -LEAST_OCTAVES * FINEST)
    return float(scale * FIRST * GROWTH ** (index / FINEST))


def _pooled(first: Estimate, second: Estimate) -> Estimate:
    """Combine two estimates of one number, weighted by their precision."""
    weights = np.array([first.error, second.error]) ** -2.0
    value = float(weights @ [first.value, second.value] / weights.sum())
    return Estimate(value, float(weights.sum() ** -0.5))


def _doubt(known: dict[float, Estimate], root: float, target: float) -> str:
    """Return `EARLIER_ROOT` if r may have met the target below `root` and risen above it again; otherwise nothing."""
    below = [known[tau] for tau in sorted(known) if tau < root]
    for index, value in enumerate(below):
        again = any(later.value - UNSURE * later.error > target for later in below[index + 1 :])
        if value.value - UNSURE * value.error <= target and again:
            return EARLIER_ROOT
    return ""
