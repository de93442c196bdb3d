"""Making rewards worth their targets: scenarios are valued until the draws of each are as good as asked for."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from equipoise.estimate import Estimate
from equipoise.reward import noising, tempering
from equipoise.reward.targets import Targets
from equipoise.valuation.appraisal import Appraiser, Request, derived_seed

MOST_DRAWS = 16  # times the draws asked for

Made = tuple[Request, Estimate, tuple[str, ...]]  # a reward: what it is, its value, and what did not go as planned


@dataclass(frozen=True)
class CurvePoint:
    """What the posterior of a team is worth, tempered to κ or with τ more noise (drawn for `recipient`)."""

    team: tuple[str, ...]
    kappa: float
    tau: float
    value: Estimate
    recipient: str | None = None


class RewardMaker:
    """Makes rewards of one round; `points` collects all that was learnt of r(κ) and r(τ) on the way."""

    def __init__(
        self,
        appraiser: Appraiser,
        *,
        seed: int,
        noise_secret: str | None,
        draws: int,
        precision: float,
        tolerance: float,
    ) -> None:
        self._appraiser, self._seed, self._noise_secret, self._draws = appraiser, seed, noise_secret, draws
        self._precision, self._tolerance = precision, tolerance
        self.points: list[CurvePoint] = []

    def temper(self, team: tuple[str, ...], rest: Sequence[int], targets: Targets, whole: Estimate) -> dict[int, Made]:
        """Tempered rewards of those members of a team, by place, whose targets are below its value."""
        if not rest:
            return {}
        seed = derived_seed(self._seed, "curve", sorted(team))  # one for all κ: common random numbers

        def at(kappas: Sequence[float]) -> list[Estimate]:
            requests = [Request(team, self._draws, seed, kappa) for kappa in kappas]
            return [one.value for one in self._appraiser.appraise(requests, what="tempering curve")]

        final: dict[int, dict[int, Request]] = {index: {} for index in rest}

        def verify(wanted: dict[int, tuple[float, int]]) -> dict[int, Estimate]:
            requests = {
                place: Request(
                    team,
                    self._draws,
                    derived_seed(self._seed, "reward", team[rest[place]], attempt),
                    kappa,
                )
                for place, (kappa, attempt) in wanted.items()
            }
            found = self._precise(requests, "verifying rewards")
            for place, (request, _) in found.items():
                final[rest[place]][wanted[place][1]] = request
            return {place: value for place, (_, value) in found.items()}

        wanted = [float(targets.values[index]) for index in rest]
        tempered, curve = tempering.temper(
            tempering.first_curve(whole, min(wanted), at), wanted, verify, self._tolerance
        )
        self.points += [CurvePoint(team, point.kappa, 0.0, point.value) for point in curve.points]
        made: dict[int, Made] = {}
        for index, one in zip(rest, tempered, strict=True):
            notes = () if one.within_tolerance else (_missed(one.attained, targets[index], one.tries),)
            made[index] = (final[index][one.attempt], one.attained, notes)
        chosen = [request for request, _, _ in made.values()]
        self._appraiser.drop([one for tries in final.values() for one in tries.values() if one not in chosen])
        return made

    def add_noise(
        self, team: tuple[str, ...], rest: Sequence[int], targets: Targets, whole: Estimate
    ) -> dict[int, Made]:
        """The same by added noise, which each recipient has drawn for itself."""
        weakest = max(one.stated.epsilon for one in self._appraiser.submissions if one.party in team)
        made: dict[int, Made] = {}
        for index in rest:
            party = team[index]
            noise_seed = derived_seed(self._noise_secret, "noise", party)
            seed = derived_seed(self._seed, "noise curve", party)

            def at(
                taus: Sequence[float], noise_seed: int = noise_seed, seed: int = seed, party: str = party
            ) -> list[Estimate]:
                requests = {
                    place: Request(team, self._draws, seed, 1.0, tau, noise_seed) for place, tau in enumerate(taus)
                }
                asked = self._precise(requests, f"adding noise for {party}", keep=False)
                found = [asked[place][1] for place in range(len(taus))]
                self.points += [CurvePoint(team, 1.0, tau, one, party) for tau, one in zip(taus, found, strict=True)]
                return found

            tries: list[Request] = []

            def verify(
                tau: float, noise_seed: int = noise_seed, party: str = party, tries: list[Request] = tries
            ) -> Estimate:
                fresh = derived_seed(self._seed, "reward", party, len(tries))
                request = Request(team, self._draws, fresh, 1.0, tau, noise_seed)
                request, value = self._precise({0: request}, "verifying rewards")[0]
                tries.append(request)
                return value

            noised = noising.add_noise(whole, float(targets.values[index]), 1 / weakest, at, verify, self._tolerance)
            notes = [noised.doubt] if noised.doubt else []
            if not noised.within_tolerance:
                notes.append(_missed(noised.attained, targets[index], len(tries)))
            made[index] = (tries[noised.attempt], noised.attained, tuple(notes))
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
                most = MOST_DRAWS * self._draws
                if excess > 1 and request.draws < most:
                    more = min(most, int(np.ceil(1.2 * excess * request.draws)))
                    again[index] = replace(request, draws=more)
                    self._appraiser.drop([request])
            requests = again
        return found


def _missed(attained: Estimate, target: Estimate, tries: int) -> str:
    return f"worth {attained} nats after {tries} tries, not within tolerance of the target {target.value:.4g}"
