"""What numbers in a party's report add to a degraded reward, where everything is normal.

The numbers are functions of releases without added noise: the value of the whole team, the party's Shapley value, its
target, and places on its curve r(τ) at less noise than its own. Each is a quadratic functional of a posterior mean. A
recipient who knows everything but the releases themselves (precisions included, which it is not told) imagines less
noisy copies of them, from its own amount τ down to none, and keeps those that agree with the numbers (a particle
filter). What it then believes of θ is a mixture of whole teams' posteriors. Its expected log score is compared with
that of the reward as given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtr

Floats = NDArray[np.float64]
ERROR = 0.05  # of values, in nats
STEPS = 6  # halvings of τ where the curve is shown, as `report.view.NOISE_LEVELS` has below 1


@dataclass(frozen=True)
class Told:
    """Steps, in nats, to which numbers are rounded that the recipient reads; None for what it is not told."""

    whole: float | None = None
    shapley: float | None = None
    target: float | None = None
    curve: float | None = None
    search: bool = False  # that with an eighth of the noise, or a 64th, the reward was worth more than the target

    @property
    def halvings(self) -> tuple[int, ...]:
        """Where the recipient learns something of less noisy copies."""
        if self.curve is not None:
            return tuple(range(1, STEPS + 1))
        return (3, 6) if self.search else ()


class Round:
    """One recipient (party 0) and the others' releases; θ ~ N(0, I)."""

    def __init__(self, rng: np.random.Generator, dimensions: int, parties: int, strength: float) -> None:
        self.rng, self.dimensions, self.parties = rng, dimensions, parties
        roots = rng.normal(size=(parties, dimensions, dimensions + 2))
        self.precisions = strength * (roots @ np.swapaxes(roots, 1, 2) / (dimensions + 2) + 0.1 * np.eye(dimensions))
        self.added = 1 / np.trace(self.precisions, axis1=1, axis2=2) * dimensions  # like the release's own noise
        self.theta = rng.normal(size=dimensions)
        self.releases = np.stack([self.theta + self._draw(np.linalg.inv(one)) for one in self.precisions])

    def _draw(self, covariance: Floats, number: int | None = None) -> Floats:
        size = (self.dimensions,) if number is None else (number, len(covariance))
        return self.rng.normal(size=size) @ np.linalg.cholesky(covariance).T

    def noisier(self, copies: Floats, more: float) -> Floats:
        """Copies of the others with more of the path's noise."""
        deviations = np.sqrt(more * self.added[1:, None])
        return copies + deviations * self.rng.normal(size=copies.shape)

    def weights(self, tau: float) -> Floats:
        """Precisions of copies with noise τ about θ, the recipient's own first, which is whole."""
        noise = tau * self.added * (np.arange(self.parties) > 0)
        return np.linalg.inv(np.linalg.inv(self.precisions) + noise[:, None, None] * np.eye(self.dimensions))

    def posterior(self, copies: Floats, tau: float, members: Sequence[int] | None = None) -> tuple[Floats, Floats]:
        """Means [particles, dimensions] and covariance given the copies [particles, others, dimensions]."""
        members = range(self.parties) if members is None else members
        weights = self.weights(tau)
        covariance = np.linalg.inv(np.eye(self.dimensions) + sum(weights[one] for one in members))
        naturals = np.zeros((len(copies), self.dimensions))
        for one in members:
            naturals += (self.releases[:1] if one == 0 else copies[:, one - 1]) @ weights[one]
        return naturals @ covariance, covariance

    def value(self, copies: Floats, tau: float = 0.0, members: Sequence[int] | None = None) -> Floats:
        """Divergence from the prior, in nats."""
        if members is not None and not members:
            return np.zeros(len(copies))
        means, covariance = self.posterior(copies, tau, members)
        rest = np.trace(covariance) - self.dimensions - np.linalg.slogdet(covariance)[1]
        return 0.5 * (np.sum(means**2, axis=1) + rest)

    def shapley(self, releases: Floats) -> Floats:
        """Shapley values [particles, parties]."""
        found = np.zeros((len(releases), self.parties))
        everybody = range(self.parties)
        values = {
            team: self.value(releases, 0.0, team)
            for size in range(self.parties + 1)
            for team in combinations(everybody, size)
        }
        for party in everybody:
            for team in (one for one in values if party not in one):
                share = factorial(len(team)) * factorial(self.parties - len(team) - 1) / factorial(self.parties)
                found[:, party] += share * (values[tuple(sorted((*team, party)))] - values[team])
        return found

    def target(self, releases: Floats, rho: float | None) -> Floats:
        """The target of the recipient, never below alone; by default with the largest exponent that leaves all so."""
        whole = self.value(releases)
        shares = self.shapley(releases)
        shares = np.clip(shares / np.max(shares, axis=1, keepdims=True), 1e-9, 1.0)
        alone = np.stack([self.value(releases, 0.0, (one,)) for one in range(self.parties)], axis=1)
        if rho is None:
            largest = np.log(np.clip(alone / whole[:, None], 1e-9, 1.0)) / np.minimum(np.log(shares), -1e-9)
            powers = np.clip(np.min(largest, axis=1), 1e-3, 1.0)
        else:
            powers = np.full(len(releases), rho)
        return np.maximum(whole * shares[:, 0] ** powers, alone[:, 0])

    def sharper(self, copies: Floats, tau: float, less: float) -> Floats:
        """Copies with less noise that these may have come from, drawn from what the recipient believes."""
        others, size = self.parties - 1, self.dimensions

        def covariance(noise: float) -> Floats:
            found = np.tile(np.eye(size), (others, others))
            for one in range(others):
                place = slice(one * size, (one + 1) * size)
                found[place, place] += np.linalg.inv(self.precisions[one + 1]) + noise * self.added[one + 1] * np.eye(
                    size
                )
            return found

        own = np.eye(size) + np.linalg.inv(self.precisions[0])
        shared = np.tile(np.eye(size), (1, others))  # of θ with each copy
        known = np.block([[covariance(tau), shared.T], [shared, own]])
        across = np.hstack([covariance(less), shared.T])
        gain = np.linalg.solve(known, across.T).T
        seen = np.hstack([copies.reshape(len(copies), -1), np.broadcast_to(self.releases[0], (len(copies), size))])
        drawn = seen @ gain.T + self._draw(covariance(less) - gain @ across.T, len(copies))
        return drawn.reshape(copies.shape)


def chosen_noise(one: Round, rho: float | None) -> tuple[float, dict[float, Floats], float] | None:
    """τ where r(τ) first falls to the target, by steps of 8 and then halvings; the path there; and the target.

    None where the recipient gets everything, or nothing of the others.
    """
    releases = one.releases[None, 1:]
    target = float(one.target(releases, rho)[0])
    whole, alone = float(one.value(releases)[0]), float(one.value(releases, 0.0, (0,))[0])
    if target > whole - 0.05 or target < alone + 0.05:
        return None
    taus = np.array([2.0 ** (power / 8) for power in range(-64, 97)])
    path, before = {}, 0.0
    copies = releases
    for tau in taus:
        copies = one.noisier(copies, tau - before)
        path[float(tau)], before = copies, float(tau)
    values = np.array([float(one.value(path[float(tau)], float(tau))[0]) for tau in taus])
    below = [place for place in range(0, len(taus), 24) if values[place] < target]
    if not below or below[0] == 0:
        return None
    low, high = below[0] - 24, below[0]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if values[middle] < target else (middle, high)
    return float(taus[high]), path, target


def gain(
    one: Round, tau: float, path: dict[float, Floats], target: float, told: Told, rho: float | None, number: int
) -> float:
    """How much better the recipient scores the truth than by its reward as given, with what it is told."""
    rng = one.rng
    releases = one.releases[None, 1:]
    copies = np.repeat(path[tau], number, axis=0)
    mean, covariance = one.posterior(path[tau], tau)
    given = _log_normal(one.theta - mean, covariance)[0]
    weights = np.zeros(number)

    def weigh(found: Floats, truth: float, step: float | None) -> None:
        """Keep what is rounded to the same number, which has an error before that."""
        nonlocal weights
        if step is not None:
            read = step * np.round((truth + ERROR * rng.normal()) / step)
            ends = [ndtr((read + side * step / 2 - found) / ERROR) for side in (-1, 1)]
            weights = weights + np.log(np.maximum(ends[1] - ends[0], 1e-30))

    def resample() -> None:
        nonlocal weights, copies
        chosen = rng.choice(number, number, p=np.exp(weights - logsumexp(weights)))
        copies, weights = copies[chosen], np.zeros(number)

    before = tau
    for halving in told.halvings:
        less = tau * 2.0**-halving
        nearest = min(path, key=lambda known: abs(known - less))
        copies = one.sharper(copies, before, less)
        found = one.value(copies, less)
        weigh(found, float(one.value(path[nearest], less)[0]), told.curve)
        if told.search and halving in (3, 6):
            weights = np.where(found > target, weights, weights - 50.0)
        resample()
        before = less
    copies = one.sharper(copies, before, 0.0)
    weigh(one.value(copies), float(one.value(releases)[0]), told.whole)
    if told.shapley is not None:
        weigh(one.shapley(copies)[:, 0], float(one.shapley(releases)[0, 0]), told.shapley)
    if told.target is not None:
        weigh(one.target(copies, rho), target, told.target)
    means, whole = one.posterior(copies, 0.0)
    return float(logsumexp(weights + _log_normal(one.theta - means, whole)) - logsumexp(weights) - given)


def _log_normal(missed: Floats, covariance: Floats) -> Floats:
    quadratic = np.sum(missed * np.linalg.solve(covariance, missed.T).T, axis=1)
    return -0.5 * (np.linalg.slogdet(2 * np.pi * covariance)[1] + quadratic)


def measure(
    told: dict[str, Told],
    *,
    rounds: int,
    number: int,
    dimensions: int = 3,
    parties: int = 3,
    strength: float = 4.0,
    rho: float | None = 1.0,
) -> dict[str, Floats]:
    """Gains of one recipient over its reward as given, by what it is told, and what was withheld ("withheld").

    Rounds in which it gets everything, or nothing of the others, do not count.
    """
    seed = 0
    found: dict[str, list[float]] = {name: [] for name in (*told, "withheld")}
    while len(found["withheld"]) < rounds:
        one, seed = Round(np.random.default_rng([seed, dimensions]), dimensions, parties, strength), seed + 1
        chosen = chosen_noise(one, rho)
        if chosen is None:
            continue
        tau, path, _ = chosen
        scores = [
            _log_normal(one.theta - mean, covariance)[0]
            for mean, covariance in (one.posterior(path[tau], tau), one.posterior(one.releases[None, 1:], 0.0))
        ]
        found["withheld"].append(scores[1] - scores[0])
        for name, numbers in told.items():
            found[name].append(gain(one, *chosen, numbers, rho, number))
    return {name: np.array(values) for name, values in found.items()}
