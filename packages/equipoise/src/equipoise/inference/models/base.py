"""The half of a kind of model that inference needs: moments of one row, and posteriors of exact statistics.

A party's statistic is a sum over rows, so the mean and covariance of one row's contribution are all that sampling needs
(`posterior.py`). Rows were clipped to public bounds before they were summed: if a kind provides them, all moments are
those of the *clipped* variable, so that clipping costs information but never biases a posterior.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.inference.pooling import Releases
from equipoise.models.base import Family as AgreedFamily
from equipoise.models.base import Model

Draws = Mapping[str, Floats]

# Logarithms of rates and deviations stay in ±SAFE: their exponentials, squares and reciprocal squares are all finite.
SAFE = 300.0


class Released(NamedTuple):
    """Statistics of a coalition's members, for updates that take them as exact, and their tempering.

    `statistic` [members, entries] and `rows` [members] are theirs; `inside` [parties] marks the members. Perturbed
    statistics need not be those of any rows, and need `repair`.
    """

    statistic: Floats
    rows: Floats
    inside: NDArray[np.bool_]
    kappa: float
    repair: bool

    @property
    def tempered(self) -> Floats:
        """The tempered statistics [members, entries]."""
        return self.kappa * self.statistic

    @property
    def total_rows(self) -> float:
        """The sum of the tempered row counts."""
        return float((self.kappa * self.rows).sum())


class RowMoments(NamedTuple):
    """Mean [draws, entries] and covariance [draws, entries, entries] of one row's statistic at every draw."""

    mean: Floats
    covariance: Floats


Agreed = TypeVar("Agreed", bound=Model)


class Conjugate(ABC, Generic[Agreed]):
    """A model whose prior is conjugate to exact statistics."""

    def __init__(self, agreed: Agreed) -> None:
        self.agreed = agreed

    @abstractmethod
    def conjugate_draws(self, rng: np.random.Generator, released: Released, draws: int) -> dict[str, Floats]:
        """Draw every parameter independently from the posterior of statistics that are taken as exact."""

    @abstractmethod
    def conjugate_divergence(self, draws: Draws) -> float:
        """Return the KL from the prior of the best-fitting member of the prior's family."""

    def own_of_draws(self, draws: Draws) -> Floats | None:  # noqa: ARG002
        """Return own coordinates of draws made by a sampler that uses none; None if there is no way back."""
        return None


AgreedFamilyT = TypeVar("AgreedFamilyT", bound=AgreedFamily)


class Family(Conjugate[AgreedFamilyT]):
    """A model without features: all rows have the same distribution."""

    @abstractmethod
    def row_moments(self, draws: Draws) -> RowMoments:
        """Return mean and covariance of one clipped row's statistic at every draw."""

    def log_density(self, draws: Draws, releases: Releases, sampling: float) -> Floats:
        """Return the log density [draws] of released statistics, up to a constant.

        `sampling` multiplies the covariances of rows. The noise of all parties has one shape D. With D^(−½) V D^(−½) =
        U diag(l) Uᵀ, V the covariance of a row, all their covariances are diagonal in one basis at each draw.
        """
        statistic, rows, scale, shape = releases
        mean, covariance = self.row_moments(draws)
        root = np.sqrt(shape)
        residual = (statistic - rows[:, None] * mean[:, None]) / root  # [draws, parties, entries]
        spread = covariance / np.outer(root, root)
        if len(root) == 1:
            values = spread[:, :, 0]
        else:
            values, vectors = np.linalg.eigh(np.where(np.isfinite(spread), spread, 0.0))
            residual = np.matmul(residual, vectors)
        variance = sampling * rows[:, None] * np.maximum(values, 0.0)[:, None] + scale[:, None]
        return np.asarray(-0.5 * np.sum(residual**2 / variance + np.log(variance), axis=(1, 2)))


def single_entry(mean: Floats, variance: Floats) -> RowMoments:
    """Return the moments of a statistic that is a single number, from arrays [draws]."""
    return RowMoments(mean[:, None], variance[:, None, None])
