"""The search for the mode of a posterior by Fisher scoring.

The density is that in coordinates where the prior is N(0, I), but the search moves the weights themselves: the mean of
the observation is nearly linear in them, whereas coordinates of weights in residual deviations bend with the
residual's.

Derivatives are central differences of the mean and the covariance of the observed moments, all computed in one call:
with d coordinates that is 2d points, which costs less than a few draws do.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.inference.normals import Normals, normal_log_density

STEP = 1e-4  # of the central differences
STEPS = 60
# Factors by which the diagonal of the information is raised (Levenberg and Marquardt); the best of all steps is taken.
# The least keeps matrices regular at the edge of a truncated norm, beyond which nothing changes with it.
DAMPING = np.concatenate([[1e-9], 10.0 ** np.arange(-2, 7)])
GAIN = 1e-6  # the search ends with a step that raises the log density by less
FARTHEST = 20.0  # most standard deviations of the prior at which a coordinate has any density


class Mode(NamedTuple):
    """A mode, and a root of the inverse of the information there: L Lᵀ."""

    centre: Floats
    root: Floats


class Observation(NamedTuple):
    """Observed moments, and their normal distribution at coordinates [points, d]."""

    observed: Floats
    normals: Callable[[Floats], Normals]

    def log_density(self, coordinates: Floats) -> Floats:
        """Return the log density of the observed moments at coordinates [points, d]."""
        mean, covariance = self.normals(coordinates)
        return normal_log_density(self.observed - mean, covariance)

    def misfit(self, centre: Floats) -> float:
        """Return the mean squared residual of the observed moments at a point [d], relative to their variance."""
        mean, covariance = self.normals(centre[None])
        residual = self.observed - mean[0]
        return float(residual @ np.linalg.solve(covariance[0], residual)) / len(residual)


class Chart(Protocol):
    """Alternative coordinates of the same volume, in which chains move more easily."""

    def to_coordinates(self, points: Floats) -> Floats:
        """Return the coordinates of points [points, d]."""

    def from_coordinates(self, coordinates: Floats) -> Floats:
        """Return the points of coordinates [points, d]."""

    def pull_back(self, points: Floats, slopes: Floats) -> Floats:
        """Return slopes by points, given those by coordinates."""


class Problem(NamedTuple):
    """Independent observations, and maps between the coordinates to move in.

    `slopes` are those of the posterior's log density, perhaps approximate ones; `single` allows single precision.
    `flatten` maps coordinates to those in which the search for the mode moves, and `unflatten` back; `log_volume` is
    the logarithm of the determinant of the derivatives of `flatten`, if it is known. Chains move on the `chart`.
    """

    observations: Sequence[Observation]
    flatten: Callable[[Floats], Floats]
    unflatten: Callable[[Floats], Floats]
    slopes: Callable[..., Floats]
    log_volume: Callable[[Floats], Floats] | None = None
    chart: Chart | None = None

    def log_likelihood(self, coordinates: Floats) -> Floats:
        """Return the log density of all observations at coordinates [points, d]."""
        total = np.zeros(len(coordinates))
        for observation in self.observations:
            total += observation.log_density(coordinates)
        return total

    def log_posterior(self, coordinates: Floats) -> Floats:
        """Return the log density of the posterior at coordinates [points, d], up to a constant."""
        return np.asarray(self.log_likelihood(coordinates) - 0.5 * np.sum(coordinates**2, axis=1))


def find_mode(problem: Problem, start: Floats, *, gain: float = GAIN, steps: int = STEPS) -> Mode:
    """Climb from a start to the mode in at most `steps` scoring steps, each damped as far as it takes to gain.

    The search ends with a step that raises the log density by less than `gain`.
    """
    point = problem.flatten(start[None])[0]
    value = float(problem.log_posterior(problem.unflatten(point[None]))[0])
    for _ in range(steps):
        gradient, information = _derivatives(problem, point, problem.unflatten)
        damped = information + DAMPING[:, None, None] * np.diag(np.diagonal(information))
        points = point + np.linalg.solve(damped, np.broadcast_to(gradient, damped.shape[:2])[:, :, None])[:, :, 0]
        values = problem.log_posterior(problem.unflatten(points))
        best = int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))
        if not values[best] > value:
            break
        gained, value, point = float(values[best]) - value, float(values[best]), points[best]
        if gained < gain:
            break
    centre = problem.unflatten(point[None])[0]
    _, information = _derivatives(problem, centre, lambda points: points)
    return Mode(centre, np.linalg.inv(np.linalg.cholesky(information)).T)


def _derivatives(problem: Problem, point: Floats, coordinates: Callable[[Floats], Floats]) -> tuple[Floats, Floats]:
    """Return the gradient of the log posterior, and the Fisher information of observations and prior together."""
    number = len(point)
    steps = STEP * np.diag(np.maximum(np.abs(point), 1.0))
    points = coordinates(np.concatenate([point[None], point + steps, point - steps]))
    widths = 2 * np.diagonal(steps)
    turns = (points[1 : number + 1] - points[number + 1 :]) / widths[:, None]
    gradient, information = -turns @ points[0], turns @ turns.T
    for observation in problem.observations:
        means, covariances = observation.normals(points)
        precision = np.linalg.inv(covariances[0])
        slopes = (means[1 : number + 1] - means[number + 1 :]) / widths[:, None]
        widenings = (covariances[1 : number + 1] - covariances[number + 1 :]) / widths[:, None, None]
        residual = precision @ (observation.observed - means[0])
        relative = np.matmul(precision, widenings)
        gradient += slopes @ residual + 0.5 * np.einsum("i,kij,j->k", residual, widenings, residual)
        gradient -= 0.5 * np.trace(relative, axis1=1, axis2=2)
        flat = relative.reshape(number, -1)
        turned = relative.transpose(0, 2, 1).reshape(number, -1)
        information += slopes @ precision @ slopes.T + 0.5 * flat @ turned.T
    return gradient, information


def is_near(coordinates: Floats) -> NDArray[np.bool_]:
    """Return a mask of coordinates [points, d] where the prior has any density to speak of."""
    return np.asarray((np.abs(coordinates) < FARTHEST).all(axis=1))
