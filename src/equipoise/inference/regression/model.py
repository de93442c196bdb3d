"""A regression as its sampler sees it: places of moments, beliefs about them, and the prior of the parameters."""

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

if TYPE_CHECKING:
    from equipoise.models.regression import Regression

LEVEL_SHARE_DEVIATION = 0.25  # of what is believed of a level's share
LEVEL_SIZE = 0.5  # of a 0/1 term, in products with others
# Coefficients of the likelihood grow as the fourth power of the terms: 120 are estimated to take 3 GB a thread.
MOST_TERMS = 120
CONJUGATE_DEVIATION = 0.5  # of a number, under the priors that format 1 knows


@dataclass(frozen=True)
class RegressionModel:
    """A regression and what is believed before any data; parameters in coordinates where their prior is N(0, I)."""

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
        """Everything that is agreed about the model, as a text."""
        return self.agreed.model_dump_json()

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.agreed.coordinate_names())

    @property
    def per_party(self) -> bool:
        """True if the features of every party have a distribution of their own."""
        return str(getattr(self.agreed.data_prior, "scope", "shared")) == "per-party"

    @property
    def blocks(self) -> Blocks:
        """Return how terms make up features."""
        coding = self.agreed.coding
        return Blocks(coding.numbers, coding.blocks, coding.gaps)

    @property
    def shape_spread(self) -> float:
        """How much E[y x] may differ from that of normal numbers, where their shape matters."""
        return float(getattr(self.agreed.data_prior, "shape_spread", 0.0))

    def parameters(self, coordinates: Floats) -> Parameters:
        """Parameters at coordinates [points, d]."""
        found = self.agreed.at_coordinates(coordinates)
        return Parameters(found["weights"], found.get("variance", np.ones(len(coordinates))))

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
        """Log determinant of the derivatives of `flatten`; each weight moves with its own coordinate and others'."""
        return self.agreed.log_volume(coordinates)

    def pull_back(self, coordinates: Floats, slopes: Floats, of_variance: Floats) -> Floats:
        """Return slopes by coordinates, given those by weights and by the residual variance."""
        return self.agreed.pull_back(coordinates, slopes, of_variance)


def _feature_prior(agreed: "Regression", moments: MomentMap) -> FeaturePrior:
    """Believe little of the feature moments: they are about those of typical columns, within twice their size."""
    levels = moments.levels
    spread = 2.0
    middles, deviations = np.zeros(moments.width), np.full(moments.width, CONJUGATE_DEVIATION)
    if agreed.data_prior.kind == "standardised":  # type: ignore[attr-defined]
        middles, deviations, _ = (np.array(part) for part in zip(*agreed.typical_terms, strict=True))
        spread = float(agreed.data_prior.mean_spread)  # type: ignore[attr-defined]
    sizes = np.append(np.where(levels, LEVEL_SIZE, np.minimum(1.0, np.abs(middles) + 2 * deviations)), 1.0)
    centre = np.append(middles, 1.0)
    products = np.outer(centre, centre)
    products[np.diag_indices(moments.width)] += deviations**2
    i, j = moments.feature_pairs.T
    of_means = np.where(levels, LEVEL_SHARE_DEVIATION, np.minimum(1.0, spread * deviations))
    is_mean = j == moments.width
    variances = np.where(is_mean, np.append(of_means, 1.0)[i], sizes[i] * sizes[j]) ** 2
    return FeaturePrior(products[i, j], variances)
