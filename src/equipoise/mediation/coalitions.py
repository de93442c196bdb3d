"""What coalitions of a round are worth, and what follows from it: Shapley values and targets.

Every coalition is valued where they are few; of many parties' coalitions a sample is. More draws are made where they
matter: for the coalitions whose errors weigh most in targets and in who brings anything. A target's variance is
Σ_C g_C² σ_C² / n_C, where g_C is what the value of coalition C counts in it, σ_C² the variance of one draw's share and
n_C the number of draws. The fewest draws that bring it to a wanted p² are n_C = |g_C| σ_C Σ|g σ| / p² (Neyman's
allocation). Several targets take the largest of their numbers.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.estimate import ABOVE_ZERO, Estimate
from equipoise.mediation.appraisal import Appraiser
from equipoise.mediation.requests import Appraisal, Pooled, Request
from equipoise.mediation.seeds import derived_seed
from equipoise.mediation.settings import default_budget, ordered
from equipoise.mediation.task import Task
from equipoise.reward.targets import LEAST, Targets, decide, decide_from, every_coalition, quantities, stability_bound
from equipoise.valuation.proxy import normal_proxy
from equipoise.valuation.sampling import sampled_shapley
from equipoise.valuation.shapley import ShapleyValues

EXTRA_DRAWS = 20  # times the first draws of all coalitions, at most, to reach the precision
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


class Coalitions:
    """Values of one round's coalitions; `known` has those that were asked for."""

    def __init__(self, task: Task, appraiser: Appraiser) -> None:
        self._task, self._settings, self._appraiser = task, task.settings, appraiser
        self._parties = task.parties
        self.known: dict[tuple[str, ...], Pooled] = {}

    def shares(self) -> tuple[ShapleyValues, Targets]:
        """Shapley values of all parties, and their targets."""
        return self._exact() if self._task.exact else self._sampled()

    def request(self, members: Sequence[str], replicate: int = 0, draws: int | None = None) -> Request:
        """What is asked to value a coalition for the first time, or once more."""
        members = ordered(members, self._parties)
        seed = derived_seed(self._task.seed, "value", sorted(members), replicate)
        return Request(members, draws or self._settings.draws, seed)

    def is_shown(self, members: tuple[str, ...]) -> bool:
        """Whether somebody will see draws of it: those of whole teams are a reward, and single parties' compared."""
        return members in self._task.teams or (len(members) == 1 and self._task.exact)

    def stability(self, shapley: ShapleyValues, targets: Targets) -> float | None:
        """The largest fairness exponent with which no coalition's best member would rather leave with it, if any."""
        numbered = {
            frozenset(self._parties.index(party) for party in members): pooled.value
            for members, pooled in self.known.items()
        }
        counted = {party: float(shapley.values[party]) for party in np.flatnonzero(~targets.nothing).tolist()}
        return stability_bound(counted, numbered, shapley.grand)

    def _value(self, coalitions: Sequence[tuple[str, ...]], draws: int | None = None) -> None:
        """Value coalitions; one that is known already is valued once more, by other draws."""
        requests = [
            self.request(members, len(self.known[members].parts) if members in self.known else 0, draws)
            for members in coalitions
        ]
        shown = {request for request in requests if self.is_shown(request.coalition) and draws is None}
        what = f"valuing {len(coalitions)} coalition{'s' * (len(coalitions) > 1)}"
        for members, found in zip(coalitions, self._appraiser.appraise(requests, what=what, keep=shown), strict=True):
            known = self.known.get(members)
            self.known[members] = known + found if known else Pooled((found,))

    def _exact(self) -> tuple[ShapleyValues, Targets]:
        every = every_coalition(self._parties)[1:]
        self._value(every)

        def more(extra: dict[int, int]) -> dict[int, Any]:
            for draws in sorted(set(extra.values())):
                self._value([every[index] for index, wanted in extra.items() if wanted == draws], draws)
            return {index: self.known[every[index]].parts[-1] for index in extra}

        budget = EXTRA_DRAWS * self._settings.draws * len(every)
        sharpen([self.known[members] for members in every], self._wanted, more, budget=budget)
        return self._decide([self.known[members].value for members in every])

    def _wanted(self, values: Sequence[Estimate]) -> Wanted:
        """How targets and Shapley values would change with each value, and how well they should be known."""
        shapley, targets = self._decide(values)
        matrix = quantities(self._parties, self._task.teams)[:, 1:]
        precision = self._settings.precision
        return Wanted(
            np.concatenate([targets.slopes @ matrix, matrix[: len(self._parties)]]),
            np.concatenate([np.full(len(targets), precision), told_from_nothing(shapley, precision)]),
        )

    def _decide(self, values: Sequence[Estimate]) -> tuple[ShapleyValues, Targets]:
        everything = [Estimate(0.0, 0.0), *values]  # nobody is worth nothing
        return decide(self._parties, self._task.teams, everything, self._task.terms)

    def _sampled(self) -> tuple[ShapleyValues, Targets]:
        parties, task = self._parties, self._task

        def evaluate(coalitions: Sequence[frozenset[int]]) -> list[Estimate]:
            named = [tuple(parties[index] for index in sorted(members)) for members in coalitions]
            self._value([members for members in named if members not in self.known])
            return [self.known[members].value for members in named]

        found = sampled_shapley(
            len(parties),
            evaluate,
            self._settings.budget or default_budget(len(parties)),
            proxy=normal_proxy(task.agreement, task.submissions),
            seed=derived_seed(task.seed, "coalitions"),
        )
        if missing := [team for team in task.teams if team not in self.known]:
            self._value(missing)
        alone = [self.known[party,].value for party in parties]
        worth = [self.known[team].value for team in task.teams]
        return found.shapley, decide_from(parties, task.teams, found.shapley, alone, worth, task.terms)


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
