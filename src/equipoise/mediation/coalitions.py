"""What coalitions of a round are worth, and what follows from it: Shapley values and targets.

Every coalition is valued where they are few, and then more precisely where targets depend on it most; of many parties'
coalitions a sample is.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.estimate import Estimate
from equipoise.mediation.appraisal import Appraiser
from equipoise.mediation.precision import Wanted, sharpen, told_from_nothing
from equipoise.mediation.requests import Pooled, Request
from equipoise.mediation.seeds import derived_seed
from equipoise.mediation.settings import default_budget, ordered
from equipoise.mediation.task import Task
from equipoise.reward.deciding import decide, decide_from, every_coalition, quantities
from equipoise.reward.targets import Targets, stability_bound
from equipoise.valuation.proxy import normal_proxy
from equipoise.valuation.sampling import sampled_shapley
from equipoise.valuation.shapley import ShapleyValues

EXTRA_DRAWS = 20  # times the first draws of all coalitions, at most, to reach the precision


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
