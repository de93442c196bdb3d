"""Rewards by noise addition (paper §5.1): more noise on every statistic until the posterior is worth its target.

The noise of a recipient is one fixed draw scaled by √τ, or for degraded rewards a path at time τ, on the others'
releases alone. r(τ) tends to 0, or to what the party knows alone, but need not fall all the way (the paper's Fig. 4d):
τ grows by steps from where it hardly matters, and the first step whose estimate is below the target brackets
the smallest root that the evaluations can tell. If they cannot exclude a smaller one, that is said. The reward itself
is drawn anew; a value of it that misses the target joins the evaluations, and the search goes on.

A recipient is told its τ. Every τ that is tried is therefore of one grid, which follows from the agreement alone: its
digits tell nothing of what the others chose, beyond where r(τ) crosses the target. For the same reason words say what
became of the search; the operator has the curve.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.estimate import UNSURE, Estimate

FIRST = 2.0**-6  # of 1/ε, where added noise hardly matters beside the party's own
GROWTH = 2.0
FINEST = 1024  # places of the grid between a τ and its double: 0.07 % apart
LEAST_OCTAVES = 12  # below the first τ that is tried
MAX_STEPS = 48
MAX_HALVINGS = 12
MAX_TRIES = 5  # verifications

NO_ROOT = "even with the most noise that was tried the reward is worth more than its target; no root was found"
EARLIER_ROOT = (
    "with less noise the reward may be worth the target already, though with some amount between it is worth more again"
)

AtTaus = Callable[[Sequence[float]], Sequence[Estimate]]


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


def add_noise(
    whole: Estimate,
    target: float,
    scale: float,
    at: AtTaus,
    verify: Callable[[float], Estimate],
    tolerance: float,
    octaves: int = 1,
) -> Noised:
    """Find the smallest τ with r(τ) = target that can be certified; `scale` is 1/ε of the weakest guarantee allowed.

    `at` evaluates r at several τ with common random numbers, `verify` at one by fresh draws. Steps from one τ to the
    next are so many octaves.
    """
    known: dict[float, Estimate] = {0.0: whole}

    def look(taus: Sequence[float]) -> None:
        fresh = [tau for tau in taus if tau not in known]
        known.update(zip(fresh, at(fresh), strict=True))

    steps = iter(range(0, MAX_STEPS // octaves, 4))

    def is_bracketed() -> bool:
        """Whether some τ is known to be worth less than the target; more noise is tried until one is."""
        while not any(value.value < target for value in known.values()):
            step = next(steps, None)
            if step is None:
                return False
            look([scale * FIRST * GROWTH ** (octaves * (step + k)) for k in range(4)])
        return True

    best: Noised | None = None
    for attempt in range(MAX_TRIES):
        if not is_bracketed():  # which a verification may have undone: the one τ below the target is not, by all draws
            break
        tau = _narrow(known, target, scale, look, tolerance)
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


def _narrow(
    known: dict[float, Estimate], target: float, scale: float, look: Callable[[Sequence[float]], None], tolerance: float
) -> float:
    """Evaluate within the first bracket until an end of it has the target."""
    high = min(tau for tau, value in known.items() if value.value < target)
    low = max(tau for tau in known if tau < high)
    best = min((low, high), key=lambda tau: abs(known[tau].value - target))
    for _ in range(MAX_HALVINGS):
        if abs(known[best].value - target) <= 0.5 * tolerance and best > 0:
            break
        above, below = known[low].value, known[high].value
        share = np.clip((above - target) / (above - below), 0.1, 0.9)  # where a straight line would cross, not too near
        middle = float(np.expm1(np.log1p(low / scale) * (1 - share) + np.log1p(high / scale) * share) * scale)
        middle = on_grid(middle, scale)
        if not low < middle < high:
            break
        look([middle])
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
