"""What a kind of model is to the engine: coordinates in which the prior is N(0, I), and the moments of a row.

A party's statistic is a sum over rows, so the engine needs the mean and covariance of one row's contribution and
nothing else (`moment_likelihood.py`). Rows were clipped to public bounds before they were summed: where a kind can have
it, all moments are those of the *clipped* variable, so that clipping costs information but never biases a posterior.

A kind is a frozen dataclass of what is static in a compiled program, with a tuple of arrays beside it, its prior.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.inference import moment_likelihood
from equipoise.inference.moment_likelihood import RowMoments
from equipoise.inference.observations import Observed
from equipoise.inference.runtime import compiler_options

Draws = Mapping[str, Floats]

# Logarithms of rates and variances stay in ±SAFE: their exponentials, squares and reciprocal squares are all finite.
SAFE = 300.0


class Released(NamedTuple):
    """What a coalition's members released, for updates that take it as exact, and how far it is tempered."""

    statistic: Floats  # [members, entries]
    rows: Floats  # [members]
    inside: NDArray[np.bool_]  # [slots], the members
    kappa: float
    repair: bool  # whether it may be perturbed, and no statistic of any rows

    @property
    def tempered(self) -> Floats:
        """Statistics as tempering has them [members, entries]."""
        return self.kappa * self.statistic

    @property
    def total_rows(self) -> float:
        """Sum of the tempered row counts."""
        return float((self.kappa * self.rows).sum())


Prior = TypeVar("Prior")


@dataclass(frozen=True)
class Family(ABC, Generic[Prior]):
    """What all kinds share: a prior that is conjugate to exact statistics, and the moments of a row.

    Unless a kind knows better, its own parameters are its first coordinates, as they are.
    """

    slots: int

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return 1

    @property
    def entries(self) -> int:
        """Length of a statistic."""
        return 1

    @property
    def focus(self) -> int:
        """All coordinates are the model's own parameters."""
        return self.dimension

    @property
    def offset(self) -> float:
        """Where the search for the mode starts: at the prior's."""
        return 0.0

    def own_of_draws(self, prior: Prior, draws: Draws) -> Floats | None:  # noqa: ARG002
        """Own coordinates of draws of a sampler that works in none; None if there is no way back."""
        return None

    @abstractmethod
    def conjugate_draws(
        self, rng: np.random.Generator, prior: Prior, released: Released, draws: int
    ) -> dict[str, Floats]:
        """Independent draws of every parameter from the posterior of statistics that are taken as exact."""

    @abstractmethod
    def conjugate_divergence(self, prior: Prior, draws: Draws) -> float:
        """KL from the prior of the member of the prior's family that fits the draws best."""

    @abstractmethod
    def row_moments(self, prior: Prior, position: Array) -> RowMoments:
        """Mean [1, entries] and covariance [1, entries, entries] of one clipped row's statistic."""

    @abstractmethod
    def parameters(self, prior: Prior, position: Array) -> dict[str, Array]:
        """Named parameters at a position."""

    def prepare(self, observed: Observed) -> Observed:
        """The view itself: there is nothing to arrange."""
        return observed

    def log_likelihood(self, prior: Prior, evidence: Observed, position: Array) -> Array:
        """Log density of each party's statistic [slots]."""
        return moment_likelihood.log_likelihood(self.row_moments(prior, position), evidence)

    def information(self, prior: Prior, evidence: Observed, position: Array) -> Array:
        """Fisher information of the mean statistics [d, d]."""
        return moment_likelihood.information(partial(self.row_moments, prior), evidence, position)

    def moments_of_draws(self, prior: Prior, draws: Draws, own: Floats | None, party: int) -> RowMoments:  # noqa: ARG002
        """Moments of one row at every draw, whose coordinates are all needed."""
        assert own is not None
        found: RowMoments = _moments_at(self, prior, own)
        return found


@partial(jax.jit, static_argnames=("model",), compiler_options=compiler_options(0))
def _moments_at(model: Any, prior: Any, positions: Array) -> RowMoments:
    found = jax.vmap(partial(model.row_moments, prior))(positions)
    return RowMoments(found.mean[:, 0], found.covariance[:, 0])


def single_entry(mean: Array, variance: Array) -> RowMoments:
    """Moments of a statistic that is one number."""
    return RowMoments(mean[None, None], variance[None, None, None])
