"""From the values of all coalitions to what everybody brings and is to get."""

import itertools
from collections.abc import Mapping

from equipoise.estimate import Estimate
from equipoise.reproduction.settings import PARTIES
from equipoise.reward.deciding import decide, mask_of
from equipoise.reward.targets import Targets, Terms
from equipoise.valuation.shapley import ShapleyValues

COALITIONS = [
    tuple(members) for size in range(1, len(PARTIES) + 1) for members in itertools.combinations(PARTIES, size)
]


def shared_out(values: Mapping[tuple[str, ...], Estimate], rho: float) -> tuple[ShapleyValues, Targets]:
    """Shapley values, and targets by ρ-Shapley fairness, in the order of the parties."""
    by_mask = [Estimate(0.0, 0.0)] * 2 ** len(PARTIES)
    for members in COALITIONS:
        by_mask[mask_of(members, PARTIES)] = values[members]
    return decide(PARTIES, [PARTIES], by_mask, Terms(rho, "shares"))  # as the paper, whoever is worse off
