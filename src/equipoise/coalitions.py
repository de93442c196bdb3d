"""What coalitions of a round are worth, and what follows from it: Shapley values and targets.

Every coalition is valued where they are few, and then more precisely where targets depend on it most; of many parties'
coalitions a sample is.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.choices import default_budget
from equipoise.estimate import Estimate
from equipoise.reward.deciding import decide, mask_of, targets_of_teams
from equipoise.reward.precision import sharpen
from equipoise.reward.targets import NoTargetsError, Targets, for_team, stability_bound, target_slopes
from equipoise.settlement import ordered
from equipoise.task import Task
from equipoise.valuation.appraisal import Appraiser, Pooled, Request, derived_seed
from equipoise.valuation.proxy import normal_proxy
from equipoise.valuation.sampling import sampled_shapley
from equipoise.valuation.shapley import ShapleyValues, repaired_by_values_alone, weights

Floats = NDArray[np.float64]

EXTRA_DRAWS = 20  # times the first draws of all coalitions, at most, to reach the precision


class Coalitions:
    """Values of one round's coalitions; `known` has those that were asked for."""

    def __init__(self, task: Task, appraiser: Appraiser) -> None:
        self._task, self._options, self._appraiser = task, task.choices, appraiser
        self._parties = task.parties
        self.known: dict[tuple[str, ...], Pooled] = {}

    def shares(self) -> tuple[ShapleyValues, list[Targets]]:
        """Shapley values of all parties, and targets team by team."""
        return self._exact() if self._task.exact else self._sampled()

    def request(self, members: Sequence[str], replicate: int = 0, draws: int | None = None) -> Request:
        """What is asked to value a coalition for the first time, or once more."""
        members = ordered(members, self._parties)
        seed = derived_seed(self._options.seed, "value", sorted(members), replicate)
        return Request(members, draws or self._options.draws, seed)

    def is_shown(self, members: tuple[str, ...]) -> bool:
        """Whether somebody will see draws of it: those of whole teams are a reward, and single parties' compared."""
        return members in self._options.teams or (len(members) == 1 and self._task.exact)

    def stability(self, shapley: ShapleyValues) -> float | None:
        """The largest fairness exponent with which no coalition's best member would rather leave with it, if any."""
        numbered = {
            frozenset(self._parties.index(party) for party in members): pooled.value
            for members, pooled in self.known.items()
        }
        return stability_bound(shapley.values, numbered, shapley.grand)

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

    def _exact(self) -> tuple[ShapleyValues, list[Targets]]:
        every = [
            tuple(party for place, party in enumerate(self._parties) if mask >> place & 1)
            for mask in range(1, 2 ** len(self._parties))
        ]
        self._value(every)

        def more(extra: dict[int, int]) -> dict[int, Any]:
            for draws in sorted(set(extra.values())):
                self._value([every[index] for index, wanted in extra.items() if wanted == draws], draws)
            return {index: self.known[every[index]].parts[-1] for index in extra}

        budget = EXTRA_DRAWS * self._options.draws * len(every)
        known = [self.known[members] for members in every]
        sharpen(known, self._slopes, more, precision=self._options.precision, budget=budget)
        return self._decide([self.known[members].value for members in every])

    def _slopes(self, values: Sequence[Estimate]) -> Floats:
        """How each target would change with each value."""
        try:
            shapley, targets = self._decide(values)
        except NoTargetsError:  # may be luck: what matters does not depend much on the exponent
            try:
                shapley, targets = self._decide(values, rho=0.5)
            except NoTargetsError:
                return weights(len(self._parties))[:, 1:]
        matrix = weights(len(self._parties))
        found = []
        for team, target in zip(self._options.teams, targets, strict=True):
            chosen = [self._parties.index(party) for party in team]
            local = target_slopes(for_team(shapley, chosen, Estimate(1.0, 0.0), np.zeros(len(team))), target)
            rows = local[:, :-1] @ matrix[chosen]
            rows[:, mask_of(team, self._parties)] += target.values / values[mask_of(team, self._parties) - 1].value
            found.append(rows)
        return np.concatenate(found)[:, 1:]

    def _decide(self, values: Sequence[Estimate], rho: float | None = None) -> tuple[ShapleyValues, list[Targets]]:
        everything = [Estimate(0.0, 0.0), *values]  # nobody is worth nothing
        return decide(self._parties, self._options.teams, everything, rho or self._options.rho)

    def _sampled(self) -> tuple[ShapleyValues, list[Targets]]:
        parties, options = self._parties, self._options

        def evaluate(coalitions: Sequence[frozenset[int]]) -> list[Estimate]:
            named = [tuple(parties[index] for index in sorted(members)) for members in coalitions]
            self._value([members for members in named if members not in self.known])
            return [self.known[members].value for members in named]

        found = sampled_shapley(
            len(parties),
            evaluate,
            options.budget or default_budget(len(parties)),
            proxy=normal_proxy(self._task.agreement, self._task.submissions),
            seed=derived_seed(options.seed, "coalitions"),
        )
        alone = [self.known[party,].value for party in parties]
        shapley = repaired_by_values_alone(
            found.shapley, np.array([one.value for one in alone]), np.array([one.error for one in alone])
        )
        if missing := [team for team in options.teams if team not in self.known]:
            self._value(missing)
        teams = []
        for team in options.teams:
            chosen = [parties.index(party) for party in team]
            covariance = shapley.covariance_with_grand[chosen] if team == parties else np.zeros(len(team))
            teams.append(for_team(shapley, chosen, self.known[team].value, covariance))
        return shapley, targets_of_teams(parties, options.teams, teams, alone, options.rho)
