"""Expected values of coalitions over imagined rounds, for several ε of one party.

Two levels. Most rounds are valued by Laplace's approximation of every posterior, which takes milliseconds but is biased
where little is known. A few others are both approximated and sampled, at some ε, for the coalitions that know least,
one party each (and both of two): the mean difference corrects the bias. What is asked for is linear in the coalitions'
values, so the sum of both means is unbiased for the corrected coalitions, and the errors of both add. Larger coalitions
are less biased, and what those of one size have in common cancels in a Shapley value.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from equipoise._util.arrays import Floats
from equipoise.inference import collapsed, engine
from equipoise.inference.engine import Problem, Settings
from equipoise.inference.observations import Scenarios
from equipoise.inference.runtime import ONE_AT_A_TIME, use_compilation_cache
from equipoise.mediation.advice.imagined import ImaginedRound
from equipoise.valuation.divergence import divergence
from equipoise.valuation.proxy import normal_surprise

EVERY_ORDER_UP_TO = 4  # parties; beyond, each round has one random order of arrival and its reverse
SAMPLED_SIZE = 1  # parties of the largest coalition that is sampled, where there are more than two
SAMPLED_DRAWS = 1_600  # starting chains takes most of the time
AT_ONCE = 16  # scenarios to approximate; one compiled program for any number
NUMBERS_AT_ONCE = 20_000_000  # of double precision, in one batch of matrices


@dataclass(frozen=True)
class Plan:
    """Coalitions of one round, and what their values count [quantities, coalitions].

    Quantities are the value of all together, every party's value alone, every party's Shapley value.
    """

    coalitions: tuple[frozenset[int], ...]
    counts: Floats


@dataclass(frozen=True)
class Normal:
    """N(mean, (I + information)⁻¹): an approximate posterior where the prior is N(0, I)."""

    mean: Floats
    information: Floats


@dataclass(frozen=True)
class Choices:
    """One party's choices: its place, the noise τ each adds to what it would release at the weakest."""

    party: int
    tau: Floats


def plan(parties: int, rng: np.random.Generator) -> Plan:
    """Orders of arrival, the coalitions they pass through, and what these count."""
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
    """One round to be valued: its model, everything of the round that a process needs, and for which choices."""

    model: Any
    prior: Any
    one: ImaginedRound
    plan: Plan
    choices: Choices


class Known(NamedTuple):
    """Approximate posteriors at one choice: of the party's own release, of everybody's, and of the others' alone."""

    alone: Normal
    everybody: Normal
    others: Normal | None  # of a party that is by itself there are none


def by_approximation(task: Task) -> tuple[Floats, list[Known]]:
    """Quantities [choices, quantities] of a round, and approximate posteriors by choice."""
    use_compilation_cache()
    indices = range(len(task.choices.tau))
    others = task.plan.coalitions[0] - {task.choices.party}
    coalitions = [*task.plan.coalitions, others] if others else task.plan.coalitions
    asked = _asked(task.choices, indices, coalitions)
    found = dict(zip(asked, _approximate(task, asked), strict=True))
    values = {name: _surprise(task, normal) for name, normal in found.items()}
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
    """What sampling adds to the approximated quantities of a round [anchors, quantities]."""
    use_compilation_cache()
    largest = 2 if task.model.slots == 2 else SAMPLED_SIZE
    small = [members for members in task.plan.coalitions if len(members) <= largest]
    asked = _asked(task.choices, anchors, small)
    rough = [_surprise(task, normal) for normal in _approximate(task, asked)]
    scenarios, unit_noise = _scenarios(task, asked), np.asarray(task.one.observations.unit_noise)
    sampled = engine.run(
        jax.random.split(jax.random.key(seed), len(asked)),
        Problem(task.model, task.prior, task.one.observations),
        # Each with the noise stated, so that the programs are those of settlements.
        scenarios._replace(noise=jnp.asarray(np.broadcast_to(unit_noise, (len(asked), *unit_noise.shape)))),
        Settings(draws=SAMPLED_DRAWS, max_thinning=1),  # a mean of many: none need be perfect
    )
    differences = {}
    for name, result, value in zip(asked, sampled, rough, strict=True):
        assert result.positions is not None
        own = collapsed.own_coordinates(task.model, task.prior, result.positions)
        differences[name] = divergence(own).value - value
    return np.array([_quantities(task, differences, index) for index in anchors])


_Name = tuple[frozenset[int], int | None]  # a coalition, and the choice of the party if it is in


def _name(members: frozenset[int], choices: Choices, index: int) -> _Name:
    return members, index if choices.party in members else None


def _asked(choices: Choices, indices: Sequence[int], coalitions: Sequence[frozenset[int]]) -> tuple[_Name, ...]:
    return tuple(dict.fromkeys(_name(members, choices, index) for members in coalitions for index in indices))


def _quantities(task: Task, values: dict[_Name, float], index: int) -> Floats:
    """What advice is about, at one choice; coalitions without a value count nothing."""
    worth = np.array([values.get(_name(members, task.choices, index), 0.0) for members in task.plan.coalitions])
    return np.asarray(task.plan.counts @ worth)


def _scenarios(task: Task, asked: Sequence[_Name]) -> Scenarios:
    member, tau = np.zeros((len(asked), task.model.slots)), np.zeros((len(asked), task.model.slots))
    for place, (members, index) in enumerate(asked):
        member[place, list(members)] = 1
        if index is not None:
            tau[place, task.choices.party] = task.choices.tau[index]
    return Scenarios(jnp.asarray(member), jnp.ones(len(asked)), jnp.asarray(tau))


def _approximate(task: Task, asked: Sequence[_Name]) -> list[Normal]:
    model = task.model
    everything = _scenarios(task, asked)
    size = min(AT_ONCE, max(1, NUMBERS_AT_ONCE // model.dimension**2))
    found: list[Normal] = []
    for start in range(0, len(asked), size):
        places = np.resize(np.arange(start, min(start + size, len(asked))), size)
        with ONE_AT_A_TIME:
            part = collapsed.approximations(
                model, task.prior, task.one.observations, jax.tree.map(itemgetter(places), everything)
            )
            centre, inverse_root = np.asarray(part.centre), np.asarray(part.inverse_root)
        precision = np.swapaxes(inverse_root, 1, 2) @ inverse_root
        found += [
            Normal(centre[place], precision[place] - np.eye(model.dimension))
            for place in range(min(size, len(asked) - start))
        ]
    return found


def _surprise(task: Task, normal: Normal) -> float:
    return worth(task, pull_of(normal))


class Pull(NamedTuple):
    """A normal likelihood by its natural parameters: information times its centre, and information."""

    towards: Floats
    information: Floats

    def posterior(self) -> tuple[Floats, Floats]:
        """Mean and covariance with the prior N(0, I)."""
        covariance = np.asarray(np.linalg.inv(np.eye(len(self.towards)) + self.information), float)
        return covariance @ self.towards, covariance

    def and_(self, other: "Pull") -> "Pull":
        """Both likelihoods together."""
        return Pull(self.towards + other.towards, self.information + other.information)

    def tempered(self, kappa: float) -> "Pull":
        """Raised to κ."""
        return Pull(kappa * self.towards, kappa * self.information)

    def degraded(self, kappa: float, noise: Floats) -> "Pull":
        """With so much noise, of a standard normal draw, that a share κ of the information is left."""
        values, vectors = np.linalg.eigh(self.information)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        moved = np.sqrt(kappa * (1 - kappa)) * (root @ noise)
        return Pull(kappa * self.towards + moved, kappa * self.information)


def pull_of(normal: Normal) -> Pull:
    """The likelihood of an approximate posterior."""
    return Pull(normal.mean + normal.information @ normal.mean, normal.information)


def worth(task: Task, pull: Pull) -> float:
    """KL divergence from the prior of the model's own parameters."""
    return float(normal_surprise(task.model, task.prior, *pull.posterior()))
