"""Draws of a posterior of few parameters: weighted points if their weights are even, otherwise chains."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.estimate import Estimate
from equipoise.inference.diagnostics import SUPERCHAINS, Diagnostics
from equipoise.inference.hamiltonian import CHAINS, Chains, Field, sample_chains
from equipoise.inference.importance import Adapted, adapt, draw_adapted
from equipoise.inference.mode import Chart, Mode, Problem, is_near

POINTS_PER_DRAW = 3
FEWEST_EFFECTIVE = 400.0  # fewest effective points for which weights are relied on
FEWEST_DRAWS = 640  # fewer would not be taken for converged
LARGEST_ROUNDING = 0.02  # largest rounding error of slopes, by coordinates in standard deviations
LOW = 5.0  # no chain starts where the log density is lower than usual by more than this
HALVINGS = 20


class Sample(NamedTuple):
    """Draws [draws, d] of a posterior in coordinates, their diagnostics, and their divergence from the prior.

    The draws of the compared `superchains` follow each other; independent draws form a single one.
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
        starts = _draw_starts(problem, mode, rng)
        return _sample_chains(problem, starts, mode, rng, draws)
    mixture = adapted(lambda: adapt(problem, mode, np.random.default_rng(0)))
    weighted = draw_adapted(problem, mixture, rng, POINTS_PER_DRAW * draws)
    diagnostics = _diagnostics(draws, dimension, min(weighted.effective, float(draws)), weighted.shape)
    if weighted.reliable and weighted.effective >= FEWEST_EFFECTIVE:
        return Sample(weighted.resample(rng, draws), diagnostics, weighted.divergence())
    return _sample_chains(problem, weighted.resample(rng, CHAINS), mode, rng, draws)


def _draw_starts(problem: Problem, mode: Mode, rng: np.random.Generator) -> Floats:
    """Draw the chains' starts from the normal approximation; points of next to no density move towards the mode.

    A chain that begins far below all others can hardly turn, and would be mistaken for broken trajectories.
    """
    dimension = len(mode.centre)
    away = rng.normal(size=(CHAINS, dimension)) @ mode.root.T
    usual = _log_density(problem, mode.centre[None])[0] - dimension
    for _ in range(HALVINGS):
        is_low = _log_density(problem, mode.centre + away) < usual - LOW
        if not is_low.any():
            break
        away[is_low] /= 2
    return np.asarray(mode.centre + away)


def _sample_chains(problem: Problem, starts: Floats, mode: Mode, rng: np.random.Generator, draws: int) -> Sample:
    # Where single precision is too coarse, as of hardly any noise, no trajectory would be accepted.
    rounding = (problem.slopes(starts, single=True) - problem.slopes(starts)) @ mode.root
    slopes = partial(problem.slopes, single=bool(np.abs(rounding).max() < LARGEST_ROUNDING))
    density = partial(_log_density, problem)
    if problem.chart is None:
        chains = sample_chains(density, slopes, starts, mode.root, rng, draws)
    else:
        chains = _sample_on_chart(problem.chart, density, slopes, starts, mode, rng, draws)
    number = len(chains.draws) * SUPERCHAINS // CHAINS
    return Sample(chains.draws.reshape(-1, starts.shape[1]), chains.diagnostics, superchains=number)


def _sample_on_chart(
    chart: Chart, density: Field, slopes: Field, starts: Floats, mode: Mode, rng: np.random.Generator, draws: int
) -> Chains:
    """Let chains move on a chart, and return their coordinates."""

    def slopes_at(points: Floats) -> Floats:
        return chart.pull_back(points, slopes(chart.to_coordinates(points)))

    dimension = len(mode.centre)
    centre = np.broadcast_to(chart.from_coordinates(mode.centre[None]), (dimension, dimension))
    # Row j of what is pulled back from the identity holds the derivatives of coordinate j by points.
    root = np.asarray(np.linalg.solve(chart.pull_back(centre, np.eye(dimension)), mode.root), float)
    chains = sample_chains(
        lambda points: density(chart.to_coordinates(points)),
        slopes_at,
        chart.from_coordinates(starts),
        root,
        rng,
        draws,
    )
    coordinates = chart.to_coordinates(chains.draws.reshape(-1, dimension))
    return chains._replace(draws=coordinates.reshape(chains.draws.shape))


def _diagnostics(draws: int, dimension: int, effective: float, shape: float) -> Diagnostics:
    ones = np.ones(dimension)
    return Diagnostics(draws, ones, effective * ones, effective * ones, tail_shape=shape)


def _log_density(problem: Problem, coordinates: Floats) -> Floats:
    """Log density of the posterior at coordinates [points, d]; −∞ at far ones."""
    near = is_near(coordinates)
    return np.where(near, problem.log_posterior(np.where(near[:, None], coordinates, 0.0)), -np.inf)
