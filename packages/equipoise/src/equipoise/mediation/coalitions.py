"""What coalitions of a round are worth, and what follows from it: Shapley values and targets.

Every coalition is valued where they are few; of many parties' coalitions a sample is, which grows until targets are
known as well as asked, or is all of them. More draws are made where they matter: for the coalitions whose errors weigh
most in targets and in who brings anything. A target's variance is Σ_C g_C² σ_C² / n_C, where g_C is what the value of
coalition C counts in it, σ_C² the variance of one draw's share and n_C the number of draws. The fewest draws that bring
it to a wanted p² are n_C = |g_C| σ_C Σ|g σ| / p² (Neyman's allocation). Several targets take the largest of their
numbers. All pairs of a sample are one term of that sum: theirs are the errors of values *and* of the choice of
coalitions, which more coalitions make smaller and more draws of the same ones would not.
"""

import math
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.estimate import ABOVE_ZERO, Estimate
from equipoise.mediation.appraisal import Appraiser
from equipoise.mediation.requests import Appraisal, Pooled, Request
from equipoise.mediation.seeds import derived_seed
from equipoise.mediation.settings import default_budget, fits_enumeration, ordered
from equipoise.mediation.task import Task
from equipoise.reward.targets import Targets, decide, decide_from, every_coalition, quantities, stability_bound
from equipoise.valuation.proxy import normal_proxy
from equipoise.valuation.sampling import ProxyGame, Sample, SampledShapley, estimate, smallest_budget
from equipoise.valuation.shapley import ShapleyValues

EXTRA_DRAWS = 20  # times the first draws of all coalitions, at most, to reach the precision
SAFETY = 0.9  # of the wanted error, since errors are estimates themselves
LEAST_SHARE = 0.5  # of a coalition's draws; less would cost more in warming up than it gives
MAX_ROUNDS = 6
SMALLEST = 640  # draws
TOLD = ABOVE_ZERO + 1  # errors
UNTOLD = 1 / 3  # of the precision
MAX_STAGES = 16  # in which a sample grows
GROWTH = (1.25, 1.5)  # of its pairs in a stage, at least and at most: errors of few pairs are hardly known
NEARLY_ALL = 0.6  # of all coalitions; whoever wants so many takes all, and no error of their choice is left


class Wanted(NamedTuple):
    """What should be known how well: derivatives by the coalitions' values [quantities, coalitions], and errors."""

    slopes: Floats
    errors: Floats


More = Callable[[dict[int, int]], dict[int, Appraisal]]  # {coalition: draws} to what they gave


class Coalitions:
    """Values of one round's coalitions; `known` has those that were asked for."""

    def __init__(self, task: Task, appraiser: Appraiser) -> None:
        self._task, self._settings, self._appraiser = task, task.settings, appraiser
        self._parties = task.parties
        self.known: dict[tuple[str, ...], Pooled] = {}

    def shares(self) -> tuple[ShapleyValues, Targets]:
        """Shapley values of all parties, and their targets."""
        return self._exact() if self._task.enumerates else self._sampled()

    @property
    def complete(self) -> bool:
        """Whether every coalition was valued."""
        return len(self.known) + 1 == 1 << len(self._parties)

    def request(self, members: Sequence[str], replicate: int = 0, draws: int | None = None) -> Request:
        """What is asked to value a coalition for the first time, or once more."""
        members = ordered(members, self._parties)
        seed = derived_seed(self._task.seed, "value", sorted(members), replicate)
        shown = members in self._task.teams or len(members) == 1  # some of these are rewards
        first = self._settings.draws if shown else self._task.first_draws
        return Request(members, draws or first, seed)

    def is_shown(self, members: tuple[str, ...]) -> bool:
        """Whether somebody will see draws of it: those of whole teams are a reward, and single parties' compared."""
        return members in self._task.teams or (len(members) == 1 and fits_enumeration(len(self._parties)))

    def stability(self, shapley: ShapleyValues, targets: Targets) -> float | None:
        """The largest fairness exponent with which no coalition's best member would rather leave with it, if any."""
        numbered = {
            frozenset(self._parties.index(party) for party in members): pooled.value
            for members, pooled in self.known.items()
        }
        counted = {party: float(shapley.values[party]) for party in np.flatnonzero(~targets.nothing).tolist()}
        return stability_bound(counted, numbered, shapley.grand, self._task.agreement.reward.rule)

    def _value(self, coalitions: Sequence[tuple[str, ...]], draws: Sequence[int] | None = None) -> None:
        """Value coalitions; one that is known already is valued once more, by other draws."""
        requests = [
            self.request(members, len(self.known[members].parts) if members in self.known else 0, number)
            for members, number in zip(coalitions, draws or repeat(None), strict=False)
        ]
        shown = {request for request in requests if self.is_shown(request.coalition) and draws is None}
        what = f"valuing {len(coalitions)} coalition{'s' * (len(coalitions) > 1)}"
        for members, found in zip(coalitions, self._appraiser.appraise(requests, what=what, keep=shown), strict=True):
            known = self.known.get(members)
            self.known[members] = known + found if known else Pooled((found,))

    def _exact(self) -> tuple[ShapleyValues, Targets]:
        every = every_coalition(self._parties)[1:]
        if fresh := [members for members in every if members not in self.known]:
            self._value(fresh)

        def more(extra: dict[int, int]) -> dict[int, Any]:
            self._value([every[index] for index in extra], list(extra.values()))
            return {index: self.known[every[index]].parts[-1] for index in extra}

        budget = EXTRA_DRAWS * self._settings.draws * len(every)
        sharpen([self.known[members] for members in every], self._wanted, more, budget=budget)
        return self._decide([self.known[members].value for members in every])

    def _wanted(self, values: Sequence[Estimate]) -> Wanted:
        """How targets and Shapley values would change with each value, and how well they should be known."""
        shapley, targets = self._decide(values)
        matrix = quantities(self._parties, self._task.teams)[:, 1:]
        precision = self._settings.precision
        told = told_from_nothing(shapley, precision, self._task.terms.least)
        return Wanted(
            np.concatenate([targets.slopes @ matrix, matrix[: len(self._parties)]]),
            np.concatenate([np.full(len(targets), precision), told]),
        )

    def _decide(self, values: Sequence[Estimate]) -> tuple[ShapleyValues, Targets]:
        everything = [Estimate(0.0, 0.0), *values]  # nobody is worth nothing
        return decide(self._parties, self._task.teams, everything, self._task.terms)

    def _sampled(self) -> tuple[ShapleyValues, Targets]:
        """Value a sample that grows in stages, until errors are as small as asked or the budget is spent."""
        task, parties, number = self._task, self._parties, len(self._parties)
        most = self._settings.budget or default_budget(number)
        sample = Sample(number, seed=derived_seed(task.seed, "coalitions"))
        cheap = normal_proxy(task.agreement, task.submissions)
        proxy = ProxyGame(number, cheap, seed=derived_seed(task.seed, "proxy"))
        names = np.array(parties)
        draws_left = EXTRA_DRAWS * self._settings.draws * sample.fixed
        wanted = smallest_budget(number)
        for stage in range(MAX_STAGES):
            valued = len(sample)
            sample.grow(min(wanted, most))
            rows = sample.inside[1 if stage == 0 else 1 + valued :]
            fresh = [tuple(names[row].tolist()) for row in rows] + list(task.teams)
            if fresh := [members for members in dict.fromkeys(fresh) if members not in self.known]:
                self._value(fresh)
            if sample.complete:
                return self._exact()
            found, targets = self._estimated(sample, proxy)
            extra, pairs = self._plan(sample, found, targets, draws_left)
            wanted = sample.fixed - 1 + 2 * pairs
            if fits_enumeration(number) and wanted > NEARLY_ALL * 2**number:
                wanted = 2**number
            if len(sample) + 2 > min(wanted, most) and not extra:
                break
            draws_left -= sum(extra.values())
            if extra:
                self._value(list(extra), list(extra.values()))
        found, targets = self._estimated(sample, proxy)
        return found.shapley, targets

    def _estimated(self, sample: Sample, proxy: ProxyGame) -> tuple[SampledShapley, Targets]:
        parties, names = self._parties, np.array(self._parties)
        values = [self.known[tuple(names[row].tolist())].value for row in sample.inside[1:]]
        found = estimate(sample, values, proxy)
        alone = [self.known[party,].value for party in parties]
        worth = [self.known[team].value for team in self._task.teams]
        return found, decide_from(parties, self._task.teams, found.shapley, alone, worth, self._task.terms)

    def _plan(
        self, sample: Sample, found: SampledShapley, targets: Targets, draws_left: int
    ) -> tuple[dict[tuple[str, ...], int], int]:
        """More draws of coalitions that are there whatever is sampled, and how many pairs there should be."""
        parties, number, teams = self._parties, len(self._parties), self._task.teams
        names = np.array(parties)
        whole = [tuple(names[row].tolist()) for row in sample.inside[1 : sample.fixed]]
        others = [team for team in teams if team not in whole]
        places = {members: place for place, members in enumerate([*whole, *others])}
        of_targets = np.zeros((number, len(places)))
        of_targets[:, : len(whole)] = targets.slopes[:, :number] @ found.fixed[:, 1:]
        for column, members in enumerate([*((party,) for party in parties), *map(tuple, teams)]):
            of_targets[:, places[members]] += targets.slopes[:, number + column]
        of_shapley = np.zeros_like(of_targets)
        of_shapley[:, : len(whole)] = found.fixed[:, 1:]

        known = [self.known[members] for members in places]
        errors = np.array([one.value.error for one in known])
        seen = targets.slopes[:, :number]
        chosen = np.concatenate([np.sum((seen @ found.drawn) * seen, axis=1), np.diag(found.drawn)])
        by_value = np.concatenate([of_targets, of_shapley]) * errors
        parts = np.column_stack([by_value, np.sqrt(np.maximum(chosen, 0.0))])
        precision = self._settings.precision
        limits = np.concatenate(
            [np.full(number, precision), told_from_nothing(found.shapley, precision, self._task.terms.least)]
        )
        pairs = (len(sample) + 1 - sample.fixed) // 2
        spent = np.array([*(one.draws for one in known), 2.0 * pairs * self._settings.draws])
        wanted = neyman(parts, spent, limits)
        extra = further_draws(known, wanted[:-1], draws_left)
        enough = pairs * wanted[-1] / spent[-1]
        if enough > pairs:
            pairs = math.ceil(np.clip(enough, GROWTH[0] * pairs, GROWTH[1] * pairs))
        named = list(places)
        return {named[place]: draws for place, draws in extra.items()}, pairs


def sharpen(
    known: list[Pooled], wanted_of: Callable[[Sequence[Estimate]], Wanted], more: More, *, budget: int
) -> list[Pooled]:
    """Draw more until everything is known as well as wanted, or `budget` more draws are spent."""
    for _ in range(MAX_ROUNDS):
        extra = further_draws(known, allocate(known, *wanted_of([one.value for one in known])), budget)
        if not extra:
            break
        budget -= sum(extra.values())
        for index, part in more(extra).items():
            known = [*known[:index], known[index] + part, *known[index + 1 :]]
    return known


def further_draws(known: Sequence[Pooled], wanted: Floats, budget: int) -> dict[int, int]:
    """By place, how many more draws to make so that coalitions have as many as wanted, within a budget."""
    if budget <= 0:
        return {}
    there = np.array([one.draws for one in known], float)
    short = np.flatnonzero(wanted - there > LEAST_SHARE * there)
    extra = {int(index): int(wanted[index] - there[index]) for index in short}
    if not extra and np.any(wanted > there):
        # Many small wants: fulfil the largest.
        index = int(np.argmax(wanted / there))
        extra = {index: int(np.ceil(LEAST_SHARE * there[index]))}
    extra = {index: _rounded(number) for index, number in extra.items()}
    total = sum(extra.values())
    if total > budget:
        extra = {index: max(SMALLEST, number * budget // total) for index, number in extra.items()}
    return extra


def _rounded(draws: int) -> int:
    """Up to a power of √2, so that many coalitions ask for the same and go through one batch."""
    return round(SMALLEST * 2 ** (max(0, math.ceil(2 * math.log2(draws / SMALLEST))) / 2))


def allocate(known: Sequence[Pooled], slopes: Floats, wanted_errors: Floats) -> Floats:
    """Draws every coalition should have, in all; no more than it has for quantities that are good enough."""
    errors = np.array([one.value.error for one in known])
    return neyman(slopes * errors, np.array([one.draws for one in known], float), wanted_errors)


def neyman(parts: Floats, spent: Floats, wanted_errors: Floats) -> Floats:
    """What to spend on every source of error [sources], in all; 0 for quantities that are good enough.

    `parts` [quantities, sources] are the standard errors that each source adds after what was spent on it.
    """
    spread = np.abs(parts) * np.sqrt(spent)  # |g| σ
    open_ones = np.sqrt(np.sum(parts**2, axis=1)) > wanted_errors
    wanted = spread * spread.sum(axis=1, keepdims=True) / (SAFETY * wanted_errors[:, None]) ** 2
    return np.asarray(np.max(np.where(open_ones[:, None], wanted, 0.0), axis=0, initial=0.0))


def told_from_nothing(shapley: ShapleyValues, precision: float, least: float = 1.0) -> Floats:
    """Errors with which Shapley values can be told from 0 [parties]; none is wanted of those that can already.

    One that looks like something should be `TOLD` errors away from 0; one that looks like nothing should be nothing
    still if it were an error more. Those below `least` times the precision count as nothing.
    """
    values, errors = shapley.values, shapley.errors
    wanted = np.where(values > errors, np.maximum(values, least * precision) / TOLD, UNTOLD * least * precision)
    return np.where(values > TOLD * errors, np.inf, wanted)
