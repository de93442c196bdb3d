"""ρ-Shapley-fair targets: r*_i = v_N (φ_i / φ_max)^ρ (paper §4, after Sim et al. 2020).

ρ = 1 rewards in proportion to Shapley values; a smaller ρ is kinder to those who contribute less. Nobody is worse off
than alone if ρ ≤ min_i log(v_i/v_N) / log(φ_i/φ_max), over parties with φ_i < φ_max (maths note §6).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from equipoise.estimate import UNSURE, Estimate
from equipoise.valuation.shapley import ShapleyValues

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Targets:
    """Target values [parties] with their standard errors, and the exponent they were set with.

    `rational_rho` is the largest exponent up to 1 with which nobody is worse off than alone; None if there is none.
    """

    values: Floats
    errors: Floats
    rho: float
    rational_rho: float | None

    def __getitem__(self, party: int) -> Estimate:
        return Estimate(float(self.values[party]), float(self.errors[party]))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def rational(self) -> bool:
        """Whether nobody's target is below its value alone."""
        return self.rational_rho is not None and self.rho <= self.rational_rho


class NoTargetsError(ValueError):
    """Values from which no targets follow."""


def set_targets(
    shapley: ShapleyValues,
    alone: Sequence[Estimate],
    rho: float | Literal["max"],
    names: Sequence[str] | None = None,
) -> Targets:
    """Targets from Shapley values and the parties' values alone.

    Errors come from those of the Shapley values and of v_N, taken together, at the exponent as chosen.
    """
    grand, values = shapley.grand.value, shapley.values
    if not grand > 0:
        raise NoTargetsError(f"all together are worth {shapley.grand} nats; there is nothing to share")
    bound = rationality_bound(values, alone, shapley.grand)
    if rho == "max":
        if bound is None:
            own = np.array([one.value for one in alone])
            worst = int(np.argmax((own > 0) & ((own >= grand) | (values <= 0))))
            raise NoTargetsError(
                f"no fairness exponent leaves everybody as well off as alone: "
                f"{names[worst] if names else f'party {worst}'} is worth "
                f"{own[worst]:.4g} alone and all together {grand:.4g}, with a Shapley value of {values[worst]:.4g}; "
                "choose a number for rho, or settle without that party"
            )
        rho = bound
    if not 0 < rho <= 1:
        raise ValueError(f"rho = {rho!r} is not above 0 and up to 1")
    best = int(np.argmax(values))
    ratios = values / values[best] if values[best] > 0 else np.ones(len(values))  # nobody brings anything: all alike
    found = grand * ratios**rho
    return Targets(found, _errors(shapley, found, best, rho), float(rho), bound)


def rationality_bound(shapley: Floats, alone: Sequence[Estimate], grand: Estimate) -> float | None:
    """Largest ρ up to 1 with v_N (φ_i/φ_max)^ρ ≥ v_i for everybody; None if not even ρ → 0 does."""
    return _largest_exponent(zip(shapley, alone, strict=True), shapley.max(), grand)


def stability_bound(shapley: Floats, coalitions: Mapping[frozenset[int], Estimate], grand: Estimate) -> float | None:
    """Largest ρ up to 1 with which no coalition's best member would be better off if that coalition left.

    The member with the largest Shapley value would have all that its coalition is worth (Sim et al. 2020). None if not
    even ρ → 0 does, because some coalition is worth more than all.
    """
    claims = ((max(shapley[party] for party in members), worth) for members, worth in coalitions.items())
    return _largest_exponent(claims, shapley.max(), grand)


def _largest_exponent(claims: Iterable[tuple[float, Estimate]], best: float, grand: Estimate) -> float | None:
    """Largest ρ up to 1 with v_N (φ/φ_max)^ρ ≥ v for all claims (φ, v).

    The best contributor has v_N whatever ρ is; that may be less than v by luck, for all these are estimates.
    """
    bound = 1.0
    for value, claim in claims:
        if claim.value <= 0 or (value == best and (claim - grand).in_errors <= UNSURE):
            continue  # whatever ρ is, the target is no less
        if claim.value > grand.value or value <= 0:
            return None
        if value < best:
            bound = min(bound, math.log(claim.value / grand.value) / math.log(value / best))
    return bound if bound > 0 else None


def for_team(shapley: ShapleyValues, team: Sequence[int], value: Estimate, covariance: Floats) -> ShapleyValues:
    """Shapley values of one team of a coalition structure, to be shared by what the team itself is worth.

    Values stay those of the game of all parties (paper App. D.1); `covariance` [team] is between them and the team's
    value.
    """
    chosen = np.asarray(team)
    return ShapleyValues(
        shapley.values[chosen], shapley.covariance[np.ix_(chosen, chosen)], value, covariance, shapley.repair
    )


def target_slopes(shapley: ShapleyValues, targets: Targets) -> Floats:
    """Derivatives of targets by (Shapley values, v_N), at the exponent as chosen: [parties, parties + 1]."""
    return _slopes(shapley, targets.values, int(np.argmax(shapley.values)), targets.rho)


def _errors(shapley: ShapleyValues, targets: Floats, best: int, rho: float) -> Floats:
    parties = len(shapley)
    slopes = _slopes(shapley, targets, best, rho)
    joint = np.zeros((parties + 1, parties + 1))
    joint[:parties, :parties] = shapley.covariance
    joint[:parties, -1] = joint[-1, :parties] = shapley.covariance_with_grand
    joint[-1, -1] = shapley.grand.error**2
    variances: Floats = np.einsum("ij,jk,ik->i", slopes, joint, slopes)
    return np.sqrt(np.maximum(variances, 0.0))


def _slopes(shapley: ShapleyValues, targets: Floats, best: int, rho: float) -> Floats:
    """Delta method: d log r_i = d log v_N + ρ (d log φ_i − d log φ_max)."""
    parties = len(shapley)
    slopes = np.zeros((parties, parties + 1))
    for party in range(parties):
        slopes[party, -1] = targets[party] / shapley.grand.value
        if party != best and shapley.values[party] > 0:
            slopes[party, party] = rho * targets[party] / shapley.values[party]
            slopes[party, best] = -rho * targets[party] / shapley.values[best]
    return slopes
