"""ρ-Shapley-fair targets: r*_i = v_N (φ_i / φ_max)^ρ (paper §4, after Sim et al. 2020), from estimates.

ρ = 1 rewards in proportion to Shapley values; a smaller ρ is kinder to those who contribute less. Nobody is worse off
than alone if ρ ≤ min_i log(v_i/v_N) / log(φ_i/φ_max), over parties with φ_i < φ_max (maths note §6).

All of these are estimates, and targets must not turn on their errors:

* A Shapley value that cannot be told from 0 is 0. At a small ρ, one that is 0.01 by luck would earn a third of all.
  The paper's remedy for negative ones, up-weighting contributions to nobody, moves everybody's share; here only those
  who bring nothing are counted as bringing nothing.
* A value alone that cannot be told from 0 is no claim: who has nothing loses nothing.
* ρ = "max" leaves everybody who has a claim a margin above its value alone: errors, and what a reward may miss.
* For some, no ρ will do: they bring nothing, and yet have something alone, or alone are worth as much as all together.
  The agreed fallback says what they get: their own posterior ("alone"), or their share all the same ("shares").

Standard errors of targets come from simulated estimates, ρ included: near φ = 0 slopes tell nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from equipoise.estimate import ABOVE_ZERO, UNSURE, Estimate

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

Fallback = Literal["alone", "shares"]

PRECISION = 0.05  # nats, of a target's or an attained value's standard error, unless asked otherwise
TOLERANCE = 2 * PRECISION  # by which a reward may miss its target
LEAST = 0.2  # of the precision: contributions below are nothing, however well they are known
SIMULATED = 4_096
SMALLEST_RHO = 1e-3


@dataclass(frozen=True)
class Terms:
    """The agreed exponent and fallback, and how close to its target a reward can be made.

    A mediator in a hurry asks for less than the usual precision. Who brings nothing, and by what margin everybody is to
    gain, must not depend on that; so coarser numbers count as the usual ones.
    """

    rho: float | Literal["max"]
    fallback: Fallback = "alone"
    precision: float = 0.0
    tolerance: float = 0.0

    def __post_init__(self) -> None:
        if self.rho != "max" and not 0 < self.rho <= 1:
            raise ValueError(f"rho = {self.rho!r} is not above 0 and up to 1")
        object.__setattr__(self, "precision", min(self.precision, PRECISION))
        object.__setattr__(self, "tolerance", min(self.tolerance, TOLERANCE))


@dataclass(frozen=True)
class Stakes:
    """What targets follow from: Shapley values and values alone [parties], and what each team is worth [teams].

    `team` is the number of every party's team, `covariance` that of the errors of all three, one after the other.
    """

    shapley: Floats
    alone: Floats
    worth: Floats
    team: NDArray[np.intp]
    covariance: Floats

    @property
    def errors(self) -> tuple[Floats, Floats, Floats]:
        """Standard errors of all three."""
        parties = len(self.shapley)
        found = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return found[:parties], found[parties : 2 * parties], found[2 * parties :]

    @property
    def estimates(self) -> tuple[list[Estimate], list[Estimate], list[Estimate]]:
        """All three with their errors."""
        values = (self.shapley, self.alone, self.worth)
        first, second, third = (
            [Estimate(*pair) for pair in zip(one.tolist(), error.tolist(), strict=True)]
            for one, error in zip(values, self.errors, strict=True)
        )
        return first, second, third

    def simulated(self, number: int = SIMULATED) -> Floats:
        """Errors as they might have been [number, 2 parties + teams]; the same in every run."""
        values, vectors = np.linalg.eigh(self.covariance)
        half = np.random.default_rng(0).normal(size=(number // 2, len(values)))
        half = np.linalg.solve(
            np.linalg.cholesky(half.T @ half / len(half)), half.T
        ).T  # just as wide as they should be
        draws: Floats = np.concatenate([half, -half]) @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        return draws

    def moved(self, errors: Floats) -> tuple[Floats, Floats, Floats]:
        """Shapley values, values alone and of teams, with errors [..., all] added."""
        parties = len(self.shapley)
        every = np.concatenate([self.shapley, self.alone, self.worth]) + errors
        return every[..., :parties], every[..., parties : 2 * parties], every[..., 2 * parties :]


@dataclass(frozen=True)
class Targets:
    """Target values [parties] with their standard errors, and the exponent they were set with.

    `nothing` marks those who count as bringing nothing, `falls_back` those who get their own posterior instead of a
    share, `close` those whose value alone is so near that their reward must not fall short. `rational_rho` is the
    largest exponent up to 1 with which nobody is worse off than alone; None if there is none. `slopes` are derivatives
    by everything in the stakes [parties, 2 parties + teams].
    """

    values: Floats
    errors: Floats
    rho: float
    rational_rho: float | None
    nothing: Mask
    falls_back: Mask
    close: Mask
    slopes: Floats

    def __getitem__(self, party: int) -> Estimate:
        return Estimate(float(self.values[party]), float(self.errors[party]))

    def __len__(self) -> int:
        return len(self.values)


@dataclass(frozen=True)
class Standing:
    """What is known of everybody, whatever ρ is."""

    counted: Mask  # brings something
    claims: Mask  # has something alone
    hopeless: Mask  # has a claim that no ρ can meet
    leaves: Mask  # is one of those, contributes most, and gets its own posterior
    margin: Floats  # above its value alone


def set_targets(stakes: Stakes, terms: Terms, standing: Standing | None = None) -> Targets:
    """Targets of everybody, with one exponent for all teams; `standing` follows from the stakes unless given."""
    standing = standing or standing_of(stakes, terms)
    values, rho = _shares(stakes.team, standing, terms, *stakes.moved(np.zeros(len(stakes.covariance))))
    errors = stakes.simulated()
    repeated, _ = _shares(stakes.team, standing, terms, *stakes.moved(errors))
    loses = standing.hopeless & (values < stakes.alone)
    falls_back = loses if terms.fallback == "alone" else np.zeros_like(loses)
    values, repeated = (
        np.where(falls_back, stakes.alone, values),
        np.where(falls_back, stakes.moved(errors)[1], repeated),
    )
    rational = None if loses.any() else _largest(stakes.team, standing, 0.0, *stakes.moved(np.zeros(errors.shape[1])))
    _, own_error, worth_error = stakes.errors
    known = np.where(falls_back, own_error, worth_error[stakes.team])
    near = values - terms.tolerance < stakes.alone + UNSURE * np.hypot(own_error, terms.precision)
    return Targets(
        values=values,
        errors=np.where(falls_back | (values == stakes.worth[stakes.team]), known, repeated.std(axis=0)),
        rho=float(rho),
        rational_rho=None if rational is None else float(rational),
        nothing=~standing.counted,
        falls_back=falls_back,
        close=standing.claims & ~falls_back & near & (values >= stakes.alone),
        slopes=np.linalg.lstsq(errors, repeated - repeated.mean(axis=0), rcond=1e-9)[0].T,
    )


def nothing_below(error: float | Floats, precision: float) -> Floats:
    """Up to which a Shapley value counts as nothing."""
    return np.maximum(ABOVE_ZERO * np.asarray(error, float), LEAST * precision)


def standing_of(stakes: Stakes, terms: Terms) -> Standing:
    """Who brings something, who has a claim, and who has one that cannot be met."""
    shapley_error, own_error, worth_error = stakes.errors
    worth = stakes.worth[stakes.team]
    counted = (stakes.shapley > 0) & (stakes.shapley > nothing_below(shapley_error, terms.precision))
    claims = (stakes.alone > 0) & (stakes.alone > ABOVE_ZERO * own_error)
    spread = UNSURE * np.hypot(own_error, worth_error[stakes.team])
    best = counted & (stakes.shapley == _most(stakes.team, counted, stakes.shapley)[stakes.team])
    # As much as all together, for all that is known; the best contributor gets all, and must be known to have more.
    as_much = np.where(best, stakes.alone > worth + spread, stakes.alone >= worth - spread)
    hopeless = claims & (~counted | as_much)
    margin = terms.tolerance + UNSURE * np.hypot(own_error, terms.precision)
    return Standing(counted, claims, hopeless, hopeless & best & (terms.fallback == "alone"), margin)


def _most(team: NDArray[np.intp], counted: Mask, shapley: Floats) -> Floats:
    """The largest Shapley value that counts in every team [..., teams]; −∞ where none does."""
    return np.stack(
        [
            np.max(shapley, axis=-1, where=counted & (team == number), initial=-np.inf)
            for number in range(int(team.max()) + 1)
        ],
        axis=-1,
    )


def _ratios(team: NDArray[np.intp], standing: Standing, shapley: Floats) -> Floats:
    """φ/φ_max within teams, 0 for those who bring nothing; where nobody brings anything, all are alike."""
    most = _most(team, standing.counted & ~standing.leaves, shapley)[..., team]
    ratio = np.where(standing.counted, np.clip(shapley / np.where(most > 0, most, 1.0), 0.0, 1.0), 0.0)
    nobody = ~np.isin(team, team[standing.counted])
    return np.where(nobody, 1.0, ratio)


def _largest(
    team: NDArray[np.intp], standing: Standing, margin: float | Floats, shapley: Floats, alone: Floats, worth: Floats
) -> Floats:
    """Largest ρ up to 1 with v (φ/φ_max)^ρ no less than the value alone and a margin, for all whose claim can be met.

    The margin is at most half of what there is to gain.
    """
    ratio, whole = _ratios(team, standing, shapley), worth[..., team]
    gain = whole - alone
    wanted = alone + np.minimum(margin, 0.5 * gain)
    binds = standing.claims & ~standing.hopeless & (ratio > 0) & (ratio < 1) & (wanted > 0)
    with np.errstate(all="ignore"):
        bounds = np.where(binds, np.log(wanted / whole) / np.log(ratio), 1.0)
    found: Floats = np.clip(np.min(np.nan_to_num(bounds, nan=1.0), axis=-1), SMALLEST_RHO, 1.0)
    return found


def _shares(
    team: NDArray[np.intp], standing: Standing, terms: Terms, shapley: Floats, alone: Floats, worth: Floats
) -> tuple[Floats, Floats]:
    """Targets [..., parties] by their shares, and exponents [...]."""
    rho = (
        _largest(team, standing, standing.margin, shapley, alone, worth)
        if terms.rho == "max"
        else np.asarray(float(terms.rho))
    )
    return worth[..., team] * _ratios(team, standing, shapley) ** rho[..., None], rho


def stability_bound(
    shapley: Mapping[int, float], coalitions: Mapping[frozenset[int], Estimate], grand: Estimate
) -> float | None:
    """Largest ρ up to 1 with which no coalition's best member would be better off if that coalition left.

    The member with the largest Shapley value would have all that its coalition is worth (Sim et al. 2020); `shapley`
    has those that count. None if not even ρ → 0 does, because some coalition is worth more than all.
    """
    best = max(shapley.values(), default=0.0)
    claims = (
        (max((shapley.get(party, 0.0) for party in members), default=0.0), worth)
        for members, worth in coalitions.items()
    )
    return _largest_exponent(claims, best, grand)


def _largest_exponent(claims: Iterable[tuple[float, Estimate]], best: float, grand: Estimate) -> float | None:
    """Largest ρ up to 1 with v_N (φ/φ_max)^ρ ≥ v for all claims (φ, v).

    The best contributor has v_N whatever ρ is; that may be less than v by luck, for all these are estimates.
    """
    bound = 1.0
    for value, claim in claims:
        if claim.in_errors <= ABOVE_ZERO or (value == best and (claim - grand).in_errors <= UNSURE):
            continue  # there is no claim, or whatever ρ is, the target is no less
        if claim.value > grand.value or value <= 0:
            return None
        if value < best:
            bound = min(bound, float(np.log(claim.value / grand.value) / np.log(value / best)))
    return bound if bound > 0 else None
