r"""Density of the observed target moments at parameters of a regression, feature moments integrated out.

    observed | θ ~ N(h(m̂, θ), (J − G) C (J − G)ᵀ + R),   J = ∂h/∂m at m̂

h depends on the feature moments m through a = E[u uᵀ] θ and, in logistic regression, p = E[u], both linear in m. With
H = ∂h/∂(a, p) only the covariance of (a, p) is needed, never one of all feature moments:

    (J − G) C (J − G)ᵀ = H K Hᵀ − H L − (H L)ᵀ + G C Gᵀ,   K = Cov(a, p),   L = Cov((a, p), G m).

Cov(a) is a quadratic form in θ whose coefficients are prepared once: of many θ it is one product of matrices, and costs
O(w⁴) each in place of O(w⁵). Slopes may take it in single precision, which is twice as fast: they only propose moves.
"""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.inference.normals import Normals, inverses, normal_log_density
from equipoise.inference.regression.observation import TargetObservation
from equipoise.inference.regression.statistic import MomentMap


class Parameters(NamedTuple):
    """Parameters at many points: weights [points, terms + 1], the bias last, and residual variances [points]."""

    weights: Floats
    variance: Floats


class Likelihood(ABC):
    """The density of an observation of the target moments; subclasses know how they depend on the parameters."""

    def __init__(self, moments: MomentMap, observation: TargetObservation) -> None:
        self.moments, self.observation = moments, observation
        places, features = moments.places, moments.features
        self.second_moments = moments.second_moments(observation.features)
        self._covariance = np.zeros((features + 2, features + 2))
        self._covariance[:features, :features] = observation.feature_covariance
        through = np.zeros((features + 2, moments.targets))
        through[:features] = observation.feature_covariance @ observation.carried.T
        self._carried = observation.carried @ through[:features] + observation.covariance
        # Row j of the coefficients holds what θ_j adds to Cov(a, G m) [terms + 1, targets].
        self._coefficients = through[places].reshape(len(places), -1)
        self._rows, self._columns = np.triu_indices(len(places))
        self._quadratic = self._quadratic_coefficients()
        self._through = through

    def _quadratic_coefficients(self) -> Floats:
        """Return the coefficients of Cov(a)_ik, i ≤ k, in the products θ_j θ_l, j ≤ l."""
        places, size = self.moments.places, len(self.moments.places)
        coefficients = np.empty((len(self._rows), len(self._rows)))
        # Row by row of Cov(a), because the indices of all coefficients would take more memory than these do.
        for i in range(size):
            each = self._covariance[places[i]][:, places[i:]]  # j, k, l
            both = each + each.transpose(2, 1, 0)
            both[np.arange(size), :, np.arange(size)] /= 2
            coefficients[self._rows == i] = both[self._rows, :, self._columns].T
        return coefficients

    @cached_property
    def _single(self) -> NDArray[np.float32]:
        """The quadratic coefficients in single precision."""
        return self._quadratic.astype(np.float32)

    def spread_of_products(self, weights: Floats, *, single: bool = False) -> Floats:
        """Return Cov(a) [points, terms + 1, terms + 1] of a = E[u uᵀ] θ."""
        coefficients: NDArray[Any] = self._single if single else self._quadratic
        products = weights[:, self._rows] * weights[:, self._columns]
        packed = products.astype(coefficients.dtype) @ coefficients.T
        size = weights.shape[1]
        spread = np.empty((len(weights), size, size))
        spread[:, self._rows, self._columns] = packed
        spread[:, self._columns, self._rows] = packed
        return spread

    def spread_with_carried(self, weights: Floats) -> Floats:
        """Return Cov(a, G m) [points, terms + 1, targets]."""
        return (weights @ self._coefficients).reshape(len(weights), weights.shape[1], -1)

    def slopes_of_spread(self, weights: Floats, outer: Floats, *, single: bool = False) -> Floats:
        """Return derivatives by θ of Σ_ik outer_ik Cov(a)_ik."""
        coefficients: NDArray[Any] = self._single if single else self._quadratic
        rows, columns = self._rows, self._columns
        packed = (outer[:, rows, columns] + outer[:, columns, rows]) * np.where(rows == columns, 0.5, 1.0)
        square = np.zeros((len(weights), weights.shape[1], weights.shape[1]))
        square[:, rows, columns] = packed.astype(coefficients.dtype) @ coefficients
        return np.asarray(np.matmul(square + square.transpose(0, 2, 1), weights[:, :, None])[:, :, 0])

    @abstractmethod
    def moments_at(self, parameters: Parameters) -> Normals:
        """Return mean and covariance of the observed target moments."""

    @abstractmethod
    def target_moments(self, parameters: Parameters) -> tuple[Floats, Floats]:
        """Return expected E[y u] [points, terms + 1] and E[y²] [points] at the estimated feature moments."""

    @abstractmethod
    def at_most_moved(self, parameters: Parameters) -> Floats:
        """Return numbers [points, targets] that move with the parameters as the target moments do, or by more."""

    @abstractmethod
    def slopes(self, parameters: Parameters, *, single: bool = False) -> tuple[Floats, Floats]:
        """Return derivatives of the log density by weights [points, terms + 1] and by the variance [points].

        Slopes may be approximate: they propose moves, which are accepted by the density itself. `single` allows single
        precision where that is faster.
        """

    def log_density(self, parameters: Parameters) -> Floats:
        """Return the log density of the observation at each point, up to a constant; −∞ if there is none."""
        mean, covariance = self.moments_at(parameters)
        return normal_log_density(self.observation.observed - mean, covariance)


class LinearLikelihood(Likelihood):
    """Linear regression: E[y u] = a and E[y²] = θᵀa + σ², so that H has the rows of the identity, and θ below."""

    def target_moments(self, parameters: Parameters) -> tuple[Floats, Floats]:
        products = parameters.weights @ self.second_moments
        return products, np.sum(parameters.weights * products, axis=1) + parameters.variance

    def at_most_moved(self, parameters: Parameters) -> Floats:
        products, squares = self.target_moments(parameters)
        return np.concatenate([products, squares[:, None]], axis=1)

    def slopes(self, parameters: Parameters, *, single: bool = False) -> tuple[Floats, Floats]:
        """Return derivatives of the log density by weights [points, terms + 1] and by the variance [points].

        With r the residual, S the covariance and D = ½ (S⁻¹ r rᵀ S⁻¹ − S⁻¹), d log p = −rᵀS⁻¹ d mean + tr(D dS), where
        S = T A Tᵀ − T E − (T E)ᵀ + const, T the identity above θᵀ, A = Cov(a) and E = Cov(a, G m).
        """
        weights = parameters.weights
        size = weights.shape[1]
        spread, carried = self.spread_of_products(weights, single=single), self.spread_with_carried(weights)
        mean, covariance = self._normals(parameters, spread, carried)
        residual = self.observation.observed - mean
        inverse = inverses(covariance)
        solved = np.matmul(inverse, residual[:, :, None])[:, :, 0]
        outer = 0.5 * (solved[:, :, None] * solved[:, None, :] - inverse)
        products = mean[:, :size]
        # T has the rows of the identity and θ, so that Tᵀ D keeps the first rows and adds θ times the last.
        turned = outer[:, :size] + weights[:, :, None] * outer[:, size:]
        both = turned[:, :, :size] + turned[:, :, size:] * weights[:, None, :]
        slopes = 2 * (np.matmul(spread, turned[:, :, size:]) - np.matmul(carried, outer[:, :, size:]))[:, :, 0]
        slopes += self.slopes_of_spread(weights, both, single=single)
        slopes -= 2 * turned.reshape(len(weights), -1) @ self._coefficients.T
        through = solved[:, :size] + weights * solved[:, size:]
        slopes += through @ self.second_moments + products * solved[:, size:]
        return slopes, solved[:, size]

    def moments_at(self, parameters: Parameters) -> Normals:
        weights = parameters.weights
        return self._normals(parameters, self.spread_of_products(weights), self.spread_with_carried(weights))

    def _normals(self, parameters: Parameters, spread: Floats, carried: Floats) -> Normals:
        weights = parameters.weights
        products, squares = self.target_moments(parameters)
        size = weights.shape[1]
        covariance = np.empty((len(weights), size + 1, size + 1))
        row = np.matmul(weights[:, None], spread)[:, 0]
        covariance[:, :size, :size] = spread
        covariance[:, :size, size] = covariance[:, size, :size] = row
        covariance[:, size, size] = np.sum(weights * row, axis=1)
        across = np.concatenate([carried, np.matmul(weights[:, None], carried)], axis=1)
        covariance -= across + across.transpose(0, 2, 1)
        covariance += self._carried
        return Normals(np.concatenate([products, squares[:, None]], axis=1), covariance)
