"""Linear regression: the statistic is the upper triangle of Σ z zᵀ, z = (1, x₁ … x_w, y), without the row count."""

import math

from equipoise.models.base import BASE_WEIGHT, UNIT, Entry, Layout, norm_ball, scaled
from equipoise.schema import LinearModel


def linear_layout(model: LinearModel) -> Layout:
    r"""Entries Σx_j, Σy, Σx_j x_k (j ≤ k), Σx_j y, Σy², with |x_j| ≤ 1, |y| ≤ 1 and optionally ‖x‖₂ ≤ R.

    Let g be the statistic of one row with diagonal entries multiplied by a (x_j²) and b (y²). For two rows z, z′,

        ‖g(z) − g(z′)‖² = ½‖zzᵀ − z′z′ᵀ‖_F² + (a² − ½) Σ_j (x_j² − x′_j²)² + (b² − ½)(y² − y′²)²
        ‖zzᵀ − z′z′ᵀ‖_F² = |z|⁴ + |z′|⁴ − 2(z·z′)² ≤ |z|⁴ + |z′|⁴.

    **Box** (a = b). Put n = w + 2 and u_i = z_i² ∈ [0, 1]. The bound ½(1+Σu)² + ½(1+Σu′)² + (a² − ½) Σ(u_i − u′_i)² is
    convex in (u, u′), hence largest at a vertex. If p coordinates are 1 in z only and q in z′ only, it is at most
    n² − (p+q)n + ½(p²+q²) + (a² − ½)(p+q), since p²+q² ≤ (p+q)² and p+q ≤ n−1; that is at most n² whenever
    a² ≤ 1 + n/2. So with **a = √((w+4)/2) the sensitivity stays Δ = w + 2**, the value without weights, and the noise
    on every x_j² and y² shrinks by the factor a. (maths.md §5 has a = √2 for this box; the proof above allows more.)
    Tight: z, z′ ∈ {±1}ⁿ with z·z′ = 0 (n even) reach Δ exactly; for n odd the gap is below 1 in Δ².

    **Ball** (a = 1). Σ(x_j² − x′_j²)² ≤ |x|⁴ + |x′|⁴, and everything grows with |x|, |x′| ≤ R. The remainder is
    convex in (y², y′²) ∈ [0, 1]²: at (1, 1) it gives (2+R²)² + R⁴, at (1, 0) no more than that if b² ≤ 2 + R², at
    (0, 0) less. So Δ = √((2+R²)² + R⁴) with b = √(2+R²). Tight for w ≥ 2: x = R e₁, x′ = R e₂, y = 1, y′ = −1.

    The smaller Δ of the two is used. Weights are rationals just below a and b, which can only lower the left side.
    """
    width = len(model.features)
    y = width
    columns = (
        *(scaled(f.name, f.bounds) for f in model.features),
        scaled(model.target.name, model.target.bounds),
    )

    sensitivity = BASE_WEIGHT * UNIT * (width + 2)
    square_weight = target_weight = math.isqrt(BASE_WEIGHT**2 * (width + 4) // 2)
    squared_radius = None
    if model.norm_bound is not None:
        ball = norm_ball(model.norm_bound)
        squared_radius = ball.squared_radius
        if ball.sensitivity < sensitivity:
            sensitivity, square_weight = ball.sensitivity, BASE_WEIGHT
            target_weight = math.isqrt(math.floor(BASE_WEIGHT**2 * (2 + ball.radius2)))

    names = [column.name for column in columns]
    entries = [Entry(name, i, None, BASE_WEIGHT) for i, name in enumerate(names)]
    for i in range(width + 1):
        for j in range(i, width + 1):
            square = target_weight if i == y else square_weight
            weight = square if i == j else BASE_WEIGHT
            entries.append(Entry(f"{names[i]} × {names[j]}", i, j, weight))
    return Layout(columns, tuple(entries), sensitivity, squared_radius, ball_columns=width)
