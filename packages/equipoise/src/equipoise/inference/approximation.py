"""Approximate divergences of many coalitions' posteriors from the prior, at a few milliseconds each.

The covariance of a row is held fixed at the mode of the grand coalition, so that one decomposition diagonalises the
releases of all parties: what a coalition observed is a sum over its members (`pooling.py`). From the grand coalition's
mode a few scoring steps lead close to the coalition's own, and the normal distribution there has a divergence in closed
form.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise._util.cores import one_core_each
from equipoise.inference.mode import Mode, Problem, find_mode
from equipoise.inference.pooling import SMALLEST_SHARE, Pooled, Releases

SCORING_STEPS = 2  # from the grand coalition's mode; more steps do not improve the approximation


class Expansion(NamedTuple):
    """The grand coalition's mode, and a function from memberships [parties] to approximate problems of coalitions."""

    centre: Floats
    problem_of: Callable[[NDArray[np.bool_]], Problem]


class Parts(NamedTuple):
    """The contributions of each release to a coalition's pooled observation, in a basis that makes it diagonal.

    `vectors` [entries, entries] is the basis; `precision` and `natural` [parties, entries] are the contributions.
    """

    vectors: Floats
    precision: Floats
    natural: Floats

    @classmethod
    def of(cls, releases: Releases, row_covariance: Floats) -> "Parts":
        """Decompose releases, given the covariance of a row."""
        root = np.sqrt(releases.shape)
        values, vectors = np.linalg.eigh(row_covariance / np.outer(root, root))
        values = np.maximum(values, SMALLEST_SHARE * values[-1])
        weight = releases.rows[:, None] / (np.outer(releases.rows, values) + releases.scale[:, None])
        natural = weight * ((releases.statistic / root) @ vectors)
        return cls(vectors / root[:, None], weight * releases.rows[:, None], natural)

    def pooled(self, inside: NDArray[np.bool_]) -> Pooled:
        """Return the pooled observation of a coalition."""
        precision, natural = inside @ self.precision, inside @ self.natural
        return Pooled((self.vectors * precision) @ self.vectors.T, self.vectors @ natural)


def approximate_divergences(expansion: Expansion) -> Callable[[NDArray[np.bool_]], Floats]:
    """Return a function from memberships [coalitions, parties] to approximate divergences from the prior in nats."""

    def divergence_of(inside: NDArray[np.bool_]) -> float:
        if not inside.any():
            return 0.0
        try:
            return divergence_at(find_mode(expansion.problem_of(inside), expansion.centre, steps=SCORING_STEPS))
        except np.linalg.LinAlgError:
            # Double precision cannot resolve these sums. A control variate may be any number.
            return 0.0

    def divergences(inside: NDArray[np.bool_]) -> Floats:
        with one_core_each():
            return np.array([divergence_of(row) for row in inside])

    return divergences


def divergence_at(mode: Mode) -> float:
    """Return the divergence from N(0, I) of the normal distribution given by a mode and its root."""
    spread = float(np.sum(mode.root**2) + mode.centre @ mode.centre) - len(mode.centre)
    return 0.5 * spread - float(np.linalg.slogdet(mode.root)[1])
