"""Shapley values of a game whose values are known only up to standard errors: all coalitions evaluated.

Coalitions are numbered by their bits: party i is in coalition C if C >> i & 1. φ = W v is linear in the values, so
errors propagate exactly: Cov φ = W Cov(v) Wᵀ (docs/maths.md §6).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.estimate import Estimate


@dataclass(frozen=True)
class ShapleyValues:
    """Shapley values [parties], the covariance of their errors, and the value of all parties together, v_N.

    They may be negative: a party increases the divergence from the prior only on average, and an estimate of 0 is as
    often below 0 as above. `reward.targets` decides which parties count as bringing nothing.
    """

    values: Floats
    covariance: Floats
    grand: Estimate
    covariance_with_grand: Floats

    @property
    def errors(self) -> Floats:
        """Standard errors of the Shapley values [parties]."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def __getitem__(self, party: int) -> Estimate:
        return Estimate(float(self.values[party]), float(self.errors[party]))

    def __len__(self) -> int:
        return len(self.values)

    def probability_above(self, first: int, second: int) -> float:
        """Return the probability that one party's value is truly above another's, whose errors are correlated."""
        contrast = np.zeros(len(self.values))
        contrast[first], contrast[second] = 1.0, -1.0
        error = math.sqrt(max(float(contrast @ self.covariance @ contrast), 0.0))
        return Estimate(float(contrast @ self.values), error).probability_above(0.0)


def members(coalition: int, parties: int) -> tuple[int, ...]:
    """Return the parties of a coalition."""
    return tuple(party for party in range(parties) if coalition >> party & 1)


def weights(parties: int) -> Floats:
    """Return W [parties, 2ⁿ], the weight of each coalition's value in each party's Shapley value.

    The marginal contribution of i to a coalition of s others has the weight s! (n − s − 1)! / n!.
    """
    coalitions = np.arange(2**parties)
    sizes = np.array([coalition.bit_count() for coalition in range(2**parties)])
    by_size = np.array([1 / (parties * math.comb(parties - 1, others)) for others in range(parties)])
    inside = (coalitions >> np.arange(parties)[:, None] & 1).astype(bool)
    matrix: Floats = np.where(inside, by_size[np.maximum(sizes - 1, 0)], -by_size[np.minimum(sizes, parties - 1)])
    return matrix


def exact_shapley(values: Sequence[float] | Floats, errors: Sequence[float] | Floats | None = None) -> ShapleyValues:
    """Compute Shapley values, with errors, from the values of all 2ⁿ coalitions, the empty one first."""
    worth = np.asarray(values, float)
    parties = len(worth).bit_length() - 1
    if len(worth) != 2**parties or parties < 1:
        raise ValueError(f"{len(worth)} coalition values; a game of n parties has 2ⁿ, n at least 1")
    spread = np.zeros(len(worth)) if errors is None else np.asarray(errors, float)
    matrix = weights(parties)
    return ShapleyValues(
        matrix @ worth,
        (matrix * spread**2) @ matrix.T,
        Estimate(float(worth[-1]), float(spread[-1])),
        matrix[:, -1] * spread[-1] ** 2,
    )
