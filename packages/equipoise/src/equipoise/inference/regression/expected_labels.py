r"""Expected E[y u] of logistic regression, y = ±1, in closed form, and its exact derivatives.

With η = θᵀu, mean ν and variance v, and f_k the expected k-th derivative of tanh(η/2) for normal η:

    E[y] = f₀(ν, v)
    a number:   E[y x] = p f₀ + c f₁,                 p = E[x],  c = Cov(x, η)                       (Stein's lemma)
    a 0/1 term: E[y x] = p f₀(α, ω),                  α = E[η | x = 1],  ω = v − c² / (p (1 − p))

with a = E[u uᵀ] θ, ν = a_w, v = θᵀa − ν², c = a_j − p ν and α = a_j / p. Everything is a function of (a, p), whose
derivatives follow from ∂f_k/∂ν = f_{k+1} and ∂f_k/∂v = ½ f_{k+2}.

The f_k are closed forms, because the logistic function is a scale mixture of normal distribution functions over
Kolmogorov's distribution; 20 scales are accurate to 1e-9 (docs/maths.md).
"""

import math

import numpy as np
import scipy
from numpy.typing import NDArray

from equipoise._util.arrays import Floats

SMALLEST_SHARE = 0.005  # smallest share of rows with a level, for conditional means
SMALLEST_VARIANCE = 1e-6  # smallest variance of the linear predictor
LEAST_LEFT = 0.02  # share of a level's part of that variance that is left after conditioning on the level
FARTHEST = 40.0  # standard deviations, beyond which a normal density is 0 in double precision

_SCALES = np.geomspace(0.18, 3.8, 20)


def _kolmogorov_density(scales: Floats) -> Floats:
    """Return the density of Kolmogorov's distribution, by whichever of its two series converges fast."""
    k = np.arange(1, 40)[:, None]
    tail = 8 * scales * np.sum((-1.0) ** (k + 1) * k**2 * np.exp(-2 * k**2 * scales**2), axis=0)
    odd = (2 * k - 1) ** 2 * np.pi**2 / (8 * scales**2)
    head = np.sqrt(2 * np.pi) * np.sum((2 * odd - 1) * np.exp(-odd), axis=0) / scales**2
    return np.asarray(np.where(scales < 0.8, head, tail))


_SHARES = _SCALES * _kolmogorov_density(_SCALES)
_SHARES = _SHARES / _SHARES.sum()


def expected_derivatives(mean: Floats, variance: Floats, number: int) -> list[Floats]:
    """Return `number` (at least two) expectations, elementwise: tanh(η/2) and its derivatives, η ~ N(mean, variance).

    Derivatives of a normal distribution function are Hermite polynomials times its density.
    """
    scale = 1 / np.sqrt(4 * _SCALES**2 + variance[..., None])
    z = np.clip(scale * mean[..., None], -FARTHEST, FARTHEST)
    density = (2 / math.sqrt(2 * math.pi)) * np.exp(-0.5 * z**2) * scale
    derivatives = [scipy.special.erf(z * math.sqrt(0.5)) @ _SHARES, density @ _SHARES]
    before, hermite = np.zeros_like(z), np.ones_like(z)
    for order in range(1, number - 1):
        before, hermite = hermite, z * hermite - (order - 1) * before
        density = -scale * density
        derivatives.append((density * hermite) @ _SHARES)
    return derivatives


class ExpectedLabels:
    """E[y u] at many weights [points, terms + 1], for features of given second moments.

    Attributes
    ----------
    mean : array [points, terms + 1]
        E[y u].
    jacobian : array [points, terms + 1, 2 terms + 1]
        Derivatives of the mean by the products a and then by p, at fixed weights.
    products : array [points, terms + 1]
        a = E[u uᵀ] θ.
    f : list of arrays [points]
        Expected derivatives of the label by the linear predictor.
    """

    def __init__(
        self, weights: Floats, second_moments: Floats, levels: NDArray[np.bool_], *, derivatives: int = 4
    ) -> None:
        """Prepare the closed form; `pull_back` needs six `derivatives`, all else four."""
        number, size = weights.shape
        width = size - 1
        self.weights, self.second_moments = weights, second_moments
        self.products = weights @ second_moments
        self._p, self._nu = second_moments[:width, -1], self.products[:, -1]
        variance = np.sum(weights * self.products, axis=1) - self._nu**2
        self._varies = variance > SMALLEST_VARIANCE  # below the smallest variance, it is held constant
        self._variance = np.where(self._varies, variance, SMALLEST_VARIANCE)
        self.f = expected_derivatives(self._nu, self._variance, derivatives)
        # ∂v/∂a at fixed weights; v does not depend on p otherwise.
        self._by_products = weights.copy()
        self._by_products[:, -1] -= 2 * self._nu
        self._by_products *= self._varies[:, None]
        self._numbers, self._levels = np.flatnonzero(~levels), np.flatnonzero(levels)
        self.mean = np.empty((number, size))
        self.jacobian = np.zeros((number, size, 2 * size - 1))
        self._by_variance = np.empty((number, size))  # derivatives of the mean by the variance
        self._expect_numbers()
        if len(self._levels):
            self._expect_levels(derivatives - 1)

    def _expect_numbers(self) -> None:
        """Fill in the rows of numbers and that of the constant, E[y]."""
        f, nu, size = self.f, self._nu, self.weights.shape[1]
        j = self._numbers
        c = self._c = self.products[:, j] - nu[:, None] * self._p[j]
        self.mean[:, -1] = f[0]
        self.mean[:, j] = self._p[j] * f[0][:, None] + c * f[1][:, None]
        self._by_variance[:, -1] = 0.5 * f[2]
        self._by_variance[:, j] = 0.5 * (self._p[j] * f[2][:, None] + c * f[3][:, None])
        places = np.append(j, size - 1)
        self.jacobian[:, places, :size] = self._by_variance[:, places, None] * self._by_products[:, None]
        self.jacobian[:, size - 1, size - 1] += f[1]
        self.jacobian[:, j, size - 1] += c * f[2][:, None]
        self.jacobian[:, j, j] += f[1][:, None]
        self.jacobian[:, j, size + j] = (f[0] - nu * f[1])[:, None]

    def _expect_levels(self, derivatives: int) -> None:
        """Fill in the rows of 0/1 terms."""
        j, size = self._levels, self.weights.shape[1]
        p = self._share = np.clip(self._p[j], SMALLEST_SHARE, 1 - SMALLEST_SHARE)
        c, given, v = self.products[:, j] - self._nu[:, None] * self._p[j], self.products[:, j] / p, self._variance
        spread = p * (1 - p)
        # A level never tells all of the linear predictor; a floor instead would leave a kink that stops chains.
        told = (1 - LEAST_LEFT) / spread
        left = np.maximum(v[:, None] - told * c**2, SMALLEST_VARIANCE * LEAST_LEFT)
        g = expected_derivatives(given, left, derivatives)
        self._given, self._g = given, g
        # Derivatives of ω by c, its second one by c, and the one by p through p (1 − p).
        self._of_c = -2 * told * c
        self._of_c_twice = -2 * told
        self._of_share = told / spread * c**2 * (1 - 2 * p)
        self._of_share_and_c = 2 * told / spread * c * (1 - 2 * p)
        by_left = 0.5 * p * g[2]
        by_c = self._of_c * by_left
        self.mean[:, j] = p * g[0]
        self._by_variance[:, j] = by_left
        self.jacobian[:, j, :size] = self._by_variance[:, j, None] * self._by_products[:, None]
        self.jacobian[:, j, j] += g[1] + by_c  # p ∂g₀/∂α, and ∂α/∂a = 1/p
        self.jacobian[:, j, size - 1] -= by_c * self._p[j]
        self.jacobian[:, j, size + j] = g[0] - given * g[1] - by_c * self._nu[:, None] + by_left * self._of_share

    def slopes_of_mean(self, outer: Floats) -> Floats:
        """Return derivatives by the weights of Σ_j outer_j mean_j, for outer [points, terms + 1]."""
        size = self.weights.shape[1]
        slopes = np.matmul(outer[:, None], self.jacobian[:, :, :size])[:, 0] @ self.second_moments
        # v = θᵀa − ν² moves with the weights themselves, too.
        through = np.sum(outer * self._by_variance, axis=1) * self._varies
        return np.asarray(slopes + through[:, None] * self.products)

    def pull_back(self, outer: Floats) -> Floats:
        """Return derivatives by weights of Σ_jk outer_jk jacobian_jk, outer [points, terms + 1, 2 terms + 1]."""
        size = self.weights.shape[1]
        # Sums of outer's rows with ∂v/∂a, which depends on the weights both directly and through ν.
        rows = outer[:, :, :size] * self._varies[:, None, None]
        sums = np.matmul(rows, self._by_products[:, :, None])[:, :, 0]
        ends, own_ends = outer[:, :, size - 1], rows[:, :, size - 1]
        j = self._numbers
        own, shares = outer[:, j, j], outer[:, j, size + j]
        f, nu, c, p = [derivative[:, None] for derivative in self.f], self._nu[:, None], self._c, self._p[j]

        direct = np.matmul(self._by_variance[:, None], rows)[:, 0]
        by_products = np.zeros_like(self.weights)
        by_products[:, j] = 0.5 * f[3] * sums[:, j] + f[2] * ends[:, j]
        moved = 0.5 * c * f[4] * sums[:, j] + (c * f[3] - p * f[2]) * ends[:, j] + f[2] * own
        moved -= 2 * self._by_variance[:, j] * own_ends[:, j] + nu * f[2] * shares
        by_mean = moved.sum(axis=1) + 0.5 * self.f[3] * sums[:, -1] + self.f[2] * (ends[:, -1] - own_ends[:, -1])
        moved = 0.5 * (p * f[4] + c * f[5]) * sums[:, j] + c * f[4] * ends[:, j] + f[3] * own
        moved += (f[2] - nu * f[3]) * shares
        by_variance = 0.5 * (moved.sum(axis=1) + 0.5 * self.f[4] * sums[:, -1] + self.f[3] * ends[:, -1])
        if len(self._levels):
            of_levels = self._pull_back_levels(outer, sums, own_ends)
            by_products[:, self._levels] = of_levels[0]
            by_mean += of_levels[1]
            by_variance += of_levels[2]
        by_variance *= self._varies
        by_products[:, -1] += by_mean
        # v = θᵀE[u uᵀ]θ − ν².
        by_products[:, -1] -= 2 * by_variance * self._nu
        return np.asarray(direct + 2 * by_variance[:, None] * self.products + by_products @ self.second_moments)

    def _pull_back_levels(self, outer: Floats, sums: Floats, own_ends: Floats) -> tuple[Floats, Floats, Floats]:
        """Return derivatives of the rows of 0/1 terms by their products, and by ν and v.

        With o_jj, o_jw and o_p the elements of outer at a_j, at ν and at p_j, and q the sum of its row with ∂v/∂a, a
        row's sum is

            g₀ o_p + g₁ (o_jj − α o_p) + ½ p g₂ B,   B = q + (o_jj − p o_jw − ν o_p) ∂ω/∂c + o_p ∂ω/∂p.
        """
        j, size, nu = self._levels, self.weights.shape[1], self._nu[:, None]
        g, p = self._g, self._share
        own, ends, shares = outer[:, j, j], outer[:, j, size - 1], outer[:, j, size + j]
        across = own - self._p[j] * ends - nu * shares
        both = sums[:, j] + self._of_c * across + self._of_share * shares
        rest = own - self._given * shares
        half = 0.5 * p * g[2]
        by_given = g[2] * rest + 0.5 * p * g[3] * both
        by_left = 0.5 * (g[2] * shares + g[3] * rest) + 0.25 * p * g[4] * both
        by_c = by_left * self._of_c + half * (self._of_c_twice * across + self._of_share_and_c * shares)
        by_mean = -half * (self._of_c * shares + 2 * own_ends[:, j]) - by_c * self._p[j]
        return by_given / p + by_c, by_mean.sum(axis=1), by_left.sum(axis=1)
