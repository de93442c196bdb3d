"""Covariance of one row's statistic from second moments, as if terms and target were jointly normal.

Isserlis' theorem gives Cov(v_i v_j, v_k v_l) for normal v = (terms, 1, y) with mean m and covariance C:

    C_ik C_jl + C_il C_jk + m_i m_k C_jl + m_i m_l C_jk + m_j m_k C_il + m_j m_l C_ik

The result only sets how much sampling noise weighs beside privacy noise, so errors of it matter in second order. For
y = ±1 the covariances of y u are exact: y² = 1, hence Cov(y u_i, y u_j) = E[u_i u_j] − E[y u_i] E[y u_j].
"""

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.inference.regression.statistic import MomentMap

# Moments found under noise may belong to no distribution. Variances are then raised to the smallest that a column of a
# regression is worth agreeing on, and correlations are brought away from 1.
SMALLEST_VARIANCE = 1e-4
SMALLEST_EIGENVALUE = 1e-3


def nearest_covariance(second_moments: Floats, mean: Floats) -> Floats:
    """Return a positive definite covariance near that of given first and second moments; the constant has none."""
    covariance = second_moments - np.outer(mean, mean)
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), SMALLEST_VARIANCE))
    correlation = np.clip(covariance / np.outer(deviations, deviations), -1.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    if values[0] < SMALLEST_EIGENVALUE:
        correlation = (vectors * np.maximum(values, SMALLEST_EIGENVALUE)) @ vectors.T
        scale = np.sqrt(np.diagonal(correlation))
        correlation = correlation / np.outer(scale, scale)
    return np.asarray(correlation * np.outer(deviations, deviations))


def row_covariance(moments: MomentMap, features: Floats, with_target: Floats, square: float) -> Floats:
    """Return the covariance of one row's statistic [entries, entries] from E[u uᵀ], E[y u] and E[y²]."""
    width = moments.width
    joint = np.empty((width + 2, width + 2))
    joint[:-1, :-1], joint[-1, -1] = features, square
    joint[:-1, -1] = joint[-1, :-1] = with_target
    mean = joint[width]
    moving = np.r_[:width, width + 1]
    covariance = np.zeros_like(joint)
    covariance[np.ix_(moving, moving)] = nearest_covariance(joint[np.ix_(moving, moving)], mean[moving])
    i, j = moments.pairs.T
    first, second, across = covariance[np.ix_(i, i)], covariance[np.ix_(j, j)], covariance[np.ix_(i, j)]
    of_products = first * second
    of_products += across * across.T
    of_products += np.outer(mean[i], mean[i]) * second
    of_products += np.outer(mean[j], mean[j]) * first
    crossed = np.outer(mean[i], mean[j]) * across.T
    of_products += crossed + crossed.T
    if not moments.has_square:
        of_products[moments.features :, moments.features :] = features - np.outer(with_target, with_target)
    return of_products
