"""Values of a round's coalitions, and the Shapley values and targets that follow from them.

Few parties have few coalitions, and all of these are valued. For many parties a sample of coalitions is valued, which
grows until targets have the requested precision or no coalition is left. More draws are made for the coalitions whose
errors matter most for targets and for the decision which parties count as contributors. A target's variance is
Σ_C g_C² σ_C² / n_C, where g_C is the derivative of the target by the value of coalition C, σ_C² the variance that one
draw contributes and n_C the number of draws. The fewest draws that bring it to a requested p² are
n_C = |g_C| σ_C Σ|g σ| / p² (Neyman's allocation). If there are several targets, each coalition gets the largest of its
numbers. All pairs of a sample are one term of that sum. Their errors come from their values *and* from the choice of
coalitions, so more coalitions make them smaller, and more draws of the same ones would not.
"""

import math
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.estimate import ABOVE_ZERO, Estimate
from equipoise.mediation.appraisal import Evaluator
from equipoise.mediation.requests import Evaluation, Pooled, Request
from equipoise.mediation.seeds import derived_seed
from equipoise.mediation.settings import default_budget, fits_enumeration, ordered
from equipoise.mediation.task import Task
from equipoise.reward.targets import (
    Targets,
    every_coalition,
    quantities,
    stability_bound,
    targets_from_shapley,
    targets_from_values,
)
from equipoise.valuation.proxy import normal_proxy
from equipoise.valuation.sampling import ProxyGame, Sample, SampledShapley, estimate, smallest_budget
from equipoise.valuation.shapley import ShapleyValues

# Further draws that may be spent to reach the precision, as a multiple of the first draws of all coalitions.
EXTRA_DRAWS = 20
# Aim 10 % below the requested error, because it is itself an estimate.
SAFETY = 0.9
# Further draws of a coalition are at least this share of those it has. Fewer would cost more warm-up than they gain.
LEAST_SHARE = 0.5
MAX_ROUNDS = 6
# Fewest further draws of a coalition.
SMALLEST = 640
# A Shapley value that looks positive should be this many standard errors above 0.
TOLD = ABOVE_ZERO + 1
# Error, as a share of the precision, of a Shapley value that looks like 0.
UNTOLD = 1 / 3
# Stages in which a sample grows, and the least and largest factor by which its pairs increase in one. The errors of few
# pairs are hardly known, so larger steps would be guesses.
MAX_STAGES = 16
GROWTH = (1.25, 1.5)
# If the sample would exceed this share of all coalitions, value all of them: then there is no sampling error.
NEARLY_ALL = 0.6


class PrecisionGoal(NamedTuple):
    """Precision goal: derivatives of quantities by coalitions' values [quantities, coalitions], and their errors."""

    slopes: Floats
    errors: Floats


# A function that makes further draws {index of coalition: draws}, and returns their appraisals by the same index.
More = Callable[[dict[int, int]], dict[int, Evaluation]]


class Coalitions:
    """Values of one round's coalitions; `known` has those that were valued so far."""

    def __init__(self, task: Task, appraiser: Evaluator) -> None:
        self._task, self._settings, self._appraiser = task, task.settings, appraiser
        self._parties = task.parties
        self.known: dict[tuple[str, ...], Pooled] = {}

    def shares(self) -> tuple[ShapleyValues, Targets]:
        """Value coalitions, and return Shapley values and targets of all parties."""
        return self._exact() if self._task.enumerates else self._sampled()

    @property
    def complete(self) -> bool:
        """True if every coalition was valued."""
        return len(self.known) + 1 == 1 << len(self._parties)

    def request(self, members: Sequence[str], replicate: int = 0, draws: int | None = None) -> Request:
        """Return the request that values a coalition for the first time, or once more."""
        members = ordered(members, self._parties)
        seed = derived_seed(self._task.seed, "value", sorted(members), replicate)
        # Posteriors of teams and single parties may be handed out as rewards.
        may_be_reward = members in self._task.teams or len(members) == 1
        first = self._settings.draws if may_be_reward else self._task.first_draws
        return Request(members, draws or first, seed)

    def is_shown(self, members: tuple[str, ...]) -> bool:
        """Return True if draws are needed later: those of teams for rewards, those of parties for comparison."""
        return members in self._task.teams or (len(members) == 1 and fits_enumeration(len(self._parties)))

    def stability(self, shapley: ShapleyValues, targets: Targets) -> float | None:
        """Return the largest fairness exponent for which no coalition's best member would leave with it, if any."""
        numbered = {
            frozenset(self._parties.index(party) for party in members): pooled.value
            for members, pooled in self.known.items()
        }
        counted = {party: float(shapley.values[party]) for party in np.flatnonzero(~targets.nothing).tolist()}
        return stability_bound(counted, numbered, shapley.grand, self._task.agreement.reward.rule)

    def _value(self, coalitions: Sequence[tuple[str, ...]], draws: Sequence[int] | None = None) -> None:
        """Value coalitions; pool the result with earlier draws if there are some."""
        requests = [
            self.request(members, len(self.known[members].parts) if members in self.known else 0, number)
            for members, number in zip(coalitions, draws or repeat(None), strict=False)
        ]
        shown = {request for request in requests if self.is_shown(request.coalition) and draws is None}
        what = f"valuing {len(coalitions)} coalition{'s' * (len(coalitions) > 1)}"
        appraisals = self._appraiser.appraise(requests, what=what, keep=shown)
        for members, appraisal in zip(coalitions, appraisals, strict=True):
            known = self.known.get(members)
            self.known[members] = known + appraisal if known else Pooled((appraisal,))

    def _exact(self) -> tuple[ShapleyValues, Targets]:
        every = every_coalition(self._parties)[1:]
        if fresh := [members for members in every if members not in self.known]:
            self._value(fresh)

        def more(extra: dict[int, int]) -> dict[int, Any]:
            self._value([every[index] for index in extra], list(extra.values()))
            return {index: self.known[every[index]].parts[-1] for index in extra}

        budget = EXTRA_DRAWS * self._settings.draws * len(every)
        refine([self.known[members] for members in every], self._wanted, more, budget=budget)
        return self._decide([self.known[members].value for members in every])

    def _wanted(self, values: Sequence[Estimate]) -> PrecisionGoal:
        """Return derivatives of targets and Shapley values by coalitions' values, and the errors they should have."""
        shapley, targets = self._decide(values)
        matrix = quantities(self._parties, self._task.teams)[:, 1:]
        slopes = np.concatenate([targets.slopes @ matrix, matrix[: len(self._parties)]])
        return PrecisionGoal(slopes, self._wanted_errors(shapley))

    def _wanted_errors(self, shapley: ShapleyValues) -> Floats:
        """Return the errors that all targets, and then all Shapley values, should have."""
        precision = self._settings.precision
        told = required_errors(shapley, precision, self._task.terms.least)
        return np.concatenate([np.full(len(self._parties), precision), told])

    def _decide(self, values: Sequence[Estimate]) -> tuple[ShapleyValues, Targets]:
        empty_coalition = Estimate(0.0, 0.0)
        return targets_from_values(self._parties, self._task.teams, [empty_coalition, *values], self._task.terms)

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
            sampled, targets = self._estimated(sample, proxy)
            extra, pairs = self._plan(sample, sampled, targets, draws_left)
            wanted = sample.fixed - 1 + 2 * pairs
            if fits_enumeration(number) and wanted > NEARLY_ALL * 2**number:
                wanted = 2**number
            if len(sample) + 2 > min(wanted, most) and not extra:
                break
            draws_left -= sum(extra.values())
            if extra:
                self._value(list(extra), list(extra.values()))
        sampled, targets = self._estimated(sample, proxy)
        return sampled.shapley, targets

    def _estimated(self, sample: Sample, proxy: ProxyGame) -> tuple[SampledShapley, Targets]:
        """Estimate Shapley values and targets from a sample whose coalitions have all been valued."""
        parties, names = self._parties, np.array(self._parties)
        values = [self.known[tuple(names[row].tolist())].value for row in sample.inside[1:]]
        sampled = estimate(sample, values, proxy)
        alone = [self.known[party,].value for party in parties]
        worth = [self.known[team].value for team in self._task.teams]
        return sampled, targets_from_shapley(parties, self._task.teams, sampled.shapley, alone, worth, self._task.terms)

    def _plan(
        self, sample: Sample, sampled: SampledShapley, targets: Targets, draws_left: int
    ) -> tuple[dict[tuple[str, ...], int], int]:
        """Plan the next stage: further draws of the permanent coalitions, and the number of pairs to have.

        Permanent coalitions are valued whatever is sampled: the fixed ones of the sample, and the teams. Each of them
        is a source of error to which draws can be allocated; all pairs together are the last source.
        """
        permanent = self._permanent(sample)
        known = [self.known[members] for members in permanent]
        errors = np.array([pooled.value.error for pooled in known])
        errors_by_source = np.column_stack(
            [self._slopes(permanent, sampled, targets) * errors, _errors_of_pairs(sampled, targets)]
        )
        pairs = (len(sample) + 1 - sample.fixed) // 2
        spent = np.array([*(pooled.draws for pooled in known), 2.0 * pairs * self._settings.draws])
        wanted = neyman(errors_by_source, spent, self._wanted_errors(sampled.shapley))
        extra = further_draws(known, wanted[:-1], draws_left)
        wanted_pairs = pairs * wanted[-1] / spent[-1]
        if wanted_pairs > pairs:
            least, most = GROWTH
            pairs = math.ceil(np.clip(wanted_pairs, least * pairs, most * pairs))
        return {permanent[index]: draws for index, draws in extra.items()}, pairs

    def _permanent(self, sample: Sample) -> list[tuple[str, ...]]:
        """Return the fixed coalitions of a sample, in its order, and then teams that are not among them."""
        names = np.array(self._parties)
        fixed = [tuple(names[row].tolist()) for row in sample.inside[1 : sample.fixed]]
        return [*fixed, *(team for team in self._task.teams if team not in fixed)]

    def _slopes(self, permanent: list[tuple[str, ...]], sampled: SampledShapley, targets: Targets) -> Floats:
        """Return derivatives of targets, and then of Shapley values, by values [2 parties, permanent coalitions].

        A target depends on coalitions through the Shapley values, and directly on values alone and those of teams.
        """
        number = len(self._parties)
        of_shapley = np.zeros((number, len(permanent)))
        fixed = sampled.fixed[:, 1:]
        of_shapley[:, : fixed.shape[1]] = fixed
        of_targets = np.zeros_like(of_shapley)
        of_targets[:, : fixed.shape[1]] = targets.slopes[:, :number] @ fixed
        columns = {members: column for column, members in enumerate(permanent)}
        alone_and_teams = [*((party,) for party in self._parties), *map(tuple, self._task.teams)]
        for members, slopes in zip(alone_and_teams, targets.slopes.T[number:], strict=True):
            of_targets[:, columns[members]] += slopes
        return np.concatenate([of_targets, of_shapley])


def _errors_of_pairs(sampled: SampledShapley, targets: Targets) -> Floats:
    """Return the standard errors that the pairs of a sample cause in targets, and then in Shapley values."""
    by_shapley = targets.slopes[:, : len(sampled.shapley)]
    of_targets = np.sum((by_shapley @ sampled.drawn) * by_shapley, axis=1)
    variances = np.concatenate([of_targets, np.diag(sampled.drawn)])
    return np.asarray(np.sqrt(np.maximum(variances, 0.0)))


def refine(
    known: list[Pooled], wanted_of: Callable[[Sequence[Estimate]], PrecisionGoal], more: More, *, budget: int
) -> list[Pooled]:
    """Make further draws until all quantities have the wanted errors, or `budget` draws are spent."""
    for _ in range(MAX_ROUNDS):
        extra = further_draws(known, allocate(known, *wanted_of([one.value for one in known])), budget)
        if not extra:
            break
        budget -= sum(extra.values())
        for index, part in more(extra).items():
            known = [*known[:index], known[index] + part, *known[index + 1 :]]
    return known


def further_draws(known: Sequence[Pooled], wanted: Floats, budget: int) -> dict[int, int]:
    """Return further draws, by index, that give coalitions the wanted numbers of draws within a budget."""
    if budget <= 0:
        return {}
    made = np.array([pooled.draws for pooled in known], float)
    short = np.flatnonzero(wanted - made > LEAST_SHARE * made)
    extra = {int(index): int(wanted[index] - made[index]) for index in short}
    if not extra and np.any(wanted > made):
        # Every coalition lacks only a few draws: serve the one that lacks most.
        index = int(np.argmax(wanted / made))
        extra = {index: int(np.ceil(LEAST_SHARE * made[index]))}
    extra = {index: _rounded(number) for index, number in extra.items()}
    total = sum(extra.values())
    if total > budget:
        extra = {index: max(SMALLEST, number * budget // total) for index, number in extra.items()}
    return extra


def _rounded(draws: int) -> int:
    """Round up to a power of √2 times `SMALLEST`, so that many coalitions have equal draws and share a batch."""
    return round(SMALLEST * 2 ** (max(0, math.ceil(2 * math.log2(draws / SMALLEST))) / 2))


def allocate(known: Sequence[Pooled], slopes: Floats, wanted_errors: Floats) -> Floats:
    """Return the total draws that each coalition should have; quantities with the wanted error ask for none."""
    errors = np.array([pooled.value.error for pooled in known])
    return neyman(slopes * errors, np.array([pooled.draws for pooled in known], float), wanted_errors)


def neyman(parts: Floats, spent: Floats, wanted_errors: Floats) -> Floats:
    """Return the total effort for each source of error [sources] by Neyman's allocation.

    `parts` [quantities, sources] are the standard errors that each source causes after the effort `spent` on it.
    Quantities that already have the wanted error ask for no effort.
    """
    # |g| σ of the module's docstring.
    spread = np.abs(parts) * np.sqrt(spent)
    too_large = np.sqrt(np.sum(parts**2, axis=1)) > wanted_errors
    wanted = spread * spread.sum(axis=1, keepdims=True) / (SAFETY * wanted_errors[:, None]) ** 2
    return np.asarray(np.max(np.where(too_large[:, None], wanted, 0.0), axis=0, initial=0.0))


def required_errors(shapley: ShapleyValues, precision: float, least: float = 1.0) -> Floats:
    """Return the errors that distinguish Shapley values from 0 [parties]; infinite for values already told from it.

    A value that looks positive should be `TOLD` errors above 0. A value that looks like 0 should still count as 0 if it
    were larger by an error. Values below `least` times the precision count as 0.
    """
    values, errors = shapley.values, shapley.errors
    wanted = np.where(values > errors, np.maximum(values, least * precision) / TOLD, UNTOLD * least * precision)
    return np.where(values > TOLD * errors, np.inf, wanted)
