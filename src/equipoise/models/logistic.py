"""Logistic regression on degree-2 polynomial approximate statistics: sums of y, y x_j, x_j and x_j x_k, y = ±1."""

import math

from equipoise.models.base import (
    BASE_WEIGHT,
    UNIT,
    CodedColumn,
    Layout,
    ScaledColumn,
    norm_ball,
    regression_entries,
    scaled,
)
from equipoise.models.schema import LogisticModel


def logistic_layout(model: LogisticModel) -> Layout:
    r"""Entries Σx_j, Σy, Σx_j x_k (j ≤ k), Σx_j y, with |x_j| ≤ 1, y ∈ {−1, 1} and optionally ‖x‖₂ ≤ R.

    Let x_j² be multiplied by a, P = |x|², Q = |x′|², c = x·x′, u_j = x_j². The products contribute

        D = ½(P² + Q²) − c² + (a² − ½) Σ(u_j − u′_j)².

    If y′ = −y, the other entries contribute 4 + |x + x′|² + |x − x′|² = 4 + 2(P + Q); if y′ = y they contribute
    2|x − x′|² = 2(P + Q) − 4c, and −4c − c² ≤ 4. In both cases

        ‖g − g′‖² ≤ ½(P + 2)² + ½(Q + 2)² + (a² − ½) Σ(u_j − u′_j)².

    **Box.** Convex in (u, u′) ∈ [0, 1]^{2w}, so largest at a vertex. With p coordinates 1 in x only and q in x′ only it
    is at most (w+2)² − (p+q)(w+2) + ½(p²+q²) + (a² − ½)(p+q) ≤ (w+2)² whenever a² ≤ (w+5)/2. So **Δ = w + 2 with
    a = √((w+5)/2)**. Tight for a exactly so: x = (1 … 1), x′ = 0, y′ = −y (with a rational just below, and w even,
    orthogonal sign vectors with y′ = −y reach it exactly).

    **Ball** (a = 1). The bound above, with P = s and Q = s′, is the one that `norm_ball` maximises.

    Σy² is the row count and is left out.
    """
    width = len(model.features)
    target = CodedColumn(model.target.name, model.target.labels, (-1, 1))
    columns: tuple[ScaledColumn | CodedColumn, ...] = (*(scaled(f.name, f.bounds) for f in model.features), target)

    sensitivity = BASE_WEIGHT * UNIT * (width + 2)
    square_weight = math.isqrt(BASE_WEIGHT**2 * (width + 5) // 2)
    squared_radius = None
    if model.norm_bound is not None:
        squared_radius, sensitivity = norm_ball(model.norm_bound, width)
        square_weight = BASE_WEIGHT

    entries = regression_entries([c.name for c in columns], [square_weight] * width + [0])
    return Layout(columns, tuple(entries), sensitivity, squared_radius, ball_columns=width)
