r"""Bayesian logistic regression on polynomial approximate statistics, with the exact moments of those statistics.

    p(y = 1 | x) = sigmoid(t),  t = bias + weights·x,  y = ±1,  x ~ N(μ, Σ),  Σ = diag(ι) Ω diag(ι)
    statistic of a row: (x, y, products of two features, y x)

Prior: (weights/weight_scale, bias/bias_scale) has a squared norm that is χ² truncated at a public constant, and a
uniform direction (paper App. H.1); ι normal on [0, sd_max]; Ω ~ LKJ; μ normal around 0 (the paper has μ = 0).
"""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import special, stats

from equipoise._util.arrays import Floats
from equipoise._util.quantiles import GRID, truncated_square
from equipoise.inference import logistic_likelihood, moment_likelihood
from equipoise.inference.conjugate import repaired
from equipoise.inference.logistic_likelihood import LabelledEvidence, LabelledRow
from equipoise.inference.models.base import EngineModel
from equipoise.inference.models.logistic_moments import (
    labelled_row,
    moments,
    statistic_order,
)
from equipoise.inference.moment_likelihood import RowMoments
from equipoise.inference.observations import Observed
from equipoise.inference.quantile_maps import (
    Table,
    correlation_root,
    partial_correlation_table,
    transport,
    truncated_normal_table,
)
from equipoise.inference.statistic_likelihood import MatrixNoise, matrix_places

if TYPE_CHECKING:
    from equipoise.models.logistic import LogisticModel

BLOCKS_FROM = 6  # features: with fewer, a dense covariance matrix is as quick (benchmarks/logistic_gradient.py)
_NORM_STRETCH = 3.0  # the table of norms runs over 3 log ρ in [−9, 9]


class LogisticPrior(NamedTuple):
    """Scales, and tables of the transports."""

    coefficient_scale: Array  # of each weight, then of the bias
    log_norm: Table  # 3 log |normal| ↦ log |coefficients|
    mean_spread: Array
    deviation: Table  # of ι/sd_max, as a logit
    largest_deviation: Array
    partial_correlation: Table  # by column: logit of (1 + partial correlation)/2


def logistic_prior(
    *,
    width: int,
    degrees_of_freedom: float,
    max_squared_norm: float,
    weight_scale: float,
    bias_scale: float,
    mean_spread: float,
    concentration: float,
    sd_mean: float,
    sd_spread: float,
    sd_max: float,
) -> LogisticPrior:
    """The prior of a logistic regression, with its maps tabulated."""
    return LogisticPrior(
        coefficient_scale=jnp.array([weight_scale] * width + [bias_scale]),
        log_norm=_log_norm_table(width + 1, degrees_of_freedom, max_squared_norm),
        mean_spread=jnp.asarray(mean_spread, float),
        deviation=truncated_normal_table(sd_mean, sd_spread, 0.0, sd_max),
        largest_deviation=jnp.asarray(sd_max, float),
        partial_correlation=partial_correlation_table(width, concentration),
    )


def _log_norm_table(dimension: int, degrees: float, limit: float) -> Table:
    """F_degrees(r²)/F_degrees(limit) = F_dimension(ρ²): the norm r that a normal vector of norm ρ is given."""
    log_rho = GRID / _NORM_STRETCH
    half = np.exp(2 * log_rho) / 2
    mass = special.gammainc(degrees / 2, limit / 2)
    half_square = truncated_square(half, dimension, degrees, limit)
    log_r = 0.5 * np.log(2 * half_square)
    # d log r / d log ρ is the ratio of the densities of log ρ² and log r²
    slope = np.exp(
        stats.loggamma.logpdf(2 * log_rho - np.log(2), dimension / 2)
        - stats.loggamma.logpdf(np.log(half_square), degrees / 2)
        + np.log(mass)
    )
    return Table(jnp.asarray(log_r), jnp.asarray(slope / _NORM_STRETCH))


@dataclass(frozen=True)
class LogisticRegression(EngineModel):
    """Static part of the model; `centred` says that features have mean 0, as the paper assumes."""

    width: int
    slots: int
    shared: bool
    centred: bool = False

    @property
    def entries(self) -> int:
        """Length of a statistic."""
        return 2 * self.width + 1 + self.width * (self.width + 1) // 2

    @property
    def focus(self) -> int:
        """The first coordinates, which are the model's own parameters; the rest describe the features."""
        return self.width + 1

    @property
    def offset(self) -> float:
        """Off the prior's mode, where a search would stay: weights do not change with coordinates there."""
        return 0.3

    @property
    def _data_dimension(self) -> int:
        return (1 if self.centred else 2) * self.width + self.width * (self.width - 1) // 2

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.focus + (1 if self.shared else self.slots) * self._data_dimension

    def prepare(self, observed: Observed) -> Observed | LabelledEvidence:
        """Arrange one scenario's view once, before any sampling."""
        return self.by_blocks(observed) if self.width >= BLOCKS_FROM else observed

    def by_blocks(self, observed: Observed) -> LabelledEvidence:
        """One scenario's view for block elimination."""
        size, places = self.width + 1, matrix_places(self.width)
        statistic = jnp.column_stack([observed.statistic, observed.rows])[:, places]
        off_diagonal = observed.variance[:, 0]  # all have the same by construction, but for squares
        variance = jnp.column_stack([observed.variance, 2 * off_diagonal])[:, places]
        return LabelledEvidence(
            statistic[:, :size, :size],
            statistic[:, :size, -1],
            observed.rows,
            observed.sampling,
            MatrixNoise(off_diagonal, jnp.diagonal(variance[:, :size, :size], axis1=1, axis2=2)),
            variance[:, :size, -1],
            observed.weight,
        )

    def coefficients(self, prior: LogisticPrior, position: Array) -> Array:
        """Weights, then the bias."""
        normal = position[: self.focus]
        square = jnp.maximum(normal @ normal, 1e-30)
        log_rho = 0.5 * jnp.log(square)
        return prior.coefficient_scale * normal * jnp.exp(transport(prior.log_norm, _NORM_STRETCH * log_rho) - log_rho)

    def features(self, prior: LogisticPrior, position: Array) -> tuple[Array, ...]:
        """Means and covariances of the feature distributions: [1 or slots, …]."""
        blocks = position[self.focus :].reshape(-1, self._data_dimension)
        return jax.vmap(partial(self._features, prior))(blocks)

    def _features(self, prior: LogisticPrior, block: Array) -> tuple[Array, Array]:
        width = self.width
        mean = jnp.zeros(width)
        if not self.centred:
            mean, block = prior.mean_spread * block[:width], block[width:]
        table = jax.tree.map(lambda part: jnp.broadcast_to(part, (width, len(GRID))), prior.deviation)
        deviation = prior.largest_deviation * jax.nn.sigmoid(transport(table, block[:width]))
        root = deviation[:, None] * correlation_root(prior.partial_correlation, block[width:], width)
        return mean, root @ root.T

    def parameters(self, prior: LogisticPrior, position: Array) -> dict[str, Array]:
        """Model and data parameters at a position; data parameters have a leading axis of parties unless shared."""
        names, found = ("feature_mean", "feature_covariance"), self.features(prior, position)
        data = {name: part[0] if self.shared else part for name, part in zip(names, found, strict=True)}
        return {"weights": self.coefficients(prior, position), **data}

    def row_moments(self, prior: LogisticPrior, position: Array) -> RowMoments:
        """Moments of one row's statistic, for each feature distribution."""
        weights = self.coefficients(prior, position)
        return jax.vmap(partial(self.moments_of_row, weights))(*self.features(prior, position))

    def moments_of_row(self, weights: Array, mean: Array, covariance: Array) -> RowMoments:
        """Moments of one row's statistic, in the order of the statistic, given parameters."""
        order = statistic_order(self.width)
        found = moments(weights[:-1], weights[-1], mean, covariance)
        return RowMoments(found.mean[order], found.covariance[order[:, None], order])

    def labelled_rows(self, prior: LogisticPrior, position: Array) -> LabelledRow:
        """Moments of one row for block elimination, for each feature distribution."""
        weights = self.coefficients(prior, position)
        return jax.vmap(partial(labelled_row, weights[:-1], weights[-1]))(*self.features(prior, position))

    def log_likelihood(self, prior: LogisticPrior, evidence: Observed | LabelledEvidence, position: Array) -> Array:
        """Log density of each party's statistic [slots]."""
        if isinstance(evidence, Observed):
            return moment_likelihood.log_likelihood(self.row_moments(prior, position), evidence)
        found = jax.vmap(logistic_likelihood.log_likelihood)(
            self.labelled_rows(prior, position), self._by_distribution(evidence)
        )
        return found.reshape(-1)

    def information(self, prior: LogisticPrior, evidence: Observed | LabelledEvidence, position: Array) -> Array:
        """Fisher information of the mean statistics."""
        if isinstance(evidence, Observed):
            return moment_likelihood.information(partial(self.row_moments, prior), evidence, position)

        def means(at: Array) -> tuple[Array, Array]:
            rows = self.labelled_rows(prior, at)
            return rows.second_moment, rows.label_mean

        moment_slopes, label_slopes = (jnp.moveaxis(part, -1, 1) for part in jax.jacfwd(means)(position))
        found = jax.vmap(logistic_likelihood.information)(
            self.labelled_rows(prior, position), moment_slopes, label_slopes, self._by_distribution(evidence)
        )
        return jnp.sum(found, axis=0)

    def _by_distribution(self, evidence: LabelledEvidence) -> LabelledEvidence:
        """Parties by the distribution of their features: [1, slots, …] or [slots, 1, …]."""
        found: LabelledEvidence = jax.tree.map(lambda part: part[None] if self.shared else part[:, None], evidence)
        return found

    def repaired(self, statistic: Floats, count: float) -> Floats:
        """The statistic whose matrix over (x, y, 1) is positive semi-definite, with y² = 1 known."""
        width = self.width
        matrix = np.empty((width + 2, width + 2))
        matrix[-1, :-1] = matrix[:-1, -1] = statistic[: width + 1]
        matrix[-1, -1] = matrix[width, width] = count
        rows, columns = np.triu_indices(width + 1)
        inner = ~((rows == width) & (columns == width))
        rows, columns = rows[inner], columns[inner]
        matrix[rows, columns] = matrix[columns, rows] = statistic[width + 1 :]
        fixed = repaired(matrix, fixed=[width, width + 1])
        return np.concatenate([fixed[-1, : width + 1], fixed[rows, columns]])


def build(agreed: "LogisticModel", slots: int) -> tuple[LogisticRegression, Any]:
    """Build the agreed model and its conjugate prior."""
    width = len(agreed.features)
    prior, data = agreed.prior, agreed.data_prior
    assert prior.kind == "conjugate"
    assert data.kind == "conjugate"
    centred = data.mean_spread == 0
    return LogisticRegression(width, slots, data.scope == "shared", centred), logistic_prior(
        width=width,
        degrees_of_freedom=float(width) if prior.degrees_of_freedom is None else prior.degrees_of_freedom,
        max_squared_norm=prior.max_squared_norm,
        weight_scale=prior.weight_scale,
        bias_scale=prior.bias_scale,
        mean_spread=data.mean_spread,
        concentration=data.concentration,
        sd_mean=data.sd_mean,
        sd_spread=data.sd_spread,
        sd_max=data.sd_max,
    )
