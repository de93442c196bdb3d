r"""The observation of a regression's targets, with the feature moments integrated out.

Split a pooled observation μ̂ ~ N(μ, Λ⁻¹) into feature moments x and target moments y. Given μ̂_x, m ~ N(m̂, C) by a
normal prior, and

    μ̂_y | m, θ ~ N(h(m, θ) + G (μ̂_x − m), R),   G = −R Λ_yx,   R = Λ_yy⁻¹,

so that with J = ∂h/∂m at m̂ (h is linear in m in linear regression) m integrates out:

    μ̂_y − G (μ̂_x − m̂) | θ ~ N(h(m̂, θ), (J − G) C (J − G)ᵀ + R).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy

from equipoise._util.arrays import Floats
from equipoise.inference.pooling import Pooled, invert
from equipoise.inference.regression.statistic import MomentMap


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
    feature_covariance = invert(alone + np.diag(1 / prior.variance))
    features = feature_covariance @ (alone_natural + prior.mean / prior.variance)
    # μ̂_y − G μ̂_x = R (Λ μ̂)_y, because the y-part of Λ μ̂ is Λ_yx μ̂_x + Λ_yy μ̂_y.
    observed = covariance @ natural[split:] + carried @ features
    return TargetObservation(observed, features, feature_covariance, carried, covariance)
