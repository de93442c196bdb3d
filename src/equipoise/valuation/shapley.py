"""Shapley values of a game whose values are known only up to standard errors: all coalitions evaluated.

Coalitions are numbered by their bits: party i is in coalition C if C >> i & 1. φ = W v is linear in the values, so
errors propagate exactly: Cov φ = W Cov(v) Wᵀ (maths note §6).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.estimate import Estimate

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ShapleyValues:
    """Shapley values [parties], the covariance of their errors, and the value of all parties together, v_N.

    `repair` is how much the contribution to the empty coalition had to be up-weighted to make all of them non-negative
    (1: not at all).
    """

    values: Floats
    covariance: Floats
    grand: Estimate
    covariance_with_grand: Floats
    repair: float = 1.0

    @property
    def errors(self) -> Floats:
        """Standard errors."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def __getitem__(self, party: int) -> Estimate:
        return Estimate(float(self.values[party]), float(self.errors[party]))

    def __len__(self) -> int:
        return len(self.values)

    def probability_above(self, first: int, second: int) -> float:
        """How probable it is that one party's value is truly above another's; their errors are dependent."""
        contrast = np.zeros(len(self.values))
        contrast[first], contrast[second] = 1.0, -1.0
        error = math.sqrt(max(float(contrast @ self.covariance @ contrast), 0.0))
        return Estimate(float(contrast @ self.values), error).probability_above(0.0)


def members(coalition: int, parties: int) -> tuple[int, ...]:
    """Parties of a coalition."""
    return tuple(party for party in range(parties) if coalition >> party & 1)


def weights(parties: int) -> Floats:
    """W [parties, 2ⁿ]: what each coalition's value counts in each party's Shapley value.

    The marginal contribution of i to a coalition of s others has the weight s! (n − s − 1)! / n!.
    """
    coalitions = np.arange(2**parties)
    sizes = np.array([coalition.bit_count() for coalition in range(2**parties)])
    by_size = np.array([1 / (parties * math.comb(parties - 1, others)) for others in range(parties)])
    inside = (coalitions >> np.arange(parties)[:, None] & 1).astype(bool)
    matrix: Floats = np.where(inside, by_size[np.maximum(sizes - 1, 0)], -by_size[np.minimum(sizes, parties - 1)])
    return matrix


def exact_shapley(values: Sequence[float] | Floats, errors: Sequence[float] | Floats | None = None) -> ShapleyValues:
    """Shapley values from the values of all 2ⁿ coalitions, the empty one first, with their standard errors."""
    worth = np.asarray(values, float)
    parties = len(worth).bit_length() - 1
    if len(worth) != 2**parties or parties < 1:
        raise ValueError(f"{len(worth)} coalition values; a game of n parties has 2ⁿ, n at least 1")
    spread = np.zeros(len(worth)) if errors is None else np.asarray(errors, float)
    return _repaired(weights(parties), worth, spread)


def _repaired(matrix: Floats, worth: Floats, spread: Floats) -> ShapleyValues:
    """φ = W v; where some are negative, with the contribution to the empty coalition up-weighted until none is.

    A contribution to the empty coalition is the party's own value, never negative, and all parties get the same
    weights, which keeps the ranking fair (the paper's footnote on negative Shapley values). The sum is then no longer
    v_N; targets need ratios only.
    """
    plain = matrix @ worth
    repair = 1.0
    if np.any(plain < 0):
        parties = len(matrix)
        alone = np.zeros_like(matrix)
        alone[np.arange(parties), 2 ** np.arange(parties)] = 1.0
        alone[:, 0] -= 1.0
        share, lost = _smallest_share(plain, alone @ worth)
        matrix = (1 - share) * matrix + share * alone
        matrix[lost] = 0.0
        repair = 1 + share * (parties - 1)
    return ShapleyValues(
        _at_least_nothing(matrix @ worth, plain) if np.any(plain < 0) else plain,
        (matrix * spread**2) @ matrix.T,
        Estimate(float(worth[-1]), float(spread[-1])),
        matrix[:, -1] * spread[-1] ** 2,
        repair,
    )


def repaired_by_values_alone(shapley: ShapleyValues, alone: Floats, errors: Floats) -> ShapleyValues:
    """As `_repaired`, where not all coalitions are known: (1 − s) φ + s v_i, with the smallest s that suffices.

    Errors of φ and of the values alone are combined as if they were independent.
    """
    if np.all(shapley.values >= 0):
        return shapley
    share, lost = _smallest_share(shapley.values, alone)
    mixed = np.where(lost, 0.0, (1 - share) * shapley.values + share * alone)
    return ShapleyValues(
        _at_least_nothing(mixed, shapley.values),
        (1 - share) ** 2 * shapley.covariance + share**2 * np.diag(errors**2),
        shapley.grand,
        (1 - share) * shapley.covariance_with_grand,
        1 + share * (len(shapley) - 1),
    )


def _smallest_share(plain: Floats, alone: Floats) -> tuple[float, NDArray[np.bool_]]:
    """Smallest share of the contribution to the empty coalition at which no value is negative.

    No share helps a party that is worth nothing alone either (an estimate of 0 or less); such parties, returned as
    well, have the value 0, as those who bring nothing should.
    """
    negative = plain < 0
    lost = negative & (alone <= 0)
    repairable = negative & ~lost
    shares = -plain[repairable] / (alone[repairable] - plain[repairable])
    return float(np.max(shares, initial=0.0)), lost


def _at_least_nothing(values: Floats, plain: Floats) -> Floats:
    """Exactly 0, not ±1e-17, for those whom the repair brought there."""
    scale = float(np.max(np.abs(plain)))
    return np.where(values < 1e-12 * scale, 0.0, values)
