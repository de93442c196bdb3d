r"""Weighted synthetic rows of the agreed kinds of columns, with feature moments as they were found.

Two moments of the features are released; the covariance of a row and E[y u] of logistic regression depend on all of
them. Rows are simulated from normal variables with correlations, cut into levels and clipped to the bounds, and then
weighted so that their feature moments agree with what was found:

    weight ∝ exp(λᵀ g),   λ minimises log Σ exp(λᵀ (g − m̂)) + ½ λᵀ C λ

for rows' products g: of all weights with about these moments, those nearest to equal ones. With the covariance C of the
found moments the weighted ones may differ from m̂ by what is uncertain anyway, and exist however impossible m̂ is.
"""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from equipoise._util.arrays import Floats
from equipoise.inference.regression.row_covariance import nearest_covariance
from equipoise.inference.regression.statistic import MomentMap

ROWS, MORE_ROWS = 4_096, 16_384
SMALLEST_SHARE = 0.002  # smallest share of rows with a level, in the simulation
SMALLEST_PRESENT = 0.05  # smallest share of rows in which a number is present
NEWTON_STEPS = 30
FEWEST_EFFECTIVE = 200.0  # fewest effective rows that can stand for a population
FAR_BOUNDS = 3.5  # bounds this many standard deviations from the mean do not matter
MOST_EXTREME = 0.98  # limits of a number's mean, and of its variance as a share of the largest possible
LONGEST_STEP = 5.0
SMALLEST_SQUARE = 1e-8  # added to squares of feature moments that hardly vary
_POWERS = np.linspace(-1, 1, 401)[:, None] ** [1, 2]
MOST_MOMENTS = 600  # most moments that the weights of so few rows can match


class Blocks(NamedTuple):
    """Features by their terms: indices of numbers, of blocks of levels, and (number, indicator) of marked gaps."""

    numbers: tuple[int, ...]
    levels: tuple[tuple[int, ...], ...]
    gaps: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Population:
    """Rows u = (terms, 1) [rows, terms + 1] with weights that add up to 1."""

    rows: Floats
    weights: Floats
    products: Floats

    @property
    def effective(self) -> float:
        """The effective number of rows."""
        return float(1 / np.sum(self.weights**2))

    @cached_property
    def moments(self) -> Floats:
        """The feature moments of the weighted rows."""
        return np.asarray(self.weights @ self.products)

    def label_error(self, weights: Floats) -> Floats:
        """Return the covariance [terms + 1, terms + 1] of the sampling error that finitely many rows make in E[y u].

        Since the rows have been weighted to have the right feature moments, only what these do not tell of y u is left
        to chance, as in a survey whose weights are calibrated (Deville and Särndal, 1992).
        """
        labels = np.tanh(0.5 * self.rows @ weights)[:, None] * self.rows
        labels -= self.weights @ labels
        products = self.products - self.moments
        weighted = products * self.weights[:, None]
        squares = weighted.T @ products
        squares[np.diag_indices_from(squares)] += SMALLEST_SQUARE
        left = labels - products @ np.linalg.solve(squares, weighted.T @ labels)
        left *= self.weights[:, None]
        return np.asarray(left.T @ left)

    def row_covariance(self, weights: Floats, variance: float | None) -> Floats:
        """Return the covariance of one row's statistic, in the order of a `MomentMap`.

        The target is linear in the row with a residual `variance`, or a label if that is None.
        """
        eta, u = self.rows @ weights, self.rows
        number = self.products.shape[1]
        if variance is None:
            mean = np.tanh(eta / 2)
            left = 1 - mean**2
            expected = np.concatenate([self.products, mean[:, None] * u], axis=1)
            within = (u * (self.weights * left)[:, None]).T @ u
        else:
            square = eta**2 + variance
            expected = np.concatenate([self.products, eta[:, None] * u, square[:, None]], axis=1)
            across = 2 * variance * (self.weights * eta) @ u
            corner = float(self.weights @ (4 * eta**2 * variance + 2 * variance**2))
            products = variance * (u * self.weights[:, None]).T @ u
            within = np.block([[products, across[:, None]], [across[None], np.array([[corner]])]])
        moved = expected - self.weights @ expected
        covariance = (moved * self.weights[:, None]).T @ moved
        covariance[number:, number:] += within
        return np.asarray(covariance)


def simulate(moments: MomentMap, blocks: Blocks, second_moments: Floats, number: int = ROWS) -> Floats:
    """Simulate rows u of the agreed kinds, with about the second moments given.

    The same moments always give the same rows.
    """
    width = moments.width
    mean, products = _without_gaps(blocks, second_moments)
    covariance = nearest_covariance(products, mean)
    of_gap = dict(blocks.gaps)
    features = [(index,) for index in blocks.numbers] + list(blocks.levels)
    cuts = [None] * len(blocks.numbers) + [_cuts(mean[list(block)]) for block in blocks.levels]
    # One score for each feature: a number itself, and of levels the mean of the normal variable between its cuts.
    scores = np.zeros((len(features), width))
    for k, (places, cut) in enumerate(zip(features, cuts, strict=True)):
        scores[k, list(places)] = 1.0 if cut is None else _scores(cut)
    spread = scores @ covariance @ scores.T
    # A score tells its normal variable but for a share, by which correlations of scores are too small.
    told = np.array([1.0 if cut is None else _told(cut) for cut in cuts])
    deviations = np.sqrt(np.maximum(np.diagonal(spread), 1e-12))
    correlation = np.clip(spread / np.outer(deviations, deviations) / np.sqrt(np.outer(told, told)), -0.95, 0.95)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, 1e-3))
    root /= np.linalg.norm(root, axis=1, keepdims=True)
    normal = _even_points(len(features), number) @ root.T
    rows = np.zeros((number, width + 1))
    rows[:, -1] = 1.0
    for k, (places, cut) in enumerate(zip(features, cuts, strict=True)):
        if cut is not None:
            chosen = np.searchsorted(cut, normal[:, k])  # 0 is the reference
            for level, index in enumerate(places, start=1):
                rows[:, index] = chosen == level
    for k, index in enumerate(blocks.numbers):
        present = 1.0 if index not in of_gap else 1 - rows[:, of_gap[index]]
        variance = max(products[index, index] - mean[index] ** 2, 1e-4)
        rows[:, index] = present * _bounded(float(mean[index]), float(variance), normal[:, k])
    return rows


def _bounded(mean: float, variance: float, normal: Floats) -> Floats:
    """Map normal points to numbers within [−1, 1] of about this mean and variance, with the largest entropy.

    Of all densities there the one of largest entropy is ∝ exp(a x + b x²): a normal one where the bounds are far off,
    an even one of variance ⅓, and one that leans towards the ends of larger variances.
    """
    deviation = math.sqrt(variance)
    if abs(mean) + FAR_BOUNDS * deviation <= 1:
        return np.asarray(np.clip(mean + deviation * normal, -1.0, 1.0))
    mean = min(max(mean, -MOST_EXTREME), MOST_EXTREME)
    variance = min(variance, MOST_EXTREME * (1 - mean**2))
    wanted = np.array([mean, mean**2 + variance])
    dual = np.array([mean / variance, -0.5 / variance])
    shares = scipy.special.softmax(_POWERS @ dual)
    for _ in range(NEWTON_STEPS):
        off = shares @ _POWERS - wanted
        if np.abs(off).max() < 1e-4:
            break
        moved = _POWERS - shares @ _POWERS
        step = np.linalg.solve((moved * shares[:, None]).T @ moved + 1e-9 * np.eye(2), off)
        dual = dual - step / max(1.0, np.abs(step).max() / LONGEST_STEP)
        shares = scipy.special.softmax(_POWERS @ dual)
    below = np.cumsum(shares) - 0.5 * shares
    return np.asarray(np.interp(scipy.special.ndtr(normal), below, _POWERS[:, 0]))


def _without_gaps(blocks: Blocks, second_moments: Floats) -> tuple[Floats, Floats]:
    """Return means and second moments of terms as they would be without gaps, if gaps occur at random.

    A number is 0 where its indicator is 1, and nothing tells how the two would correlate otherwise.
    """
    width = len(second_moments) - 1
    mean, products = second_moments[:width, -1].copy(), second_moments[:width, :width].copy()
    for index, indicator in blocks.gaps:
        share = max(1 - mean[indicator], SMALLEST_PRESENT)
        square = products[index, index] / share
        mean[index] /= share
        products[index] /= share
        products[:, index] /= share
        products[index, index] = square
        products[index, indicator] = products[indicator, index] = mean[index] * mean[indicator]
    return mean, products


@lru_cache(maxsize=4)
def _even_points(dimension: int, number: int) -> Floats:
    """Spread points evenly over N(0, I), the same at every call.

    Fractional parts of multiples of the roots of primes fill the unit cube evenly (Richtmyer, 1951). Sobol's sequence
    is more even for a few numbers, where errors are small anyway, and takes a second to load.
    """
    primes = [
        candidate
        for candidate in range(2, 16 * dimension + 2)
        if all(candidate % k for k in range(2, math.isqrt(candidate) + 1))
    ]
    steps = np.sqrt(primes[:dimension])
    uniform = (np.random.default_rng(0).random(dimension) + np.arange(number)[:, None] * steps) % 1
    points = scipy.special.ndtri(np.clip(uniform, 1e-9, 1 - 1e-9))
    points.flags.writeable = False
    return np.asarray(points)


def _cuts(shares: Floats) -> Floats:
    """Cut a normal variable into intervals with the shares of a block's levels, the reference first."""
    each = np.maximum(np.concatenate([[1 - shares.sum()], shares]), SMALLEST_SHARE)
    return np.asarray(scipy.special.ndtri(np.cumsum(each / each.sum())[:-1]))


def _intervals(cut: Floats) -> tuple[Floats, Floats]:
    """Return shares and means of a normal variable between cuts."""
    density = np.concatenate([[0.0], np.exp(-0.5 * cut**2) / np.sqrt(2 * np.pi), [0.0]])
    shares = np.diff(np.concatenate([[0.0], scipy.special.ndtr(cut), [1.0]]))
    return shares, -np.diff(density) / shares


def _scores(cut: Floats) -> Floats:
    """Return the means of the normal variable within each level, relative to the reference's."""
    means = _intervals(cut)[1]
    return np.asarray(means[1:] - means[0])


def _told(cut: Floats) -> float:
    """Return the share of the normal variable's variance that is between levels."""
    shares, means = _intervals(cut)
    return float(shares @ means**2)


def weigh(moments: MomentMap, rows: Floats, estimated: Floats, covariance: Floats) -> Population | None:
    """Weight rows so that their feature moments are the `estimated` ones; return None if too few rows carry it."""
    i, j = moments.feature_pairs.T
    products = rows[:, i] * rows[:, j]
    moved = products - estimated
    scale = np.maximum(moved.std(axis=0), 1e-6)
    moved = moved / scale
    slack = covariance / np.outer(scale, scale) + 1e-9 * np.eye(len(scale))
    dual = np.zeros(len(scale))

    def potential(at: Floats) -> float:
        return float(scipy.special.logsumexp(moved @ at) + 0.5 * at @ slack @ at)

    value = potential(dual)
    for _ in range(NEWTON_STEPS):
        weights = scipy.special.softmax(moved @ dual)
        mean = weights @ moved
        gradient = mean + slack @ dual
        spread = (moved * weights[:, None]).T @ moved - np.outer(mean, mean)
        step = np.linalg.solve(spread + slack, gradient)
        decrement = float(gradient @ step)
        if decrement < 1e-8:
            break
        length = 1.0
        while length > 1e-4 and not (lower := potential(dual - length * step)) < value:
            length /= 2
        if length <= 1e-4:
            break
        dual, value = dual - length * step, lower
    population = Population(rows, scipy.special.softmax(moved @ dual), products)
    return population if population.effective >= FEWEST_EFFECTIVE else None
