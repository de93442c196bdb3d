"""The density of a regression's parameters given the releases of a coalition, and the search for its mode."""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.errors import InferenceError
from equipoise.inference.mode import GAIN, Mode, Observation, Problem, find_mode, is_near
from equipoise.inference.normals import Normals
from equipoise.inference.pooling import Pooled, Releases, pool
from equipoise.inference.regression.likelihood import Likelihood, LinearLikelihood
from equipoise.inference.regression.logistic import LogisticLikelihood
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.moved_targets import (
    allow_for_moved_targets,
    assume_moved_targets,
    change_by_moving,
    change_of_normal_rows,
)
from equipoise.inference.regression.observation import TargetObservation, observe_targets
from equipoise.inference.regression.population import MORE_ROWS, MOST_MOMENTS, ROWS, Population, simulate, weigh
from equipoise.inference.regression.row_covariance import nearest_covariance, row_covariance
from equipoise.inference.regression.statistic import MomentMap
from equipoise.inference.regression.straight import StraightBias

ITERATIONS = 3  # updates of the covariance of a row, which is taken at the mode
FIRST_ROWS = 10.0  # the search begins with a likelihood worth this many rows
COOLING = 5.0  # factor from one power of the likelihood to the next
ON_THE_WAY = 0.1  # gain that ends the search for the mode at intermediate powers
FAR = 12.0  # standard deviations of the noise beyond which a sum is impossible
LARGEST_ERROR = 0.1  # largest share of an observation's covariance due to the error of synthetic rows
WORST_FIT = 10.0  # largest mean squared residual of a good mode, relative to the variance


class Settled(NamedTuple):
    """Groups of releases whose features have one distribution, each group's row covariance, and their mode.

    `changes` are the changes of each group's moments by moving targets to their ends, if targets were normal; None if
    none was moved.
    """

    groups: Sequence[Releases]
    covariances: list[Floats]
    changes: list[Floats | None]
    centre: Floats


def build_problem(
    model: RegressionModel,
    releases: Releases,
    *,
    power: float = 1.0,
    sampling: float = 1.0,
    start: Floats | None = None,
) -> tuple[Problem, Mode]:
    """Find the mode for a coalition's releases, with the covariance of a row taken at the mode.

    If every party's features have a distribution of their own, the density is the product of those of all parties'
    releases, each with its own feature moments integrated out and its own covariance of a row. Parties share only the
    parameters.

    Tempering to a `power` comes last, so that it does not change the likelihood. From a `start` near the mode, such as
    that of nearly the same releases, a single round of both suffices for an approximation.
    """
    return final_problem(
        model, settle_row_covariances(model, releases, sampling=sampling, start=start), power, sampling
    )


def build_observation(model: RegressionModel, releases: Releases) -> tuple[Likelihood, Mode]:
    """Return the likelihood of releases whose features have one distribution, and the posterior's mode."""
    settled = settle_row_covariances(model, releases)
    (pooled,) = _pool_groups(settled.groups, settled.covariances, 1.0)
    likelihood = _final_likelihood(model, pooled, 1.0, settled.centre, settled.changes[0], 1)
    return likelihood, _find_mode(_problem(model, [likelihood]), settled.centre)


def find_start(
    model: RegressionModel, releases: Releases, *, sampling: float = 1.0
) -> tuple[Mode, list[tuple[Floats, Floats]]]:
    """Return the mode, and mean and covariance of each group's features, as starts for other samplers."""
    settled = settle_row_covariances(model, releases, sampling=sampling)
    _, mode = final_problem(model, settled, 1.0, sampling)
    features = []
    for pooled in _pool_groups(settled.groups, settled.covariances, sampling):
        estimated = observe_targets(model.moments, pooled, model.feature_prior).features
        second = model.moments.second_moments(estimated)
        mean = second[:-1, -1]
        features.append((mean, nearest_covariance(second[:-1, :-1], mean)))
    return mode, features


def final_problem(model: RegressionModel, settled: Settled, power: float, sampling: float) -> tuple[Problem, Mode]:
    """Use the settled covariances of a row, and find the mode of the tempered posterior."""
    pooled = _pool_groups(settled.groups, settled.covariances, sampling)
    likelihoods = [
        _final_likelihood(model, observation, power, settled.centre, change, len(pooled))
        for observation, change in zip(pooled, settled.changes, strict=True)
    ]
    problem = _problem(model, likelihoods)
    mode = _find_mode(problem, settled.centre)
    around = [likelihood.around for likelihood in likelihoods if isinstance(likelihood, LogisticLikelihood)]
    if around and model.has_volume:
        problem = problem._replace(chart=StraightBias(model, np.mean(around, axis=0), mode.centre))
    return problem, mode


def settle_row_covariances(
    model: RegressionModel, releases: Releases, *, sampling: float = 1.0, start: Floats | None = None
) -> Settled:
    """Find the mode and the covariances of a row in turns.

    The search follows the mode from where next to nothing is known: the likelihood is tempered less and less. The mode
    is that of targets with normal tails, so that the effect of moving them is not underestimated.
    """
    _check_possible(releases)
    groups = releases.apart() if model.per_party else [releases]
    covariances = [first_row_covariance(model.moments, group) for group in groups]
    changes: list[Floats | None] = [None] * len(groups)
    centre = np.zeros(model.dimension) if start is None else start
    first = min(1.0, FIRST_ROWS / float(releases.rows.sum())) if start is None else 1.0
    powers = np.geomspace(first, 1.0, math.ceil(math.log(1 / first, COOLING)) + 1)
    for iteration in range(ITERATIONS if start is None else 1):
        pooled = _pool_groups(groups, covariances, sampling)
        for part in powers if iteration == 0 else powers[-1:]:
            observed = [observe_targets(model.moments, sums, model.feature_prior, power=float(part)) for sums in pooled]
            assumed = [
                observation if change is None else assume_moved_targets(observation, change)
                for observation, change in zip(observed, changes, strict=True)
            ]
            likelihoods = [_likelihood(model, observation, centre) for observation in assumed]
            gain = GAIN if part == 1 else ON_THE_WAY
            centre = _find_mode(_problem(model, likelihoods), centre, gain).centre
        results = [_row_covariance_and_change(model, likelihood, centre) for likelihood in likelihoods]
        covariances, changes = [covariance for covariance, _ in results], [change for _, change in results]
    return Settled(groups, covariances, changes, centre)


def _pool_groups(groups: Sequence[Releases], covariances: Sequence[Floats], sampling: float) -> list[Pooled]:
    """Pool each group of releases into one observation."""
    return [pool(group, covariance, sampling=sampling) for group, covariance in zip(groups, covariances, strict=True)]


def first_row_covariance(moments: MomentMap, releases: Releases) -> Floats:
    """Return the covariance of a row before any mode is known: that of the mean sums, as if without noise."""
    means = np.clip(releases.statistic.sum(axis=0) / releases.rows.sum(), -1.0, 1.0)  # means of values within [−1, 1]
    split = moments.features
    square = max(0.0, float(means[-1])) if moments.has_square else 1.0
    features = moments.second_moments(means[:split])
    return row_covariance(moments, features, means[split : split + len(features)], square)


def _find_mode(problem: Problem, start: Floats, gain: float = GAIN) -> Mode:
    """Find a mode from a start, and from the prior's mode if the first one does not explain the observations.

    A search can stick where weights make labels so certain that they hardly move.
    """
    mode = find_mode(problem, start, gain=gain)
    if all(observation.misfit(mode.centre) <= WORST_FIT for observation in problem.observations):
        return mode
    again = find_mode(problem, np.zeros_like(start), gain=gain)
    first, second = problem.log_posterior(np.stack([mode.centre, again.centre]))
    return again if second > first else mode


def approximate_problem(
    model: RegressionModel, pooled: Sequence[Pooled], changes: Sequence[Floats | None], centre: Floats
) -> Problem:
    """Return the problem of pooled releases, with E[y u] of logistic regression in closed form, without rows."""
    near = model.parameters(centre[None]).weights[0]

    def likelihood_of(release: Pooled, change: Floats | None) -> Likelihood:
        observation = _observe(model, release, 1.0, change, len(pooled))
        if model.moments.has_square:
            return LinearLikelihood(model.moments, observation)
        return LogisticLikelihood(model.moments, observation, None, model.shape_spread, near)

    return _problem(model, [likelihood_of(*both) for both in zip(pooled, changes, strict=True)])


def _check_possible(releases: Releases) -> None:
    """Refuse sums that rows within [−1, 1] do not have, whatever the noise."""
    if not np.all(np.isfinite(releases.statistic)):
        raise InferenceError("a release has sums that are not finite numbers; ask its party for another submission")
    deviations = np.sqrt(releases.scale[:, None] * releases.shape)
    beyond = np.abs(releases.statistic) - releases.rows[:, None] - FAR * deviations
    if np.any(beyond > 0):
        row, column = np.unravel_index(int(np.argmax(beyond)), beyond.shape)
        raise InferenceError(
            f"a release of {releases.rows[row]:,.0f} rows has a sum of {releases.statistic[row, column]:.4g}, which no "
            "rows within the agreed bounds have; ask its party for another submission"
        )


def _final_likelihood(
    model: RegressionModel, pooled: Pooled, power: float, centre: Floats, change: Floats | None, observations: int
) -> Likelihood:
    """Build the likelihood to sample from, with more synthetic rows if the error of the usual number would matter."""
    observation = _observe(model, pooled, power, change, observations)
    likelihood = _likelihood(model, observation, centre)
    if isinstance(likelihood, LogisticLikelihood) and likelihood.error_share() > LARGEST_ERROR:
        return _likelihood(model, observation, centre, rows=MORE_ROWS)
    return likelihood


def _observe(
    model: RegressionModel, pooled: Pooled, power: float, change: Floats | None, observations: int
) -> TargetObservation:
    """Integrate the feature moments out, and allow for moved targets; `observations` share one λ."""
    observation = observe_targets(model.moments, pooled, model.feature_prior, power=power)
    return observation if change is None else allow_for_moved_targets(observation, change, observations)


def _likelihood(
    model: RegressionModel, observation: TargetObservation, centre: Floats, *, rows: int = ROWS
) -> Likelihood:
    if model.moments.has_square:
        return LinearLikelihood(model.moments, observation)
    near = model.parameters(centre[None]).weights[0]
    population = _population(model, observation, rows)
    return LogisticLikelihood(model.moments, observation, population, model.shape_spread, near)


def _population(model: RegressionModel, observation: TargetObservation, number: int = ROWS) -> Population | None:
    """Simulate rows with the estimated feature moments, unless there are too many moments."""
    moments = model.moments
    if moments.features > MOST_MOMENTS:
        return None
    rows = simulate(moments, model.blocks, moments.second_moments(observation.features), number)
    return weigh(moments, rows, observation.features, observation.feature_covariance)


def _row_covariance_and_change(
    model: RegressionModel, likelihood: Likelihood, centre: Floats
) -> tuple[Floats, Floats | None]:
    """Return a row's covariance for parameters at a mode, and the change by moving normal targets there."""
    parameters = model.parameters(centre[None])
    weights, variance = parameters.weights[0], float(parameters.variance[0])
    moves = any(model.moved_ends)
    if isinstance(likelihood, LogisticLikelihood):
        population = likelihood.population
    else:
        population = _population(model, likelihood.observation)
    if population is not None:
        change = change_by_moving(population, weights, variance, model.moved_ends) if moves else None
        return population.row_covariance(weights, variance if model.moments.has_square else None), change
    products, squares = likelihood.target_moments(parameters)
    second_moments = likelihood.second_moments
    change = change_of_normal_rows(second_moments, weights, variance, model.moved_ends) if moves else None
    return row_covariance(model.moments, second_moments, products[0], float(squares[0])), change


def _problem(model: RegressionModel, likelihoods: Sequence[Likelihood]) -> Problem:
    return Problem(
        [
            Observation(likelihood.observation.observed, partial(_normals, model, likelihood))
            for likelihood in likelihoods
        ],
        model.flatten,
        model.unflatten,
        partial(_slopes, model, likelihoods),
        model.log_volume if model.has_volume else None,
    )


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _normals(model: RegressionModel, likelihood: Likelihood, coordinates: Floats) -> Normals:
    """Return the distribution of an observation; at points so far off that it overflows, the density becomes −∞."""
    return likelihood.moments_at(model.parameters(coordinates))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _slopes(
    model: RegressionModel, likelihoods: Sequence[Likelihood], coordinates: Floats, *, single: bool = False
) -> Floats:
    """Return slopes of the log posterior at coordinates [points, d]; at far ones, those at the prior's mode."""
    coordinates = np.where(is_near(coordinates)[:, None], coordinates, 0.0)
    parameters = model.parameters(coordinates)
    by_weights, by_variance = np.zeros_like(parameters.weights), np.zeros(len(coordinates))
    for likelihood in likelihoods:
        slopes = likelihood.slopes(parameters, single=single)
        by_weights += slopes[0]
        by_variance += slopes[1]
    return np.asarray(model.pull_back(coordinates, by_weights, by_variance) - coordinates)
