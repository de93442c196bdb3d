"""Linear regression: the statistic is the upper triangle of Σ z zᵀ, z = (1, x₁ … x_w, y), without the row count."""

import math
from fractions import Fraction

from equipoise.models.base import BASE_WEIGHT, UNIT, Layout, norm_ball, regression_entries, scaled
from equipoise.models.schema import LinearModel


def linear_layout(model: LinearModel) -> Layout:
    r"""Entries Σx_j, Σy, Σx_j x_k (j ≤ k), Σx_j y, Σy², with |x_j| ≤ 1, |y| ≤ 1 and optionally ‖x‖₂ ≤ R.

    Let g be the statistic of one row with diagonal entries multiplied by a (x_j²) and b (y²). For two rows z, z′,

        ‖g(z) − g(z′)‖² = ½‖zzᵀ − z′z′ᵀ‖_F² + (a² − ½) Σ_j (x_j² − x′_j²)² + (b² − ½)(y² − y′²)²
        ‖zzᵀ − z′z′ᵀ‖_F² = |z|⁴ + |z′|⁴ − 2(z·z′)² ≤ |z|⁴ + |z′|⁴.

    **Box** (a = b). Put n = w + 2 and u_i = z_i² ∈ [0, 1]. The bound ½(1+Σu)² + ½(1+Σu′)² + (a² − ½) Σ(u_i − u′_i)² is
    convex in (u, u′), hence largest at a vertex. If p coordinates are 1 in z only and q in z′ only, it is at most
    n² − (p+q)n + ½(p²+q²) + (a² − ½)(p+q), since p²+q² ≤ (p+q)² and p+q ≤ n−1; that is at most n² whenever
    a² ≤ 1 + n/2. So with **a = √((w+4)/2) the sensitivity stays Δ = w + 2**, the value without weights, and the noise
    on every x_j² and y² shrinks by the factor a. (ADR 4.)
    Tight: z, z′ ∈ {±1}ⁿ with z·z′ = 0 (n even) reach Δ exactly; for n odd the gap is below 1 in Δ².

    **Ball** (a = 1). With s = |x|², v = y² the bound is ½(1+s+v)² + ½(1+s′+v′)² + ½Σ(u_j − u′_j)² + (b² − ½)(v − v′)²,
    convex in (v, v′) ∈ [0, 1]². At (1, 1) it is the one that `norm_ball` maximises; at (1, 0), where s = s′ = r is
    still worst, it is no larger if b² ≤ 2 + r; at (0, 0) it is smaller. So Δ is `norm_ball`'s, with b = √(2+r).

    Weights are rationals just below a and b, which can only lower the left side.
    """
    width = len(model.features)
    columns = (
        *(scaled(f.name, f.bounds) for f in model.features),
        scaled(model.target.name, model.target.bounds),
    )

    sensitivity = BASE_WEIGHT * UNIT * (width + 2)
    square_weight = target_weight = math.isqrt(BASE_WEIGHT**2 * (width + 4) // 2)
    squared_radius = None
    if model.norm_bound is not None:
        squared_radius, sensitivity = norm_ball(model.norm_bound, width)
        square_weight = BASE_WEIGHT
        target_weight = math.isqrt(math.floor(BASE_WEIGHT**2 * (2 + Fraction(model.norm_bound) ** 2)))

    entries = regression_entries([c.name for c in columns], [square_weight] * width + [target_weight])
    return Layout(columns, tuple(entries), sensitivity, squared_radius, ball_columns=width)
