"""Logistic regression: E[y u] is not linear in feature moments, and depends on more of the features than these."""

from functools import cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.inference.normals import Normals, inverses
from equipoise.inference.regression.expected_labels import ExpectedLabels
from equipoise.inference.regression.likelihood import Likelihood, Parameters
from equipoise.inference.regression.observation import TargetObservation
from equipoise.inference.regression.population import Population
from equipoise.inference.regression.row_covariance import nearest_covariance
from equipoise.inference.regression.statistic import MomentMap

SMALLEST_SHARE = 0.005  # smallest share of rows with a level
SMALLEST_VARIANCE = 1e-6  # smallest variance of a number given levels
SMALLEST_SPREAD = 1e-4  # smallest variance of a number
AT_ONCE = 1 << 21  # labels of synthetic rows in memory
SKEWNESS_PER_SPREAD = 15.0  # standard deviation of a number's skewness, for an agreed `shape_spread` of 1
FACTOR_PER_SPREAD = 3.0


def nearest_possible(second_moments: Floats, levels: NDArray[np.bool_]) -> Floats:
    """Return second moments E[u uᵀ] that some rows have, near those that noise may have made impossible."""
    mean = np.append(np.clip(second_moments[:-1, -1], np.where(levels, SMALLEST_SHARE, -1.0), 1.0), 1.0)
    products = second_moments[:-1, :-1].copy()
    products[levels, levels] = mean[:-1][levels]
    nearest = np.outer(mean, mean)
    nearest[:-1, :-1] += nearest_covariance(products, mean[:-1])
    return nearest


class LogisticLikelihood(Likelihood):
    """Logistic regression: E[y u] is linearised around feature moments that rows can have.

    With synthetic rows it is theirs, and the closed form only tells how it moves with the moments; the error of so few
    rows is added to the covariance. That, and what the unknown shape of numbers adds, is taken at some weights `near`
    the mode and held fixed as the covariance of a row is. If it moved with the weights, it would grow with them, and
    weights far too large to be true would never become impossible.

    Attributes
    ----------
    around : array [terms + 1, terms + 1]
        Second moments of the features where E[y u] is linearised.
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
        if population is None:
            self.around = nearest_possible(self.second_moments, moments.levels)
        else:
            self._half_rows = (0.5 * population.rows.T).astype(np.float32)
            self._weighted_rows = (population.weights[:, None] * population.rows).astype(np.float32)
            self.around = moments.second_moments(population.moments)
        self._step = self.second_moments - self.around
        if shape_spread:
            self._carried = self._carried + self._shape_covariance(near, shape_spread)
        self._near, self._error = near, None if population is None else population.label_error(near)
        if self._error is not None:
            self._carried = self._carried + self._error

    def error_share(self) -> float:
        """Return the share of the error of synthetic rows in the covariance, in the direction where it is largest."""
        if self._error is None:
            return 0.0
        covariance = self.moments_at(Parameters(self._near[None], np.ones(1))).covariance[0]
        return float(scipy.linalg.eigh(self._error, covariance, eigvals_only=True)[-1])

    def target_moments(self, parameters: Parameters) -> tuple[Floats, Floats]:
        weights = parameters.weights
        return self._expectation(self._expand(weights), self._labels(weights)), np.ones(len(weights))

    def at_most_moved(self, parameters: Parameters) -> Floats:
        return np.asarray(0.5 * parameters.weights @ self.around)  # tanh(η/2) is steepest at 0

    def moments_at(self, parameters: Parameters) -> Normals:
        weights = parameters.weights
        # Synthetic rows are looked at for some points at a time, since a table of all would fill the memory.
        rows = 1 if self._half_rows is None else self._half_rows.shape[1]
        parts = np.array_split(weights, -(-len(weights) * rows // AT_ONCE))
        moments = [self._moments(self._expand(part), self._labels(part)) for part in parts]
        return Normals(*(np.concatenate(both) for both in zip(*moments, strict=True)))

    def slopes(self, parameters: Parameters, *, single: bool = False) -> tuple[Floats, Floats]:  # noqa: ARG002
        """Return derivatives of the log density by weights, and zeros for the variance, which labels do not have.

        With r the residual, S the covariance and D = ½ (S⁻¹ r rᵀ S⁻¹ − S⁻¹), d log p = rᵀS⁻¹ d mean + tr(D dS), where
        S = H K Hᵀ − H L − (H L)ᵀ + const and the mean moves by H s, s the step to the found moments.
        """
        weights = parameters.weights
        size = weights.shape[1]
        closed, labels = self._expand(weights, derivatives=6), self._labels(weights)
        jacobian = closed.jacobian
        joint, carried = self._covariance_of(weights)
        moved = np.matmul(jacobian, joint)
        mean, covariance = self._normals(closed, labels, moved, carried)
        residual = self.observation.observed - mean
        inverse = inverses(covariance)
        solved = np.matmul(inverse, residual[:, :, None])[:, :, 0]
        outer = 0.5 * (solved[:, :, None] * solved[:, None, :] - inverse)

        # K and L are functions of the weights, H held fixed.
        turned = np.matmul(outer, jacobian)
        by_products, by_ends = turned[:, :, :size], jacobian[:, :, size:]
        slopes = self.slopes_of_spread(weights, np.matmul(jacobian[:, :, :size].transpose(0, 2, 1), by_products))
        across = np.matmul(by_products.transpose(0, 2, 1), by_ends)
        slopes += 2 * across.reshape(len(weights), -1) @ self._across.transpose(0, 2, 1).reshape(-1, size)
        slopes -= 2 * by_products.transpose(0, 2, 1).reshape(len(weights), -1) @ self._coefficients.T
        # Then H, both where it stands in the covariance and where it takes the mean to the found moments.
        by_jacobian = 2 * np.matmul(outer, moved - carried.transpose(0, 2, 1))
        by_jacobian += solved[:, :, None] * self._steps(weights)[:, None, :]
        slopes += closed.pull_back(by_jacobian)
        slopes += np.matmul(solved[:, None], jacobian[:, :, :size])[:, 0] @ self._step
        if labels is None or self._half_rows is None:
            slopes += closed.slopes_of_mean(solved)
        else:
            np.multiply(labels, labels, out=labels)
            np.subtract(1.0, labels, out=labels)
            labels *= solved.astype(np.float32) @ self._half_rows
            slopes += labels @ self._weighted_rows
        return slopes, np.zeros(len(weights))

    def _expand(self, weights: Floats, *, derivatives: int = 4) -> ExpectedLabels:
        return ExpectedLabels(weights, self.around, self.moments.levels, derivatives=derivatives)

    def _steps(self, weights: Floats) -> Floats:
        """Return steps of (a, p) [points, 2 terms + 1] from the closed form's expansion to the estimated moments."""
        ends = np.broadcast_to(self._step[:-1, -1], (len(weights), len(self._step) - 1))
        return np.concatenate([weights @ self._step, ends], axis=1)

    def _labels(self, weights: Floats) -> NDArray[np.float32] | None:
        """Return expected labels of the synthetic rows [points, rows], if there are any.

        Single precision suffices, and is three times as fast, because only a mean over thousands of rows is needed.
        """
        if self._half_rows is None:
            return None
        labels = weights.astype(np.float32) @ self._half_rows
        return np.asarray(np.tanh(labels, out=labels))

    def _expectation(self, closed: ExpectedLabels, labels: NDArray[np.float32] | None) -> Floats:
        """Return E[y u] at the estimated moments: that of the synthetic rows, and a linear step from their moments."""
        away = np.matmul(closed.jacobian, self._steps(closed.weights)[:, :, None])[:, :, 0]
        return np.asarray((closed.mean if labels is None else labels @ self._weighted_rows) + away)

    @cached_property
    def _across(self) -> Floats:
        """The coefficients of Cov(a_i, p_k) in θ_j [terms + 1, terms + 1, terms]; p is the last column of E[u uᵀ]."""
        places = self.moments.places
        return np.asarray(self._covariance[places][:, :, places[:-1, -1]])

    def _covariance_of(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return K = Cov((a, p)) and L = Cov((a, p), G m) at each point."""
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

    def _moments(self, closed: ExpectedLabels, labels: NDArray[np.float32] | None) -> Normals:
        joint, carried = self._covariance_of(closed.weights)
        return self._normals(closed, labels, np.matmul(closed.jacobian, joint), carried)

    def _normals(
        self, closed: ExpectedLabels, labels: NDArray[np.float32] | None, moved: Floats, carried: Floats
    ) -> Normals:
        """Return mean and covariance of the observed target moments, from H K and L."""
        covariance = np.matmul(moved, closed.jacobian.transpose(0, 2, 1))
        shared = np.matmul(closed.jacobian, carried)
        covariance += self._carried - shared - shared.transpose(0, 2, 1)
        return Normals(self._expectation(closed, labels), covariance)

    def _shape_covariance(self, near: Floats, shape_spread: float) -> Floats:
        """Return the covariance of the unknown shape's effect on E[y u] [terms + 1, terms + 1], at some weights.

        A number x_j = E x_j + s_j (t + δ (t² − 1)), t normal, has about the skewness 6 δ. Edgeworth's expansion then
        adds κ_ηηη f₃ / 6 to E[f(η)], and κ_kηη f₂ / 2 + c_k κ_ηηη f₄ / 6 to Cov(x_k, f(η)), with third cumulants

            κ_ηηη = 6 δ θ_j c_j² / s_j,   κ_kηη = 4 δ θ_j c_j Cov(x_j, x_k) / s_j,   and 2 δ c_j² / s_j more if k = j.

        δ is unknown, and what it adds is linear in it, so that it integrates out.

        Numbers whose covariance differs from level to level, heavy tails and flat ones move E[y u] in other ways. With
        the covariance Σ of numbers given levels, v = θᵀΣθ and S = 2v / (1 + 2v), which grows with the effects, E[y x]
        may be off by N(0, (s S)² Σ) in any direction, and by a factor, N(0, (3 s S f₁)²) along Σθ, s = `shape_spread`.
        """
        closed = self._expand(near[None], derivatives=5)
        _, slope, curvature, third_slope, fourth_slope = (float(derivative[0]) for derivative in closed.f)
        size = len(near)
        width = size - 1
        products = closed.products[0]
        p, nu = self.around[:width, -1], products[-1]
        covariance = self.around[:width, :width] - np.outer(p, p)
        c = products[:width] - nu * p
        numbers = np.flatnonzero(~self.moments.levels)
        moves = np.zeros((len(numbers), size))
        for index, j in enumerate(numbers):
            deviation = np.sqrt(max(covariance[j, j], SMALLEST_SPREAD))
            pull = near[j] * c[j] / deviation
            third = pull * c[j]  # a sixth of κ_ηηη, for δ = 1
            moves[index, -1] = third * third_slope
            moves[index, :width] = (
                p * moves[index, -1] + c * third * fourth_slope + 2 * pull * curvature * covariance[j]
            )
            moves[index, j] += curvature * c[j] ** 2 / deviation
        total = (SKEWNESS_PER_SPREAD * shape_spread / 6) ** 2 * moves.T @ moves
        given = self._covariance_given_levels(covariance)
        along = given @ near[numbers]
        square = float(along @ near[numbers])
        strength = shape_spread * 2 * square / (1 + 2 * square)
        along *= FACTOR_PER_SPREAD * strength * slope
        total[np.ix_(numbers, numbers)] += strength**2 * given + np.outer(along, along)
        return np.asarray(total)

    def _covariance_given_levels(self, covariance: Floats) -> Floats:
        """Return the covariance of numbers given all levels, as if it were the same for all of them."""
        levels = self.moments.levels
        numbers = covariance[np.ix_(~levels, ~levels)]
        if levels.any():
            across = covariance[np.ix_(levels, ~levels)]
            of_levels = covariance[np.ix_(levels, levels)] + SMALLEST_SPREAD * np.eye(int(levels.sum()))
            numbers = numbers - across.T @ np.linalg.solve(of_levels, across)
        values, vectors = np.linalg.eigh(numbers)
        return np.asarray((vectors * np.maximum(values, SMALLEST_VARIANCE)) @ vectors.T)
