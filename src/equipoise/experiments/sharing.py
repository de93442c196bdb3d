"""From the values of all coalitions to what everybody brings and is to get."""

import itertools
from collections.abc import Mapping

from equipoise.estimate import Estimate
from equipoise.experiments.settings import PARTIES
from equipoise.reward.targets import Targets, set_targets
from equipoise.valuation.shapley import ShapleyValues, exact_shapley

COALITIONS = [
    tuple(members) for size in range(1, len(PARTIES) + 1) for members in itertools.combinations(PARTIES, size)
]


def shared_out(values: Mapping[tuple[str, ...], Estimate], rho: float) -> tuple[ShapleyValues, Targets]:
    """Shapley values, and targets by ρ-Shapley fairness, in the order of the parties."""
    by_mask = [Estimate(0.0, 0.0)] * 2 ** len(PARTIES)
    for members in COALITIONS:
        by_mask[sum(1 << PARTIES.index(member) for member in members)] = values[members]
    shapley = exact_shapley([one.value for one in by_mask], [one.error for one in by_mask])
    return shapley, set_targets(shapley, [by_mask[1 << place] for place in range(len(PARTIES))], rho)
