"""Draws of a posterior of few parameters, by weighted points where their weights are even and by chains elsewhere."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.estimate import Estimate
from equipoise.inference.diagnostics import SUPERCHAINS, Diagnostics
from equipoise.inference.hamiltonian import CHAINS, sample_chains
from equipoise.inference.importance import Adapted, adapt, draw_adapted
from equipoise.inference.mode import Mode, Problem

POINTS_PER_DRAW = 3
FEWEST_EFFECTIVE = 400.0  # points, below which weights are not relied on
FEWEST_DRAWS = 640  # fewer would not be taken for converged
LARGEST_ROUNDING = 0.02  # of slopes, by coordinates in standard deviations
FARTHEST = 20.0  # coordinate, in standard deviations of the prior, where chains turn back


class Sample(NamedTuple):
    """Draws [draws, d] of a posterior in coordinates, their diagnostics, and their divergence from the prior.

    Draws of `superchains` that are compared with each other stand one after the other; independent ones are of one.
    """

    coordinates: Floats
    diagnostics: Diagnostics
    divergence: Estimate | None = None
    superchains: int = 1


def sample_prior(dimension: int, rng: np.random.Generator, draws: int) -> Sample:
    """Draw independently from the prior, in coordinates in which it is N(0, I)."""
    coordinates = rng.normal(size=(draws, dimension))
    return Sample(coordinates, _diagnostics(draws, dimension, float(draws), 0.0), Estimate(0.0, 0.0))


def sample_problem(
    problem: Problem,
    mode: Mode,
    rng: np.random.Generator,
    draws: int,
    *,
    most_weighted: int,
    adapted: Callable[[Callable[[], Adapted]], Adapted] = lambda make: make(),
) -> Sample:
    """Sample by importance weights, or by chains if coordinates are more than `most_weighted` or weights uneven.

    `adapted` returns the mixture that points are drawn from, made by its argument or remembered from an earlier call.
    """
    draws, dimension = max(draws, FEWEST_DRAWS), len(mode.centre)
    if dimension > most_weighted:
        starts = mode.centre + rng.normal(size=(CHAINS, dimension)) @ mode.root.T
        return _sample_chains(problem, starts, mode, rng, draws)
    mixture = adapted(lambda: adapt(problem, mode, np.random.default_rng(0)))
    found = draw_adapted(problem, mixture, rng, POINTS_PER_DRAW * draws)
    diagnostics = _diagnostics(draws, dimension, min(found.effective, float(draws)), found.shape)
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


def _log_density(problem: Problem, coordinates: Floats) -> Floats:
    """Log density of the posterior at coordinates [points, d]; −∞ at far ones."""
    near = is_near(coordinates)
    return np.where(near, problem.log_posterior(np.where(near[:, None], coordinates, 0.0)), -np.inf)


def is_near(coordinates: Floats) -> NDArray[np.bool_]:
    """True for coordinates [points, d] where the prior has any density to speak of."""
    return np.asarray((np.abs(coordinates) < FARTHEST).all(axis=1))
