"""Expected values of coalitions over simulated rounds, for several ε of one party.

There are two levels. Most rounds are valued by Laplace's approximation of every posterior, which takes milliseconds but
is biased if a coalition knows little. A few more rounds are both approximated and sampled, at some ε, for coalitions
that know least: those of one party (and of both, if there are two). The mean difference corrects the bias. Results are
linear in the coalitions' values, so the sum of both means is unbiased for the corrected coalitions, and the errors of
both add. Larger coalitions are less biased, and a bias that coalitions of one size share cancels in a Shapley value.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.mediation.advice.imagined import Coalition, Engine, ImaginedRound, Normal

EVERY_ORDER_UP_TO = 4  # parties; beyond, each round has one random order of arrival and its reverse
SAMPLED_SIZE = 1  # parties of the largest coalition that is sampled, where there are more than two


@dataclass(frozen=True)
class Plan:
    """Coalitions of one round, and the weights of their values in each quantity [quantities, coalitions].

    Quantities are the value of all together, every party's value alone, every party's Shapley value.
    """

    coalitions: tuple[frozenset[int], ...]
    counts: Floats


@dataclass(frozen=True)
class Choices:
    """One party's choices: its index, and the noise τ that each adds to its release at the weakest privacy."""

    party: int
    tau: Floats


def plan(parties: int, rng: np.random.Generator) -> Plan:
    """Choose orders of arrival; return the coalitions they pass through, with the weights of these."""
    if parties <= EVERY_ORDER_UP_TO:
        orders = [tuple(order) for order in itertools.permutations(range(parties))]
    else:
        order = tuple(int(party) for party in rng.permutation(parties))
        orders = [order, order[::-1]]
    everybody = frozenset(range(parties))
    places: dict[frozenset[int], int] = {everybody: 0}
    for party in range(parties):
        places.setdefault(frozenset([party]), len(places))
    for order in orders:
        for size in range(1, parties):
            places.setdefault(frozenset(order[:size]), len(places))
    counts = np.zeros((1 + 2 * parties, len(places)))
    counts[0, 0] = 1
    for party in range(parties):
        counts[1 + party, places[frozenset([party])]] = 1
    for order in orders:
        for size, party in enumerate(order):
            counts[1 + parties + party, places[frozenset(order[: size + 1])]] += 1 / len(orders)
            if size:
                counts[1 + parties + party, places[frozenset(order[:size])]] -= 1 / len(orders)
    return Plan(tuple(places), counts)


@dataclass(frozen=True)
class Task:
    """One round to be valued, with its engine, its plan and the choices to compare."""

    engine: Engine
    one: ImaginedRound
    plan: Plan
    choices: Choices


class Known(NamedTuple):
    """Approximate posteriors at one choice: of the party's own release, of everybody's, and of the others' alone."""

    alone: Normal
    everybody: Normal
    others: Normal | None  # of a party that is by itself there are none


def by_approximation(task: Task) -> tuple[Floats, list[Known]]:
    """Value a round by approximate posteriors: quantities [choices, quantities], and the posteriors by choice."""
    indices = range(len(task.choices.tau))
    others = task.plan.coalitions[0] - {task.choices.party}
    coalitions = [*task.plan.coalitions, others] if others else task.plan.coalitions
    asked = _asked(task.choices, indices, coalitions)
    found = dict(zip(asked, task.engine.approximate(task.one, _coalitions(task, asked)), strict=True))
    values = {name: worth(pull_of(normal)) for name, normal in found.items()}
    everybody, alone = task.plan.coalitions[0], frozenset([task.choices.party])
    known = [
        Known(
            found[_name(alone, task.choices, index)],
            found[_name(everybody, task.choices, index)],
            found.get((others, None)),
        )
        for index in indices
    ]
    return np.array([_quantities(task, values, index) for index in indices]), known


def correction(task: Task, anchors: Sequence[int], seed: int) -> Floats:
    """Return sampled minus approximated quantities of a round [anchors, quantities]."""
    parties = len(task.one.noise)
    largest = 2 if parties == 2 else SAMPLED_SIZE
    asked = _asked(task.choices, anchors, [members for members in task.plan.coalitions if len(members) <= largest])
    coalitions = _coalitions(task, asked)
    rough = task.engine.approximate(task.one, coalitions)
    sampled = task.engine.sample(task.one, coalitions, seed)
    differences = {
        name: value - worth(pull_of(normal)) for name, value, normal in zip(asked, sampled, rough, strict=True)
    }
    return np.array([_quantities(task, differences, index) for index in anchors])


_Name = tuple[frozenset[int], int | None]  # a coalition, and the choice of the party if it is in


def _name(members: frozenset[int], choices: Choices, index: int) -> _Name:
    return members, index if choices.party in members else None


def _asked(choices: Choices, indices: Sequence[int], coalitions: Sequence[frozenset[int]]) -> tuple[_Name, ...]:
    return tuple(dict.fromkeys(_name(members, choices, index) for members in coalitions for index in indices))


def _quantities(task: Task, values: dict[_Name, float], index: int) -> Floats:
    """Compute all quantities at one choice; coalitions without a value count as 0."""
    each = np.array([values.get(_name(members, task.choices, index), 0.0) for members in task.plan.coalitions])
    return np.asarray(task.plan.counts @ each)


def _coalitions(task: Task, asked: Sequence[_Name]) -> list[Coalition]:
    parties, found = len(task.one.noise), []
    for members, index in asked:
        member, tau = np.zeros(parties), np.zeros(parties)
        member[list(members)] = 1
        if index is not None:
            tau[task.choices.party] = task.choices.tau[index]
        found.append(Coalition(member, tau))
    return found


class Pull(NamedTuple):
    """A normal likelihood by its natural parameters: information times its centre, and information."""

    towards: Floats
    information: Floats

    def posterior(self) -> tuple[Floats, Floats]:
        """Return mean and covariance of the posterior with the prior N(0, I)."""
        covariance = np.asarray(np.linalg.inv(np.eye(len(self.towards)) + self.information), float)
        return covariance @ self.towards, covariance

    def and_(self, other: "Pull") -> "Pull":
        """Multiply two likelihoods."""
        return Pull(self.towards + other.towards, self.information + other.information)

    def tempered(self, kappa: float) -> "Pull":
        """Raise the likelihood to the power κ."""
        return Pull(kappa * self.towards, kappa * self.information)

    def degraded(self, kappa: float, noise: Floats) -> "Pull":
        """Add noise, in the direction of a standard normal draw, until a share κ of the information is left."""
        values, vectors = np.linalg.eigh(self.information)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        moved = np.sqrt(kappa * (1 - kappa)) * (root @ noise)
        return Pull(kappa * self.towards + moved, kappa * self.information)


def pull_of(normal: Normal) -> Pull:
    """Return the likelihood of an approximate posterior."""
    return Pull(normal.mean + normal.information @ normal.mean, normal.information)


def worth(pull: Pull) -> float:
    """Return the KL divergence of the posterior from the prior N(0, I), in nats."""
    mean, covariance = pull.posterior()
    return float(0.5 * (np.trace(covariance) + mean @ mean - len(mean) - np.linalg.slogdet(covariance)[1]))
