"""The repair of sums that noise has made impossible, for methods that take them as exact."""

import numpy as np

from equipoise.inference.conjugate import repaired
from equipoise.inference.pooling import ReleasedSums
from equipoise.inference.regression.statistic import MomentMap

LEAST = 1e-4  # smallest eigenvalue of repaired moments, as a share of the largest; the search fails on sharper ridges


def repair_sums(moments: MomentMap, sums: ReleasedSums) -> ReleasedSums:
    """Replace sums that noise may have made impossible by sums that some rows within [−1, 1] could have.

    Matrices of sums of products are made positive semi-definite, and scaled to no larger squares than the rows allow.
    """
    width = moments.width
    statistic = sums.statistic.copy()
    for party, (released, rows) in enumerate(zip(moments.ordered(sums.statistic), sums.rows, strict=True)):
        means = released / rows
        matrix = np.empty((width + 2, width + 2))
        matrix[:-1, :-1] = moments.second_moments(means[: moments.features])
        matrix[-1, :-1] = matrix[:-1, -1] = means[moments.features :][: width + 1]
        matrix[-1, -1] = means[-1] if moments.has_square else 1.0
        matrix = repaired(matrix, fixed=[width] if moments.has_square else [width, width + 1], least=LEAST)
        scale = 1 / np.sqrt(np.maximum(1.0, np.diag(matrix)))
        i, j = moments.pairs.T
        statistic[party, moments.order] = rows * (matrix * np.outer(scale, scale))[i, j]
    return sums._replace(statistic=statistic)
