r"""Regressions some of whose terms are 0 or 1: a mixture over the cells that the levels make.

    cell ~ π,   log π = main effects + interactions of two,   numbers | cell ~ N(μ + Bᵀ levels, diag(s) Ω diag(s))
    target | cell, numbers as in the regression itself

A normal distribution of a 0/1 term would be wrong where it matters: with x = ±1, E[y x] = tanh(θ/2), which a normal x
of the same variance cannot reach, and no released moment gives it away (docs/maths.md §9). Within a cell everything is
as it is without levels, so the moments of a row are those of the regression's numbers, averaged over cells:

    mean = Σ_k π_k m_k,   covariance = Σ_k π_k (C_k + m_k m_kᵀ) − mean meanᵀ.

In cell k an entry is a product of two of (terms, 1, target), whose terms that are 0 or 1 are known: it is the product
of what is left, or 0. A number whose indicator says that it is missing is 0 and does not move the target.

π has two-way interactions only: sums of terms and of products of two are all that is released, and of distributions
with these margins it is the one of largest entropy.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise._util.arrays import Floats
from equipoise.inference import moment_likelihood
from equipoise.inference.models.base import FEATURE_PARAMETERS, Draws, features_of_party
from equipoise.inference.models.standardised import Standardised, StandardisedPrior, _Common
from equipoise.inference.moment_likelihood import RowMoments
from equipoise.inference.observations import Observed
from equipoise.inference.quantile_maps import correlation_root, transport
from equipoise.inference.runtime import compiler_options

if TYPE_CHECKING:
    from equipoise.models.coding import Coding
    from equipoise.models.regression import Regression

MAIN_SPREAD = 2.0  # of the log odds of a level against the reference, where all others are at theirs
INTERACTION_SPREAD = 1.0
SHIFT_SPREAD = 0.7  # of a number's mean from level to level, in deviations of the number


@dataclass(frozen=True)
class Entries:
    """Where each entry of a statistic comes from: a product of two of (numbers, 1, target), and in which cells."""

    coding: "Coding"
    pairs: tuple[tuple[int, int | None], ...]  # places of two columns, the target's being the last

    @cached_property
    def factors(self) -> tuple[np.ndarray, np.ndarray]:
        """Both factors of every entry, once levels are known, as places in (numbers, 1, target)."""
        coding = self.coding
        width, one = len(coding.terms), len(coding.numbers)

        def place(column: int | None) -> int:
            if column == width:
                return one + 1
            return coding.numbers.index(column) if column in coding.numbers else one

        first, second = np.array([sorted((place(i), place(j))) for i, j in self.pairs]).T
        return first, second

    @cached_property
    def gates(self) -> Floats:
        """In which cells an entry is other than 0 [cells, entries]."""
        coding = self.coding
        gates = np.ones((coding.cells, len(coding.terms) + 1))
        gates[:, list(coding.level_terms)] = coding.levels_of_cells[:, list(coding.level_terms)]
        gates[:, list(coding.numbers)] = coding.present
        return np.stack([gates[:, i] * (1.0 if j is None else gates[:, j]) for i, j in self.pairs], axis=1)

    @cached_property
    def log_linear(self) -> Floats:
        """What log π is a combination of: levels, and products of two of different blocks [cells, coefficients]."""
        coding = self.coding
        levels = coding.levels_of_cells
        pairs = [
            (i, j) for i in coding.level_terms for j in coding.level_terms if i < j and (i, j) not in coding.always_zero
        ]
        main = MAIN_SPREAD * levels[:, list(coding.level_terms)]
        both = [INTERACTION_SPREAD * levels[:, i] * levels[:, j] for i, j in pairs]
        return np.column_stack([main, *both])


def entries_of(agreed: "Regression") -> Entries:
    """Where the entries of an agreed statistic come from."""
    return Entries(agreed.coding, tuple((entry.first, entry.second) for entry in agreed.layout.entries))


@dataclass(frozen=True)
class Mixed(Standardised):
    """A regression with a standardised prior, some of whose terms are 0 or 1."""

    table: Entries

    @property
    def coding(self) -> "Coding":
        """How features became terms."""
        return self.table.coding

    @property
    def entries(self) -> int:
        """Length of a statistic."""
        return len(self.table.pairs)

    @property
    def _numbers(self) -> np.ndarray:
        return np.array(self.coding.numbers, int)

    @property
    def _levels(self) -> np.ndarray:
        return np.array(self.coding.level_terms, int)

    @property
    def _sizes(self) -> tuple[int, ...]:
        """Coordinates of one feature distribution: means, deviations, correlations, shifts of means, cells."""
        numbers, levels = len(self.coding.numbers), len(self.coding.level_terms)
        return (
            numbers,
            numbers,
            numbers * (numbers - 1) // 2,
            levels * numbers,
            self.table.log_linear.shape[1],
        )

    @property
    def _block(self) -> int:
        return sum(self._sizes)

    def _parts(self, block: Array) -> list[Array]:
        return jnp.split(block, np.cumsum(self._sizes)[:-1])

    def _common(self, prior: StandardisedPrior, position: Array) -> _Common:
        first, width = self._first, self.width
        mean, deviation, *_ = self._parts(position[self.focus :])
        return _Common(
            jnp.sinh(position[first : first + width]),
            position[first + width],
            jnp.zeros(width).at[self._numbers].set(mean),
            prior.deviation_unit.at[self._numbers].set(jnp.exp(transport(prior.log_deviation, deviation))),
        )

    def bend(self, prior: StandardisedPrior, position: Array) -> Array:
        """Move ζ from where terms are believed to be to where they are.

        The target where all terms are at their means is what its sum tells, whatever the weights. Of a level that no
        row has, the weight is free, and ζ would follow it along a thin and bent ridge.
        """
        return position.at[self.focus - 1].add(self._displacement(prior, position)) if self.shared else position

    def unbend(self, prior: StandardisedPrior, bent: Array) -> Array:
        """The inverse of `bend`."""
        return bent.at[self.focus - 1].add(-self._displacement(prior, bent)) if self.shared else bent

    def _displacement(self, prior: StandardisedPrior, position: Array) -> Array:
        """By how much ζ is moved, which does not depend on ζ."""
        common = self._common(prior, position)
        mean, _, probability, shift, *_ = self._features(prior, position[self.focus :])
        levels, present = self.coding.levels_of_cells[:, self._levels], self.coding.present
        numbers = probability @ (present * (mean + levels @ shift))
        means = jnp.zeros(self.width).at[self._levels].set(probability @ levels).at[self._numbers].set(numbers)
        believed = prior.feature_middle + prior.feature_spread * common.mean
        effects = self._unit(prior, position) * prior.effect * common.effects / common.deviation
        return effects @ (means - believed) / prior.target_spread

    def features(self, prior: StandardisedPrior, position: Array) -> tuple[Array, ...]:
        """Of each feature distribution [1 or slots, …]: means of numbers at the reference levels, their covariance.

        Then probabilities of cells, by how much each level shifts the means, and whatever else a regression needs.
        """
        blocks = position[self.focus :].reshape(-1, self._block)
        return jax.vmap(partial(self._features, prior))(blocks)

    def _features(self, prior: StandardisedPrior, block: Array) -> tuple[Array, ...]:
        numbers = self._numbers
        mean, _, _, shift, cell, *_ = self._parts(block)
        deviation, root = self._spread(prior, block)
        return (
            prior.feature_middle[numbers] + prior.feature_spread[numbers] * mean,
            root @ root.T,
            jax.nn.softmax(self.table.log_linear @ cell),
            SHIFT_SPREAD * shift.reshape(len(self._levels), len(numbers)) * deviation,
        )

    def _spread(self, prior: StandardisedPrior, block: Array) -> tuple[Array, Array]:
        """Deviations of the numbers within a cell, and a root of their covariance."""
        _, scale, correlation, *_ = self._parts(block)
        deviation = jnp.exp(transport(prior.log_deviation, scale))
        return deviation, deviation[:, None] * correlation_root(prior.partial_correlation, correlation, len(scale))

    @abstractmethod
    def _regression(self, prior: StandardisedPrior, position: Array) -> dict[str, Array]:
        """The model's own parameters: `weights`, the bias last, and whatever else there is."""

    @abstractmethod
    def _moments_in_cell(
        self, own: dict[str, Array], weights: Array, mean: Array, covariance: Array, *shape: Array
    ) -> RowMoments:
        """Moments of all products of two of (numbers, 1, target), by rows of the upper triangle; the bias is last."""

    def parameters(self, prior: StandardisedPrior, position: Array) -> dict[str, Array]:
        """Model and data parameters at a position; data parameters have a leading axis of parties unless shared."""
        found = self.features(prior, position)
        data = {name: part[0] if self.shared else part for name, part in zip(FEATURE_PARAMETERS, found, strict=False)}
        return {**self._regression(prior, position), **data}

    def moments_of_row(
        self, own: dict[str, Array], mean: Array, covariance: Array, probability: Array, shift: Array, *shape: Array
    ) -> RowMoments:
        """Moments of one row's statistic, in its order, given parameters."""
        table, weights = self.table, own["weights"]
        levels = self.coding.levels_of_cells[:, self._levels]
        present = self.coding.present
        slopes, bias = weights[self._numbers], weights[-1] + levels @ weights[self._levels]

        def one(bias: Array, present: Array, mean: Array) -> RowMoments:
            return self._moments_in_cell(own, jnp.append(present * slopes, bias), mean, covariance, *shape)

        cells = jax.vmap(one)(bias, jnp.asarray(present), mean + levels @ shift)
        places = np.zeros((len(slopes) + 2,) * 2, int)
        places[np.triu_indices(len(places))] = np.arange(len(places) * (len(places) + 1) // 2)
        sources = places[table.factors]
        gates = jnp.asarray(table.gates)
        means = gates * cells.mean[:, sources]
        whole = probability @ means
        within = jnp.einsum(
            "k,ke,kf,kef->ef", probability, gates, gates, cells.covariance[:, sources[:, None], sources]
        )
        spread = within + (probability[:, None] * means).T @ means - jnp.outer(whole, whole)
        return RowMoments(whole, spread)

    def row_moments(self, prior: StandardisedPrior, position: Array) -> RowMoments:
        """Moments of one row's statistic, for each feature distribution."""
        own = self._regression(prior, position)
        return jax.vmap(partial(self.moments_of_row, own))(*self.features(prior, position))

    def prepare(self, observed: Observed) -> Observed:
        """The view itself: there is nothing to arrange."""
        return observed

    def log_likelihood(self, prior: StandardisedPrior, evidence: Observed, position: Array) -> Array:
        """Log density of each party's statistic [slots]."""
        return moment_likelihood.log_likelihood(self.row_moments(prior, position), evidence)

    def information(self, prior: StandardisedPrior, evidence: Observed, position: Array) -> Array:
        """Fisher information of the mean statistics."""
        return moment_likelihood.information(partial(self.row_moments, prior), evidence, position)

    def moments_of_draws(self, prior: Any, draws: Draws, own: Floats | None, party: int) -> RowMoments:  # noqa: ARG002
        """Moments of one row's statistic at every draw."""
        data = features_of_party(draws, party, shared=self.shared)
        regression = {name: values for name, values in draws.items() if name in ("weights", "variance")}
        found: RowMoments = _moments_of_draws(self, regression, *data)
        return found


@partial(jax.jit, static_argnames=("model",), compiler_options=compiler_options(0))
def _moments_of_draws(model: Mixed, own: dict[str, Array], *data: Array) -> RowMoments:
    found: RowMoments = jax.lax.map(lambda one: model.moments_of_row(*one), (own, *data))
    return found
