"""Two labels. The probability of the second ~ Beta, through the quantile function of its logit."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise._util.arrays import Floats
from equipoise.inference.conjugate import dirichlet_divergence, fit_dirichlet
from equipoise.inference.models.base import Draws, Family, Released, single_entry
from equipoise.inference.moment_likelihood import RowMoments
from equipoise.inference.quantile_maps import Table, beta_table, transport

if TYPE_CHECKING:
    from equipoise.models.bernoulli import BernoulliModel


class BernoulliPrior(NamedTuple):
    """Probability of the second label ~ Beta(positive, negative)."""

    positive: Array
    negative: Array
    logit: Table


def bernoulli_prior(positive: float, negative: float) -> BernoulliPrior:
    """Prepare a Beta prior from the pseudo-counts of the second and the first label."""
    return BernoulliPrior(
        positive=jnp.asarray(positive, float),
        negative=jnp.asarray(negative, float),
        logit=beta_table(positive, negative),
    )


@dataclass(frozen=True)
class Bernoulli(Family[BernoulliPrior]):
    """Two labels; the statistic is the number of rows with the second."""

    def row_moments(self, prior: BernoulliPrior, position: Array) -> RowMoments:
        """Mean p and variance p(1 − p); both factors from the logit, so that neither loses digits near 0 or 1."""
        logit = transport(prior.logit, position[0])
        probability = jax.nn.sigmoid(logit)
        return single_entry(probability, probability * jax.nn.sigmoid(-logit))

    def parameters(self, prior: BernoulliPrior, position: Array) -> dict[str, Array]:
        """Probability of the second label."""
        return {"probability": jax.nn.sigmoid(transport(prior.logit, position[0]))}

    def conjugate_draws(
        self, rng: np.random.Generator, prior: BernoulliPrior, released: Released, draws: int
    ) -> dict[str, Floats]:
        """From the Beta posterior; the count is clipped to what it can be."""
        rows = released.total_rows
        positive = np.clip(released.tempered.sum(), 0, rows)
        first, second = float(prior.positive) + positive, float(prior.negative) + rows - positive
        return {"probability": rng.beta(first, second, size=draws)}

    def conjugate_divergence(self, prior: BernoulliPrior, draws: Draws) -> float:
        """Divergence from the prior of the Beta distribution that fits the draws best."""
        both = np.stack([draws["probability"], 1 - draws["probability"]], axis=1)
        return dirichlet_divergence(fit_dirichlet(both), np.array([float(prior.positive), float(prior.negative)]))


def build(agreed: "BernoulliModel", slots: int) -> tuple[Bernoulli, BernoulliPrior]:
    """The agreed model and prior."""
    return Bernoulli(slots), bernoulli_prior(agreed.prior.positive, agreed.prior.negative)
