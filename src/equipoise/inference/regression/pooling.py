r"""Make one observation of any number of releases, and integrate the feature moments out of it.

Party j releases z_j ~ N(n_j μ, n_j V + s_j² D): sums over n_j rows of mean μ and covariance V, with noise whose shape D
is agreed and whose scale s_j² is the party's own. With D^(−½) V D^(−½) = U diag(l) Uᵀ every covariance is diagonal in
the same basis, so that the precision and the mean of many releases together cost one decomposition:

    Λ = D^(−½) U diag(Σ_j n_j² / (n_j l + s_j²)) Uᵀ D^(−½),   Λ μ̂ = D^(−½) U Σ_j n_j / (n_j l + s_j²) Uᵀ D^(−½) z_j

and μ̂ ~ N(μ, Λ⁻¹) is sufficient for μ. Tempering by the power κ multiplies Λ by κ, since V is held fixed. Of a few
releases each covariance is inverted by itself, because a decomposition takes as long as a dozen Cholesky factors.

Split μ̂ into feature moments x and target moments y. Given μ̂_x, m ~ N(m̂, C) by a normal prior, and

    μ̂_y | m, θ ~ N(h(m, θ) + G (μ̂_x − m), R),   G = −R Λ_yx,   R = Λ_yy⁻¹,

so that with J = ∂h/∂m at m̂ (h is linear in m in linear regression) m integrates out:

    μ̂_y − G (μ̂_x − m̂) | θ ~ N(h(m̂, θ), (J − G) C (J − G)ᵀ + R).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.inference.regression.statistic import MomentMap

SMALLEST_SHARE = 1e-12  # of the largest eigenvalue, of one row's covariance
MOST_INVERTED = 8  # covariances of releases, each by itself


class Releases(NamedTuple):
    """Releases of a coalition, in the order of a `MomentMap`.

    `statistic` [parties, entries] are sums over `rows` [parties]; `scale` [parties] is the variance of their noise in
    units of `shape` [entries].
    """

    statistic: Floats
    rows: Floats
    scale: Floats
    shape: Floats

    def apart(self) -> list["Releases"]:
        """Separate the releases of all parties."""
        alone = [slice(place, place + 1) for place in range(len(self.rows))]
        return [Releases(self.statistic[one], self.rows[one], self.scale[one], self.shape) for one in alone]


class Pooled(NamedTuple):
    """One observation of all moments: its precision Λ, and Λ μ̂."""

    precision: Floats
    natural: Floats


class FeaturePrior(NamedTuple):
    """Independent normal beliefs about the feature moments."""

    mean: Floats
    variance: Floats


@dataclass(frozen=True)
class TargetObservation:
    """Observed target moments, and the feature moments that explain them.

    Attributes
    ----------
    observed : array [targets]
        μ̂_y − G (μ̂_x − m̂).
    features, feature_covariance : array [features], [features, features]
        m̂ and C.
    carried : array [targets, features]
        G.
    covariance : array [targets, targets]
        R.
    """

    observed: Floats
    features: Floats
    feature_covariance: Floats
    carried: Floats
    covariance: Floats


def pool(releases: Releases, row_covariance: Floats, *, sampling: float = 1.0) -> Pooled:
    """Make one observation of all releases; `sampling` multiplies the covariance of a row."""
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
    """Pool releases by inverting the covariance of each kind (rows, scale) of them."""
    precision, natural = np.zeros_like(covariance), np.zeros(len(root))
    for place, (rows, scale) in enumerate(kinds):
        whole = sampling * rows * covariance
        whole[np.diag_indices(len(whole))] += scale
        inverse = _inverse(whole)
        alike = releases.statistic[kind == place]
        natural += rows * (inverse @ (alike.sum(axis=0) / root))
        inverse *= len(alike) * rows**2
        precision += inverse
    return Pooled(precision / np.outer(root, root), natural / root)


def _is_definite(matrix: Floats) -> bool:
    """True if no eigenvalue is below 0, but for rounding."""
    moved = matrix + SMALLEST_SHARE * np.trace(matrix) / len(matrix) * np.eye(len(matrix))
    return not scipy.linalg.lapack.dpotrf(moved, lower=True, overwrite_a=True)[1]


def observe_targets(
    moments: MomentMap, pooled: Pooled, prior: FeaturePrior, *, power: float = 1.0
) -> TargetObservation:
    """Integrate the feature moments out; `power` tempers the likelihood of everything observed."""
    precision, natural = power * pooled.precision, power * pooled.natural
    split = moments.features
    covariance = scipy.linalg.inv(precision[split:, split:])
    carried = -covariance @ precision[split:, :split]
    # Precision of the feature moments alone, and that times their mean: Schur complements of the joint ones.
    alone = precision[:split, :split] + precision[:split, split:] @ carried
    alone_natural = natural[:split] + carried.T @ natural[split:]
    feature_covariance = _inverse(alone + np.diag(1 / prior.variance))
    features = feature_covariance @ (alone_natural + prior.mean / prior.variance)
    # μ̂_y − G μ̂_x = R (Λ μ̂)_y, because the y-part of Λ μ̂ is Λ_yx μ̂_x + Λ_yy μ̂_y.
    observed = covariance @ natural[split:] + carried @ features
    return TargetObservation(observed, features, feature_covariance, carried, covariance)


def _inverse(matrix: Floats) -> Floats:
    """Invert a positive definite matrix."""
    lower = scipy.linalg.lapack.dpotrf(matrix, lower=True, clean=True)
    if lower[1]:
        raise np.linalg.LinAlgError("the precision of feature moments is not positive definite")
    inverse = scipy.linalg.lapack.dpotri(lower[0], lower=True)[0]
    return np.asarray(np.tril(inverse) + np.tril(inverse, -1).T)
