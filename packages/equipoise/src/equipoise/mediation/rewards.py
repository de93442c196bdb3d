"""Rewards that are worth their targets: search for them, and value each with as many draws as the precision needs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from equipoise.estimate import Estimate
from equipoise.mediation.appraisal import Evaluator
from equipoise.mediation.requests import PATH, Request
from equipoise.mediation.seeds import derived_noise, derived_seed
from equipoise.mediation.settings import Mechanism
from equipoise.mediation.settlement import CurvePoint
from equipoise.mediation.task import Task
from equipoise.reward import noising, tempering
from equipoise.reward.targets import Targets

# Draws of a reward at most, as a multiple of the draws in the settings.
MAX_DRAWS = 16

# A reward: its request, its value, and notes on what did not go as planned.
MadeReward = tuple[Request, Estimate, tuple[str, ...]]


@dataclass(frozen=True)
class RewardGoal:
    """Target of a reward; with `no_less`, the reward may miss it upwards only."""

    target: Estimate
    no_less: bool = False

    @classmethod
    def of(cls, targets: Targets, place: int) -> Self:
        """Make the aim that follows from one party's target."""
        return cls(targets[place], bool(targets.close[place]))

    def within(self, tolerance: float, whole: Estimate) -> tuple[float, float]:
        """Return the value to search for, below the team's value `whole`, and the tolerance of the search."""
        value = self.target.value
        if not self.no_less:
            return value, tolerance
        room = 0.5 * min(tolerance, whole.value - value)
        return value + room, room


def requests_for_others(seed: int, draws: int, rewards: Mapping[str, MadeReward]) -> dict[str, Request]:
    """Return, by party, the request for the others' evidence alone, held back as in the party's reward.

    The party's own release is left out. There is no request for a reward that holds no release of others.
    """
    requests = {}
    for party, (request, _, _) in rewards.items():
        others = tuple(member for member in request.coalition if member != party)
        if others and request.kappa > 0:
            fresh = derived_seed(seed, "others", party)
            requests[party] = Request(others, draws, fresh, request.kappa, request.tau, request.noise_seed)
    return requests


class RewardMaker:
    """Maker of one round's rewards; `points` collects all values of r(κ) and r(τ) that were estimated on the way."""

    def __init__(self, task: Task, appraiser: Evaluator) -> None:
        self._task, self._appraiser = task, appraiser
        self._draws, self._noise_secret = task.settings.draws, task.noise_of_this_round
        self._valuer = _Valuer(appraiser, task.settings.precision, MAX_DRAWS * self._draws)
        self.points: list[CurvePoint] = []

    def make(
        self, team: tuple[str, ...], aims: Mapping[str, RewardGoal], whole: Estimate, mechanism: Mechanism
    ) -> dict[str, MadeReward]:
        """Make rewards of a team's members that get less than the whole posterior; a target of 0 gets the prior.

        No target of a degraded reward is below the value of the party's own release: such a party has already fallen
        back to its own posterior.
        """
        nothing = [party for party, aim in aims.items() if aim.target.value <= 0]
        valued = self._valuer.value(
            [Request(team, self._draws, derived_seed(self._task.seed, "reward", party, 0), 0.0) for party in nothing],
            "verifying rewards",
        )
        made: dict[str, MadeReward] = {
            party: (request, value, ()) for party, (request, value) in zip(nothing, valued, strict=True)
        }
        rest = {party: aim for party, aim in aims.items() if party not in made}
        if rest:
            make = {"tempering": self._temper, "noise": self._add_noise, "degraded": self._degrade}[mechanism]
            made |= make(team, rest, whole)
        return made

    def on_curve(self, team: tuple[str, ...], kappa: float) -> Request:
        """Return the request for r(κ); all κ have one seed, so that they share their random numbers."""
        return _request_on_curve(self._task, team, kappa)

    def degraded(self, team: tuple[str, ...], party: str, tau: float) -> Request:
        """Return the request for the value of a party's degraded reward with noise τ."""
        seed = derived_seed(self._task.seed, "other exponents", party)
        return Request(team, self._task.first_draws, seed, tau=tau, noise_seed=PATH, recipient=party)

    def _temper(self, team: tuple[str, ...], aims: Mapping[str, RewardGoal], whole: Estimate) -> dict[str, MadeReward]:
        """Make rewards by a tempered likelihood."""
        targets = [aim.within(self._task.tolerance, whole) for aim in aims.values()]
        search = _TemperingSearch(self._task, self._appraiser, self._valuer, team, tuple(aims))
        lowest = min(value for value, _ in targets)
        first_curve = tempering.first_curve(whole, lowest, search.values_at)
        tempered, curve = tempering.temper(first_curve, targets, search.verify)
        self.points += [CurvePoint(team, point.kappa, 0.0, point.value) for point in curve.points]
        made: dict[str, MadeReward] = {}
        for index, ((party, aim), result) in enumerate(zip(aims.items(), tempered, strict=True)):
            notes = () if result.within_tolerance else (_missed(result.attained, aim.target, result.tries),)
            made[party] = (search.tries[index, result.attempt], result.attained, notes)
        chosen = [request for request, _, _ in made.values()]
        self._appraiser.drop([request for request in search.tries.values() if request not in chosen])
        return made

    def _add_noise(
        self, team: tuple[str, ...], aims: Mapping[str, RewardGoal], whole: Estimate
    ) -> dict[str, MadeReward]:
        """Make rewards by noise added to all releases, drawn independently for each recipient."""
        # A task has a secret for this mechanism.
        assert self._noise_secret is not None
        bases = {
            party: Request(team, self._draws, 0, noise_seed=derived_noise(self._noise_secret, "noise", party))
            for party in aims
        }
        return {party: self._with_noise(party, aim, bases[party], whole) for party, aim in aims.items()}

    def _degrade(self, team: tuple[str, ...], aims: Mapping[str, RewardGoal], whole: Estimate) -> dict[str, MadeReward]:
        """Make rewards by noise added to the others' releases, along one path of noise for all recipients."""
        bases = {party: Request(team, self._draws, 0, noise_seed=PATH, recipient=party) for party in aims}
        # One path leads from the whole posterior to that of the party alone, so long steps miss little.
        return {party: self._with_noise(party, aim, bases[party], whole, octaves=3) for party, aim in aims.items()}

    def _with_noise(
        self, party: str, aim: RewardGoal, basis: Request, whole: Estimate, *, octaves: int = 1
    ) -> MadeReward:
        """Make one party's reward by noise; `basis` is its request, apart from τ and the seed."""
        # The scale must not depend on any party's choice of ε, because τ would then reveal it.
        scale = 1 / self._appraiser.agreement.privacy.max_epsilon
        value, tolerance = aim.within(self._task.tolerance, whole)
        search = _NoiseSearch(self._task, self._appraiser, self._valuer, party, basis)
        noised = noising.add_noise(
            whole, value, scale, search.values_at, search.verify, search.approximate, tolerance, octaves
        )
        self.points += search.points
        notes = [noised.doubt] if noised.doubt else []
        if not noised.within_tolerance:
            notes.append(_missed(noised.attained, aim.target, len(search.tries)))
        self._appraiser.drop([request for attempt, request in enumerate(search.tries) if attempt != noised.attempt])
        return search.tries[noised.attempt], noised.attained, tuple(notes)


class _Valuer:
    """Values requests, with more draws for those whose standard error exceeds the precision."""

    def __init__(self, appraiser: Evaluator, precision: float, most_draws: int) -> None:
        self._appraiser, self._precision, self._most_draws = appraiser, precision, most_draws

    def value(self, requests: Sequence[Request], what: str, *, keep: bool = True) -> list[tuple[Request, Estimate]]:
        """Return each request, with the draws it finally had, and its value; `keep` its draws for later use."""
        results: dict[int, tuple[Request, Estimate]] = {}
        waiting = dict(enumerate(requests))
        while waiting:
            batch = list(waiting.values())
            appraisals = self._appraiser.appraise(batch, what=what, keep=batch if keep else ())
            again = {}
            for (index, request), appraisal in zip(waiting.items(), appraisals, strict=True):
                results[index] = request, appraisal.value
                excess = (appraisal.value.error / self._precision) ** 2
                if excess > 1 and request.draws < self._most_draws:
                    more = min(self._most_draws, int(np.ceil(1.2 * excess * request.draws)))
                    again[index] = replace(request, draws=more)
                    self._appraiser.drop([request])
            waiting = again
        return [results[index] for index in range(len(requests))]


def _request_on_curve(task: Task, team: tuple[str, ...], kappa: float) -> Request:
    return Request(team, task.first_draws, derived_seed(task.seed, "curve", sorted(team)), kappa)


class _TemperingSearch:
    """Evaluations of a search for the κ of a team's rewards; `tries` are verified requests by (target, attempt)."""

    def __init__(
        self, task: Task, appraiser: Evaluator, valuer: _Valuer, team: tuple[str, ...], parties: tuple[str, ...]
    ) -> None:
        self._task, self._appraiser, self._valuer = task, appraiser, valuer
        self._team, self._parties = team, parties
        self.tries: dict[tuple[int, int], Request] = {}

    def values_at(self, kappas: Sequence[float]) -> list[Estimate]:
        """Estimate r(κ) with common random numbers."""
        requests = [_request_on_curve(self._task, self._team, kappa) for kappa in kappas]
        return [appraisal.value for appraisal in self._appraiser.appraise(requests, what="tempering curve")]

    def verify(self, wanted: Mapping[int, tuple[float, int]]) -> dict[int, Estimate]:
        """Value rewards {index of target: (κ, attempt)} by fresh draws."""
        requests = [self._reward(self._parties[index], kappa, attempt) for index, (kappa, attempt) in wanted.items()]
        values = {}
        valued = self._valuer.value(requests, "verifying rewards")
        for (index, (_, attempt)), (request, value) in zip(wanted.items(), valued, strict=True):
            self.tries[index, attempt] = request
            values[index] = value
        return values

    def _reward(self, party: str, kappa: float, attempt: int) -> Request:
        seed = derived_seed(self._task.seed, "reward", party, attempt)
        return Request(self._team, self._task.settings.draws, seed, kappa)


class _NoiseSearch:
    """Evaluations of a search for the τ of one reward.

    `tries` are verified requests in order; `points` are values of r(τ) that were estimated on the way.
    """

    def __init__(self, task: Task, appraiser: Evaluator, valuer: _Valuer, party: str, basis: Request) -> None:
        self._seed, self._valuer, self._party, self._basis = task.seed, valuer, party, basis
        self._on_curve = replace(basis, seed=derived_seed(task.seed, "noise curve", party), draws=task.first_draws)
        self._approximation = appraiser.approximation_of(self._on_curve)
        self.tries: list[Request] = []
        self.points: list[CurvePoint] = []

    def values_at(self, taus: Sequence[float]) -> list[Estimate]:
        """Estimate r(τ) with common random numbers."""
        requests = [replace(self._on_curve, tau=tau) for tau in taus]
        values = [value for _, value in self._valuer.value(requests, "adding noise", keep=False)]
        self.points += [
            CurvePoint(self._basis.coalition, 1.0, tau, value, self._party)
            for tau, value in zip(taus, values, strict=True)
        ]
        return values

    def approximate(self, taus: Sequence[float]) -> list[float]:
        """Approximate r(τ) at little cost."""
        return [self._approximation(replace(self._on_curve, tau=tau)) for tau in taus]

    def verify(self, tau: float) -> Estimate:
        """Value the reward with noise τ by fresh draws, and add it to the tries."""
        seed = derived_seed(self._seed, "reward", self._party, len(self.tries))
        ((request, value),) = self._valuer.value([replace(self._basis, tau=tau, seed=seed)], "verifying rewards")
        self.tries.append(request)
        return value


def _missed(attained: Estimate, target: Estimate, tries: int) -> str:
    return f"worth {attained} nats after {tries} tries, not within tolerance of the target {target.value:.4g}"
