"""ρ-Shapley-fair targets from estimates, by one of two rules.

The surplus rule shares what a party can gain: r*_i = v_i + (φ_i / φ_max)^ρ (v_N − v_i). No party is worse off than
alone, whatever ρ is, and every party that contributes anything gains (docs/maths.md §6 has the proofs). A party that
contributes nothing gets its own posterior. A value alone that exceeds v_N by an error of the estimates counts as v_N.

The proportional rule is the paper's: r*_i = v_N (φ_i / φ_max)^ρ (§4, after Sim et al. 2020). There ρ = 1 rewards in
proportion to Shapley values; a smaller ρ is kinder to those who contribute less. No party is worse off than alone if
ρ ≤ min_i log(v_i/v_N) / log(φ_i/φ_max), over parties with φ_i < φ_max.

All of these are estimates, and targets must not turn on their errors:

* A Shapley value that is not significantly positive counts as 0. At a small ρ, a value of 0.01 by chance would earn a
  third of everything. The paper's remedy for negative values, up-weighting contributions to the empty coalition, moves
  everybody's share; here only the parties without a significant contribution are affected.
* A value alone that is not significantly positive is no claim: a party that has nothing can lose nothing.
* ρ = "max" is 1 under the surplus rule. Under the proportional rule it leaves every party with a claim a margin above
  its value alone: for the errors, and for the tolerance by which a reward may miss its target.
* For some parties no ρ will do: those that contribute nothing and yet have something alone, and those that are worth
  as much alone as all together. The agreed fallback gives them their own posterior ("alone"), or their share all the
  same ("shares").

`targets_from_values` computes targets from the values of all coalitions, for one team or several.

Standard errors of targets come from simulated estimates, ρ included: near φ = 0 slopes tell nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.estimate import ABOVE_ZERO, SURE, UNSURE, Estimate
from equipoise.valuation.shapley import ShapleyValues, exact_shapley, members, weights

Mask = NDArray[np.bool_]
Teams = Sequence[Sequence[str]]

Fallback = Literal["alone", "shares"]
SharingRule = Literal["surplus", "proportional"]

# The default standard error of targets and attained values, in nats.
PRECISION = 0.05
# A reward may miss its target by this much.
TOLERANCE = 2 * PRECISION
# Up to this many parties, contributions below the precision count as nothing, however well they are known.
LEAST_AMONG = 12
SIMULATED = 4_096
SMALLEST_RHO = 1e-3


@dataclass(frozen=True)
class TargetPolicy:
    """The agreed exponent, fallback and rule, with the precision and tolerance of rewards.

    A mediator in a hurry may ask for less than the usual precision. That must not change which contributions count as
    nothing, nor the margin by which parties gain, so a coarser precision counts as the usual one there (`fine`).

    Only contributions above `least` times the precision count (`min_contribution_factor`): among a thousand parties,
    no single one may contribute as much as the precision.

    `own_is_whole` says that every reward holds its party's own release as it is. No reward can then be worth less than
    the release, so a party that would get less, or contributes nothing, gets its own posterior, whatever the fallback.
    """

    rho: float | Literal["max"]
    fallback: Fallback = "alone"
    precision: float = 0.0
    tolerance: float = 0.0
    own_is_whole: bool = False
    least: float = 1.0
    rule: SharingRule = "proportional"

    def __post_init__(self) -> None:
        if self.rho != "max" and not 0 < self.rho <= 1:
            raise ValueError(f"rho = {self.rho!r} is not above 0 and up to 1")

    @property
    def falls_back(self) -> bool:
        """True if a party for which no exponent will do gets its own posterior."""
        return self.own_is_whole or self.shares_surplus or self.fallback == "alone"

    @property
    def shares_surplus(self) -> bool:
        """True if parties share what they can gain, not the value of all together."""
        return self.rule == "surplus"

    def share(self, ratio: Floats, alone: Floats, whole: Floats, rho: float | Floats) -> Floats:
        """Return targets before any fallback, from ratios φ_i / φ_max, which are 0 for parties without contribution."""
        # 0⁰ would be 1.
        part = np.where(ratio > 0, ratio**rho, 0.0)
        whole = np.maximum(whole, 0.0)
        if not self.shares_surplus:
            return np.asarray(whole * part)
        kept = np.clip(alone, 0.0, whole)
        return np.asarray(kept + part * (whole - kept))

    @property
    def fine(self) -> tuple[float, float]:
        """The precision and tolerance, no coarser than usual."""
        return min(self.precision, PRECISION), min(self.tolerance, TOLERANCE)


@dataclass(frozen=True)
class TargetInputs:
    """The estimates that determine targets: Shapley values, values alone [parties], and values of teams [teams].

    `team` has the number of every party's team; `covariance` is that of the errors of all three, concatenated.
    """

    shapley: Floats
    alone: Floats
    worth: Floats
    team: NDArray[np.intp]
    covariance: Floats

    @property
    def errors(self) -> tuple[Floats, Floats, Floats]:
        """The standard errors of Shapley values, values alone and values of teams."""
        parties = len(self.shapley)
        errors = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return errors[:parties], errors[parties : 2 * parties], errors[2 * parties :]

    @property
    def estimates(self) -> tuple[list[Estimate], list[Estimate], list[Estimate]]:
        """The Shapley values, values alone and values of teams, each with its standard error."""
        values = (self.shapley, self.alone, self.worth)
        first, second, third = (
            [Estimate(*pair) for pair in zip(value.tolist(), error.tolist(), strict=True)]
            for value, error in zip(values, self.errors, strict=True)
        )
        return first, second, third

    def simulated(self, number: int = SIMULATED) -> Floats:
        """Simulate errors [number, 2 parties + teams], the same in every run and on every machine."""
        values, vectors = np.linalg.eigh(self.covariance)
        values = np.where(values > 1e-12 * values[-1], values, 0.0)
        half = np.random.default_rng(0).normal(size=(number // 2, len(values)))
        # With enough draws, give them exactly the covariance I.
        if 4 * len(values) < number:
            half = np.linalg.solve(np.linalg.cholesky(half.T @ half / len(half)), half.T).T
        # The symmetric root, which unlike others does not depend on how a machine chooses eigenvectors.
        draws: Floats = np.concatenate([half, -half]) @ ((vectors * np.sqrt(values)) @ vectors.T)
        return draws

    def moved(self, errors: Floats) -> tuple[Floats, Floats, Floats]:
        """Return Shapley values, values alone and of teams, with errors [..., all] added."""
        parties = len(self.shapley)
        every = np.concatenate([self.shapley, self.alone, self.worth]) + errors
        return every[..., :parties], every[..., parties : 2 * parties], every[..., 2 * parties :]


@dataclass(frozen=True)
class Targets:
    """Target values [parties] with their standard errors, and the exponent they were set with.

    The masks mark parties: `nothing` those whose contribution counts as nothing, `falls_back` those that get their own
    posterior instead of a share, `whole` those that get their team's posterior, `close` those whose value alone is so
    near their target that the reward must not fall short. `rational_rho` is the largest exponent up to 1 with which no
    party is worse off than alone; None if there is none. `slopes` are derivatives by all numbers of the
    `TargetInputs` [parties, 2 parties + teams]. Errors are conditional on `nothing` and `whole`.
    """

    values: Floats
    errors: Floats
    rho: float
    rational_rho: float | None
    nothing: Mask
    falls_back: Mask
    whole: Mask
    close: Mask
    slopes: Floats

    def __getitem__(self, party: int) -> Estimate:
        return Estimate(float(self.values[party]), float(self.errors[party]))

    def __len__(self) -> int:
        return len(self.values)


def set_targets(stakes: TargetInputs, terms: TargetPolicy, counted: Mask | None = None) -> Targets:
    """Set every party's target, with one exponent for all teams.

    `counted` marks the parties whose contributions count; by default, `contributors` decides.
    """
    if counted is None:
        counted = contributors(stakes, terms)
    rule = _Rule(stakes, terms, counted)
    point = stakes.moved(np.zeros(len(stakes.covariance)))
    values, falls_back, rho = rule.targets(*point)
    standing = rule.standing(*point)
    errors = stakes.simulated()
    repeated, _, _ = rule.targets(*stakes.moved(errors))
    whole = (rule.ratios(standing, stakes.shapley) == 1) & ~falls_back
    _, own_error, worth_error = stakes.errors
    known = np.where(falls_back, own_error, worth_error[stakes.team])
    near = values - terms.tolerance < stakes.alone + UNSURE * np.hypot(own_error, terms.precision)
    return Targets(
        values=values,
        errors=np.where(falls_back | whole, known, repeated.std(axis=0)),
        rho=float(rho),
        rational_rho=rule.rational(standing, *point),
        nothing=~counted,
        falls_back=falls_back,
        whole=whole,
        close=standing.claims & ~falls_back & near & (values >= stakes.alone),
        # Regression on the simulated errors needs several draws for each of them.
        slopes=_differences(stakes, rule)
        if 4 * len(stakes.covariance) >= SIMULATED
        else np.linalg.lstsq(errors, repeated - repeated.mean(axis=0), rcond=1e-9)[0].T,
    )


def _differences(stakes: TargetInputs, rule: "_Rule") -> Floats:
    """Return slopes of targets by each number of the inputs, as differences over ± its error.

    The result is [parties, 2 parties + teams].
    """
    steps = np.maximum(np.concatenate(stakes.errors), 1e-9)
    above, below = (rule.targets(*stakes.moved(np.diag(sign * steps)))[0] for sign in (1, -1))
    return np.asarray(((above - below) / (2 * steps[:, None])).T)


def contributors(stakes: TargetInputs, terms: TargetPolicy) -> Mask:
    """Return a mask of the parties whose Shapley value is significantly positive and not negligible [parties]."""
    return np.asarray(stakes.shapley > np.maximum(ABOVE_ZERO * stakes.errors[0], terms.least * terms.fine[0]))


def min_contribution_factor(parties: int) -> float:
    """Return the least contribution that counts, in units of the precision; it falls with the number of parties."""
    return min(1.0, LEAST_AMONG / parties)


class _Standing(NamedTuple):
    """Masks of parties that do not depend on ρ [..., parties].

    `claims` marks parties with a significant value alone, `hopeless` those whose claim no ρ can meet. `leaves` marks
    hopeless parties that contribute most among those staying, and get their own posterior.
    """

    claims: Mask
    hopeless: Mask
    leaves: Mask


class _Rule:
    """The sharing rule as a function of Shapley values, values alone and of teams, all [..., parties or teams]."""

    def __init__(self, stakes: TargetInputs, terms: TargetPolicy, counted: Mask) -> None:
        self._team, self._terms, self._counted = stakes.team, terms, counted
        _, self._own_error, worth_error = stakes.errors
        self._worth_error = worth_error[stakes.team]
        # Marks members of teams in which no contribution counts.
        self._in_idle_team = ~np.isin(stakes.team, stakes.team[counted])

    def targets(self, shapley: Floats, alone: Floats, worth: Floats) -> tuple[Floats, Mask, Floats]:
        """Return targets, a mask of parties that fall back to their own posterior, and exponents [...]."""
        standing = self.standing(shapley, alone, worth)
        if self._terms.rho == "max" and self._terms.shares_surplus:
            rho = np.ones(shapley.shape[:-1])
        elif self._terms.rho == "max":
            precision, tolerance = self._terms.fine
            margin = tolerance + UNSURE * np.hypot(self._own_error, precision)
            rho = self._largest(standing, margin, shapley, alone, worth)
        else:
            rho = np.asarray(float(self._terms.rho))
        ratios = self.ratios(standing, shapley)
        shares = self._terms.share(ratios, alone, worth[..., self._team], rho[..., None])
        falls_back = standing.hopeless & (shares < alone) & self._terms.falls_back
        if self._terms.own_is_whole or self._terms.shares_surplus:
            # The best contributor gets the whole, even if its value alone looks larger by chance. If it surely is
            # larger, `standing` marked it.
            short = (shares < alone) & (ratios < 1)
            falls_back = falls_back | short | ~(self._counted | self._in_idle_team)
        return np.where(falls_back, alone, shares), falls_back, rho

    def standing(self, shapley: Floats, alone: Floats, worth: Floats) -> _Standing:
        """Mark parties with a claim, and those whose claim cannot be met.

        A party whose value alone is not significantly below its team's value cannot gain. The best contributor gets the
        whole, so its claim fails only if its value alone surely exceeds that. If it does, it leaves, and the best of
        the rest takes its role.
        """
        claims = np.broadcast_to(alone > ABOVE_ZERO * self._own_error, alone.shape) & (alone > 0)
        gain = (worth[..., self._team] - alone) / np.maximum(np.hypot(self._own_error, self._worth_error), 1e-300)
        leaves = np.zeros_like(claims)
        for _ in range(len(self._team)):
            staying = self._counted & ~leaves
            best = staying & (shapley == self._most(staying, shapley)[..., self._team])
            hopeless = claims & (~self._counted | np.where(best, gain < -SURE, gain <= UNSURE))
            more = hopeless & best & self._terms.falls_back
            if not more.any():
                break
            leaves = leaves | more
        return _Standing(claims, hopeless | leaves, leaves)

    def ratios(self, standing: _Standing, shapley: Floats) -> Floats:
        """Return φ/φ_max within teams: 0 where a contribution does not count, 1 for all if none of the team's does."""
        most = self._most(self._counted & ~standing.leaves, shapley)[..., self._team]
        ratio = np.clip(shapley / np.where(most > 0, most, 1.0), 0.0, 1.0)
        return np.where(self._in_idle_team, 1.0, np.where(self._counted, ratio, 0.0))

    def rational(self, standing: _Standing, shapley: Floats, alone: Floats, worth: Floats) -> float | None:
        """Return the largest ρ with which no party is worse off than alone; None if there is none."""
        if self._terms.shares_surplus:
            return 1.0
        rho = self._largest(standing, 0.0, shapley, alone, worth)
        shares = np.maximum(worth, 0.0)[self._team] * self.ratios(standing, shapley) ** rho
        return None if np.any(standing.hopeless & (shares < alone)) else float(rho)

    def _most(self, marked: Mask, shapley: Floats) -> Floats:
        """Return the largest Shapley value of marked parties in every team [..., teams]; −∞ if none is marked."""
        teams = range(int(self._team.max()) + 1)
        every = [np.max(shapley, axis=-1, where=marked & (self._team == team), initial=-np.inf) for team in teams]
        return np.stack(every, axis=-1)

    def _largest(
        self, standing: _Standing, margin: float | Floats, shapley: Floats, alone: Floats, worth: Floats
    ) -> Floats:
        """Return the largest ρ up to 1 with v (φ/φ_max)^ρ ≥ alone + margin for all parties whose claim can be met.

        The margin is capped at half of the possible gain.
        """
        ratio, whole = self.ratios(standing, shapley), worth[..., self._team]
        wanted = alone + np.minimum(margin, 0.5 * (whole - alone))
        binds = standing.claims & ~standing.hopeless & (ratio > 0) & (ratio < 1) & (wanted > 0)
        with np.errstate(all="ignore"):
            bounds = np.where(binds, np.log(wanted / whole) / np.log(ratio), 1.0)
        largest: Floats = np.clip(np.min(np.nan_to_num(bounds, nan=1.0), axis=-1), SMALLEST_RHO, 1.0)
        return largest


def stability_bound(
    shapley: Mapping[int, float],
    coalitions: Mapping[frozenset[int], Estimate],
    grand: Estimate,
    rule: SharingRule = "proportional",
) -> float | None:
    """Return the largest ρ up to 1 with which no coalition's best member would be better off if that coalition left.

    If it left, the member with the largest Shapley value would have the coalition's whole value (Sim et al. 2020).
    `shapley` has the values that count. The result is None if not even ρ → 0 suffices, because some coalition is worth
    more than all together.
    """
    best = max(shapley.values(), default=0.0)
    claims = []
    for coalition, worth in coalitions.items():
        foremost = max(coalition, key=lambda party: shapley.get(party, 0.0))
        if rule == "proportional":
            claims.append((shapley.get(foremost, 0.0), worth, 0.0))
        # Under the surplus rule no single party gets less than alone.
        elif len(coalition) > 1:
            claims.append((shapley.get(foremost, 0.0), worth, coalitions[frozenset([foremost])].value))
    return _largest_exponent(claims, best, grand)


def _largest_exponent(claims: Iterable[tuple[float, Estimate, float]], best: float, grand: Estimate) -> float | None:
    """Return the largest ρ up to 1 with k + (v_N − k) (φ/φ_max)^ρ ≥ v for all claims (φ, v, k).

    The part k is kept whatever ρ is. The best contributor has v_N whatever ρ is; because all these are estimates, that
    may be less than v by chance.
    """
    bound = 1.0
    for value, claim, kept in claims:
        if (claim - Estimate(kept, 0.0)).z_score <= ABOVE_ZERO or (value == best and (claim - grand).z_score <= UNSURE):
            # Either there is no claim, or the target meets it whatever ρ is.
            continue
        if claim.value > grand.value or value <= 0:
            return None
        if value < best:
            part = (claim.value - kept) / (grand.value - kept)
            bound = min(bound, float(np.log(part) / np.log(value / best)))
    return bound if bound > 0 else None


def targets_from_values(
    parties: Sequence[str], teams: Teams, values: Sequence[Estimate], terms: TargetPolicy
) -> tuple[ShapleyValues, Targets]:
    """Return Shapley values and every party's target; coalitions are numbered by their bits, the empty one first."""
    worth, errors = np.array([estimate.value for estimate in values]), np.array([estimate.error for estimate in values])
    matrix = quantities(parties, teams)
    estimates, number = matrix @ worth, len(parties)
    stakes = TargetInputs(
        estimates[:number],
        estimates[number : 2 * number],
        estimates[2 * number :],
        team_numbers(parties, teams),
        (matrix * errors**2) @ matrix.T,
    )
    return exact_shapley(worth, errors), set_targets(stakes, terms)


def targets_from_shapley(
    parties: Sequence[str],
    teams: Teams,
    shapley: ShapleyValues,
    alone: Sequence[Estimate],
    worth: Sequence[Estimate],
    terms: TargetPolicy,
) -> Targets:
    """Return targets if not all coalitions were valued.

    Errors of Shapley values, values alone and of teams are taken as independent, except for the value of all together,
    whose covariance with the Shapley values is known.
    """
    errors = [estimate.error for estimate in (*alone, *worth)]
    covariance = np.diag(np.square([*shapley.errors, *errors]))
    number = len(parties)
    covariance[:number, :number] = shapley.covariance
    if len(teams) == 1:
        covariance[:number, -1] = covariance[-1, :number] = shapley.covariance_with_grand
    return set_targets(
        TargetInputs(
            shapley.values,
            np.array([estimate.value for estimate in alone]),
            np.array([estimate.value for estimate in worth]),
            team_numbers(parties, teams),
            covariance,
        ),
        terms,
    )


def quantities(parties: Sequence[str], teams: Teams) -> Floats:
    """Return the matrix [2 parties + teams, 2ⁿ] from coalition values to Shapley values, values alone and of teams."""
    number = len(parties)
    single = np.zeros((number, 2**number))
    single[np.arange(number), 2 ** np.arange(number)] = 1.0
    whole = np.zeros((len(teams), 2**number))
    whole[np.arange(len(teams)), [mask_of(team, parties) for team in teams]] = 1.0
    return np.concatenate([weights(number), single, whole])


def team_numbers(parties: Sequence[str], teams: Teams) -> NDArray[np.intp]:
    """Return the number of every party's team."""
    return np.array([next(number for number, team in enumerate(teams) if party in team) for party in parties])


def every_coalition(parties: Sequence[str]) -> list[tuple[str, ...]]:
    """Return all coalitions by their number, the empty one first."""
    number = len(parties)
    return [tuple(parties[index] for index in members(mask, number)) for mask in range(2**number)]


def mask_of(coalition: Sequence[str], parties: Sequence[str]) -> int:
    """Return the number of a coalition."""
    return sum(1 << parties.index(party) for party in coalition)
