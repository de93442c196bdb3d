"""Rewards by noise addition (paper §5.1): more noise on every statistic until the posterior is worth its target.

The noise of a recipient is one fixed draw scaled by √τ. r(τ) tends to 0 but need not fall all the way (the paper's
Fig. 4d): τ grows by steps from where it hardly matters, and the first step that is surely below the target, after steps
that are all surely above, brackets the smallest root that can be told from the evaluations.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.estimate import Estimate

FIRST = 2.0**-6  # of 1/ε, where added noise hardly matters beside the party's own
GROWTH = 2.0
MOST_STEPS = 40
MOST_HALVINGS = 12
SURE = 2.0  # standard errors

AtTaus = Callable[[Sequence[float]], Sequence[Estimate]]


@dataclass(frozen=True)
class Noised:
    """The τ of one target and what is known of r(τ): all evaluations, and whether a smaller root can be excluded.

    `doubt` says in words why not; empty if no evaluation speaks for a smaller one.
    """

    tau: float
    attained: Estimate
    within_tolerance: bool
    doubt: str
    evaluations: tuple[tuple[float, Estimate], ...]


def add_noise(whole: Estimate, target: float, scale: float, at: AtTaus, tolerance: float) -> Noised:
    """Find the smallest τ with r(τ) = target that can be certified; `scale` is 1/ε of the weakest guarantee."""
    known: dict[float, Estimate] = {0.0: whole}

    def look(taus: Sequence[float]) -> None:
        fresh = [tau for tau in taus if tau not in known]
        known.update(zip(fresh, at(fresh), strict=True))

    low = high = 0.0
    for step in range(0, MOST_STEPS, 4):
        look([scale * FIRST * GROWTH ** (step + k) for k in range(4)])
        crossing = [tau for tau in sorted(known) if known[tau].value < target]
        if crossing:
            high = crossing[0]
            low = max(tau for tau in known if tau < high)
            break
    else:
        last = max(known)
        doubt = f"even at tau = {last:.4g} the reward is worth {known[last]}; no root was found"
        return Noised(last, known[last], False, doubt, _sorted(known))

    best = min((low, high), key=lambda tau: abs(known[tau].value - target))
    for _ in range(MOST_HALVINGS):
        if abs(known[best].value - target) <= tolerance:
            break
        above, below = known[low].value, known[high].value
        share = np.clip((above - target) / (above - below), 0.1, 0.9)  # where a straight line would cross, not too near
        middle = float(np.expm1(np.log1p(low / scale) * (1 - share) + np.log1p(high / scale) * share) * scale)
        look([middle])
        low, high = (low, middle) if known[middle].value < target else (middle, high)
        best = min((low, high), key=lambda tau: abs(known[tau].value - target))
    attained = known[best]
    return Noised(
        best, attained, abs(attained.value - target) <= tolerance, _doubt(known, best, target), _sorted(known)
    )


def _doubt(known: dict[float, Estimate], root: float, target: float) -> str:
    """Why a smaller root cannot be excluded: r may have come down to the target before, and was above it again."""
    below = [(tau, known[tau]) for tau in sorted(known) if tau < root]
    for place, (tau, value) in enumerate(below):
        again = [later for later, other in below[place + 1 :] if other.value - SURE * other.error > target]
        if value.value - SURE * value.error <= target and again:
            return (
                f"at tau = {tau:.4g} the reward may be worth the target already ({value}), and at {again[0]:.4g} it is "
                "worth more again"
            )
    return ""


def _sorted(known: dict[float, Estimate]) -> tuple[tuple[float, Estimate], ...]:
    return tuple(sorted(known.items(), key=lambda item: item[0]))
