r"""The pooling of any number of releases into one observation.

Party j releases z_j ~ N(n_j μ, n_j V + s_j² D): sums over n_j rows of mean μ and covariance V, with noise whose shape D
is agreed and whose scale s_j² is the party's own. With D^(−½) V D^(−½) = U diag(l) Uᵀ every covariance is diagonal in
the same basis, so that the precision and the mean of many releases together cost one decomposition:

    Λ = D^(−½) U diag(Σ_j n_j² / (n_j l + s_j²)) Uᵀ D^(−½),   Λ μ̂ = D^(−½) U Σ_j n_j / (n_j l + s_j²) Uᵀ D^(−½) z_j

and μ̂ ~ N(μ, Λ⁻¹) is sufficient for μ. Tempering by the power κ multiplies Λ by κ, since V is held fixed. For a few
releases each covariance is inverted by itself, because a decomposition takes as long as a dozen Cholesky factors.
"""

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from equipoise._util.arrays import Floats

SMALLEST_SHARE = 1e-12  # of one row's covariance, as a share of its largest eigenvalue
SPECK = 1e-9  # variance for each row, added to sums that are taken as exact
# Of an entry, in scaled units, where releases are added up. Columns that fill their range have up to 0.25; less favours
# releases of little noise, and loses less of what all of them tell (docs/maths.md §8).
VARIANCE_OF_A_ROW = 0.03
MOST_INVERTED = 8  # most covariances of releases that are inverted one by one


class ReleasedSums(NamedTuple):
    """Sums that all parties released [parties, entries] with the variance of their noise, and rows [parties].

    `added` is the standard deviation of the noise that τ = 1 adds. A party that did not submit has fixed numbers.
    """

    statistic: Floats
    rows: Floats
    variance: Floats
    added: Floats

    @property
    def as_exact(self) -> "ReleasedSums":
        """The same sums with a speck of noise, which keeps matrices regular."""
        variance = np.broadcast_to(SPECK * self.rows[:, None], self.statistic.shape)
        return self._replace(variance=variance, added=np.zeros_like(self.statistic))


class Releases(NamedTuple):
    """Releases of a coalition, all in the same order of entries.

    `statistic` [parties, entries] are sums over `rows` [parties]; `scale` [parties] is the variance of their noise in
    units of `shape` [entries].
    """

    statistic: Floats
    rows: Floats
    scale: Floats
    shape: Floats

    def apart(self) -> list["Releases"]:
        """Split into one `Releases` for each party."""
        alone = [slice(index, index + 1) for index in range(len(self.rows))]
        return [Releases(self.statistic[row], self.rows[row], self.scale[row], self.shape) for row in alone]


def weights_by_noise(rows: Floats, variance: Floats) -> Floats:
    """Weigh releases for `add_up` by the inverse of the noise in one row's sums: rows [n], variances [n, entries]."""
    return np.asarray(1 / (VARIANCE_OF_A_ROW + variance.mean(axis=1) / rows))


def add_up(releases: Releases, weights: Floats) -> Releases:
    """Add releases up to one, each times its weight a_j, scaled so that the sum is distributed as a release is.

    Σ a_j z_j has the mean R μ and the covariance S V + Σ a_j² s_j² D, where R = Σ a_j n_j and S = Σ a_j² n_j. Times R/S
    it is distributed as the release of R²/S rows: of all rows together, if the weights are equal.
    """
    rows, squares = float(weights @ releases.rows), float(weights**2 @ releases.rows)
    factor = rows / squares
    statistic = factor * (weights @ releases.statistic)
    scale = factor**2 * float(weights**2 @ releases.scale)
    return Releases(statistic[None], np.array([factor * rows]), np.array([1.0]), scale * releases.shape)


class Pooled(NamedTuple):
    """A pooled observation of all moments: its precision Λ, and Λ μ̂."""

    precision: Floats
    natural: Floats


def pool(releases: Releases, row_covariance: Floats, *, sampling: float = 1.0) -> Pooled:
    """Pool all releases into one observation; `sampling` multiplies the covariance of a row."""
    root = np.sqrt(releases.shape)
    covariance = row_covariance / np.outer(root, root)
    kinds, kind = np.unique(np.column_stack([releases.rows, releases.scale]), axis=0, return_inverse=True)
    if len(kinds) <= MOST_INVERTED and _is_definite(covariance):
        return _pool_few(releases, covariance, root, kinds, kind.ravel(), sampling)
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, SMALLEST_SHARE * values[-1])
    weight = releases.rows[:, None] / (sampling * np.outer(releases.rows, values) + releases.scale[:, None])
    total = (weight * ((releases.statistic / root) @ vectors)).sum(axis=0)
    vectors = vectors / root[:, None]
    precision = (vectors * (weight * releases.rows[:, None]).sum(axis=0)) @ vectors.T
    return Pooled(precision, vectors @ total)


def _pool_few(
    releases: Releases, covariance: Floats, root: Floats, kinds: Floats, kind: NDArray[np.intp], sampling: float
) -> Pooled:
    """Pool releases by inverting the covariance of each distinct (rows, scale)."""
    precision, natural = np.zeros_like(covariance), np.zeros(len(root))
    for index, (rows, scale) in enumerate(kinds):
        whole = sampling * rows * covariance
        whole[np.diag_indices(len(whole))] += scale
        inverted = invert(whole)
        alike = releases.statistic[kind == index]
        natural += rows * (inverted @ (alike.sum(axis=0) / root))
        inverted *= len(alike) * rows**2
        precision += inverted
    return Pooled(precision / np.outer(root, root), natural / root)


def _is_definite(matrix: Floats) -> bool:
    """Return whether no eigenvalue is below 0, up to rounding."""
    moved = matrix + SMALLEST_SHARE * np.trace(matrix) / len(matrix) * np.eye(len(matrix))
    return not scipy.linalg.lapack.dpotrf(moved, lower=True, overwrite_a=True)[1]


def invert(matrix: Floats) -> Floats:
    """Invert a positive definite matrix."""
    lower = scipy.linalg.lapack.dpotrf(matrix, lower=True, clean=True)
    if lower[1]:
        raise np.linalg.LinAlgError("a covariance or a precision is not positive definite")
    inverted = scipy.linalg.lapack.dpotri(lower[0], lower=True)[0]
    return np.asarray(np.tril(inverted) + np.tril(inverted, -1).T)
