"""Posterior of a regression's parameters from the releases of a coalition."""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.recent import Recent
from equipoise.errors import InferenceError
from equipoise.estimate import Estimate
from equipoise.inference.diagnostics import SUPERCHAINS, Diagnostics
from equipoise.inference.regression.hamiltonian import CHAINS, sample_chains
from equipoise.inference.regression.importance import Adapted, adapt, draw_adapted
from equipoise.inference.regression.likelihood import Likelihood, LinearLikelihood, Normals
from equipoise.inference.regression.logistic import LogisticLikelihood
from equipoise.inference.regression.mode import GAIN, Mode, Observation, Problem, find_mode
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.pooling import Pooled, Releases, TargetObservation, observe_targets, pool
from equipoise.inference.regression.population import MOST_MOMENTS, Population, simulate, weigh
from equipoise.inference.regression.row_covariance import row_covariance
from equipoise.inference.regression.statistic import MomentMap

ITERATIONS = 3  # of the covariance of a row, which is taken at the mode
FIRST_ROWS = 10.0  # as many rows tell where the search for the mode begins
COOLING = 5.0  # factor from one power of the likelihood to the next
ON_THE_WAY = 0.1  # gain of log density that ends the search for the mode of such a power
POINTS_PER_DRAW = 4
FEWEST_EFFECTIVE = 400.0  # points, below which weights are not relied on
FEWEST_DRAWS = 640  # fewer would not be taken for converged
REMEMBERED = 64  # coalitions
# Coordinates: importance weights of wider models are hopelessly uneven, and trying costs more where targets are labels.
MOST_WEIGHTED, MOST_WEIGHTED_LABELS = 24, 14
FAR = 12.0  # standard deviations of the noise
LARGEST_ROUNDING = 0.02  # of slopes, by coordinates in standard deviations
WORST_FIT = 10.0  # mean square of what a mode leaves of an observed moment, in its variance
FARTHEST = 20.0  # coordinate, in standard deviations of the prior, where chains turn back


class Sample(NamedTuple):
    """Draws [draws, d] of a posterior in coordinates, their diagnostics, and their divergence from the prior.

    Draws of `superchains` that are compared with each other stand one after the other; independent ones are of one.
    """

    coordinates: Floats
    diagnostics: Diagnostics
    divergence: Estimate | None = None
    superchains: int = 1


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
        coordinates = rng.normal(size=(draws, model.dimension))
        return Sample(coordinates, _diagnostics(draws, model.dimension, float(draws), 0.0), Estimate(0.0, 0.0))
    try:
        return _sample_by_dimension(model, releases, rng, draws, power, sampling)
    except np.linalg.LinAlgError as error:
        raise InferenceError(
            f"the released sums of {releases.rows.sum():,.0f} rows leave weights on a ridge that double precision "
            "cannot resolve, as columns do that hardly vary or repeat each other where there is next to no noise; "
            "leave a column out or merge levels"
        ) from error


def _sample_by_dimension(
    model: RegressionModel, releases: Releases, rng: np.random.Generator, draws: int, power: float, sampling: float
) -> Sample:
    """Sample by importance weights where coordinates are few and weights even, by chains elsewhere.

    A coalition is often asked for again, with more draws or tempered, so that what no draws go into is remembered.
    """
    draws = max(draws, FEWEST_DRAWS)
    name = (model.name, *(part.tobytes() for part in releases), sampling)
    settled = _settled.find(name, lambda: settle_row_covariances(model, releases, sampling=sampling))
    problem, mode = _problems.find((*name, power), lambda: _final_problem(model, settled, power, sampling))
    if model.dimension > (MOST_WEIGHTED if model.moments.has_square else MOST_WEIGHTED_LABELS):
        starts = mode.centre + rng.normal(size=(CHAINS, model.dimension)) @ mode.root.T
        return _sample_chains(problem, starts, mode, rng, draws)
    adapted = _adapted.find((*name, power), lambda: adapt(problem, mode, np.random.default_rng(0)))
    found = draw_adapted(problem, adapted, rng, POINTS_PER_DRAW * draws)
    effective = min(found.effective, float(draws))
    diagnostics = _diagnostics(draws, model.dimension, effective, found.shape)
    if found.reliable and found.effective >= FEWEST_EFFECTIVE:
        return Sample(found.resample(rng, draws), diagnostics, found.divergence())
    return _sample_chains(problem, found.resample(rng, CHAINS), mode, rng, draws)


def _sample_chains(problem: Problem, starts: Floats, mode: Mode, rng: np.random.Generator, draws: int) -> Sample:
    # Where single precision is too coarse, as of hardly any noise, no trajectory would be accepted.
    rounding = (problem.slopes(starts, single=True) - problem.slopes(starts)) @ mode.root
    slopes = partial(problem.slopes, single=bool(np.abs(rounding).max() < LARGEST_ROUNDING))
    chains = sample_chains(partial(_log_density, problem), slopes, starts, mode.root, rng, draws)
    number = len(chains.draws) * SUPERCHAINS // CHAINS
    return Sample(chains.draws.reshape(-1, starts.shape[1]), chains.diagnostics, superchains=number)


def _diagnostics(draws: int, dimension: int, effective: float, shape: float) -> Diagnostics:
    ones = np.ones(dimension)
    return Diagnostics(draws, ones, effective * ones, effective * ones, tail_shape=shape)


class Settled(NamedTuple):
    """Releases whose features have one distribution, the covariance of a row of each, and the mode they go with."""

    groups: Sequence[Releases]
    covariances: list[Floats]
    centre: Floats


_settled = Recent[Settled](REMEMBERED)
_problems = Recent[tuple[Problem, Mode]](REMEMBERED)
_adapted = Recent[Adapted](REMEMBERED)


def build_problem(
    model: RegressionModel,
    releases: Releases,
    *,
    power: float = 1.0,
    sampling: float = 1.0,
    start: Floats | None = None,
) -> tuple[Problem, Mode]:
    """Find the mode for a coalition's releases, taking the covariance of a row where the mode is.

    If every party's features have a distribution of their own, the density is the product of those of all parties'
    releases, each with its own feature moments integrated out and its own covariance of a row. Parties share the
    parameters alone.

    Tempering to a `power` comes last, so that it does not change the likelihood. From a `start` near the mode, such as
    that of nearly the same releases, a single round of both will do for an approximation.
    """
    return _final_problem(
        model, settle_row_covariances(model, releases, sampling=sampling, start=start), power, sampling
    )


def _final_problem(model: RegressionModel, settled: Settled, power: float, sampling: float) -> tuple[Problem, Mode]:
    """Take the covariances of a row as they were settled, and find the mode of the tempered posterior."""
    pooled = _pool_groups(settled.groups, settled.covariances, sampling)
    problem = _problem(model, [_likelihood(model, one, power) for one in pooled])
    return problem, _find_mode(problem, settled.centre)


def settle_row_covariances(
    model: RegressionModel, releases: Releases, *, sampling: float = 1.0, start: Floats | None = None
) -> Settled:
    """Find mode and covariances of a row in turns.

    The mode is followed from where next to nothing is known: the likelihood is tempered less and less.
    """
    _check_possible(releases)
    groups = releases.apart() if model.per_party else [releases]
    covariances = [first_row_covariance(model.moments, group) for group in groups]
    centre = np.zeros(model.dimension) if start is None else start
    first = min(1.0, FIRST_ROWS / float(releases.rows.sum())) if start is None else 1.0
    powers = np.geomspace(first, 1.0, math.ceil(math.log(1 / first, COOLING)) + 1)
    for iteration in range(ITERATIONS if start is None else 1):
        pooled = _pool_groups(groups, covariances, sampling)
        for part in powers if iteration == 0 else powers[-1:]:
            likelihoods = [_likelihood(model, one, float(part)) for one in pooled]
            gain = GAIN if part == 1 else ON_THE_WAY
            centre = _find_mode(_problem(model, likelihoods), centre, gain).centre
        covariances = [_row_covariance(model, one, centre) for one in likelihoods]
    return Settled(groups, covariances, centre)


def _pool_groups(groups: Sequence[Releases], covariances: Sequence[Floats], sampling: float) -> list[Pooled]:
    return [pool(group, one, sampling=sampling) for group, one in zip(groups, covariances, strict=True)]


def first_row_covariance(moments: MomentMap, releases: Releases) -> Floats:
    """Covariance of a row before any mode is known: that of the mean sums, as if there were no noise."""
    means = np.clip(releases.statistic.sum(axis=0) / releases.rows.sum(), -1.0, 1.0)  # of what spans [−1, 1]
    split = moments.features
    square = max(0.0, float(means[-1])) if moments.has_square else 1.0
    features = moments.second_moments(means[:split])
    return row_covariance(moments, features, means[split : split + len(features)], square)


def _find_mode(problem: Problem, start: Floats, gain: float = GAIN) -> Mode:
    """Find a mode from a start, and from the prior's if nothing near the first one explains what was observed.

    A search can stick where weights make labels so certain that they hardly move.
    """
    mode = find_mode(problem, start, gain=gain)
    if all(one.misfit(mode.centre) <= WORST_FIT for one in problem.observations):
        return mode
    again = find_mode(problem, np.zeros_like(start), gain=gain)
    first, second = problem.log_posterior(np.stack([mode.centre, again.centre]))
    return again if second > first else mode


def approximate_problem(model: RegressionModel, pooled: Sequence[Pooled]) -> Problem:
    """Take releases as pooled, and E[y u] of logistic regression by its closed form, without synthetic rows."""

    def likelihood_of(one: Pooled) -> Likelihood:
        observation = observe_targets(model.moments, one, model.feature_prior)
        if model.moments.has_square:
            return LinearLikelihood(model.moments, observation)
        return LogisticLikelihood(model.moments, observation, None, model.shape_spread)

    return _problem(model, [likelihood_of(one) for one in pooled])


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


def _likelihood(model: RegressionModel, pooled: Pooled, power: float) -> Likelihood:
    observation = observe_targets(model.moments, pooled, model.feature_prior, power=power)
    if model.moments.has_square:
        return LinearLikelihood(model.moments, observation)
    return LogisticLikelihood(model.moments, observation, _population(model, observation), model.shape_spread)


def _population(model: RegressionModel, observation: TargetObservation) -> Population | None:
    """Simulate rows with the feature moments that were found, unless there are too many of these."""
    moments = model.moments
    if moments.features > MOST_MOMENTS:
        return None
    rows = simulate(moments, model.blocks, moments.second_moments(observation.features))
    return weigh(moments, rows, observation.features, observation.feature_covariance)


def _row_covariance(model: RegressionModel, likelihood: Likelihood, centre: Floats) -> Floats:
    """Covariance of a row where parameters are at a mode."""
    parameters = model.parameters(centre[None])
    if isinstance(likelihood, LogisticLikelihood):
        population = likelihood.population
    else:
        population = _population(model, likelihood.observation)
    if population is not None:
        variance = float(parameters.variance[0]) if model.moments.has_square else None
        return population.row_covariance(parameters.weights[0], variance)
    products, squares = likelihood.target_moments(parameters)
    return row_covariance(model.moments, likelihood.second_moments, products[0], float(squares[0]))


def _problem(model: RegressionModel, likelihoods: Sequence[Likelihood]) -> Problem:
    return Problem(
        [Observation(one.observation.observed, partial(_normals, model, one)) for one in likelihoods],
        model.flatten,
        model.unflatten,
        partial(_slopes, model, likelihoods),
        model.log_volume if model.has_volume else None,
    )


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _normals(model: RegressionModel, likelihood: Likelihood, coordinates: Floats) -> Normals:
    """Distribution of an observation; at points so far off that it overflows, the density becomes −∞."""
    return likelihood.moments_at(model.parameters(coordinates))


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _slopes(
    model: RegressionModel, likelihoods: Sequence[Likelihood], coordinates: Floats, *, single: bool = False
) -> Floats:
    """Slopes of the posterior's log density at coordinates [points, d]; at far ones, those where the prior peaks."""
    coordinates = np.where(_is_near(coordinates)[:, None], coordinates, 0.0)
    parameters = model.parameters(coordinates)
    by_weights, by_variance = np.zeros_like(parameters.weights), np.zeros(len(coordinates))
    for likelihood in likelihoods:
        found = likelihood.slopes(parameters, single=single)
        by_weights += found[0]
        by_variance += found[1]
    return np.asarray(model.pull_back(coordinates, by_weights, by_variance) - coordinates)


def _log_density(problem: Problem, coordinates: Floats) -> Floats:
    """Log density of the posterior at coordinates [points, d]; −∞ at far ones."""
    near = _is_near(coordinates)
    return np.where(near, problem.log_posterior(np.where(near[:, None], coordinates, 0.0)), -np.inf)


def _is_near(coordinates: Floats) -> NDArray[np.bool_]:
    return np.asarray((np.abs(coordinates) < FARTHEST).all(axis=1))
