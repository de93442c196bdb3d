r"""Regressions whose prior is stated for standardised features, which fits columns of any scale.

    log s ~ N(log typical, spread²), s < 1,   Ω ~ LKJ,   μ ~ N(middle, …),   x ~ N(μ, diag(s) Ω diag(s))
    weight = unit · effect · sinh(z) / s,   z ~ N(0, 1),   bias = middle + spread · ζ − weights·μ,   ζ ~ N(0, 1)

The unit is the residual standard deviation σ in linear regression, itself log-normal, and 1 in logistic regression.
sinh gives effects a heavy tail: most features explain little and some a lot. A normal prior narrow enough for the many
pulls on the few, and one wide enough for the few predicts badly where noise hides nearly everything.

Coordinates: z, ζ and those of σ, s, μ and Ω, so that the prior is N(0, I). What data tell directly (the variances of
features and target, the target's mean, the share that is explained) depends on few of them at a time, whatever the
noise hides of the others. The model's *own* parameters, weights, bias and σ, depend on s and μ too. Their coordinates
(`own`) are other functions of the position, with the nuisance integrated out of their prior:

    σ by its quantile function,   Φ⁻¹(F(weight/(unit · effect))),   (bias − its mean)/its sd given the weights

where F is the distribution function of sinh(z)/s, a scale mixture, tabulated. Under the prior they are N(0, I)
again, so that whatever is measured by them is measured of the model alone.

If every party's features have a distribution of their own, there is no one s that weights could be relative to. They
then have the same prior, independent of the parties' s: `own` coordinates are the first ones.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise._util.arrays import Floats
from equipoise._util.quantiles import GRID, RATIO_STRETCH, SINH_DEVIATION
from equipoise.inference.models.base import EngineModel
from equipoise.inference.quantile_maps import (
    Table,
    correlation_root,
    inverse_at,
    inverse_table,
    log_normal_table,
    partial_correlation_table,
    ratio_table,
    stacked,
    transport,
)

LARGEST_DEVIATION = 1.0  # of anything within [−1, 1]


class Typical(NamedTuple):
    """What is believed of a column in scaled units: its middle, its standard deviation, the spread of its logarithm."""

    middle: float
    deviation: float
    spread: float


class StandardisedPrior(NamedTuple):
    """Scales, and tables of the transports; those of σ are linear regression's alone."""

    effect: Array
    feature_middle: Array
    feature_spread: Array  # of the features' means
    target_middle: Array
    target_spread: Array  # of the target's mean, or of its log odds, where features are at their means
    log_deviation: Table  # of each feature
    deviation_unit: Array  # of each feature, at which the table of ratios is scaled
    ratio: Table  # weight/(unit · effect) ↦ its normal coordinate, for each feature
    inverse_ratio: Table  # the inverse of `ratio`
    partial_correlation: Table
    log_residual: Table | None
    shape_spread: Array  # by how much E[y x] may differ from that of normal features, in their deviations


def standardised_prior(
    features: Sequence[Typical],
    *,
    effect: float,
    concentration: float,
    mean_spread: float,
    target_middle: float,
    target_spread: float,
    residual: tuple[float, float] | None = None,
    shape_spread: float = 0.0,
) -> StandardisedPrior:
    """Prepare a prior; `effect` is a standard deviation, `residual` the centre of σ and the spread of its logarithm.

    Where `spread` is 0 the deviation is known, as that of a term which is 0 or 1 is taken to be, and so is the mean.
    """
    deviations = [column.deviation for column in features]
    ratios = [ratio_table(*one[1:], LARGEST_DEVIATION) for one in features]
    spreads = [mean_spread * one.deviation if one.spread else 0.0 for one in features]
    numbers = [one for one in features if one.spread]
    tables = [log_normal_table(*one[1:], LARGEST_DEVIATION) for one in numbers]
    return StandardisedPrior(
        effect=jnp.asarray(effect / SINH_DEVIATION, float),
        feature_middle=jnp.asarray([column.middle for column in features], float),
        feature_spread=jnp.asarray(spreads, float),
        target_middle=jnp.asarray(target_middle, float),
        target_spread=jnp.asarray(target_spread, float),
        log_deviation=stacked(tables) if tables else Table(*(jnp.zeros((0, len(GRID))) for _ in range(2))),
        deviation_unit=jnp.asarray(deviations, float),
        ratio=stacked(ratios),
        inverse_ratio=stacked([inverse_table(one) for one in ratios]),
        partial_correlation=partial_correlation_table(max(len(numbers), 1), concentration),
        log_residual=None if residual is None else log_normal_table(*residual, LARGEST_DEVIATION),
        shape_spread=jnp.asarray(shape_spread, float),
    )


class _Common(NamedTuple):
    """What coefficients follow from where all parties' features have one distribution."""

    effects: Array  # sinh z
    level: Array  # ζ
    mean: Array  # standardised
    deviation: Array


@dataclass(frozen=True)
class Standardised(EngineModel):
    """What both regressions share; `_first` says where their z begin."""

    width: int
    slots: int
    shared: bool

    @property
    @abstractmethod
    def _first(self) -> int: ...

    @property
    def focus(self) -> int:
        """Number of the model's own parameters; the rest describe the features."""
        return self._first + self.width + 1

    @property
    def plain(self) -> bool:
        """Own coordinates are functions of several, unless there is no common distribution."""
        return not self.shared

    @property
    def offset(self) -> float:
        """The search for the mode starts at the prior's."""
        return 0.0

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.focus + (1 if self.shared else self.slots) * self._block

    @property
    def _block(self) -> int:
        """Coordinates of one feature distribution: means, deviations, correlations."""
        return 2 * self.width + self.width * (self.width - 1) // 2

    def _common(self, prior: StandardisedPrior, position: Array) -> _Common:
        first, width = self._first, self.width
        mean, deviation = jnp.split(position[self.focus : self.focus + 2 * width], 2)
        return _Common(
            jnp.sinh(position[first : first + width]),
            position[first + width],
            mean,
            jnp.exp(transport(prior.log_deviation, deviation)),
        )

    def _coefficients(self, prior: StandardisedPrior, position: Array, unit: Array | float) -> Array:
        """Weights, then the bias."""
        if not self.shared:
            return self._independent_coefficients(prior, position, unit)
        common = self._common(prior, position)
        weights = unit * prior.effect * common.effects / common.deviation
        mean = prior.feature_middle + prior.feature_spread * common.mean
        bias = prior.target_middle + prior.target_spread * common.level - weights @ mean
        return jnp.append(weights, bias)

    def _independent_coefficients(self, prior: StandardisedPrior, position: Array, unit: Array | float) -> Array:
        """As `_coefficients`, with the same prior, from coordinates of their own."""
        first, width = self._first, self.width
        scaled = transport(prior.inverse_ratio, position[first : first + width])
        weights = unit * prior.effect * jnp.sinh(scaled / RATIO_STRETCH) / prior.deviation_unit
        spreads = weights * prior.feature_spread
        spread = jnp.sqrt(prior.target_spread**2 + spreads @ spreads)
        bias = prior.target_middle - weights @ prior.feature_middle + spread * position[first + width]
        return jnp.append(weights, bias)

    def _distributions(self, prior: StandardisedPrior, position: Array) -> tuple[Array, Array]:
        """Means and covariance roots of the feature distributions: [1 or slots, …]."""
        width, number = self.width, 1 if self.shared else self.slots
        blocks = position[self.focus :].reshape(number, self._block)

        def one(block: Array) -> tuple[Array, Array]:
            mean = prior.feature_middle + prior.feature_spread * block[:width]
            deviation = jnp.exp(transport(prior.log_deviation, block[width : 2 * width]))
            correlation = block[2 * width : 2 * width + width * (width - 1) // 2]
            return mean, deviation[:, None] * correlation_root(prior.partial_correlation, correlation, width)

        means, roots = jax.vmap(one)(blocks)
        return means, roots

    def own(self, prior: StandardisedPrior, position: Array) -> Array:
        """Coordinates of the model's own parameters, N(0, I) under the prior: σ, weights, bias."""
        if not self.shared:
            return position[: self.focus]
        unit = self._unit(prior, position)
        common = self._common(prior, position)
        ratios = common.effects / common.deviation
        scaled = RATIO_STRETCH * jnp.arcsinh(ratios * prior.deviation_unit)
        spreads = unit * prior.effect * ratios * prior.feature_spread
        bias = prior.target_spread * common.level - spreads @ common.mean
        bias /= jnp.sqrt(prior.target_spread**2 + spreads @ spreads)
        return jnp.concatenate([position[: self._first], transport(prior.ratio, scaled), bias[None]])

    @abstractmethod
    def _unit(self, prior: StandardisedPrior, position: Array) -> Array | float:
        """The standard deviation that effects are relative to."""

    def deviation_coordinates(self, prior: Any, deviations: Floats) -> Floats:
        """Normal coordinates, under the prior, of the features' standard deviations [distributions, features]."""
        tables = [Table(*(part[k] for part in prior.log_deviation)) for k in range(deviations.shape[1])]
        return np.stack([inverse_at(table, np.log(deviations[:, k])) for k, table in enumerate(tables)], axis=1)
