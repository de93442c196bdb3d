r"""Coordinates of a logistic regression in which chains need not follow a bent ridge.

Many rows tell E[y] sharply, and with it the bias given the other weights: with mean features p, their covariance Σ and
slopes β the mean linear predictor ν = bias + βᵀp is about q √(c + βᵀΣβ), since a logistic function is nearly a normal
distribution function. That ridge bends as slopes grow. Points here are coordinates whose last one, the bias', is taken
from the ridge. Given the others that is a shift, so that densities stay what they are.
"""

import numpy as np

from equipoise._util.arrays import Floats
from equipoise.inference.regression.model import RegressionModel

LOGISTIC_VARIANCE = 2.9  # variance of the normal distribution that approximates the logistic one


class StraightBias:
    """A map of points [points, d] to a model's coordinates and back, along a ridge through a centre [d].

    Second moments must be those of some rows, however few: the variance of a linear predictor is not below 0.
    """

    def __init__(self, model: RegressionModel, second_moments: Floats, centre: Floats) -> None:
        self._model = model
        self._mean = second_moments[:-1, -1]
        self._covariance = second_moments[:-1, :-1] - np.outer(self._mean, self._mean)
        weights = model.parameters(centre[None]).weights
        above = weights[0, -1] + weights[0, :-1] @ self._mean
        self._share = float(above / self._spread(weights[:, :-1])[0])

    def to_coordinates(self, points: Floats) -> Floats:
        """Return the coordinates of points."""
        return np.column_stack([points[:, :-1], points[:, -1] + self._shift(points)])

    def from_coordinates(self, coordinates: Floats) -> Floats:
        """Return the points of coordinates."""
        return np.column_stack([coordinates[:, :-1], coordinates[:, -1] - self._shift(coordinates)])

    def pull_back(self, points: Floats, slopes: Floats) -> Floats:
        """Return slopes by points, given those by coordinates."""
        through = slopes[:, :-1] + slopes[:, -1:] * self.slopes_of_shift(points)
        return np.column_stack([through, slopes[:, -1]])

    def slopes_of_shift(self, points: Floats) -> Floats:
        """Return derivatives of the bias' coordinate on the ridge by the other coordinates [points, d − 1].

        On the ridge bias − ridge(β) stays 0, whatever the other coordinates.
        """
        slopes = self._model.parameters(points).weights[:, :-1]
        by_slopes = self._share * (slopes @ self._covariance) / self._spread(slopes)[:, None] - self._mean
        on_ridge = np.column_stack([points[:, :-1], self._shift(points)])
        moved = np.column_stack([-by_slopes, np.ones(len(points))])
        moved = self._model.pull_back(on_ridge, moved, np.zeros(len(points)))
        return np.asarray(-moved[:, :-1] / moved[:, -1:])

    def _spread(self, slopes: Floats) -> Floats:
        return np.asarray(np.sqrt(LOGISTIC_VARIANCE + np.sum(slopes @ self._covariance * slopes, axis=1)))

    @np.errstate(over="ignore", invalid="ignore")
    def _shift(self, points: Floats) -> Floats:
        """Return the coordinate of the bias on the ridge; NaN at points so far off that weights overflow."""
        slopes = self._model.parameters(points).weights[:, :-1]
        bias = self._share * self._spread(slopes) - slopes @ self._mean
        return np.asarray(self._model.agreed.weight_coordinates(np.column_stack([slopes, bias]), None)[:, -1])
