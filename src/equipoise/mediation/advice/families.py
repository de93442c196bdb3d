"""Imagined rounds of models without features: statistics drawn as inference believes them to be, posteriors by JAX.

A statistic of n rows is normal with n times the mean and covariance of one row, so that expectations are those of the
very model that will value the real releases. Their coordinates are the positions of its sampler.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from equipoise._util.arrays import Floats
from equipoise.inference import collapsed, engine
from equipoise.inference.engine import Problem, Settings
from equipoise.inference.observations import Observations, Scenarios
from equipoise.inference.problem import model_of
from equipoise.inference.processes import processes_for, spread
from equipoise.inference.runtime import ONE_AT_A_TIME, double_precision, use_compilation_cache
from equipoise.mediation.advice.imagined import Coalition, Engine, ImaginedRound, Normal, Truth
from equipoise.models.base import Family, Rows
from equipoise.valuation.divergence import divergence

TRIES = 100  # for truths that rows within the bounds can have
SAMPLED_DRAWS = 1_600  # starting chains takes most of the time
AT_ONCE = 16  # scenarios to approximate; one compiled program for any number


@dataclass(frozen=True)
class FamilyTruth(Truth):
    """Parameters of a family, with mean and covariance of the statistic of one row."""

    model: Family
    mean: Floats
    covariance: Floats

    def draw_rows(self, number: int, rng: np.random.Generator) -> Rows:
        return self.model.imagine(self.draws, number, rng)

    def add_up(self, number: int, rng: np.random.Generator) -> Floats:
        return rng.multivariate_normal(number * self.mean, number * self.covariance, method="eigh")


@dataclass(frozen=True)
class FamilyEngine(Engine):
    """Imagines rounds of a model without features, whose posteriors are those of the collapsed sampler."""

    @double_precision
    def draw_truths(self, number: int, rng: np.random.Generator) -> Sequence[Truth]:
        """Draw truths anew whose means are beyond the bounds, where no row can be.

        A prior of means has tails there; with thousands of rows, approximations are wrong by hundreds of nats.
        """
        model, prior = model_of(self.agreement)
        family = self.model
        assert isinstance(family, Family)
        positions = rng.normal(size=(number, model.dimension))
        for attempt in range(TRIES):
            draws = family.at_coordinates(positions)
            means, covariances = collapsed.row_moments(model, prior, draws, positions, 0)
            impossible = np.abs(means).max(axis=1) > 1  # in scaled units
            if not impossible.any() or attempt == TRIES - 1:
                break
            positions[impossible] = rng.normal(size=(int(impossible.sum()), model.dimension))
        return [
            FamilyTruth({name: values[[k]] for name, values in draws.items()}, family, means[k], covariances[k])
            for k in range(number)
        ]

    @double_precision
    def approximate(self, one: ImaginedRound, asked: Sequence[Coalition]) -> list[Normal]:
        """Approximate by Laplace's method."""
        use_compilation_cache()
        model, prior = model_of(self.agreement)
        everything, found = _scenarios(asked), []
        for start in range(0, len(asked), AT_ONCE):
            places = np.resize(np.arange(start, min(start + AT_ONCE, len(asked))), AT_ONCE)
            with ONE_AT_A_TIME:
                part = collapsed.approximations(
                    model, prior, _observations(one), jax.tree.map(itemgetter(places), everything)
                )
                centre, inverse_root = np.asarray(part.centre), np.asarray(part.inverse_root)
            precision = np.swapaxes(inverse_root, 1, 2) @ inverse_root
            found += [Normal(centre[k], precision[k] - np.eye(model.dimension)) for k in range(AT_ONCE)]
        return found[: len(asked)]

    @double_precision
    def sample(self, one: ImaginedRound, asked: Sequence[Coalition], seed: int) -> list[float]:
        use_compilation_cache()
        observations = _observations(one)
        # Each with the noise stated, so that the programs are those of settlements.
        noise = jnp.asarray(np.broadcast_to(one.noise, (len(asked), *one.noise.shape)))
        sampled = engine.run(
            jax.random.split(jax.random.key(seed), len(asked)),
            Problem(*model_of(self.agreement), observations),
            _scenarios(asked)._replace(noise=noise),
            Settings(draws=SAMPLED_DRAWS, max_thinning=1),  # a mean of many: none need be perfect
        )
        return [divergence(result.positions).value for result in sampled if result.positions is not None]

    def spread(self, function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Iterator[tuple[int, Any]]:
        """Spread over processes, because compiled programs of one process take turns."""
        yield from spread(function, tasks, processes_for(len(tasks)))


def _observations(one: ImaginedRound) -> Observations:
    return Observations(*(jnp.asarray(array) for array in (*one.sums, one.noise)))


def _scenarios(asked: Sequence[Coalition]) -> Scenarios:
    member, tau = (jnp.asarray(np.array(part)) for part in zip(*asked, strict=True))
    return Scenarios(member, jnp.ones(len(asked)), tau)
