r"""Posteriors of models without features, from the moments of one row.

By the central limit theorem party j's perturbed statistic is N(n_j μ, n_j V + s_j² D): μ(θ) and V(θ) are the mean and
covariance of one clipped row, D the agreed shape of the noise and s_j² its scale.

The mode is sought with V held fixed, in turns, since it only decides where points are drawn; weights use the density
itself.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.inference.approximation import Expansion, Parts
from equipoise.inference.mode import Mode, Observation, Problem, find_mode
from equipoise.inference.models.base import Family
from equipoise.inference.normals import Normals
from equipoise.inference.pooling import Pooled, Releases, invert, pool
from equipoise.inference.sampling import Sample, sample_prior, sample_problem

ITERATIONS = 4  # updates of the covariance of a row, which is taken at the mode
FIRST_ROWS = 10.0  # the search begins with a likelihood worth this many rows
COOLING = 5.0  # factor from one power of the likelihood to the next
NUMBERS_AT_ONCE = 4_000_000  # most numbers in a table of points, parties and entries
POINTS = 256  # prior draws, the best of which starts the search
MOST_WEIGHTED = 100  # most coordinates for which importance weights are tried
STEP = 1e-5  # step of the differences that give slopes


@dataclass(frozen=True)
class FamilySampler:
    """A sampler of posteriors of a model without features."""

    family: Family[Any]

    @property
    def order(self) -> slice:
        """The identity: entries stay where they are."""
        return slice(None)

    @property
    def most_weighted(self) -> int:
        """The number of coordinates beyond which importance weights are not tried."""
        return MOST_WEIGHTED

    def sample(
        self, releases: Releases, rng: np.random.Generator, draws: int, *, power: float = 1.0, sampling: float = 1.0
    ) -> Sample:
        """Sample the posterior given releases; `power` and `sampling` temper it by the two rules."""
        if power == 0:
            return sample_prior(len(self.family.agreed.coordinate_names()), rng, draws)
        problem, mode = build_problem(self.family, releases, power=power, sampling=sampling)
        return sample_problem(problem, mode, rng, draws, most_weighted=self.most_weighted)

    def build_problem(self, releases: Releases, *, start: Floats | None = None) -> tuple[Problem, Mode]:
        """Return the density of the posterior around its mode, and about the mode, perhaps from a start near it."""
        return build_problem(self.family, releases, start=start)

    def expand(self, releases: Releases) -> Expansion:
        """Prepare approximations of all coalitions' posteriors, with the grand coalition's row covariance."""
        _, mode = build_problem(self.family, releases)
        parts = Parts.of(releases, _row_covariance(self.family, mode.centre))

        def problem_of(inside: NDArray[np.bool_]) -> Problem:
            return _problem([_pooled_observation(self.family, parts.pooled(inside))])

        return Expansion(mode.centre, problem_of)


@dataclass(frozen=True)
class Statistics:
    """The statistics of a coalition, as an observation whose density is exact up to the central limit theorem."""

    family: Family[Any]
    releases: Releases
    power: float
    sampling: float

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def log_density(self, coordinates: Floats) -> Floats:
        """Return the log density of all statistics at coordinates [points, d], up to a constant, or −∞."""
        parties, entries = self.releases.statistic.shape
        number = max(1, NUMBERS_AT_ONCE // (parties * entries + entries**2))
        parts = [self._log_density(coordinates[at : at + number]) for at in range(0, len(coordinates), number)]
        densities = self.power * np.concatenate(parts)
        return np.where(np.isnan(densities), -np.inf, densities)

    def _log_density(self, coordinates: Floats) -> Floats:
        draws = self.family.agreed.at_coordinates(coordinates)
        return self.family.log_density(draws, self.releases, self.sampling)


def build_problem(
    family: Family[Any],
    releases: Releases,
    *,
    power: float = 1.0,
    sampling: float = 1.0,
    start: Floats | None = None,
) -> tuple[Problem, Mode]:
    """Find about the mode for a coalition's releases, from a start near it if there is one.

    Otherwise the search begins at the best of some points of the prior, with next to no weight on the releases. Far
    from the mode, the density of a sparse prior may be too flat to point towards it.
    """
    powers: list[float] = []
    if start is None:
        first = min(1.0, FIRST_ROWS / float(releases.rows.sum()))
        powers = np.geomspace(first, 1.0, math.ceil(math.log(1 / first, COOLING)) + 1).tolist()
        points = np.random.default_rng(0).normal(size=(POINTS, len(family.agreed.coordinate_names())))
        points[0] = 0.0
        begun = _problem([Statistics(family, releases, first * power, sampling)])
        start = points[np.argmax(begun.log_posterior(points))]
    centre = start
    for part in [*powers, *[1.0] * (ITERATIONS - 1)]:
        pooled = pool(releases, _row_covariance(family, centre), sampling=sampling)
        mode = find_mode(_problem([_pooled_observation(family, pooled, part * power)]), centre)
        centre = mode.centre
    return _problem([Statistics(family, releases, power, sampling)]), mode


def _row_covariance(family: Family[Any], centre: Floats) -> Floats:
    return np.asarray(family.row_moments(family.agreed.at_coordinates(centre[None])).covariance[0])


def _pooled_observation(family: Family[Any], pooled: Pooled, power: float = 1.0) -> Observation:
    """Treat the pooled releases as an observation of a row's mean, its covariance held fixed."""
    covariance = invert(pooled.precision)
    return Observation(covariance @ pooled.natural, partial(_normals, family, covariance / power))


def _problem(observations: list[Any]) -> Problem:
    problem = Problem(observations, _same, _same, lambda points, single=False: _slopes(problem, points))  # noqa: ARG005
    return problem


def _same(points: Floats) -> Floats:
    return points


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _normals(family: Family[Any], covariance: Floats, coordinates: Floats) -> Normals:
    mean = family.row_moments(family.agreed.at_coordinates(coordinates)).mean
    return Normals(mean, np.broadcast_to(covariance, (len(mean), *covariance.shape)))


def _slopes(problem: Problem, points: Floats) -> Floats:
    """Differentiate the log density of the posterior at points [n, d], by central differences."""
    number, dimension = points.shape
    steps = STEP * np.eye(dimension)
    moved = np.concatenate([points[:, None] + steps, points[:, None] - steps], axis=1)
    values = problem.log_posterior(moved.reshape(-1, dimension)).reshape(number, 2, dimension)
    return np.asarray((values[:, 0] - values[:, 1]) / (2 * STEP))
