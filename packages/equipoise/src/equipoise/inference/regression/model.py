"""A regression as its sampler sees it: indices of moments, beliefs about them, and the prior of the parameters."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.errors import InferenceError
from equipoise.inference.regression.likelihood import Parameters
from equipoise.inference.regression.observation import FeaturePrior
from equipoise.inference.regression.population import Blocks
from equipoise.inference.regression.statistic import MomentMap
from equipoise.models.columns import RegressionColumn
from equipoise.models.linear import NormalInverseWishart
from equipoise.models.logistic import ScaledCorrelation
from equipoise.models.regression import StandardisedFeatures

if TYPE_CHECKING:
    from equipoise.models.regression import Regression

LEVEL_SHARE_DEVIATION = 0.25  # of the belief about a level's share
LEVEL_SIZE = 0.5  # typical size of a 0/1 term in products with others
# Coefficients of the likelihood grow as the fourth power of the terms: 120 are estimated to take 3 GB a thread.
MOST_TERMS = 120
# Beliefs about a feature moment are no firmer than this: rows that contradict firm ones, such as a mean agreed to be 0,
# would have their effects distorted.
SMALLEST_DEVIATION = 0.1


@dataclass(frozen=True)
class RegressionModel:
    """A regression with its prior beliefs; parameters are in coordinates where their prior is N(0, I)."""

    agreed: "Regression"
    moments: MomentMap
    feature_prior: FeaturePrior

    @classmethod
    def of(cls, agreed: "Regression") -> "RegressionModel":
        """Prepare an agreed regression; refuse one that is too wide."""
        moments = MomentMap.of(agreed)
        if moments.width > MOST_TERMS:
            raise InferenceError(
                f"the features have {moments.width} terms; more than {MOST_TERMS} would fill the memory: agree on "
                "fewer features or levels"
            )
        return cls(agreed, moments, _feature_prior(agreed, moments))

    @cached_property
    def name(self) -> str:
        """Everything that is agreed about the model, as text."""
        return self.agreed.model_dump_json()

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return len(self.agreed.coordinate_names())

    @property
    def per_party(self) -> bool:
        """True if the features of every party have a distribution of their own."""
        return str(getattr(self.agreed.data_prior, "scope", "shared")) == "per-party"

    @cached_property
    def moved_ends(self) -> tuple[bool, bool]:
        """The ends of its range to which the target may have been moved; labels never are."""
        target = self.agreed.target
        return target.moved_ends if isinstance(target, RegressionColumn) else (False, False)

    @property
    def blocks(self) -> Blocks:
        """The grouping of terms into features."""
        coding = self.agreed.coding
        return Blocks(coding.numbers, coding.blocks, coding.gaps)

    @property
    def shape_spread(self) -> float:
        """The possible deviation of E[y x] from that of normal numbers, if their shape matters; otherwise 0."""
        return float(getattr(self.agreed.data_prior, "shape_spread", 0.0))

    def parameters(self, coordinates: Floats) -> Parameters:
        """Return the parameters at coordinates [points, d]."""
        draws = self.agreed.at_coordinates(coordinates)
        return Parameters(draws["weights"], draws.get("variance", np.ones(len(coordinates))))

    def flatten(self, coordinates: Floats) -> Floats:
        """Replace the coordinates of weights by the weights."""
        first = coordinates.shape[1] - self.moments.width - 1
        return np.column_stack([coordinates[:, :first], self.agreed.at_coordinates(coordinates)["weights"]])

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def unflatten(self, flat: Floats) -> Floats:
        """Invert `flatten`; a step that is far too long has no coordinates, and no density either."""
        first = flat.shape[1] - self.moments.width - 1
        return self.agreed.weight_coordinates(flat[:, first:], flat[:, 0] if first else None)

    @property
    def has_volume(self) -> bool:
        """True if `log_volume` is known: under standardised priors."""
        return str(self.agreed.prior.kind) == "standardised"  # type: ignore[attr-defined]

    def log_volume(self, coordinates: Floats) -> Floats:
        """Return the log determinant of the derivatives of `flatten`; weights depend on several coordinates."""
        return self.agreed.log_volume(coordinates)

    def pull_back(self, coordinates: Floats, slopes: Floats, of_variance: Floats) -> Floats:
        """Return slopes by coordinates, given those by weights and by the residual variance."""
        return self.agreed.pull_back(coordinates, slopes, of_variance)


def _feature_prior(agreed: "Regression", moments: MomentMap) -> FeaturePrior:
    """Turn what is agreed about the features into independent normal beliefs about their moments."""
    data = agreed.data_prior
    if isinstance(data, NormalInverseWishart):
        return _of_inverse_wishart(agreed, data, moments)
    if isinstance(data, ScaledCorrelation):
        return _of_scaled_correlation(data, moments)
    assert isinstance(data, StandardisedFeatures)
    return _of_typical_terms(agreed, data, moments)


def _of_typical_terms(agreed: "Regression", data: StandardisedFeatures, moments: MomentMap) -> FeaturePrior:
    """Return weak beliefs: moments are about those of typical columns, within twice their size."""
    levels = moments.levels
    middles, deviations, _ = (np.array(part) for part in zip(*agreed.typical_terms, strict=True))
    sizes = np.append(np.where(levels, LEVEL_SIZE, np.minimum(1.0, np.abs(middles) + 2 * deviations)), 1.0)
    centre = np.append(middles, 1.0)
    products = np.outer(centre, centre)
    products[np.diag_indices(moments.width)] += deviations**2
    of_means = np.where(levels, LEVEL_SHARE_DEVIATION, np.minimum(1.0, data.mean_spread * deviations))
    return _normal_beliefs(moments, products, np.outer(sizes, sizes) ** 2, of_means**2)


def _of_scaled_correlation(data: ScaledCorrelation, moments: MomentMap) -> FeaturePrior:
    """Return mean and variance of each moment if means, deviations and correlations are drawn as agreed."""
    width = moments.width
    deviations = np.linspace(0, data.sd_max, 2_001)
    density = np.exp(-0.5 * ((deviations - data.sd_mean) / data.sd_spread) ** 2)
    second, fourth = (float(np.average(deviations**power, weights=density)) for power in (2, 4))
    # A correlation of an LKJ matrix is Beta(a, a) on [−1, 1], a = concentration − 1 + width/2.
    correlation = 1 / (2 * data.concentration + width - 1)
    of_means = data.mean_spread**2
    variances = np.full((width + 1, width + 1), of_means**2 + second**2 * correlation)
    variances[np.diag_indices(width)] = 2 * of_means**2 + fourth - second**2
    products = np.diag(np.append(np.full(width, second + of_means), 1.0))
    return _normal_beliefs(moments, products, variances, np.full(width, of_means))


def _of_inverse_wishart(agreed: "Regression", data: NormalInverseWishart, moments: MomentMap) -> FeaturePrior:
    """Return mean and variance of each moment under Σ ~ W⁻¹ and mean | Σ ~ N(mean, Σ / strength)."""
    width = moments.width
    covariance = np.array(agreed.feature_covariance)  # type: ignore[attr-defined]
    mean = np.zeros(width) if data.mean is None else np.array(data.mean)
    # Beliefs that say next to nothing would let means lie far outside of the bounds.
    deviations = np.sqrt(np.diag(covariance) / data.mean_strength)
    shrunk = np.minimum(1.0, deviations) / deviations
    of_means = covariance / data.mean_strength * np.outer(shrunk, shrunk)
    share = np.outer(shrunk, shrunk) / data.mean_strength  # ratio of the covariance of means to Σ

    squares, crossed = covariance**2, np.outer(np.diag(covariance), np.diag(covariance))
    spare = (4.0 if data.degrees_of_freedom is None else data.degrees_of_freedom - width) - 3
    # An inverse Wishart matrix of few degrees of freedom has infinite variances.
    variances = np.full((width, width), np.inf)
    if spare > 0:
        of_elements = ((spare + 4) * squares + (spare + 2) * crossed) / ((spare + 3) * spare)
        of_two_variances = (2 * crossed + 2 * (spare + 2) * squares) / ((spare + 3) * spare)
        shifted = np.outer(mean**2, np.diag(of_means)) + np.outer(mean, mean) * of_means
        variances = (1 + share) ** 2 * of_elements + shifted + shifted.T
        variances += share**2 * (crossed + of_two_variances + squares + of_elements)
    products = np.eye(width + 1)
    products[:width, :width] = covariance + of_means + np.outer(mean, mean)
    products[:width, width] = products[width, :width] = mean
    return _normal_beliefs(moments, products, np.pad(variances, (0, 1)), np.diag(of_means))


def _normal_beliefs(moments: MomentMap, products: Floats, variances: Floats, of_means: Floats) -> FeaturePrior:
    """Return beliefs about the moments of pairs; deviations are at most the bounds' half-width, and not too small."""
    i, j = moments.feature_pairs.T
    chosen = np.where(j == moments.width, np.append(of_means, 1.0)[i], variances[i, j])
    return FeaturePrior(products[i, j], np.clip(chosen, SMALLEST_DEVIATION**2, 1.0))
