"""Making rewards worth their targets: scenarios are valued until the draws of each are as good as asked for."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from equipoise.estimate import Estimate
from equipoise.mediation.appraisal import Appraiser
from equipoise.mediation.requests import PATH, Request
from equipoise.mediation.seeds import derived_noise, derived_seed
from equipoise.mediation.settings import Mechanism
from equipoise.mediation.settlement import CurvePoint
from equipoise.mediation.task import Task
from equipoise.reward import noising, tempering
from equipoise.reward.targets import Targets

MAX_DRAWS = 16  # times the draws asked for

Made = tuple[Request, Estimate, tuple[str, ...]]  # a reward: what it is, its value, and what did not go as planned


@dataclass(frozen=True)
class Aim:
    """What a reward should be worth, by the target; one that must not fall short may be worth more only."""

    target: Estimate
    no_less: bool = False

    @classmethod
    def of(cls, targets: Targets, place: int) -> Self:
        """The aim that follows from one party's target."""
        return cls(targets[place], bool(targets.close[place]))

    def within(self, tolerance: float, whole: Estimate) -> tuple[float, float]:
        """The value to look for, below the whole, and by how much it may be missed."""
        value = self.target.value
        if not self.no_less:
            return value, tolerance
        room = 0.5 * min(tolerance, whole.value - value)
        return value + room, room


def requests_for_others(seed: int, draws: int, rewards: Mapping[str, Made]) -> dict[str, Request]:
    """Return what each reward's party learns of the others by itself, held back as in the reward.

    Its own release is left out; nothing is asked where nobody else's is in the reward.
    """
    asked = {}
    for party, (request, _, _) in rewards.items():
        others = tuple(member for member in request.coalition if member != party)
        if others and request.kappa > 0:
            fresh = derived_seed(seed, "others", party)
            asked[party] = Request(others, draws, fresh, request.kappa, request.tau, request.noise_seed)
    return asked


class RewardMaker:
    """Makes rewards of one round; `points` collects all that was learnt of r(κ) and r(τ) on the way."""

    def __init__(self, task: Task, appraiser: Appraiser) -> None:
        self._appraiser, self._seed, self._noise_secret = appraiser, task.seed, task.noise_of_this_round
        self._draws, self._precision, self._tolerance = task.settings.draws, task.settings.precision, task.tolerance
        self._first_draws = task.first_draws
        self.points: list[CurvePoint] = []

    def make(
        self, team: tuple[str, ...], aims: Mapping[str, Aim], whole: Estimate, mechanism: Mechanism
    ) -> dict[str, Made]:
        """Rewards of members of a team, who are to get less than all; who is to get nothing gets the prior.

        Nobody is to get less than its own release where rewards are degraded; who would has fallen back to it.
        """
        nothing = [party for party, aim in aims.items() if aim.target.value <= 0]
        found = self._precise(
            {
                place: Request(team, self._draws, derived_seed(self._seed, "reward", party, 0), 0.0)
                for place, party in enumerate(nothing)
            },
            "verifying rewards",
        )
        made: dict[str, Made] = {party: (*found[place], ()) for place, party in enumerate(nothing)}
        rest = {party: aim for party, aim in aims.items() if party not in made}
        if rest:
            make = {"tempering": self._temper, "noise": self._add_noise, "degraded": self._degrade}[mechanism]
            made |= make(team, rest, whole)
        return made

    def on_curve(self, team: tuple[str, ...], kappa: float) -> Request:
        """Return what is asked to know r(κ); all κ have one seed, so that they share their random numbers."""
        return Request(team, self._first_draws, derived_seed(self._seed, "curve", sorted(team)), kappa)

    def degraded(self, team: tuple[str, ...], party: str, tau: float) -> Request:
        """Return what is asked to know what a party's degraded reward with some noise would be worth."""
        seed = derived_seed(self._seed, "other exponents", party)
        return Request(team, self._first_draws, seed, tau=tau, noise_seed=PATH, recipient=party)

    def _temper(self, team: tuple[str, ...], aims: Mapping[str, Aim], whole: Estimate) -> dict[str, Made]:
        """Rewards by a tempered likelihood."""
        rest = tuple(aims)

        def at(kappas: Sequence[float]) -> list[Estimate]:
            requests = [self.on_curve(team, kappa) for kappa in kappas]
            return [one.value for one in self._appraiser.appraise(requests, what="tempering curve")]

        final: dict[str, dict[int, Request]] = {party: {} for party in rest}

        def verify(wanted: dict[int, tuple[float, int]]) -> dict[int, Estimate]:
            requests = {
                place: Request(team, self._draws, derived_seed(self._seed, "reward", rest[place], attempt), kappa)
                for place, (kappa, attempt) in wanted.items()
            }
            found = self._precise(requests, "verifying rewards")
            for place, (request, _) in found.items():
                final[rest[place]][wanted[place][1]] = request
            return {place: value for place, (_, value) in found.items()}

        wanted = [aim.within(self._tolerance, whole) for aim in aims.values()]
        lowest = min(value for value, _ in wanted)
        tempered, curve = tempering.temper(tempering.first_curve(whole, lowest, at), wanted, verify)
        self.points += [CurvePoint(team, point.kappa, 0.0, point.value) for point in curve.points]
        made: dict[str, Made] = {}
        for party, one in zip(rest, tempered, strict=True):
            notes = () if one.within_tolerance else (_missed(one.attained, aims[party].target, one.tries),)
            made[party] = (final[party][one.attempt], one.attained, notes)
        chosen = [request for request, _, _ in made.values()]
        self._appraiser.drop([one for tries in final.values() for one in tries.values() if one not in chosen])
        return made

    def _add_noise(self, team: tuple[str, ...], aims: Mapping[str, Aim], whole: Estimate) -> dict[str, Made]:
        """Rewards by noise added to all releases, which each recipient has drawn for itself."""
        assert self._noise_secret is not None  # a task has one for this mechanism
        secret = self._noise_secret
        return self._with_noise(
            whole,
            {
                party: (aim, Request(team, self._draws, 0, noise_seed=derived_noise(secret, "noise", party)))
                for party, aim in aims.items()
            },
        )

    def _degrade(self, team: tuple[str, ...], aims: Mapping[str, Aim], whole: Estimate) -> dict[str, Made]:
        """Rewards by noise added to the others' releases, of one path for all recipients."""
        return self._with_noise(
            whole,
            {
                party: (aim, Request(team, self._draws, 0, noise_seed=PATH, recipient=party))
                for party, aim in aims.items()
            },
            octaves=3,  # one path leads from everything to the party alone, so that long steps miss little
        )

    def _with_noise(
        self, whole: Estimate, aims: Mapping[str, tuple[Aim, Request]], *, octaves: int = 1
    ) -> dict[str, Made]:
        """Rewards by noise; the requests say which, but for their τ and seeds."""
        scale = 1 / self._appraiser.agreement.privacy.max_epsilon  # of nobody's choice of ε, which τ could give away
        made: dict[str, Made] = {}
        for party, (aim, basis) in aims.items():
            common = replace(basis, seed=derived_seed(self._seed, "noise curve", party), draws=self._first_draws)

            def at(taus: Sequence[float], common: Request = common, party: str = party) -> list[Estimate]:
                asked = {place: replace(common, tau=tau) for place, tau in enumerate(taus)}
                values = self._precise(asked, "adding noise", keep=False)
                found = [values[place][1] for place in range(len(taus))]
                self.points += [
                    CurvePoint(common.coalition, 1.0, tau, one, party) for tau, one in zip(taus, found, strict=True)
                ]
                return found

            about = self._appraiser.approximation_of(common)

            def approximate(
                taus: Sequence[float], common: Request = common, about: Callable[[Request], float] = about
            ) -> list[float]:
                return [about(replace(common, tau=tau)) for tau in taus]

            tries: list[Request] = []

            def verify(
                tau: float, basis: Request = basis, party: str = party, tries: list[Request] = tries
            ) -> Estimate:
                seed = derived_seed(self._seed, "reward", party, len(tries))
                fresh = replace(basis, tau=tau, seed=seed)
                request, value = self._precise({0: fresh}, "verifying rewards")[0]
                tries.append(request)
                return value

            value, tolerance = aim.within(self._tolerance, whole)
            noised = noising.add_noise(whole, value, scale, at, verify, approximate, tolerance, octaves)
            notes = [noised.doubt] if noised.doubt else []
            if not noised.within_tolerance:
                notes.append(_missed(noised.attained, aim.target, len(tries)))
            made[party] = (tries[noised.attempt], noised.attained, tuple(notes))
            self._appraiser.drop([one for place, one in enumerate(tries) if place != noised.attempt])
        return made

    def _precise(
        self, requests: dict[int, Request], what: str, *, keep: bool = True
    ) -> dict[int, tuple[Request, Estimate]]:
        """Value requests, with more draws where the standard error is too large."""
        found: dict[int, tuple[Request, Estimate]] = {}
        while requests:
            asked = list(requests.values())
            values = self._appraiser.appraise(asked, what=what, keep=asked if keep else ())
            again = {}
            for (index, request), appraisal in zip(requests.items(), values, strict=True):
                found[index] = request, appraisal.value
                excess = (appraisal.value.error / self._precision) ** 2
                most = MAX_DRAWS * self._draws
                if excess > 1 and request.draws < most:
                    more = min(most, int(np.ceil(1.2 * excess * request.draws)))
                    again[index] = replace(request, draws=more)
                    self._appraiser.drop([request])
            requests = again
        return found


def _missed(attained: Estimate, target: Estimate, tries: int) -> str:
    return f"worth {attained} nats after {tries} tries, not within tolerance of the target {target.value:.4g}"
