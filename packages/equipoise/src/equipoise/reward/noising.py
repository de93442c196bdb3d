"""Rewards by noise addition (paper §5.1): more noise on every statistic until the posterior is worth its target.

The noise of a recipient is one fixed draw scaled by √τ, or for degraded rewards a path at time τ, on the others'
releases alone. r(τ) tends to 0, or to what the party knows alone, but need not fall all the way (the paper's Fig. 4d).
An approximation that costs little says where to look: r(τ) differs from it by an amount that changes slowly with τ.
τ grows by steps from where it hardly matters, and the first step at which the approximation, corrected by that amount,
is below the target is evaluated with the one before; an estimate below the target ends the bracket. If evaluations
cannot exclude a smaller root, that is said. The reward itself is drawn anew; a value of it that misses the target joins
the evaluations, and the search goes on.

A recipient is told its τ. Every τ that is tried is therefore of one grid, which follows from the agreement alone: its
digits tell nothing of what the others chose, beyond where r(τ) crosses the target. For the same reason words say what
became of the search; the operator has the curve.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.estimate import UNSURE, Estimate

FIRST = 2.0**-6  # of 1/ε, where added noise hardly matters beside the party's own
GROWTH = 2.0
FINEST = 1024  # places of the grid between a τ and its double: 0.07 % apart
LEAST_OCTAVES = 12  # below the first τ that is tried
MAX_STEPS = 48
MAX_HALVINGS = 12
NEAR = 0.3  # nats above the target, within which an approximation may miss that it is met
RISE = 0.1  # nats by which r(τ) is expected to rise again, for a dip to be looked at
LOOKED_AHEAD = 4  # steps that are approximated at once
LEAST_STEP = 0.05  # of a bracket, which every evaluation within it takes off
WITHIN, AROUND = 7, 5  # places that are approximated within a bracket, and around where the target is expected
MAX_TRIES = 5  # verifications

NO_ROOT = "even with the most noise that was tried the reward is worth more than its target; no root was found"
EARLIER_ROOT = (
    "with less noise the reward may be worth the target already, though with some amount between it is worth more again"
)

AtTaus = Callable[[Sequence[float]], Sequence[Estimate]]
Approximate = Callable[[Sequence[float]], Sequence[float]]  # NaN where there is no approximation


@dataclass(frozen=True)
class Noised:
    """The τ of one target, the value verified there, and which of the tries that was.

    `doubt` says in words why a smaller root cannot be excluded; empty if no evaluation speaks for one.
    """

    tau: float
    attained: Estimate
    attempt: int
    within_tolerance: bool
    doubt: str


class Curve:
    """What is known of r(τ): estimates, and an approximation that they correct."""

    def __init__(self, whole: Estimate, scale: float, at: AtTaus, approximate: Approximate) -> None:
        self.known: dict[float, Estimate] = {0.0: whole}
        self._scale, self._at, self._approximate = scale, at, approximate
        self._approximated: dict[float, float] = {}

    def look(self, taus: Sequence[float]) -> None:
        """Evaluate r(τ) where it is not known."""
        fresh = [tau for tau in taus if tau not in self.known]
        self.known.update(zip(fresh, self._at(fresh), strict=True))

    def expect(self, taus: Sequence[float]) -> Floats:
        """Expect r(τ): what was approximated, and by how much that is off at the nearest evaluations."""
        fresh = [tau for tau in (*self.known, *taus) if tau not in self._approximated]
        self._approximated.update(zip(fresh, self._approximate(fresh), strict=True))
        found = {tau: value for tau, value in self._approximated.items() if math.isfinite(value)}
        seen = sorted(self.known)
        places, approximated = self._places(sorted(found)), [found[tau] for tau in sorted(found)]

        def approximation(at: Sequence[float]) -> Floats:
            return np.interp(self._places(at), places, approximated) if found else np.zeros(len(at))

        off = [self.known[tau].value for tau in seen] - approximation(seen)
        return np.asarray(approximation(taus) + np.interp(self._places(taus), self._places(seen), off))

    def _places(self, taus: Sequence[float]) -> Floats:
        return np.log1p(np.asarray(taus) / self._scale)

    def crossing(self, low: float, high: float, target: float) -> float:
        """Where between two evaluations, one above the target and one below, r(τ) is expected to be the target.

        A path is rough, and so is r(τ) along it: of some places around the crossing, the one that is expected to be
        nearest to the target is taken.
        """
        ends = self._places([low, high]).tolist()
        inside = self._grid(np.linspace(ends[0], ends[1], WITHIN + 2)[1:-1])
        taus = [low, *(tau for tau in inside if low < tau < high), high]
        expected, places = self.expect(taus), self._places(taus)
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
    """Leave a little of an interval on both sides, so that it always becomes shorter."""
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

    `at` evaluates r at several τ with common random numbers, `verify` at one by fresh draws, and `approximate` says at
    little cost about what it is at several. Steps from one τ to the next are so many octaves.
    """
    curve = Curve(whole, scale, at, approximate)
    known = curve.known
    steps = [scale * FIRST * GROWTH ** (octaves * step) for step in range(MAX_STEPS // octaves)]

    def is_bracketed() -> bool:
        """Whether some τ is known to be worth less than the target; more noise is tried until one is."""
        while not any(value.value < target for value in known.values()):
            ahead = [tau for tau in steps if tau > max(known)]
            if not ahead:
                return False
            curve.look(_worth_looking_at(curve, ahead, target))
        return True

    best: Noised | None = None
    for attempt in range(MAX_TRIES):
        if not is_bracketed():  # which a verification may have undone: the one τ below the target is not, by all draws
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
        is_met = abs(attained.value - target) <= tolerance  # a degraded reward's floor is what the party knows alone
        return Noised(last, attained, 0, is_met, "" if is_met else NO_ROOT)
    return best


def _worth_looking_at(curve: Curve, ahead: Sequence[float], target: float) -> list[float]:
    """Of some steps, the first one that is expected to be below the target, the one before, and dips that are near."""
    expected: list[float] = []
    for first in range(0, len(ahead), LOOKED_AHEAD):
        expected += curve.expect(ahead[first : first + LOOKED_AHEAD]).tolist()
        if min(expected) < target:
            break
    last = next((place for place, value in enumerate(expected) if value < target), len(expected) - 1)
    dips = [
        place
        for place in range(last - 1)
        if expected[place] < min(target + NEAR, max(expected[place + 1 : last + 1]) - RISE)
    ]
    return [ahead[place] for place in sorted({*dips, max(last - 1, 0), last})]


def _narrow(curve: Curve, target: float, tolerance: float) -> float:
    """Evaluate within the first bracket until an end of it has the target."""
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
    """The nearest τ that may be tried; far below the first one there is none, since so little noise is none."""
    place = max(round(FINEST * math.log(tau / (scale * FIRST), GROWTH)), -LEAST_OCTAVES * FINEST)
    return float(scale * FIRST * GROWTH ** (place / FINEST))


def _pooled(first: Estimate, second: Estimate) -> Estimate:
    """Two estimates of one number, weighted by their precision."""
    weights = np.array([first.error, second.error]) ** -2.0
    value = float(weights @ [first.value, second.value] / weights.sum())
    return Estimate(value, float(weights.sum() ** -0.5))


def _doubt(known: dict[float, Estimate], root: float, target: float) -> str:
    """Why a smaller root cannot be excluded: r may have come down to the target before, and was above it again."""
    below = [known[tau] for tau in sorted(known) if tau < root]
    for place, value in enumerate(below):
        again = any(later.value - UNSURE * later.error > target for later in below[place + 1 :])
        if value.value - UNSURE * value.error <= target and again:
            return EARLIER_ROOT
    return ""
