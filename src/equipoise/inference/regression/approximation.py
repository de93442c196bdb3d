"""Approximate divergences of many coalitions' posteriors from the prior, at a few milliseconds each.

The covariance of a row is held at that of everybody's mode, so that one decomposition diagonalises the releases of all
parties: what a coalition observed is a sum over its members (`pooling.py`). Where every party has a covariance of its
own, each release stays an observation. From everybody's mode a few scoring steps
lead to about where a coalition's is, and the normal distribution there has a divergence in closed form.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.cores import single_threaded_blas
from equipoise.inference.regression.mode import Mode, find_mode
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.pooling import SMALLEST_SHARE, Pooled, Releases, pool
from equipoise.inference.regression.posterior import approximate_problem, settle_row_covariances

SCORING_STEPS = 2  # from everybody's mode; more bring approximations no nearer to sampled divergences


class Parts(NamedTuple):
    """What each release adds to the pooled observation of a coalition, in a basis that makes it diagonal.

    `vectors` [entries, entries] is the basis, `precision` and `natural` [parties, entries] are what is added.
    """

    vectors: Floats
    precision: Floats
    natural: Floats

    @classmethod
    def of(cls, releases: Releases, row_covariance: Floats) -> "Parts":
        """Take releases apart, given the covariance of a row."""
        root = np.sqrt(releases.shape)
        values, vectors = np.linalg.eigh(row_covariance / np.outer(root, root))
        values = np.maximum(values, SMALLEST_SHARE * values[-1])
        weight = releases.rows[:, None] / (np.outer(releases.rows, values) + releases.scale[:, None])
        natural = weight * ((releases.statistic / root) @ vectors)
        return cls(vectors / root[:, None], weight * releases.rows[:, None], natural)

    def pooled(self, precision: Floats, natural: Floats) -> Pooled:
        """Return the pooled observation, given what members add up to [entries]."""
        return Pooled((self.vectors * precision) @ self.vectors.T, self.vectors @ natural)


def approximate_divergences(model: RegressionModel, releases: Releases) -> Callable[[NDArray[np.bool_]], Floats]:
    """Return a function from memberships [coalitions, parties] to approximate divergences from the prior in nats."""
    with single_threaded_blas():
        settled = settle_row_covariances(model, releases)
        pairs = list(zip(settled.groups, settled.covariances, strict=True))
        each = [pool(*pair) for pair in pairs] if model.per_party else []
        parts = Parts.of(*pairs[0])

    def divergence_of(pooled: Sequence[Pooled]) -> float:
        problem = approximate_problem(model, pooled)
        try:
            return _divergence(find_mode(problem, settled.centre, steps=SCORING_STEPS))
        except np.linalg.LinAlgError:
            return 0.0  # sums that double precision cannot resolve: a control variate may be any number

    def pooled_of(row: NDArray[np.bool_]) -> list[Pooled]:
        if each:  # features of every party have a distribution, and a covariance of a row, of their own
            return [each[party] for party in np.flatnonzero(row)]
        return [parts.pooled(row @ parts.precision, row @ parts.natural)]

    def divergences(inside: NDArray[np.bool_]) -> Floats:
        with single_threaded_blas():
            return np.array([divergence_of(pooled_of(row)) if row.any() else 0.0 for row in inside])

    return divergences


def _divergence(mode: Mode) -> float:
    """Divergence from N(0, I) of a normal distribution."""
    spread = float(np.sum(mode.root**2) + mode.centre @ mode.centre) - len(mode.centre)
    return 0.5 * spread - float(np.linalg.slogdet(mode.root)[1])
