r"""Moments of one row of logistic regression: of y = ±1, y x, x and the products of two features, x ~ N(μ, Σ).

**Moments.** Write x = μ + x̃, v² = weightsᵀΣ weights, u = Σ weights, and e_k for the expected k-th derivative of
tanh(t/2) under t ~ N(bias + μ·weights, v²). Stein's lemma turns every moment of (y, y x̃, x̃, x̃x̃ᵀ) into a
polynomial in Σ, u and e₀ … e₃ (docs/maths.md §3), and going back to x adds multiples of rows and columns.

**The e_k** come from the logistic function as a scale mixture of normal distribution functions,
sigmoid(t) = ∫ Φ(t/2k) dF(k), F Kolmogorov's distribution: with finitely many scales each e_k is a sum of closed forms.
A finite mixture is itself a valid link, so the covariance is positive semi-definite by construction, and 20 scales are
accurate to 1e-9 for any v, where Gauss–Hermite quadrature is off by 1e-2 at v = 4.5.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from scipy import stats

from equipoise.inference.logistic_likelihood import LabelledRow
from equipoise.inference.moment_likelihood import RowMoments

_SCALES = np.geomspace(0.18, 3.8, 20)
_MIXTURE = _SCALES * stats.kstwobign.pdf(_SCALES)
_MIXTURE = _MIXTURE / _MIXTURE.sum()


def expected_derivatives(mean: Array, variance: Array) -> tuple[Array, Array, Array, Array]:
    """e₀ … e₃: expected derivatives of tanh(t/2), t ~ N(mean, variance)."""
    scale = 1 / jnp.sqrt(4 * _SCALES**2 + variance)  # of the mixture component
    z = scale * mean
    density = 2 * _MIXTURE * jnp.exp(-0.5 * z**2) / jnp.sqrt(2 * jnp.pi)
    return (
        jnp.sum(_MIXTURE * jax.scipy.special.erf(z / jnp.sqrt(2.0))),
        jnp.sum(density * scale),
        -jnp.sum(density * scale**2 * z),
        jnp.sum(density * scale**3 * (z**2 - 1)),
    )


def moments(weights: Array, bias: Array, mean: Array, covariance: Array) -> RowMoments:
    """Moments of (y, y x, x, products j ≤ k)."""
    width = weights.shape[0]
    first, second = np.triu_indices(width)
    u = covariance @ weights
    square = weights @ u
    e0, e1, e2, e3 = expected_derivatives(bias + mean @ weights, square)
    yx = e1 * u
    s = covariance
    uu = u[first] * u[second]

    # Covariances of the centred (y, y x̃, x̃, x̃x̃ᵀ): blocks by rows, upper part
    y_y = (1 - e0**2)[None, None]
    y_yx = (-e0 * e1 * u)[None]
    y_x = (e1 * u)[None]
    y_xx = (e2 * uu)[None]
    yx_yx = s - e1**2 * jnp.outer(u, u)
    yx_x = e0 * s + e2 * jnp.outer(u, u)
    yx_xx = e1 * (s[:, first] * u[second] + s[:, second] * u[first]) + e3 * u[:, None] * uu
    x_xx = jnp.zeros((width, len(first)))
    xx_xx = (
        s[first[:, None], first] * s[second[:, None], second] + s[first[:, None], second] * s[second[:, None], first]
    )
    centred = jnp.block(
        [
            [y_y, y_yx, y_x, y_xx],
            [y_yx.T, yx_yx, yx_x, yx_xx],
            [y_x.T, yx_x.T, s, x_xx],
            [y_xx.T, yx_xx.T, x_xx.T, xx_xx],
        ]
    )

    def uncentre(rows: Array) -> Array:
        """Rewrite y x = y x̃ + μ y and x_j x_k = x̃_j x̃_k + μ_j x̃_k + μ_k x̃_j + constant, for rows of covariances."""
        y, yx, x, xx = jnp.split(rows, [1, 1 + width, 1 + 2 * width])
        yx = yx + mean[:, None] * y
        xx = xx + mean[first, None] * x[second] + mean[second, None] * x[first]
        return jnp.concatenate([y, yx, x, xx])

    expectation = jnp.concatenate([e0[None], yx + e0 * mean, mean, s[first, second] + mean[first] * mean[second]])
    return RowMoments(expectation, uncentre(uncentre(centred).T))


def labelled_row(weights: Array, bias: Array, mean: Array, covariance: Array) -> LabelledRow:
    """The same moments, those of y v and v vᵀ with v = (x, 1), in O(n²) numbers.

    With V = Cov(v), m = E[v], U = V (weights, 0) and p = E[y v] = e₀ m + e₁ U of normal x, Stein's lemma gives
    E[y vₐ v vᵀ] − pₐ E[v vᵀ] = Vₐ pᵀ + p Vₐᵀ + mₐ (e₁ D + e₂ U Uᵀ) + Uₐ (e₂ D + e₃ U Uᵀ), D = U mᵀ + m Uᵀ.
    """
    u = covariance @ weights
    square = weights @ u
    e0, e1, e2, e3 = expected_derivatives(bias + mean @ weights, square)
    spread = jnp.pad(covariance, ((0, 1), (0, 1)))
    centre, along = jnp.append(mean, 1.0), jnp.append(u, 0.0)
    second_moment = spread + jnp.outer(centre, centre)
    normal = e0 * centre + e1 * along
    both = jnp.outer(along, centre)
    both += both.T
    twice = jnp.outer(along, along)
    return LabelledRow(
        second_moment=second_moment,
        label_mean=normal,
        label_covariance=second_moment - jnp.outer(normal, normal),
        covariance=spread,
        direction=normal,
        coefficients=jnp.stack([centre, along], axis=1),
        matrices=jnp.stack([e1 * both + e2 * twice, e2 * both + e3 * twice]),
    )


def statistic_order(width: int) -> np.ndarray:
    """Where each entry of the statistic (sums of x, then y, then products by rows with y last) is in `moments`."""
    products = 1 + 2 * width
    order = [*range(1 + width, products), 0]
    for j in range(width):
        order += range(products, products + width - j)
        products += width - j
        order.append(1 + j)
    return np.array(order)
