"""Several categories. Probabilities ~ Dirichlet, as independent Beta fractions of what the earlier categories left."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise._util.arrays import Floats
from equipoise.inference.conjugate import dirichlet_divergence, fit_dirichlet
from equipoise.inference.models.base import Draws, Family, Released
from equipoise.inference.moment_likelihood import RowMoments
from equipoise.inference.observations import Observed
from equipoise.inference.quantile_maps import Table, beta_table, transport

if TYPE_CHECKING:
    from equipoise.models.categorical import CategoricalModel


class CategoricalPrior(NamedTuple):
    """Probabilities ~ Dirichlet(concentrations [categories]); `logit` [categories − 1] of the stick fractions."""

    concentrations: Array
    logit: Table


def categorical_prior(concentrations: Sequence[float]) -> CategoricalPrior:
    """Prepare a Dirichlet prior from one concentration for each category."""
    # What is left for the later categories has the sum of their concentrations; summed from the end, so that no
    # remainder is a difference of two larger sums.
    remaining = np.cumsum(np.asarray(concentrations, float)[::-1])[::-1]
    tables = [beta_table(float(first), float(rest)) for first, rest in zip(concentrations, remaining[1:], strict=False)]
    return CategoricalPrior(
        concentrations=jnp.asarray(concentrations, float),
        logit=Table(
            jnp.stack([table.values for table in tables]),
            jnp.stack([table.slopes for table in tables]),
        ),
    )


@dataclass(frozen=True)
class Categorical(Family[CategoricalPrior]):
    """Several categories; the statistic holds all their counts."""

    categories: int

    @property
    def dimension(self) -> int:
        """One stick fraction for each category but the last, which gets what is left."""
        return self.categories - 1

    @property
    def entries(self) -> int:
        """One count for each category."""
        return self.categories

    def row_moments(self, prior: CategoricalPrior, position: Array) -> RowMoments:
        """Mean p and covariance diag(p) − p pᵀ, singular because counts sum to the row count.

        Its diagonal p_i (1 − p_i) is written Σ_{j≠i} p_i p_j: no digits are lost when one category takes nearly all,
        and a matrix whose rows sum to 0 with nothing positive off the diagonal is positive semi-definite.
        """
        probabilities = _stick_breaking(transport(prior.logit, position))
        products = jnp.outer(probabilities, probabilities) * (1 - jnp.eye(self.categories))
        return RowMoments(probabilities[None], (jnp.diag(products.sum(axis=1)) - products)[None])

    def log_likelihood(self, prior: CategoricalPrior, evidence: Observed, position: Array) -> Array:
        """Log density of each party's counts [slots], in O(K): C = D − c p pᵀ with D diagonal (Sherman–Morrison)."""
        probabilities, scale, den = self._diagonal_and_rank_one(prior, evidence, position)
        residual = evidence.statistic - evidence.rows[:, None] * probabilities
        along = jnp.sum(probabilities * residual / scale, axis=1)
        square = jnp.sum(residual**2 / scale, axis=1) + evidence.sampling * along**2 / den
        log_det = jnp.sum(jnp.log(scale), axis=1) + jnp.log(den)
        return -0.5 * (square + log_det + self.categories * math.log(2 * math.pi))

    def information(self, prior: CategoricalPrior, evidence: Observed, position: Array) -> Array:
        """Fisher information of the mean counts [d, d], without a K × K covariance."""
        probabilities, scale, den = self._diagonal_and_rank_one(prior, evidence, position)
        jacobian = jax.jacfwd(lambda at: _stick_breaking(transport(prior.logit, at)))(position)  # [K, d]
        weight = evidence.weight * evidence.rows**2
        along = (probabilities / scale) @ jacobian  # [slots, d]
        diagonal = jnp.sum(weight[:, None] / scale, axis=0)
        rank_one = (weight * evidence.sampling / den)[:, None] * along
        information: Array = jacobian.T @ (diagonal[:, None] * jacobian) + along.T @ rank_one
        return information

    def _diagonal_and_rank_one(
        self, prior: CategoricalPrior, evidence: Observed, position: Array
    ) -> tuple[Array, Array, Array]:
        """Return p, D = c p + noise and 1 − c pᵀD⁻¹p, which is Σ p · noise/D because p sums to 1."""
        probabilities = _stick_breaking(transport(prior.logit, position))
        scale = evidence.sampling[:, None] * probabilities + evidence.variance
        return probabilities, scale, jnp.sum(probabilities * evidence.variance / scale, axis=1)

    def parameters(self, prior: CategoricalPrior, position: Array) -> dict[str, Array]:
        """Probabilities of all categories."""
        return {"probabilities": _stick_breaking(transport(prior.logit, position))}

    def conjugate_draws(
        self, rng: np.random.Generator, prior: CategoricalPrior, released: Released, draws: int
    ) -> dict[str, Floats]:
        """From the Dirichlet posterior; counts are made what they can be."""
        counts = np.maximum(released.tempered.sum(axis=0), 0)
        counts *= released.total_rows / max(counts.sum(), 1e-300)
        return {"probabilities": rng.dirichlet(np.asarray(prior.concentrations) + counts, size=draws)}

    def conjugate_divergence(self, prior: CategoricalPrior, draws: Draws) -> float:
        """Divergence from the prior of the Dirichlet distribution that fits the draws best."""
        return dirichlet_divergence(fit_dirichlet(draws["probabilities"]), np.asarray(prior.concentrations))


def _stick_breaking(logits: Array) -> Array:
    """p_k = v_k Π_{j<k} (1 − v_j), in logarithms, which no long product can exhaust."""
    log_left = jnp.cumsum(jax.nn.log_sigmoid(-logits))  # log Π_{j≤k} (1 − v_j)
    before = jnp.concatenate([jnp.zeros(1), log_left])
    taken = jnp.concatenate([jax.nn.log_sigmoid(logits), jnp.zeros(1)])  # the last category takes all that is left
    return jnp.exp(before + taken)


def build(agreed: "CategoricalModel", slots: int) -> tuple[Categorical, CategoricalPrior]:
    """The agreed model and prior."""
    size = len(agreed.target.categories)
    concentrations = np.broadcast_to(np.asarray(agreed.prior.concentration, dtype=float), size)
    return Categorical(slots, size), categorical_prior(concentrations.tolist())
