r"""Bayesian logistic regression on polynomial approximate statistics, with the exact moments of those statistics.

    p(y = 1 | x) = sigmoid(t),  t = bias + weights·x,  y = ±1,  x ~ N(μ, Σ),  Σ = diag(ι) Ω diag(ι)
    statistic of a row: (x, y, products of two features, y x)

Prior: (weights/weight_scale, bias/bias_scale) has a squared norm that is χ² truncated at a public constant, and a
uniform direction (paper App. H.1); ι normal on [0, sd_max]; Ω ~ LKJ; μ normal around 0 (the paper has μ = 0).

**Features that are not normal.** E[y x] depends on the whole distribution of x, of which two moments are released. With
the standardised prior it is therefore e₁ u (1 + f c) + f d, where f = 2v²/(1 + 2v²) and d and c are nuisance
parameters: d ~ N(0, s²Σ) and c ~ N(1.5 s, (3 s)²), s being `shape_spread`. Third cumulants of x move E[y x] in any
direction, by a share of v² while that is small; fourth ones along u; and neither beyond E|x|, whence f. Columns within
bounds are flatter than normal ones, which makes c positive: up to 0.09 for uniform features, −0.11 for Laplace's. Sizes
were set by six public tables: c is between −0.01 and 0.19, f d between 0.005 and 0.039 s.d. (docs/real_tables.md).
"""

from abc import abstractmethod
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
from equipoise.inference.models.base import Draws, EngineModel, features_of_party
from equipoise.inference.models.logistic_moments import (
    labelled_row,
    moments,
    statistic_order,
    triangle_order,
)
from equipoise.inference.models.mixed import Mixed, entries_of
from equipoise.inference.models.standardised import Standardised, StandardisedPrior, Typical, standardised_prior
from equipoise.inference.moment_likelihood import RowMoments
from equipoise.inference.observations import Observed
from equipoise.inference.quantile_maps import (
    Table,
    correlation_root,
    inverse_at,
    partial_correlation_table,
    transport,
    truncated_normal_table,
)
from equipoise.inference.runtime import compiler_options
from equipoise.inference.statistic_likelihood import MatrixNoise, matrix_places

if TYPE_CHECKING:
    from equipoise.models.logistic import LogisticModel

BLOCKS_FROM = 6  # features: with fewer, a dense covariance matrix is as quick (benchmarks/logistic_gradient.py)
FLATNESS, FLATNESS_SPREAD = 1.5, 3.0  # of the factor of E[y x], in units of `shape_spread`
_PROBIT_VARIANCE = 2.9  # of the normal distribution that is nearest to the logistic one
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
        names, found = ("feature_mean", "feature_covariance", "feature_shape"), self.features(prior, position)
        data = {name: part[0] if self.shared else part for name, part in zip(names, found, strict=False)}
        return {"weights": self.coefficients(prior, position), **data}

    def row_moments(self, prior: LogisticPrior, position: Array) -> RowMoments:
        """Moments of one row's statistic, for each feature distribution."""
        weights = self.coefficients(prior, position)
        return jax.vmap(partial(self.moments_of_row, weights))(*self.features(prior, position))

    def moments_of_row(self, weights: Array, mean: Array, covariance: Array, shape: Array | None = None) -> RowMoments:
        """Moments of one row's statistic, in the order of the statistic, given parameters."""
        order = statistic_order(self.width)
        found = moments(weights[:-1], weights[-1], mean, covariance, shape)
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

    def moments_of_draws(self, prior: Any, draws: Draws, own: Floats | None, party: int) -> RowMoments:  # noqa: ARG002
        """Moments of one row's statistic at every draw."""
        features = features_of_party(draws, party, shared=self.shared)
        found: RowMoments = _moments_of_draws(self, draws["weights"], *features)
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

    def deviation_coordinates(self, prior: Any, deviations: Floats) -> Floats:
        """Standard normal coordinates of the deviations of the features' truncated normal distributions."""
        fraction = np.clip(deviations / float(prior.largest_deviation), 1e-12, 1 - 1e-12)
        return inverse_at(prior.deviation, special.logit(fraction))


@dataclass(frozen=True)
class _Shaped(Standardised):
    """What logistic regressions with a standardised prior share: the last coordinate is that of the factor 1 + f c."""

    @property
    def _first(self) -> int:
        return 0

    def _unit(self, prior: StandardisedPrior, position: Array) -> float:  # noqa: ARG002  (log odds have no other)
        return 1.0

    def bend(self, prior: StandardisedPrior, position: Array) -> Array:
        """Move the last coordinate by what the variance of the log odds does to E[y x].

        That tells their product with the factor; of strong effects either can be anything, along a bent ridge.
        """
        bent = super().bend(prior, position)
        return bent.at[-1].add(self._saturation(prior, bent)) if self.shared else bent

    def unbend(self, prior: StandardisedPrior, bent: Array) -> Array:
        """The inverse of `bend`."""
        position = bent.at[-1].add(-self._saturation(prior, bent)) if self.shared else bent
        return super().unbend(prior, position)

    def _saturation(self, prior: StandardisedPrior, position: Array) -> Array:
        """Log e₁v for v² ≫ 1, nearly, in the last coordinate's units; it depends on neither that nor the bias."""
        rise = -0.5 * jnp.log1p(_PROBIT_VARIANCE / (1 + self._variance(prior, position)))
        return jnp.where(prior.shape_spread > 0, rise / (FLATNESS_SPREAD * jnp.maximum(prior.shape_spread, 1e-3)), 0.0)

    @abstractmethod
    def _variance(self, prior: StandardisedPrior, position: Array) -> Array:
        """Of the log odds within a cell."""


@dataclass(frozen=True)
class StandardisedLogistic(_Shaped, LogisticRegression):
    """Logistic regression with a standardised prior."""

    @property
    def _block(self) -> int:
        return super()._block + self.width + 1

    def coefficients(self, prior: StandardisedPrior, position: Array) -> Array:  # type: ignore[override]
        """Weights, then the bias."""
        return self._coefficients(prior, position, 1.0)

    def features(self, prior: StandardisedPrior, position: Array) -> tuple[Array, Array, Array]:  # type: ignore[override]
        """Means, covariances and shapes of the feature distributions: [1 or slots, …]."""
        means, roots = self._distributions(prior, position)
        coordinates = position[self.focus :].reshape(-1, self._block)[:, -self.width - 1 :]
        return means, roots @ roots.mT, jax.vmap(partial(_shape, prior))(roots, coordinates)

    def _variance(self, prior: StandardisedPrior, position: Array) -> Array:
        _, roots = self._distributions(prior, position)
        through = roots[0].T @ self.coefficients(prior, position)[:-1]
        return through @ through


@dataclass(frozen=True)
class MixedLogistic(_Shaped, Mixed):
    """Logistic regression some of whose terms are 0 or 1."""

    def _regression(self, prior: StandardisedPrior, position: Array) -> dict[str, Array]:
        return {"weights": self._coefficients(prior, position, 1.0)}

    @property
    def _sizes(self) -> tuple[int, ...]:
        return (*super()._sizes, len(self.coding.numbers) + 1)

    def _features(self, prior: StandardisedPrior, block: Array) -> tuple[Array, ...]:
        _, root = self._spread(prior, block)
        return *super()._features(prior, block), _shape(prior, root, self._parts(block)[-1])

    def _variance(self, prior: StandardisedPrior, position: Array) -> Array:
        _, root = self._spread(prior, position[self.focus :])
        through = root.T @ self._coefficients(prior, position, 1.0)[self._numbers]
        return through @ through

    def _moments_in_cell(
        self,
        own: dict[str, Array],  # noqa: ARG002
        weights: Array,
        mean: Array,
        covariance: Array,
        *shape: Array,
    ) -> RowMoments:
        found = moments(weights[:-1], weights[-1], mean, covariance, *shape)
        # From (y, y x, x, products) to the upper triangle of (x, 1, y), where 1 and y² are known.
        known = RowMoments(jnp.append(found.mean, 1.0), jnp.pad(found.covariance, ((0, 1), (0, 1))))
        order = triangle_order(len(mean))
        return RowMoments(known.mean[order], known.covariance[order[:, None], order])


def _shape(prior: StandardisedPrior, root: Array, coordinates: Array) -> Array:
    """By how much E[y x̃] differs from that of normal x, where effects are large: in any direction, and by a factor."""
    factor = FLATNESS + FLATNESS_SPREAD * coordinates[-1]
    return prior.shape_spread * jnp.append(root @ coordinates[:-1], factor)


@partial(jax.jit, static_argnames=("model",), compiler_options=compiler_options(0))
def _moments_of_draws(model: LogisticRegression, weights: Array, *features: Array) -> RowMoments:
    return jax.vmap(model.moments_of_row)(weights, *features)


def build(agreed: "LogisticModel", slots: int) -> tuple[LogisticRegression | MixedLogistic, Any]:
    """The agreed model and prior."""
    coding = agreed.coding
    width = len(coding.terms)
    prior, data = agreed.prior, agreed.data_prior
    if prior.kind == "standardised":
        assert data.kind == "standardised"
        shared = data.scope == "shared"
        model: LogisticRegression | MixedLogistic = StandardisedLogistic(width, slots, shared)
        if not coding.only_numbers:
            model = MixedLogistic(width, slots, shared, entries_of(agreed))
        return model, standardised_prior(
            [Typical(*one) for one in agreed.typical_terms],
            effect=prior.effect,
            concentration=data.concentration,
            mean_spread=data.mean_spread,
            target_middle=0.0,
            target_spread=prior.bias_spread,
            shape_spread=data.shape_spread,
        )
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
