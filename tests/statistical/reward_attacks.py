"""A laboratory where the best attack on rewards is known exactly: everything is normal and linear.

Parameters θ ~ N(0, I). Party j has rows x_j = θ + N(0, R_j⁻¹) and releases y_j = x_j + noise, of precision Λ_j about θ;
the Λ_j do not commute. A reward is a normal distribution whose natural parameter is a linear map of releases and added
noise. So whatever an attacker holds is a list of linear maps of independent standard normals, and the best that can be
made of it is their conditional distribution: nothing is sampled, and no attacker is more clever. Recipients hold
posteriors (sums of natural parameters), never single copies of releases.

What is gained is an expected log score of the truth, E log p(θ | all that is held) − E log q(θ), and expected loss of
predictions, in closed form. There are two yardsticks q for colluders C:

* *as given*: the reward of the least noisy member (at home: with its own rows);
* *allowed*: the same with the colluders' own releases put in whole. Nobody can keep them from telling each other those.

**Degraded rewards withstand every C.** Everything that C is given is computed from public things, from own releases
y_c, c ∈ C, and from copies z_j(τ) = y_j + A_j W_j(τ) at τ ∈ T, the amounts of its members in all settlements. Let
τ* = min T. For j ∉ C, z_j(τ) = z_j(τ*) + A_j (W_j(τ) − W_j(τ*)), and the increments are independent of θ, of all
releases and of every path up to τ*. For j ∈ C, copies are functions of y_j and of W_j, which is independent of
everything else. So θ → (y_c, z_j(τ*)) → all that C holds is a Markov chain, and by data processing
p(θ | y_c, z_j(τ*)), which is *allowed*, has the best expected log score of anything that can be made of it. For C = {i}
that is the reward itself. Nothing here needs normal distributions or known Λ_j. It needs one path for each release,
whoever asks and whenever, and amounts that tell nothing by themselves (`reward_reports` measures how far they do).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

Floats = NDArray[np.float64]
Part = tuple[Floats, Floats]
WIDTH = 300  # blocks of independent normals there may be
KINDER = 0.5  # the second settlement: how much of what is withheld in the first


def inverse(matrix: Floats) -> Floats:
    """The inverse, typed."""
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)


@dataclass(frozen=True)
class Belief:
    """A normal distribution of θ: its mean as a linear map of the independent normals, and its covariance."""

    mean: Floats
    covariance: Floats


@dataclass(frozen=True)
class Reward:
    """What a recipient is given, by the part of each party: its natural parameter, and its precision."""

    recipient: int
    amount: float
    parts: tuple[Part, ...]

    @property
    def held(self) -> list[Floats]:
        """What the reward shows: the natural parameter of all, and since it has the others' evidence, of the others."""
        everything = np.sum([natural for natural, _ in self.parts], axis=0)
        return [everything, everything - self.parts[self.recipient][0]]

    def belief(self, instead: Mapping[int, Part] | None = None) -> Belief:
        """The reward as a distribution; with other evidence in the place of some parties', if so."""
        parts = [(instead or {}).get(party, part) for party, part in enumerate(self.parts)]
        covariance = inverse(np.eye(len(parts[0][1])) + sum(precision for _, precision in parts))
        return Belief(covariance @ sum(natural for natural, _ in parts), covariance)


class Laboratory:
    """A round: precisions of releases and of rows, shapes of added noise, and independent normals by name."""

    def __init__(self, seed: int = 0, dimensions: int = 3, parties: int = 4, strength: float = 4.0) -> None:
        rng = np.random.default_rng(seed)
        self.dimensions, self.parties = dimensions, parties
        self._places: dict[tuple[object, ...], int] = {}

        def positive(scale: float) -> Floats:
            root = rng.normal(size=(dimensions, dimensions + 1))
            return scale * (root @ root.T / dimensions + 0.05 * np.eye(dimensions))

        self.added = [np.linalg.cholesky(positive(1.0)) for _ in range(parties)]
        self.rows, self.precisions = [], []
        self.releases, self.exact = [], []
        for party in range(parties):
            rows = positive(strength * (1 + party))
            noise = np.linalg.cholesky(positive(1 / strength))
            exact = self.theta + np.linalg.inv(np.linalg.cholesky(rows)).T @ self.normal("rows", party)
            self.rows.append(rows)
            self.exact.append(exact)
            self.releases.append(exact + noise @ self.normal("release", party))
            self.precisions.append(np.linalg.inv(np.linalg.inv(rows) + noise @ noise.T))
        points = np.random.default_rng(1).normal(size=(200, dimensions))
        self._predictors = points

    @cached_property
    def theta(self) -> Floats:
        return self.normal("theta")

    def normal(self, *name: object) -> Floats:
        """Independent standard normals of that name, the same whenever asked for."""
        place = self._places.setdefault(name, len(self._places))
        assert place < WIDTH
        block = np.zeros((self.dimensions, WIDTH * self.dimensions))
        block[:, place * self.dimensions : (place + 1) * self.dimensions] = np.eye(self.dimensions)
        return block

    @contextmanager
    def scratch(self) -> Iterator[None]:
        """Forget the normals that were asked for within."""
        places = dict(self._places)
        try:
            yield
        finally:
            self._places = places

    def path(self, time: float, times: Iterable[float], *name: object) -> Floats:
        """W(time) of the path of that name, known at these times."""
        known = [0.0, *sorted({*times, time})]
        steps = [(low, high) for low, high in pairwise(known) if high <= time]
        return sum(np.sqrt(high - low) * self.normal(*name, low, high) for low, high in steps)

    def best(self, held: Sequence[Floats]) -> Belief:
        """The distribution of θ given everything that is held."""
        used = len(self._places) * self.dimensions  # columns; all others are 0
        _, lengths, directions = np.linalg.svd(np.concatenate(held)[:, :used], full_matrices=False)
        basis = directions[lengths > 1e-9 * lengths[0]]
        mean = np.zeros_like(self.theta)
        mean[:, :used] = self.theta[:, :used] @ basis.T @ basis
        rest = self.theta - mean
        return Belief(mean, rest @ rest.T)

    def score(self, belief: Belief) -> float:
        """E log q(θ)."""
        missed = self.theta - belief.mean
        quadratic = np.trace(np.linalg.solve(belief.covariance, missed @ missed.T))
        return float(-0.5 * (np.linalg.slogdet(2 * np.pi * belief.covariance)[1] + quadratic))

    def loss(self, belief: Belief) -> float:
        """E −log q(target | row) of a linear prediction with residual variance ¼, a row."""
        missed = self.theta - belief.mean
        spread = 0.25 + np.einsum("ni,ij,nj->n", self._predictors, belief.covariance, self._predictors)
        error = 0.25 + np.einsum("ni,ij,nj->n", self._predictors, missed @ missed.T, self._predictors)
        return float(np.mean(0.5 * np.log(2 * np.pi * spread) + 0.5 * error / spread))

    def value(self, belief: Belief) -> float:
        """The expected divergence of a belief from the prior, which is what settlements pay in."""
        moments = np.trace(belief.covariance) + np.trace(belief.mean @ belief.mean.T)
        return float(0.5 * (moments - self.dimensions - np.linalg.slogdet(belief.covariance)[1]))

    def evidence(self, party: int, variance: Floats | float = 0.0, noise: Floats | float = 0.0) -> Part:
        """A release with noise of that variance, as natural parameter and precision."""
        precision = inverse(inverse(self.precisions[party]) + variance)
        return precision @ (self.releases[party] + noise), precision


Mechanism = Callable[
    [Laboratory, int, float, int, Sequence[float]], Reward
]  # recipient, amount, settlement, all amounts


def by_copies(copy: Callable[..., Floats], *, own_too: bool = False) -> Mechanism:
    """A mechanism that adds noise to releases; `copy` says which normals, of variance τ."""

    def give(lab: Laboratory, recipient: int, amount: float, settlement: int, times: Sequence[float]) -> Reward:
        def part(party: int) -> Part:
            if party == recipient and not own_too:
                return lab.evidence(party)
            root = lab.added[party]
            noise = root @ copy(lab, recipient, party, amount, settlement, times)
            return lab.evidence(party, amount * root @ root.T, noise)

        return Reward(recipient, amount, tuple(map(part, range(lab.parties))))

    return give


def tempering(lab: Laboratory, recipient: int, amount: float, settlement: int, times: Sequence[float]) -> Reward:
    """Everybody's evidence to the power κ = 1/(1 + amount)."""
    parts = map(lab.evidence, range(lab.parties))
    return Reward(recipient, amount, tuple((one / (1 + amount), other / (1 + amount)) for one, other in parts))


def shared_shift(lab: Laboratory, recipient: int, amount: float, settlement: int, times: Sequence[float]) -> Reward:
    """The others' evidence to the power κ = 1/(1 + amount), moved along one path: thought of first."""
    team = np.linalg.inv(np.eye(lab.dimensions) + sum(lab.precisions))
    shift = np.linalg.cholesky(team) @ lab.path(amount, times, "shift")
    moved = [lab.evidence(party, 0.0, shift) for party in range(lab.parties)]
    parts = [(one / (1 + amount), other / (1 + amount)) for one, other in moved]
    parts[recipient] = lab.evidence(recipient)
    return Reward(recipient, amount, tuple(parts))


noise = by_copies(
    lambda lab, recipient, party, amount, settlement, _t: (
        np.sqrt(amount) * lab.normal("noise", recipient, settlement, party)
    ),
    own_too=True,
)
degraded = by_copies(lambda lab, _r, party, amount, _s, times: lab.path(amount, times, "path", party))

BROKEN: dict[str, Mechanism] = {
    "one shift of parameters for all": shared_shift,
    "noise of its own for every recipient": by_copies(
        lambda lab, recipient, party, amount, _s, times: lab.path(amount, times, "path", recipient, party)
    ),
    "one draw scaled by √τ": by_copies(
        lambda lab, _r, party, amount, _s, _t: np.sqrt(amount) * lab.normal("draw", party)
    ),
    "a path of its own for every settlement": by_copies(
        lambda lab, _r, party, amount, settlement, times: lab.path(amount, times, "path", settlement, party)
    ),
    "one path for all releases": by_copies(lambda lab, _r, _p, amount, _s, times: lab.path(amount, times, "path")),
    "noise on one's own release, too": by_copies(
        lambda lab, _r, party, amount, _s, times: lab.path(amount, times, "path", party), own_too=True
    ),
}


class Gain(NamedTuple):
    """Nats gained over what is allowed, over the reward as given, and the loss a row that is saved by the latter."""

    allowed: float
    given: float
    loss: float


class Attack:
    """What recipients can make of rewards by one mechanism, settled twice: as agreed, and by a kinder exponent."""

    def __init__(self, lab: Laboratory, mechanism: Mechanism, shares: Sequence[float], *, equal: bool = False) -> None:
        """Rewards are worth, in expectation, these shares of the way from alone to everything."""
        self.lab = lab
        amounts = [self._amount(mechanism, party, share) for party, share in enumerate(shares)]
        if equal:
            amounts = [amounts[0]] * len(amounts)
        kinder = [KINDER * amount for amount in amounts]
        times = [*amounts, *kinder]
        self.first = [mechanism(lab, party, amount, 0, times) for party, amount in enumerate(amounts)]
        self.second = [mechanism(lab, party, amount, 1, times) for party, amount in enumerate(kinder)]

    def _amount(self, mechanism: Mechanism, party: int, share: float) -> float:
        lab = self.lab

        def value(amount: float) -> float:
            with lab.scratch():
                return lab.value(mechanism(lab, party, amount, 0, []).belief())

        whole = lab.value(lab.best(lab.releases))
        alone = lab.value(lab.best([lab.releases[party]]))
        target = alone + share * (whole - alone)
        return float(np.exp(brentq(lambda logarithm: value(float(np.exp(logarithm))) - target, -14.0, 14.0)))

    def gain(self, colluders: Sequence[int], *, twice: bool = False, rows: bool = False) -> Gain:
        """What colluders gain who each have their release and a reward, or two; the least noisy one maybe its rows."""
        lab = self.lab
        rewards = [self.first[one] for one in colluders] + ([self.second[one] for one in colluders] if twice else [])
        held = [lab.releases[one] for one in colluders] + [part for one in rewards for part in one.held]
        least = min(rewards, key=lambda one: one.amount)
        at_home: dict[int, Part] = {}
        if rows:
            own = least.recipient
            held.append(lab.exact[own])
            at_home = {own: (lab.rows[own] @ lab.exact[own], lab.rows[own])}
        best, given = lab.best(held), least.belief(at_home)
        allowed = least.belief({one: lab.evidence(one) for one in colluders} | at_home)
        score = lab.score(best)
        return Gain(score - lab.score(allowed), score - lab.score(given), lab.loss(given) - lab.loss(best))


MECHANISMS: dict[str, Mechanism] = {"tempering": tempering, "noise": noise, "degraded": degraded}
CASES = (  # how many collude, whether two settlements are compared, and whether own rows are put in
    ("one recipient", 1, False, False),
    ("one recipient, with own rows", 1, False, True),
    ("two settlements", 1, True, False),
    ("two settlements, with own rows", 1, True, True),
    ("every pair", 2, False, False),
    ("every pair, with own rows", 2, False, True),
    ("every pair, two settlements", 2, True, False),
    ("all but one", -1, False, False),
    ("all but one, two settlements", -1, True, False),
    ("all", 0, True, True),
)


def attack(mechanism: Mechanism, *, seed: int = 0, dimensions: int = 3, parties: int = 5) -> dict[str, Gain]:
    """The most that anybody gains in each case, with amounts that differ and with equal ones."""
    found: dict[str, Gain] = {}
    for equal in (False, True):
        lab = Laboratory(seed, dimensions, parties)
        attempt = Attack(lab, mechanism, np.linspace(0.3, 0.75, parties).tolist(), equal=equal)
        for name, number, twice, rows in CASES:
            for colluders in combinations(range(parties), number if number > 0 else parties + number):
                gain = attempt.gain(colluders, twice=twice, rows=rows)
                before = found.get(name, gain)
                found[name] = Gain(*map(max, zip(gain, before, strict=True)))
    return found
