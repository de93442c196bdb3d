r"""Logistic regression, y = ±1: expected E[y u] from feature moments, and how it moves with them.

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
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.inference.normals import Normals, inverses
from equipoise.inference.regression.likelihood import Likelihood, Parameters
from equipoise.inference.regression.observation import TargetObservation
from equipoise.inference.regression.population import Population
from equipoise.inference.regression.statistic import MomentMap

SMALLEST_SHARE = 0.005  # of rows with a level, for conditional means
SMALLEST_VARIANCE = 1e-6  # of the linear predictor
LEAST_LEFT = 0.02  # of that variance, where a level is given
SMALLEST_SPREAD = 1e-4  # variance of a number
AT_ONCE = 512  # points at which synthetic rows are looked at together
SMALLEST_SLOPE = 1e-6  # f₁, of labels that are as good as certain
SKEWNESS_PER_SPREAD = 15.0  # standard deviation of a number's skewness, for an agreed `shape_spread` of 1
FACTOR_PER_SPREAD = 3.0
LARGEST_MEAN = 60.0  # of the linear predictor, beyond which a label is certain

_SCALES = np.geomspace(0.18, 3.8, 20)


def _kolmogorov_density(scales: Floats) -> Floats:
    """Density of Kolmogorov's distribution, by whichever of its two series converges fast."""
    k = np.arange(1, 40)[:, None]
    tail = 8 * scales * np.sum((-1.0) ** (k + 1) * k**2 * np.exp(-2 * k**2 * scales**2), axis=0)
    odd = (2 * k - 1) ** 2 * np.pi**2 / (8 * scales**2)
    head = np.sqrt(2 * np.pi) * np.sum((2 * odd - 1) * np.exp(-odd), axis=0) / scales**2
    return np.asarray(np.where(scales < 0.8, head, tail))


_SHARES = _SCALES * _kolmogorov_density(_SCALES)
_SHARES = _SHARES / _SHARES.sum()


class Derivatives(NamedTuple):
    """Expected derivatives of tanh(η/2), from the function itself to the fourth."""

    f0: Floats
    f1: Floats
    f2: Floats
    f3: Floats
    f4: Floats


def expected_derivatives(mean: Floats, variance: Floats) -> Derivatives:
    """Expected tanh(η/2) and its first four derivatives, η ~ N(mean, variance), elementwise."""
    scale = 1 / np.sqrt(4 * _SCALES**2 + variance[..., None])
    z = scale * mean[..., None]
    density = (2 / np.sqrt(2 * np.pi)) * np.exp(-0.5 * z**2) * scale
    third = (density * scale**2 * (z**2 - 1)) @ _SHARES
    fourth = -(density * scale**3 * (z**3 - 3 * z)) @ _SHARES
    return Derivatives(*_first_derivatives(scale, z, density), third, fourth)


def first_derivatives(mean: Floats, variance: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the first three of `expected_derivatives`: the function itself and two derivatives."""
    scale = 1 / np.sqrt(4 * _SCALES**2 + variance[..., None])
    z = scale * mean[..., None]
    return _first_derivatives(scale, z, (2 / np.sqrt(2 * np.pi)) * np.exp(-0.5 * z**2) * scale)


def _first_derivatives(scale: Floats, z: Floats, density: Floats) -> tuple[Floats, Floats, Floats]:
    value = scipy.special.erf(z * math.sqrt(0.5)) @ _SHARES
    return value, density @ _SHARES, -(density * scale * z) @ _SHARES


def _split(weights: Floats) -> list[Floats]:
    """Split points [points, terms + 1] into parts of at most `AT_ONCE`."""
    return np.array_split(weights, -(-len(weights) // AT_ONCE))


class LogisticLikelihood(Likelihood):
    """Logistic regression: E[y u] is not linear in feature moments and is linearised around what was found.

    What the unknown shape of numbers adds to the covariance is taken at some weights `near` the mode, and held fixed as
    the covariance of a row is. If it moved with the weights, it would grow with them, and weights far too large to be
    true would never become impossible.
    """

    def __init__(
        self,
        moments: MomentMap,
        observation: TargetObservation,
        population: Population | None,
        shape_spread: float,
        near: Floats,
    ) -> None:
        super().__init__(moments, observation)
        self.population = population
        self._half_rows: NDArray[np.float32] | None = None
        if population is not None:
            self._half_rows = (0.5 * population.rows.T).astype(np.float32)
            self._weighted_rows = (population.weights[:, None] * population.rows).astype(np.float32)
        # Moments found under noise may belong to no rows; those of the synthetic rows do, so h is expanded there.
        self._around = self.second_moments if population is None else moments.second_moments(population.moments)
        if shape_spread:
            self._carried = self._carried + self._shape_covariance(near, shape_spread)

    def target_moments(self, parameters: Parameters) -> tuple[Floats, Floats]:
        weights = parameters.weights
        closed, slopes, *_ = self._closed_form(weights)
        return self._expectation(weights, closed, slopes, self._labels(weights)), np.ones(len(weights))

    def moments_at(self, parameters: Parameters) -> Normals:
        weights = parameters.weights
        # Synthetic rows are looked at for some points at a time, since a table of all would fill the memory.
        parts = [self._moments(part, self._labels(part))[0] for part in _split(weights)]
        return Normals(*(np.concatenate(both) for both in zip(*parts, strict=True)))

    def slopes(self, parameters: Parameters, *, single: bool = False) -> tuple[Floats, Floats]:  # noqa: ARG002
        """Derivatives of the log density by weights, and by the variance, of which there is none.

        Those of the covariance are approximate.
        """
        weights = parameters.weights
        labels = self._labels(weights)
        (mean, covariance), by_moments = self._moments(weights, labels)
        residual = self.observation.observed - mean
        inverse = inverses(covariance)
        solved = np.matmul(inverse, residual[:, :, None])[:, :, 0]
        outer = 0.5 * (solved[:, :, None] * solved[:, None, :] - inverse)
        slopes = self._slopes_of_covariance(weights, by_moments, outer)
        through = np.matmul(solved[:, None], by_moments[:, :, : weights.shape[1]])[:, 0]
        if labels is None or self._half_rows is None:
            return slopes + through @ self.second_moments, np.zeros(len(weights))
        slopes += ((1 - labels**2) * (solved.astype(np.float32) @ self._half_rows)) @ self._weighted_rows
        return slopes + through @ (self.second_moments - self._around), np.zeros(len(weights))

    def _slopes_of_covariance(self, weights: Floats, by_moments: Floats, outer: Floats) -> Floats:
        """Derivatives by θ of tr(D S), D held fixed, S = H K Hᵀ − H L − (H L)ᵀ: those of K and L, and about those of H.

        H is taken to move in proportion to f₁, which is close: measured, slopes are within a tenth of the density's.
        """
        size = weights.shape[1]
        joint, carried = self._joint(weights)
        turned = np.matmul(outer, by_moments)
        by_products, by_ends = turned[:, :, :size], by_moments[:, :, size:]
        found = self.slopes_of_spread(weights, np.matmul(by_moments[:, :, :size].transpose(0, 2, 1), by_products))
        across = np.matmul(by_products.transpose(0, 2, 1), by_ends)
        found += 2 * across.reshape(len(weights), -1) @ self._across.transpose(0, 2, 1).reshape(-1, size)
        found -= 2 * by_products.transpose(0, 2, 1).reshape(len(weights), -1) @ self._coefficients.T
        moved = np.matmul(by_moments, joint) - carried.transpose(0, 2, 1)
        growth = 2 * np.sum(turned * moved, axis=(1, 2))  # of tr(D S), for each e-fold of f₁
        a = weights @ self._around
        nu, of_nu = a[:, -1], self._around[:, -1]
        v = np.maximum(np.sum(weights * a, axis=1) - nu**2, SMALLEST_VARIANCE)
        f = expected_derivatives(np.clip(nu, -LARGEST_MEAN, LARGEST_MEAN), v)
        slope = np.maximum(f.f1, SMALLEST_SLOPE)
        found += (growth * f.f2 / slope)[:, None] * of_nu
        return np.asarray(found + (growth * f.f3 / slope)[:, None] * (a - nu[:, None] * of_nu))

    def _labels(self, weights: Floats) -> NDArray[np.float32] | None:
        """Expected labels of the synthetic rows [points, rows], if there are any.

        Single precision will do, and is three times as fast: what is wanted is a mean over thousands of rows.
        """
        if self._half_rows is None:
            return None
        labels = weights.astype(np.float32) @ self._half_rows
        return np.asarray(np.tanh(labels, out=labels))

    def _expectation(
        self, weights: Floats, closed: Floats, slopes: Floats, labels: NDArray[np.float32] | None
    ) -> Floats:
        """E[y u] at the found moments: that of the synthetic rows, and a linear step from their moments."""
        size = weights.shape[1]
        step = self.second_moments - self._around
        away = np.matmul(slopes[:, :, :size], (weights @ step)[:, :, None])[:, :, 0]
        away += slopes[:, :, size:] @ step[: size - 1, -1]
        if labels is None:
            return np.asarray(closed + away)
        return np.asarray(labels @ self._weighted_rows + away)

    @cached_property
    def _across(self) -> Floats:
        """Coefficients of Cov(a_i, p_k) in θ_j [terms + 1, terms + 1, terms]; p is the last column of E[u uᵀ]."""
        places = self.moments.places
        return np.asarray(self._covariance[places][:, :, places[:-1, -1]])

    def _joint(self, weights: Floats) -> tuple[Floats, Floats]:
        """K = Cov((a, p)) and L = Cov((a, p), G m) at each point."""
        size = weights.shape[1]
        ends = self.moments.places[: size - 1, -1]
        joint = np.empty((len(weights), 2 * size - 1, 2 * size - 1))
        joint[:, :size, :size] = self.spread_of_products(weights)
        across = np.tensordot(weights, self._across, axes=(1, 0))
        joint[:, :size, size:], joint[:, size:, :size] = across, across.transpose(0, 2, 1)
        joint[:, size:, size:] = self._covariance[np.ix_(ends, ends)]
        carried = np.empty((len(weights), 2 * size - 1, size))
        carried[:, :size] = self.spread_with_carried(weights)
        carried[:, size:] = self._through[ends]
        return joint, carried

    def _moments(self, weights: Floats, labels: NDArray[np.float32] | None) -> tuple[Normals, Floats]:
        """Mean and covariance of the observed target moments, and the derivatives of E[y u] by (a, p)."""
        closed, slopes, *_ = self._closed_form(weights)
        mean = self._expectation(weights, closed, slopes, labels)
        joint, carried = self._joint(weights)
        covariance = np.matmul(np.matmul(slopes, joint), slopes.transpose(0, 2, 1))
        shared = np.matmul(slopes, carried)
        covariance += self._carried - shared - shared.transpose(0, 2, 1)
        return Normals(mean, covariance), slopes

    def _closed_form(self, weights: Floats) -> tuple[Floats, Floats, Floats, Derivatives]:
        """Return E[y u] [points, terms + 1], its derivatives by (a, p) [points, terms + 1, …], a and the f_k."""
        number, size = weights.shape
        width, levels = size - 1, self.moments.levels
        a = weights @ self._around
        p, nu = self._around[:width, -1], a[:, -1]
        v = np.sum(weights * a, axis=1) - nu**2
        is_spread = v > SMALLEST_VARIANCE
        v = np.where(is_spread, v, SMALLEST_VARIANCE)
        f = expected_derivatives(np.clip(nu, -LARGEST_MEAN, LARGEST_MEAN), v)
        # Derivatives of v by a; those by p are 0. Below the least variance it stands still.
        dv = weights.copy()
        dv[:, -1] -= 2 * nu
        dv *= is_spread[:, None]

        mean = np.empty((number, size))
        slopes = np.zeros((number, size, 2 * size - 1))
        mean[:, -1] = f.f0
        slopes[:, -1, :size] = 0.5 * f.f2[:, None] * dv
        slopes[:, -1, width] += f.f1
        c = a[:, :width] - nu[:, None] * p
        for j in np.flatnonzero(~levels):
            mean[:, j] = p[j] * f.f0 + c[:, j] * f.f1
            slopes[:, j, :size] = 0.5 * (p[j] * f.f2 + c[:, j] * f.f3)[:, None] * dv
            slopes[:, j, width] += c[:, j] * f.f2
            slopes[:, j, j] += f.f1
            slopes[:, j, size + j] = f.f0 - nu * f.f1
        if levels.any():
            self._expect_levels(mean, slopes, a, c, dv, v, nu)
        return mean, slopes, a, f

    def _expect_levels(
        self, mean: Floats, slopes: Floats, a: Floats, c: Floats, dv: Floats, v: Floats, nu: Floats
    ) -> None:
        """Fill in the rows of 0/1 terms."""
        size = a.shape[1]
        places = np.flatnonzero(self.moments.levels)
        p = np.clip(self._around[places, -1], SMALLEST_SHARE, 1 - SMALLEST_SHARE)
        c, given = c[:, places], a[:, places] / p
        spread = p * (1 - p)
        left = v[:, None] - c**2 / spread
        is_left = left > LEAST_LEFT * v[:, None]
        left = np.where(is_left, left, LEAST_LEFT * v[:, None])
        is_possible = np.abs(given) < LARGEST_MEAN
        value, first, second = first_derivatives(np.clip(given, -LARGEST_MEAN, LARGEST_MEAN), left)
        mean[:, places] = p * value
        by_given = np.where(is_possible, first, 0.0)  # p · ∂/∂α, and ∂α/∂a = 1/p
        by_left = 0.5 * p * second
        by_c = np.where(is_left, -2 * c / spread, 0.0) * by_left
        by_v = np.where(is_left, 1.0, LEAST_LEFT) * by_left
        for k, j in enumerate(places):
            slopes[:, j, :size] = by_v[:, k, None] * dv
            slopes[:, j, j] += by_given[:, k] + by_c[:, k]
            slopes[:, j, size - 1] -= by_c[:, k] * p[k]
            of_spread = np.where(is_left[:, k], (c[:, k] / spread[k]) ** 2 * (1 - 2 * p[k]), 0.0)
            slopes[:, j, size + j] = (
                value[:, k] - given[:, k] * by_given[:, k] - by_c[:, k] * nu + by_left[:, k] * of_spread
            )

    def _shape_covariance(self, near: Floats, shape_spread: float) -> Floats:
        """Covariance of what the unknown shape of numbers does to E[y u] [terms + 1, terms + 1], at some weights.

        A number x_j = E x_j + s_j (t + δ (t² − 1)), t normal, has about the skewness 6 δ. Edgeworth's expansion then
        adds κ_ηηη f₃ / 6 to E[f(η)], and κ_kηη f₂ / 2 + c_k κ_ηηη f₄ / 6 to Cov(x_k, f(η)), with third cumulants

            κ_ηηη = 6 δ θ_j c_j² / s_j,   κ_kηη = 4 δ θ_j c_j Cov(x_j, x_k) / s_j,   and 2 δ c_j² / s_j more if k = j.

        δ is unknown, and what it adds is linear in it, so that it integrates out.

        Numbers whose covariance differs from level to level, heavy tails and flat ones move E[y u] in other ways. With
        the covariance Σ of numbers given levels, v = θᵀΣθ and S = 2v / (1 + 2v), which grows with the effects, E[y x]
        may be off by N(0, (s S)² Σ) in any direction, and by a factor, N(0, (3 s S f₁)²) along Σθ, s = `shape_spread`.
        """
        _, _, products, derivatives = self._closed_form(near[None])
        f = Derivatives(*(float(one[0]) for one in derivatives))  # type: ignore[arg-type]
        size = len(near)
        width = size - 1
        p, nu = self._around[:width, -1], products[0, -1]
        covariance = self._around[:width, :width] - np.outer(p, p)
        c = products[0, :width] - nu * p
        numbers = np.flatnonzero(~self.moments.levels)
        moves = np.zeros((len(numbers), size))
        for place, j in enumerate(numbers):
            deviation = np.sqrt(max(covariance[j, j], SMALLEST_SPREAD))
            pull = near[j] * c[j] / deviation
            third = pull * c[j]  # a sixth of κ_ηηη, for δ = 1
            moves[place, -1] = third * f.f3
            moves[place, :width] = p * moves[place, -1] + c * third * f.f4 + 2 * pull * f.f2 * covariance[j]
            moves[place, j] += f.f2 * c[j] ** 2 / deviation
        found = (SKEWNESS_PER_SPREAD * shape_spread / 6) ** 2 * moves.T @ moves
        given = self._covariance_given_levels(covariance)
        along = given @ near[numbers]
        square = float(along @ near[numbers])
        strength = shape_spread * 2 * square / (1 + 2 * square)
        along *= FACTOR_PER_SPREAD * strength * f.f1
        found[np.ix_(numbers, numbers)] += strength**2 * given + np.outer(along, along)
        return np.asarray(found)

    def _covariance_given_levels(self, covariance: Floats) -> Floats:
        """Covariance of numbers given all levels, as if it were the same for all of them."""
        levels = self.moments.levels
        numbers = covariance[np.ix_(~levels, ~levels)]
        if levels.any():
            across = covariance[np.ix_(levels, ~levels)]
            of_levels = covariance[np.ix_(levels, levels)] + SMALLEST_SPREAD * np.eye(int(levels.sum()))
            numbers = numbers - across.T @ np.linalg.solve(of_levels, across)
        values, vectors = np.linalg.eigh(numbers)
        return np.asarray((vectors * np.maximum(values, SMALLEST_VARIANCE)) @ vectors.T)
