"""ρ-Shapley-fair targets from estimates, by one of two rules.

The surplus rule shares what a party can gain: r*_i = v_i + (φ_i / φ_max)^ρ (v_N − v_i). Nobody is worse off than alone,
whatever ρ is, and whoever brings anything gains (docs/maths.md §6 has the proofs). Whoever brings nothing gets its own
posterior. A value alone that exceeds v_N by an error of the estimates counts as v_N.

The proportional rule is the paper's: r*_i = v_N (φ_i / φ_max)^ρ (§4, after Sim et al. 2020). There ρ = 1 rewards in
proportion to Shapley values; a smaller ρ is kinder to those who contribute less. Nobody is worse off than alone if
ρ ≤ min_i log(v_i/v_N) / log(φ_i/φ_max), over parties with φ_i < φ_max.

All of these are estimates, and targets must not turn on their errors:

* A Shapley value that cannot be told from 0 is 0. At a small ρ, one that is 0.01 by luck would earn a third of all.
  The paper's remedy for negative ones, up-weighting contributions to nobody, moves everybody's share; here only those
  who bring nothing are counted as bringing nothing.
* A value alone that cannot be told from 0 is no claim: who has nothing loses nothing.
* ρ = "max" is 1 by the surplus rule. By the proportional one it leaves everybody who has a claim a margin above its
  value alone: errors, and what a reward may miss.
* For some, no ρ will do: they bring nothing, and yet have something alone, or alone are worth as much as all together.
  The agreed fallback says what they get: their own posterior ("alone"), or their share all the same ("shares").

`decide` goes all the way from the values of all coalitions, for one team or several.

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

PRECISION = 0.05  # nats, of a target's or an attained value's standard error, unless asked otherwise
TOLERANCE = 2 * PRECISION  # by which a reward may miss its target
LEAST_AMONG = 12  # parties, and fewer: contributions below the precision are nothing, however well they are known
SIMULATED = 4_096
SMALLEST_RHO = 1e-3


@dataclass(frozen=True)
class Terms:
    """The agreed exponent, fallback and rule, and how close to its target a reward can be made.

    A mediator in a hurry asks for less than the usual precision. Who brings nothing, and by what margin everybody is to
    gain, must not depend on that; so coarser numbers count as the usual ones there.

    `least` times the precision is what a contribution must be to count (`least_among`): among a thousand parties nobody
    may bring as much as the precision.

    `own_is_whole` says that every reward holds its party's own release as it is: nobody's can be worth less than that,
    so who would get less, or brings nothing, gets its own posterior, whatever the fallback.
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
        """Whether those for whom no exponent will do get their own posterior."""
        return self.own_is_whole or self.shares_surplus or self.fallback == "alone"

    @property
    def shares_surplus(self) -> bool:
        """True if parties share what they can gain, not what all know together."""
        return self.rule == "surplus"

    def share(self, ratio: Floats, alone: Floats, whole: Floats, rho: float | Floats) -> Floats:
        """Return what the rule gives for φ_i / φ_max, before any fallback; who brings nothing has a ratio of 0."""
        part = np.where(ratio > 0, ratio**rho, 0.0)  # 0⁰ is 1
        whole = np.maximum(whole, 0.0)
        if not self.shares_surplus:
            return np.asarray(whole * part)
        kept = np.clip(alone, 0.0, whole)
        return np.asarray(kept + part * (whole - kept))

    @property
    def fine(self) -> tuple[float, float]:
        """Precision and tolerance, no coarser than usual."""
        return min(self.precision, PRECISION), min(self.tolerance, TOLERANCE)


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
        """Standard errors of Shapley values, values alone and values of teams."""
        parties = len(self.shapley)
        found = np.sqrt(np.maximum(np.diag(self.covariance), 0.0))
        return found[:parties], found[parties : 2 * parties], found[2 * parties :]

    @property
    def estimates(self) -> tuple[list[Estimate], list[Estimate], list[Estimate]]:
        """Shapley values, values alone and values of teams, each with its standard error."""
        values = (self.shapley, self.alone, self.worth)
        first, second, third = (
            [Estimate(*pair) for pair in zip(one.tolist(), error.tolist(), strict=True)]
            for one, error in zip(values, self.errors, strict=True)
        )
        return first, second, third

    def simulated(self, number: int = SIMULATED) -> Floats:
        """Errors as they might have been [number, 2 parties + teams]; the same in every run and on every machine."""
        values, vectors = np.linalg.eigh(self.covariance)
        values = np.where(values > 1e-12 * values[-1], values, 0.0)
        half = np.random.default_rng(0).normal(size=(number // 2, len(values)))
        if 4 * len(values) < number:  # just as wide as they should be
            half = np.linalg.solve(np.linalg.cholesky(half.T @ half / len(half)), half.T).T
        # The symmetric root, which unlike others does not depend on how a machine chooses eigenvectors.
        draws: Floats = np.concatenate([half, -half]) @ ((vectors * np.sqrt(values)) @ vectors.T)
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
    share, `whole` those who get all their team knows, `close` those whose value alone is so near that their reward must
    not fall short. `rational_rho` is the largest exponent up to 1 with which nobody is worse off than alone; None if
    there is none. `slopes` are derivatives by everything in the stakes [parties, 2 parties + teams]. Errors are those
    given who counts as bringing nothing, and who gets all.
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


def set_targets(stakes: Stakes, terms: Terms, counted: Mask | None = None) -> Targets:
    """Targets of everybody, with one exponent for all teams; who counts follows from the stakes unless given."""
    if counted is None:
        counted = who_counts(stakes, terms)
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
        slopes=_differences(stakes, rule)
        if 4 * len(stakes.covariance) >= SIMULATED  # too few to tell what each error does
        else np.linalg.lstsq(errors, repeated - repeated.mean(axis=0), rcond=1e-9)[0].T,
    )


def _differences(stakes: Stakes, rule: "_Rule") -> Floats:
    """How targets change with each number that they follow from, moved by its error [parties, 2 parties + teams]."""
    steps = np.maximum(np.concatenate(stakes.errors), 1e-9)
    above, below = (rule.targets(*stakes.moved(np.diag(sign * steps)))[0] for sign in (1, -1))
    return np.asarray(((above - below) / (2 * steps[:, None])).T)


def who_counts(stakes: Stakes, terms: Terms) -> Mask:
    """Who brings something that can be told from nothing [parties]."""
    return np.asarray(stakes.shapley > np.maximum(ABOVE_ZERO * stakes.errors[0], terms.least * terms.fine[0]))


def least_among(parties: int) -> float:
    """What a contribution must be to count, over the precision: less where there are many to share what all know."""
    return min(1.0, LEAST_AMONG / parties)


class _Standing(NamedTuple):
    """What is known of everybody, whatever ρ is [..., parties]."""

    claims: Mask  # has something alone
    hopeless: Mask  # has a claim that no ρ can meet
    leaves: Mask  # is one of those, contributes most of who stays, and gets its own posterior


class _Rule:
    """From Shapley values, values alone and of teams, all [..., parties or teams], to targets."""

    def __init__(self, stakes: Stakes, terms: Terms, counted: Mask) -> None:
        self._team, self._terms, self._counted = stakes.team, terms, counted
        _, self._own_error, worth_error = stakes.errors
        self._worth_error = worth_error[stakes.team]
        self._nobody = ~np.isin(stakes.team, stakes.team[counted])  # in its team brings anything

    def targets(self, shapley: Floats, alone: Floats, worth: Floats) -> tuple[Floats, Mask, Floats]:
        """Targets, who falls back to its own posterior, and exponents [...]."""
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
            # The best gets all, though by luck its value alone may look larger; if it surely is, no share will do.
            short = (shares < alone) & (ratios < 1)
            falls_back = falls_back | short | ~(self._counted | self._nobody)
        return np.where(falls_back, alone, shares), falls_back, rho

    def standing(self, shapley: Floats, alone: Floats, worth: Floats) -> _Standing:
        """Who has a claim, and who has one that cannot be met.

        Who knows as much alone as all together, for all that is known, cannot gain; but the best contributor gets all,
        and must surely have more alone. If it has, the best of the rest is the best.
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
        """φ/φ_max within teams, 0 for those who bring nothing; where nobody brings anything, all are alike."""
        most = self._most(self._counted & ~standing.leaves, shapley)[..., self._team]
        ratio = np.clip(shapley / np.where(most > 0, most, 1.0), 0.0, 1.0)
        return np.where(self._nobody, 1.0, np.where(self._counted, ratio, 0.0))

    def rational(self, standing: _Standing, shapley: Floats, alone: Floats, worth: Floats) -> float | None:
        """The largest ρ with which nobody is worse off than alone, if there is one."""
        if self._terms.shares_surplus:
            return 1.0
        found = self._largest(standing, 0.0, shapley, alone, worth)
        shares = np.maximum(worth, 0.0)[self._team] * self.ratios(standing, shapley) ** found
        return None if np.any(standing.hopeless & (shares < alone)) else float(found)

    def _most(self, who: Mask, shapley: Floats) -> Floats:
        """The largest Shapley value in every team [..., teams]; −∞ where nobody's counts."""
        teams = range(int(self._team.max()) + 1)
        every = [np.max(shapley, axis=-1, where=who & (self._team == one), initial=-np.inf) for one in teams]
        return np.stack(every, axis=-1)

    def _largest(
        self, standing: _Standing, margin: float | Floats, shapley: Floats, alone: Floats, worth: Floats
    ) -> Floats:
        """Largest ρ up to 1 with v (φ/φ_max)^ρ no less than alone and a margin, for all whose claim can be met.

        The margin is at most half of what there is to gain.
        """
        ratio, whole = self.ratios(standing, shapley), worth[..., self._team]
        wanted = alone + np.minimum(margin, 0.5 * (whole - alone))
        binds = standing.claims & ~standing.hopeless & (ratio > 0) & (ratio < 1) & (wanted > 0)
        with np.errstate(all="ignore"):
            bounds = np.where(binds, np.log(wanted / whole) / np.log(ratio), 1.0)
        found: Floats = np.clip(np.min(np.nan_to_num(bounds, nan=1.0), axis=-1), SMALLEST_RHO, 1.0)
        return found


def stability_bound(
    shapley: Mapping[int, float],
    coalitions: Mapping[frozenset[int], Estimate],
    grand: Estimate,
    rule: SharingRule = "proportional",
) -> float | None:
    """Largest ρ up to 1 with which no coalition's best member would be better off if that coalition left.

    The member with the largest Shapley value would have all that its coalition is worth (Sim et al. 2020); `shapley`
    has those that count. None if not even ρ → 0 does, because some coalition is worth more than all.
    """
    best = max(shapley.values(), default=0.0)
    claims = []
    for coalition, worth in coalitions.items():
        foremost = max(coalition, key=lambda party: shapley.get(party, 0.0))
        if rule == "proportional":
            claims.append((shapley.get(foremost, 0.0), worth, 0.0))
        elif len(coalition) > 1:  # nobody gets less than alone
            claims.append((shapley.get(foremost, 0.0), worth, coalitions[frozenset([foremost])].value))
    return _largest_exponent(claims, best, grand)


def _largest_exponent(claims: Iterable[tuple[float, Estimate, float]], best: float, grand: Estimate) -> float | None:
    """Largest ρ up to 1 with k + (v_N − k) (φ/φ_max)^ρ ≥ v for all claims (φ, v, k), where k is kept whatever ρ is.

    The best contributor has v_N whatever ρ is; that may be less than v by luck, for all these are estimates.
    """
    bound = 1.0
    for value, claim, kept in claims:
        if (claim - Estimate(kept, 0.0)).z_score <= ABOVE_ZERO or (value == best and (claim - grand).z_score <= UNSURE):
            continue  # there is no claim, or whatever ρ is, the target is no less
        if claim.value > grand.value or value <= 0:
            return None
        if value < best:
            part = (claim.value - kept) / (grand.value - kept)
            bound = min(bound, float(np.log(part) / np.log(value / best)))
    return bound if bound > 0 else None


def decide(
    parties: Sequence[str], teams: Teams, values: Sequence[Estimate], terms: Terms
) -> tuple[ShapleyValues, Targets]:
    """Shapley values and everybody's targets; coalitions are numbered by their bits, nobody first."""
    worth, errors = np.array([one.value for one in values]), np.array([one.error for one in values])
    matrix = quantities(parties, teams)
    found, number = matrix @ worth, len(parties)
    stakes = Stakes(
        found[:number],
        found[number : 2 * number],
        found[2 * number :],
        team_numbers(parties, teams),
        (matrix * errors**2) @ matrix.T,
    )
    return exact_shapley(worth, errors), set_targets(stakes, terms)


def decide_from(
    parties: Sequence[str],
    teams: Teams,
    shapley: ShapleyValues,
    alone: Sequence[Estimate],
    worth: Sequence[Estimate],
    terms: Terms,
) -> Targets:
    """Targets where not all coalitions are known; Shapley values, values alone and of teams as if independent.

    But for the value of all together, whose covariance with the Shapley values is known.
    """
    errors = [one.error for one in (*alone, *worth)]
    covariance = np.diag(np.square([*shapley.errors, *errors]))
    number = len(parties)
    covariance[:number, :number] = shapley.covariance
    if len(teams) == 1:
        covariance[:number, -1] = covariance[-1, :number] = shapley.covariance_with_grand
    return set_targets(
        Stakes(
            shapley.values,
            np.array([one.value for one in alone]),
            np.array([one.value for one in worth]),
            team_numbers(parties, teams),
            covariance,
        ),
        terms,
    )


def quantities(parties: Sequence[str], teams: Teams) -> Floats:
    """What targets depend on, from values of coalitions [2 parties + teams, 2ⁿ]: Shapley values, alone, teams."""
    number = len(parties)
    single = np.zeros((number, 2**number))
    single[np.arange(number), 2 ** np.arange(number)] = 1.0
    whole = np.zeros((len(teams), 2**number))
    whole[np.arange(len(teams)), [mask_of(team, parties) for team in teams]] = 1.0
    return np.concatenate([weights(number), single, whole])


def team_numbers(parties: Sequence[str], teams: Teams) -> NDArray[np.intp]:
    """The number of every party's team."""
    return np.array([next(place for place, team in enumerate(teams) if party in team) for party in parties])


def every_coalition(parties: Sequence[str]) -> list[tuple[str, ...]]:
    """All coalitions as they are numbered, nobody first."""
    number = len(parties)
    return [tuple(parties[place] for place in members(mask, number)) for mask in range(2**number)]


def mask_of(coalition: Sequence[str], parties: Sequence[str]) -> int:
    """The number of a coalition."""
    return sum(1 << parties.index(party) for party in coalition)
