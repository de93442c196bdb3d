"""The picture of App. G: the prior, all parties' posterior, and two rewards of equal value, by noise and tempering."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.errors import ExperimentError
from equipoise.inference.scenario import Scenario
from equipoise.mediation.seeds import derived_seed
from equipoise.reward.tempering import FIRST_LOOK, Curve, Point
from equipoise_paper.control import MONOTONE, with_noise
from equipoise_paper.effort import Effort, Tick
from equipoise_paper.outcome import Outcome
from equipoise_paper.pictures import draw_contours
from equipoise_paper.posteriors import Asked, Measure, as_drawn, find, prior_draws
from equipoise_paper.releases import plain_submissions
from equipoise_paper.settings import EPSILONS, NOISE_SEED, PARTIES, Setting
from equipoise_paper.sweep import COALITIONS, shared_out
from equipoise_paper.verdict import Verdict, fact

# ρ of that picture.
FAIRNESS = 0.5
PARTY = "2"
SHARES = (0.5, 0.9)
MAX_POINTS = 4_000
NOISES = tuple(2.0**power for power in range(-4, 13))


@dataclass(frozen=True)
class Cloud:
    """Draws of the two weights, in the data's own units, and the value of the posterior."""

    points: Floats
    value: float

    @property
    def mean(self) -> Floats:
        """The mean of the cloud's points."""
        return np.asarray(self.points.mean(axis=0))

    @property
    def deviation(self) -> Floats:
        """The standard deviation of the cloud in each direction."""
        return np.asarray(self.points.std(axis=0, ddof=1))


def contours(name: str, setting: Setting, effort: Effort, folder: Path, *, tick: Tick = lambda _what: None) -> Outcome:
    """Compare the weights of Syn under four posteriors.

    Tempering stays on the way from the prior to all parties' posterior.
    """
    tick(f"{setting.name}: coalitions, less evidence, more noise")
    search = _Search(setting, effort)
    target, tempered, noised = search.look()
    tick(f"{setting.name}: rewards of {target:.2f} nats")
    whole, with_noise, with_less = search.clouds([Scenario(), noised, tempered])
    clouds = {"prior": search.prior(), "all together": whole, "added noise": with_noise, "tempering": with_less}
    rows = [
        {
            "posterior": label,
            "value": cloud.value,
            "mean_w1": cloud.mean[0],
            "mean_w2": cloud.mean[1],
            "deviation_w1": cloud.deviation[0],
            "deviation_w2": cloud.deviation[1],
            "from_line": _from_line(cloud, clouds["prior"], clouds["all together"]),
            "widening_w1": cloud.deviation[0] / clouds["all together"].deviation[0],
            "widening_w2": cloud.deviation[1] / clouds["all together"].deviation[1],
        }
        for label, cloud in clouds.items()
    ]
    thinned = {label: cloud.points[:: -(-len(cloud.points) // MAX_POINTS)] for label, cloud in clouds.items()}
    pictures = draw_contours(folder / name, thinned, "weight w1", "weight w2", SHARES)
    return Outcome(name, rows, pictures, _verdicts(rows))


def _verdicts(rows: list[dict[str, float | str]]) -> list[Verdict]:
    noise, tempered = rows[2], rows[3]

    def uneven(row: dict[str, float | str]) -> float:
        return abs(float(np.log(float(row["widening_w1"]) / float(row["widening_w2"]))))

    return [
        fact(
            "the tempered posterior's mean lies closer to the line from the prior's to everybody's",
            float(tempered["from_line"]) < float(noise["from_line"]),
            f"{tempered['from_line']:.3f} of the line's length beside it, against {noise['from_line']:.3f}",
        ),
        fact(
            "tempering widens both weights by more nearly the same extent",
            uneven(tempered) < uneven(noise),
            f"×{tempered['widening_w1']:.2f} and ×{tempered['widening_w2']:.2f}, against "
            f"×{noise['widening_w1']:.2f} and ×{noise['widening_w2']:.2f} by added noise",
        ),
    ]


def _from_line(cloud: Cloud, start: Cloud, end: Cloud) -> float:
    """Return the distance of the mean from the line between two other means, divided by the line's length."""
    way = end.mean - start.mean
    off = cloud.mean - start.mean
    length = float(np.linalg.norm(way))
    return float(abs(way[0] * off[1] - way[1] * off[0])) / length**2


def _first_crossing(values: list[float], target: float) -> float:
    """Interpolate the smallest τ at which r equals the target, given r at each of `NOISES`."""
    index = next((index for index, value in enumerate(values) if value <= target), None)
    if index is None or index == 0:
        raise ExperimentError(f"no noise between {NOISES[0]:g} and {NOISES[-1]:g} makes a reward of {target:.3f} nats")
    before, after = values[index - 1], values[index]
    share = (before - target) / (before - after)
    return float(NOISES[index - 1] * (NOISES[index] / NOISES[index - 1]) ** share)


class _Search:
    """The search for two scenarios whose rewards have the target's value, from releases of a setting."""

    def __init__(self, setting: Setting, effort: Effort) -> None:
        self.setting = setting
        self.agreement, self.sent = plain_submissions(setting, EPSILONS, NOISE_SEED)
        self.sampling = effort.sampling(setting)
        self.measure = Measure(setting.test_rows)

    def look(self) -> tuple[float, Scenario, Scenario]:
        """Return the party's target, and two scenarios that attain it: with less evidence, and with more noise."""
        plan = [Scenario(members) for members in COALITIONS]
        plan += [Scenario(None, kappa) for kappa in FIRST_LOOK] + [with_noise(tau) for tau in NOISES]
        asked = [Asked(scenario, derived_seed(0, "contours", index)) for index, scenario in enumerate(plan)]
        posteriors = find(self.agreement, self.sent, asked, self.sampling, self.measure, noise_seed=MONOTONE)
        estimates = [posterior.value for posterior in posteriors]
        values = dict(zip(COALITIONS, estimates, strict=False))
        _, targets = shared_out(values, FAIRNESS)
        target = targets[PARTIES.index(PARTY)].value
        tempered = estimates[len(COALITIONS) : len(COALITIONS) + len(FIRST_LOOK)]
        points = [Point(kappa, value) for kappa, value in zip(FIRST_LOOK, tempered, strict=True)]
        kappa = Curve(values[PARTIES], points).kappa_of(target)
        noised = [value.value for value in estimates[-len(NOISES) :]]
        return target, Scenario(None, kappa), with_noise(_first_crossing(noised, target))

    def clouds(self, scenarios: list[Scenario]) -> list[Cloud]:
        """Sample the two weights under each scenario, and value the posteriors."""
        asked = [Asked(scenario, derived_seed(1, "contours", index)) for index, scenario in enumerate(scenarios)]
        samples = find(self.agreement, self.sent, asked, self.sampling, as_drawn, noise_seed=MONOTONE)
        return [self._in_own_units(drawn.parameters, self.measure(drawn).value.value) for drawn in samples]

    def prior(self) -> Cloud:
        """Sample the prior."""
        return self._in_own_units(prior_draws(self.setting, MAX_POINTS), 0.0)

    def _in_own_units(self, parameters: dict[str, Floats], value: float) -> Cloud:
        """Convert scaled weights w̃, for features x/b and targets y/b_y, to the data's units: w = w̃ b_y/b."""
        scale = self.setting.target_bound / self.setting.bounds
        return Cloud(parameters["weights"][:, :2] * scale, value)
