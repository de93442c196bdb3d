"""Normal distributions at many points: log densities and inverses that survive nearly singular covariances."""

from typing import NamedTuple

import numpy as np

from equipoise._util.arrays import Floats

SMALLEST_EIGENVALUE = 1e-14  # of correlation matrices that are factorised
FEW_TO_SEARCH = 64  # most matrices that are checked one by one
SMALLEST_PIVOT = 1e-12  # matrices with a smaller one count as singular
HUGE = 1e100  # an observation this many deviations away is impossible


class Normals(NamedTuple):
    """Normal distributions: means [points, targets] and covariances [points, targets, targets]."""

    mean: Floats
    covariance: Floats


def normal_log_density(residuals: Floats, covariances: Floats) -> Floats:
    """Return log densities of residuals [points, d] under N(0, covariances), up to a constant; −∞ if there is none."""
    # Rounding may take a variance below 0 where weights are huge.
    with np.errstate(invalid="ignore"):
        deviations = np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0))
    with np.errstate(all="ignore"):
        is_near = (np.abs(residuals) < HUGE * deviations).all(axis=1)
    usable = np.isfinite(deviations).all(axis=1) & (deviations > 0).all(axis=1) & is_near
    if not usable.all():
        densities = np.full(len(residuals), -np.inf)
        if usable.any():
            densities[usable] = normal_log_density(residuals[usable], covariances[usable])
        return densities
    # Target moments differ by orders of magnitude where weights are large, so correlations are factorised. Residuals
    # are a last row: the factor's last row then solves for them, faster than NumPy's solver of a batch does.
    size = residuals.shape[1]
    bordered = np.empty((len(residuals), size + 1, size + 1))
    bordered[:, :size, :size] = covariances / (deviations[:, :, None] * deviations[:, None, :])
    bordered[:, size, :size] = bordered[:, :size, size] = residuals / deviations
    bordered[:, size, size] = np.inf
    try:
        lower = np.linalg.cholesky(bordered)
    except np.linalg.LinAlgError:
        # Rounding takes some matrices across zero where weights are so huge that the observation is impossible. They
        # are few, and looked for by halves.
        if len(residuals) > FEW_TO_SEARCH:
            middle = len(residuals) // 2
            parts = (slice(None, middle), slice(middle, None))
            return np.concatenate([normal_log_density(residuals[part], covariances[part]) for part in parts])
        definite = np.linalg.eigvalsh(bordered[:, :size, :size])[:, 0] > SMALLEST_EIGENVALUE
        densities = np.full(len(residuals), -np.inf)
        if definite.any():
            densities[definite] = normal_log_density(residuals[definite], covariances[definite])
        return densities
    # Others are as good as singular. Each point is judged by itself, whatever else is in the batch.
    pivots = np.diagonal(lower[:, :size, :size], axis1=1, axis2=2)
    is_regular = pivots.min(axis=1) ** 2 > SMALLEST_PIVOT
    white = lower[:, size, :size]
    scale = np.log(pivots).sum(axis=1) + np.log(deviations).sum(axis=1)
    return np.where(is_regular, -0.5 * np.sum(white**2, axis=1) - scale, -np.inf)


def inverses(covariances: Floats) -> Floats:
    """Invert covariances [points, d, d]; identities replace those that are not finite."""
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    usable = np.asarray(np.isfinite(covariances).all(axis=(1, 2)) & (variances > 0).all(axis=1))
    if not usable.all():
        covariances = np.where(usable[:, None, None], covariances, np.eye(covariances.shape[1]))
        variances = np.diagonal(covariances, axis1=1, axis2=2)
    deviations = np.sqrt(variances)
    scale = deviations[:, :, None] * deviations[:, None, :]
    try:
        return np.asarray(np.linalg.inv(covariances / scale) / scale)
    except np.linalg.LinAlgError:
        return np.asarray(np.linalg.pinv(covariances / scale, rcond=SMALLEST_PIVOT, hermitian=True) / scale)
