"""Populations that rows of a regression might come from, drawn from what is agreed about columns.

Numbers, and normal variables that levels are cut from, have correlations from an LKJ distribution; gaps are where they
are by chance. Under a standardised
prior, weights and the bias are relative to the features' deviations s and means μ, which are integrated out of their
coordinates. They are drawn together, as agreed:

    weight = unit · effect · sinh(z) / s,   bias = level − weights·μ,   level = middle + spread · ζ

A weight comes from its coordinate, and s from its distribution given the weight. Means of numbers and of the target lie
within the bounds, or no row could. Shares of a block's levels have a flat Dirichlet distribution.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from equipoise._util.arrays import Floats
from equipoise._util.quantiles import log_normal_quantile, ratio_quantile
from equipoise.models.base import Draws
from equipoise.models.coding import Coding
from equipoise.models.linear import NormalInverseWishart
from equipoise.models.logistic import ScaledCorrelation
from equipoise.models.regression import LARGEST_DEVIATION, Regression, StandardisedFeatures, pull_onto_ball

CANDIDATES = scipy.special.ndtri((np.arange(200) + 0.5) / 200)  # of a deviation, by its normal coordinate


@dataclass(frozen=True)
class Population:
    """A distribution of rows of terms.

    Attributes
    ----------
    coding : Coding
        Which terms are numbers, blocks of levels, and indicators of gaps.
    mean, deviation : array [numbers]
        Of each number before it is clipped to the bounds.
    root : array [numbers + blocks, numbers + blocks]
        Cholesky root of the correlations.
    cuts : tuple of array
        Where the normal variable of each block is cut into levels, the reference first.
    norm_bound : float, optional
        Agreed norm, beyond which rows are pulled in.
    """

    coding: Coding
    mean: Floats
    deviation: Floats
    root: Floats
    cuts: tuple[Floats, ...]
    norm_bound: float | None = None

    def draw(self, number: int, rng: np.random.Generator) -> Floats:
        """Draw rows [number, terms + 1] within the bounds, the constant last."""
        coding, count = self.coding, len(self.mean)
        normal = rng.normal(size=(number, len(self.root))) @ self.root.T
        rows = np.zeros((number, len(coding.terms) + 1))
        rows[:, -1] = 1.0
        for block, cut, latent in zip(coding.blocks, self.cuts, normal.T[count:], strict=True):
            rows[:, list(block)] = np.searchsorted(cut, latent)[:, None] == np.arange(1, len(block) + 1)
        rows[:, list(coding.numbers)] = np.clip(self.mean + self.deviation * normal[:, :count], -1.0, 1.0)
        for place, indicator in coding.gaps:
            rows[:, place] *= 1 - rows[:, indicator]
        pull_onto_ball(rows, coding.numbers, self.norm_bound)
        return rows


def draw_population(agreed: Regression, rng: np.random.Generator) -> tuple[Draws, Population]:
    """Draw parameters from the prior, a single draw, and a population that goes with them."""
    coordinates = rng.normal(size=(1, len(agreed.coordinate_names())))
    data = agreed.data_prior
    if isinstance(data, NormalInverseWishart):
        mean, deviation, root = _draw_normal(agreed, data, rng)
    elif isinstance(data, ScaledCorrelation):
        width = len(agreed.features)
        deviation = _draw_within(np.full(width, data.sd_mean), data.sd_spread, 0.0, data.sd_max, rng)
        mean = np.zeros(width)
        if data.mean_spread:
            mean = _draw_within(mean, data.mean_spread, -1.0, 1.0, rng)
        root = draw_correlation(width, data.concentration, rng)
    else:
        assert isinstance(data, StandardisedFeatures)
        draws, mean, deviation = _draw_standardised(agreed, data, coordinates, rng)
        root = _draw_root(agreed.coding, data.concentration, rng)
        cuts = tuple(_draw_cuts(len(block), rng) for block in agreed.coding.blocks)
        return draws, Population(agreed.coding, mean, deviation, root, cuts, agreed.norm_bound)
    return agreed.at_coordinates(coordinates), Population(agreed.coding, mean, deviation, root, (), agreed.norm_bound)


def _draw_standardised(
    agreed: Regression, data: StandardisedFeatures, coordinates: Floats, rng: np.random.Generator
) -> tuple[Draws, Floats, Floats]:
    """Draw parameters with means and deviations of numbers."""
    width, numbers = len(agreed.coding.terms), list(agreed.coding.numbers)
    middles, typical, spreads = (np.array(part) for part in zip(*agreed.typical_terms, strict=True))
    deviation = np.array([_draw_deviation(coordinates[0, k - width - 1], typical[k], spreads[k], rng) for k in numbers])
    # Given the weights the bias is normal, with the means of numbers integrated out; ends of one deviation tell it.
    both = np.repeat(coordinates, 2, axis=0)
    both[:, -1] = 0.0, 1.0
    draws = agreed.at_coordinates(both)
    weights, (centre, shifted) = draws["weights"][0], draws["weights"][:, -1]
    of_means = data.mean_spread * typical[numbers]
    spread = np.sqrt(max((shifted - centre) ** 2 - float(np.sum((weights[numbers] * of_means) ** 2)), 1e-12))
    bound = 1.0 if "variance" in draws else np.inf  # of the target; log odds have none
    level = _draw_within(centre + weights[:-1] @ middles, spread, -bound, bound, rng)
    means = middles.copy()
    means[numbers] = _draw_within(middles[numbers], of_means, -1.0, 1.0, rng)
    weights[-1] = level - weights[:-1] @ means
    single = {name: values[:1] for name, values in draws.items()}
    return {**single, "weights": weights[None]}, means[numbers], deviation


def _draw_deviation(coordinate: float, typical: float, spread: float, rng: np.random.Generator) -> float:
    """Draw the deviation s of a number, given the coordinate of its weight: of sinh(z)/s."""
    ratio = ratio_quantile(np.array([coordinate]), typical, spread, LARGEST_DEVIATION)[0]
    candidates = np.exp(log_normal_quantile(CANDIDATES, typical, spread, LARGEST_DEVIATION))
    effect = ratio * candidates
    log_density = -0.5 * np.arcsinh(effect) ** 2 - 0.5 * np.log1p(effect**2) + np.log(candidates)
    return float(rng.choice(candidates, p=scipy.special.softmax(log_density)))


def _draw_normal(
    agreed: Regression, data: NormalInverseWishart, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Draw mean, deviations and root of the correlations from a normal-inverse-Wishart distribution."""
    width = len(agreed.features)
    degrees = width + 4.0 if data.degrees_of_freedom is None else data.degrees_of_freedom
    expected = agreed.feature_covariance  # type: ignore[attr-defined]
    # By Bartlett's decomposition, of the inverse.
    lower = np.tril(rng.normal(size=(width, width)), -1) + np.diag(np.sqrt(rng.chisquare(degrees - np.arange(width))))
    scale = np.linalg.cholesky(np.linalg.inv(expected * (degrees - width - 1)))
    covariance = np.linalg.inv(scale @ lower @ lower.T @ scale.T)
    deviation = np.sqrt(np.diagonal(covariance))
    root = np.linalg.cholesky(covariance)
    mean = np.asarray(data.mean or np.zeros(width)) + root @ rng.normal(size=width) / np.sqrt(data.mean_strength)
    return np.clip(mean, -1.0, 1.0), deviation, root / deviation[:, None]


def _draw_root(coding: Coding, concentration: float, rng: np.random.Generator) -> Floats:
    """Draw a root of the correlations of numbers and blocks; gaps are where they are by chance."""
    indicators = {indicator for _, indicator in coding.gaps}
    by_chance = [len(coding.numbers) + k for k, block in enumerate(coding.blocks) if block[0] in indicators]
    root = np.eye(len(coding.numbers) + len(coding.blocks))
    others = np.delete(np.arange(len(root)), by_chance)
    root[np.ix_(others, others)] = draw_correlation(len(others), concentration, rng)
    return root


def draw_correlation(size: int, concentration: float, rng: np.random.Generator) -> Floats:
    """Draw the Cholesky root of a matrix of correlations from the LKJ distribution (Lewandowski et al. 2009)."""
    root = np.eye(size)
    for i in range(1, size):
        shape = concentration + (size - 2 - np.arange(i)) / 2
        partial = 2 * rng.beta(shape, shape) - 1
        left = np.concatenate([[1.0], np.cumprod(np.sqrt(1 - partial**2))])
        root[i, :i], root[i, i] = partial * left[:-1], left[-1]
    return root


def _draw_cuts(levels: int, rng: np.random.Generator) -> Floats:
    """Draw the shares of a block's levels and of its reference, as cuts of a normal variable."""
    shares = rng.dirichlet(np.ones(levels + 1))
    return np.asarray(scipy.special.ndtri(np.cumsum(shares)[:-1]))


def _draw_within(centre: Floats, spread: Floats | float, low: float, high: float, rng: np.random.Generator) -> Floats:
    """Draw from normal distributions between two limits; a limit where hardly anything of one lies between."""
    below, above = (scipy.special.ndtr((end - centre) / spread) for end in (low, high))
    drawn = centre + spread * scipy.special.ndtri(below + (above - below) * rng.uniform(size=np.shape(centre)))
    return np.clip(drawn, low, high)
