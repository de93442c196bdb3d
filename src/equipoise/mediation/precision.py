"""More draws where they matter: for the coalitions whose errors weigh most in targets and in who brings anything.

A target's variance is Σ_C g_C² σ_C² / n_C, where g_C is what the value of coalition C counts in it, σ_C² the variance
of one draw's share and n_C the number of draws. The fewest draws that bring it to a wanted p² are
n_C = |g_C| σ_C Σ|g σ| / p² (Neyman's allocation). Several targets take the largest of their numbers.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.estimate import ABOVE_ZERO, Estimate
from equipoise.mediation.requests import Appraisal, Pooled
from equipoise.reward.targets import LEAST
from equipoise.valuation.shapley import ShapleyValues

SAFETY = 0.9  # of the wanted error, since errors are estimates themselves
LEAST_SHARE = 0.5  # of a coalition's draws; less would cost more in warming up than it gives
MAX_ROUNDS = 6
SMALLEST = 640  # draws
TOLD = ABOVE_ZERO + 1  # errors
UNTOLD = 1 / 3  # of the precision


class Wanted(NamedTuple):
    """What should be known how well: derivatives by the coalitions' values [quantities, coalitions], and errors."""

    slopes: Floats
    errors: Floats


More = Callable[[dict[int, int]], dict[int, Appraisal]]  # {coalition: draws} to what they gave


def sharpen(
    known: list[Pooled], wanted_of: Callable[[Sequence[Estimate]], Wanted], more: More, *, budget: int
) -> list[Pooled]:
    """Draw more until everything is known as well as wanted, or `budget` more draws are spent."""
    for _ in range(MAX_ROUNDS):
        wanted = allocate(known, *wanted_of([one.value for one in known]))
        extra = {
            index: int(number - known[index].draws)
            for index, number in enumerate(wanted)
            if number - known[index].draws > LEAST_SHARE * known[index].draws
        }
        if not extra and np.any(wanted > [one.draws for one in known]):
            # Many small wants: fulfil the largest.
            index = int(np.argmax(wanted / [one.draws for one in known]))
            extra = {index: int(np.ceil(LEAST_SHARE * known[index].draws))}
        extra = {index: _rounded(number) for index, number in extra.items()}
        total = sum(extra.values())
        if not extra or budget <= 0:
            break
        if total > budget:
            extra = {index: max(SMALLEST, number * budget // total) for index, number in extra.items()}
        budget -= sum(extra.values())
        for index, part in more(extra).items():
            known = [*known[:index], known[index] + part, *known[index + 1 :]]
    return known


def _rounded(draws: int) -> int:
    """Up to a power of √2, so that many coalitions ask for the same and go through one batch."""
    return round(SMALLEST * 2 ** (max(0, math.ceil(2 * math.log2(draws / SMALLEST))) / 2))


def allocate(known: Sequence[Pooled], slopes: Floats, wanted_errors: Floats) -> Floats:
    """Draws every coalition should have, in all; no more than it has for quantities that are good enough."""
    errors = np.array([one.value.error for one in known])
    draws = np.array([one.draws for one in known], float)
    spread = np.abs(slopes) * errors * np.sqrt(draws)  # |g| σ [quantities, coalitions]
    open_ones = np.sqrt(np.sum((slopes * errors) ** 2, axis=1)) > wanted_errors
    wanted = spread * spread.sum(axis=1, keepdims=True) / (SAFETY * wanted_errors[:, None]) ** 2
    return np.asarray(np.max(np.where(open_ones[:, None], wanted, 0.0), axis=0, initial=0.0))


def told_from_nothing(shapley: ShapleyValues, precision: float) -> Floats:
    """Errors with which Shapley values can be told from 0 [parties]; none is wanted of those that can already.

    One that looks like something should be `TOLD` errors away from 0; one that looks like nothing should be nothing
    still if it were an error more.
    """
    values, errors = shapley.values, shapley.errors
    wanted = np.where(values > errors, np.maximum(values, LEAST * precision) / TOLD, UNTOLD * precision)
    return np.where(values > TOLD * errors, np.inf, wanted)
