"""The sampler of a regression's parameters from their posterior given the releases of a coalition."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.cores import one_core_each
from equipoise._util.recent import Recent
from equipoise.errors import InferenceError
from equipoise.inference.approximation import Expansion, Parts
from equipoise.inference.importance import Adapted
from equipoise.inference.mode import Mode, Problem
from equipoise.inference.pooling import Releases, pool
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.problem import (
    Settled,
    approximate_problem,
    build_problem,
    final_problem,
    settle_row_covariances,
)
from equipoise.inference.sampling import Sample, sample_prior, sample_problem

REMEMBERED = 64  # coalitions to remember
# Coordinates: importance weights of wider models are hopelessly uneven, and trying costs more where targets are labels.
MOST_WEIGHTED, MOST_WEIGHTED_LABELS = 24, 14


@dataclass(frozen=True)
class RegressionSampler:
    """A sampler of a regression's posteriors."""

    model: RegressionModel

    @property
    def order(self) -> NDArray[np.intp]:
        """The index of each entry in the statistic: feature moments come first."""
        return self.model.moments.order

    @property
    def most_weighted(self) -> int:
        """The number of coordinates beyond which importance weights are too uneven to try."""
        return MOST_WEIGHTED if self.model.moments.has_square else MOST_WEIGHTED_LABELS

    def sample(
        self, releases: Releases, rng: np.random.Generator, draws: int, *, power: float = 1.0, sampling: float = 1.0
    ) -> Sample:
        """Sample the posterior given releases; `power` and `sampling` temper it by the two rules."""
        return sample_posterior(self.model, releases, rng, draws, power=power, sampling=sampling)

    def build_problem(self, releases: Releases, *, start: Floats | None = None) -> tuple[Problem, Mode]:
        """Return the density of the posterior around its mode, and the mode, perhaps searched from a start near it."""
        return build_problem(self.model, releases, start=start)

    @one_core_each()
    def expand(self, releases: Releases) -> Expansion:
        """Prepare approximations of all coalitions' posteriors, with row covariances at the grand coalition's mode.

        If every party has a covariance of its own, each release stays an observation.
        """
        settled = settle_row_covariances(self.model, releases)
        pairs = list(zip(settled.groups, settled.covariances, strict=True))
        each = [pool(*pair) for pair in pairs] if self.model.per_party else []
        parts = Parts.of(*pairs[0])

        def problem_of(inside: NDArray[np.bool_]) -> Problem:
            chosen = np.flatnonzero(inside) if each else range(1)
            pooled = [each[party] for party in chosen] if each else [parts.pooled(inside)]
            changes = [settled.changes[index] for index in chosen]
            return approximate_problem(self.model, pooled, changes, settled.centre)

        return Expansion(settled.centre, problem_of)


def sample_posterior(
    model: RegressionModel,
    releases: Releases,
    rng: np.random.Generator,
    draws: int,
    *,
    power: float = 1.0,
    sampling: float = 1.0,
) -> Sample:
    """Sample the posterior given releases; `power` and `sampling` temper it by the two rules (docs/inference.md)."""
    if power == 0:
        return sample_prior(model.dimension, rng, draws)
    try:
        return _sample_remembering(model, releases, rng, draws, power, sampling)
    except np.linalg.LinAlgError as error:
        raise InferenceError(
            f"the released sums of {releases.rows.sum():,.0f} rows leave weights on a ridge that double precision "
            "cannot resolve, as columns do that hardly vary or repeat each other where there is next to no noise; "
            "leave a column out or merge levels"
        ) from error


def _sample_remembering(
    model: RegressionModel, releases: Releases, rng: np.random.Generator, draws: int, power: float, sampling: float
) -> Sample:
    """Sample a coalition, reusing what needs no draws: callers often ask again for more draws or tempered ones."""
    name = (model.name, *(part.tobytes() for part in releases), sampling)
    settled = _settled.find(name, lambda: settle_row_covariances(model, releases, sampling=sampling))
    problem, mode = _problems.find((*name, power), lambda: final_problem(model, settled, power, sampling))
    most, remembered = RegressionSampler(model).most_weighted, partial(_adapted.find, (*name, power))
    return sample_problem(problem, mode, rng, draws, most_weighted=most, adapted=remembered)


_settled = Recent[Settled](REMEMBERED)
_problems = Recent[tuple[Problem, Mode]](REMEMBERED)
_adapted = Recent[Adapted](REMEMBERED)
