"""Quantile functions z ↦ F⁻¹(Φ(z)) of the priors' one-dimensional parts, accurate far into both tails.

With them every prior becomes N(0, I) in the coordinates z. Those that need a search are tabulated once, as cubic
Hermite splines with exact slopes φ(z)/f(F⁻¹(Φ(z))): the error is below 1e-8 on [−9, 9]; beyond that they continue
linearly.
"""

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
import scipy  # its `special` is loaded when it is first used

from equipoise._util.arrays import Floats

LIMIT = 9.0
STEP = 1 / 32
GRID = np.arange(-LIMIT, LIMIT + STEP / 2, STEP)
TABLES = 1_024  # most tables to cache
RATIO_STRETCH = 0.7  # ratios are tabulated over 0.7 asinh(x) in [−9, 9]
SINH_DEVIATION = math.sqrt((math.e**2 - 1) / 2)  # standard deviation of sinh(z)


class LogOdds(NamedTuple):
    """Logarithms of a share and of its complement; each keeps its digits where its share is small."""

    log_share: Floats
    log_rest: Floats


class Tabulated(NamedTuple):
    """A quantile function tabulated on the grid."""

    spline: Callable[[Floats], Floats]
    slopes: Floats

    @classmethod
    def of(cls, values: Floats, log_density: Floats) -> "Tabulated":
        """Tabulate values on the grid, given the log density, there, of the variable whose quantiles they are."""
        slopes = np.exp(-0.5 * GRID**2 - 0.5 * math.log(2 * math.pi) - log_density)
        spline: Callable[[Floats], Floats] = scipy.interpolate.CubicHermiteSpline(GRID, values, slopes)
        return cls(spline, slopes)

    def __call__(self, z: Floats) -> Floats:
        inside = np.clip(z, -LIMIT, LIMIT)
        return np.asarray(self.spline(inside) + (z - inside) * np.where(z > inside, self.slopes[-1], self.slopes[0]))


def log_gamma_quantile(z: Floats, shape: float) -> Floats:
    """Map z to log X, X ~ Gamma(shape, 1)."""
    return _log_gamma(float(shape))(np.asarray(z))


@lru_cache(maxsize=TABLES)
def _log_gamma(shape: float) -> Tabulated:
    values = _search_log_gamma(GRID, shape)
    return Tabulated.of(values, shape * values - np.exp(values) - scipy.special.gammaln(shape))


def _search_log_gamma(z: Floats, shape: float) -> Floats:
    special = scipy.special
    with np.errstate(all="ignore"):
        lower = np.log(special.gammaincinv(shape, special.ndtr(z)))
        upper = np.log(special.gammainccinv(shape, special.ndtr(-z)))
    # Where X underflows, F(x) = x^a / Γ(a+1).
    tiny = (special.log_ndtr(z) + special.gammaln(np.asarray(shape) + 1)) / shape
    return np.where(z > 0, upper, np.where(tiny < -600, tiny, lower))


def truncated_square(half_square: Floats, dimension: int, degrees: float, limit: float) -> Floats:
    """Map |z|²/2, z ~ N(0, I) of `dimension`, to X/2, X ~ χ² with `degrees` of freedom truncated at `limit`."""
    special = scipy.special
    mass = special.gammainc(degrees / 2, limit / 2)
    below = mass * special.gammainc(dimension / 2, half_square)
    above = mass * special.gammaincc(dimension / 2, half_square) + special.gammaincc(degrees / 2, limit / 2)
    half = np.where(below < 0.5, special.gammaincinv(degrees / 2, below), special.gammainccinv(degrees / 2, above))
    return np.minimum(half, limit / 2)


def unstretched_square(half_square: Floats, dimension: int, degrees: float, limit: float) -> Floats:
    """Invert `truncated_square`; at the limit and beyond, return a value that a normal vector hardly ever has."""
    special = scipy.special
    inside = np.minimum(half_square, limit / 2)
    mass = special.gammainc(degrees / 2, limit / 2)
    below = special.gammainc(degrees / 2, inside) / mass
    above = (special.gammaincc(degrees / 2, inside) - special.gammaincc(degrees / 2, limit / 2)) / mass
    upper = special.gammainccinv(dimension / 2, np.maximum(above, 1e-30))
    return np.asarray(np.where(below < 0.5, special.gammaincinv(dimension / 2, below), upper))


def beta_quantile(z: Floats, first: float, second: float) -> LogOdds:
    """Map z to X ~ Beta(first, second)."""
    logit = _logit_beta(float(first), float(second))(np.asarray(z))
    return LogOdds(-np.logaddexp(0.0, -logit), -np.logaddexp(0.0, logit))


@lru_cache(maxsize=TABLES)
def _logit_beta(first: float, second: float) -> Tabulated:
    share, rest = _search_beta(GRID, first, second)
    log_density = first * share + second * rest - scipy.special.betaln(first, second)  # density of the logit
    return Tabulated.of(share - rest, log_density)


def _search_beta(z: Floats, first: float, second: float) -> LogOdds:
    special = scipy.special
    with np.errstate(all="ignore"):
        # From whichever tail is small: a probability near 1 has lost the digits of the other one.
        tail, above = special.ndtr(-np.abs(z)), z > 0
        x = np.where(above, special.betainccinv(first, second, tail), special.betaincinv(first, second, tail))
        complement = np.where(above, special.betaincinv(second, first, tail), special.betainccinv(second, first, tail))
        small = (special.log_ndtr(z) + np.log(first) + special.betaln(first, second)) / first
        small_complement = (special.log_ndtr(-z) + np.log(second) + special.betaln(first, second)) / second
        log_x = np.where(x < 1e-200, small, np.where(x < 0.5, np.log(x), np.log1p(-complement)))
        log_rest = np.where(
            complement < 1e-200, small_complement, np.where(complement < 0.5, np.log(complement), np.log1p(-x))
        )
    return LogOdds(log_x, log_rest)


def log_normal_quantile(z: Floats, centre: float, spread: float, upper: float) -> Floats:
    """Map z to log X, log X ~ N(log centre, spread²) below log upper."""
    special = scipy.special
    edge = (math.log(upper) - math.log(centre)) / spread
    below = special.log_ndtr(z) + special.log_ndtr(edge)
    above = np.logaddexp(special.log_ndtr(-edge), special.log_ndtr(-z) + special.log_ndtr(edge))
    standard = np.where(below < above, special.ndtri_exp(below), -special.ndtri_exp(np.minimum(above, 0.0)))
    return np.asarray(math.log(centre) + spread * np.minimum(standard, edge))


def log_normal_slope(z: Floats, centre: float, spread: float, upper: float) -> Floats:
    """Return the derivative of `log_normal_quantile` with respect to z."""
    edge = (math.log(upper) - math.log(centre)) / spread
    standard = (log_normal_quantile(z, centre, spread, upper) - math.log(centre)) / spread
    return np.asarray(spread * np.exp(scipy.special.log_ndtr(edge) + 0.5 * (standard**2 - z**2)))


def log_gamma_slope(z: Floats, shape: float) -> Floats:
    """Return the derivative of `log_gamma_quantile` with respect to z: the ratio of the densities of z and log X."""
    log_x = log_gamma_quantile(z, shape)
    log_density = shape * log_x - np.exp(log_x) - scipy.special.gammaln(shape)
    return np.asarray(np.exp(-0.5 * z**2 - 0.5 * math.log(2 * math.pi) - log_density))


class RatioTable(NamedTuple):
    """Normal coordinates of a ratio and their slopes, tabulated where 0.7 asinh(ratio · centre) is on the grid."""

    values: Floats
    slopes: Floats


@cache
def ratio_table(centre: float, spread: float, upper: float) -> RatioTable:
    """Map 0.7 asinh(x · centre) to Φ⁻¹(F(x)), x = sinh(Z)/S with Z ~ N(0, 1) and S as in `log_normal_quantile`.

    F is a scale mixture, an integral over the coordinate of S: 1 − F(x) = ∫ Φ(−asinh(x s(v))) φ(v) dv. The trapezoidal
    rule is exact to rounding for such an integrand, and sums of logarithms keep the digits of the tails. If the spread
    is 0, S equals the centre.
    """
    if not spread:
        return RatioTable(GRID / RATIO_STRETCH, np.full(len(GRID), 1 / RATIO_STRETCH))
    special = scipy.special
    v = np.arange(-12, 12, 1 / 64)
    log_s = log_normal_quantile(v, centre, spread, upper)
    log_weight = -0.5 * v**2
    log_weight -= special.logsumexp(log_weight)
    half = GRID[GRID >= 0] / RATIO_STRETCH
    x = np.sinh(half) / centre
    reach = x[:, None] * np.exp(log_s)
    normal = np.arcsinh(reach)
    log_tail = special.logsumexp(log_weight + special.log_ndtr(-normal), axis=1)
    log_density = special.logsumexp(log_weight + log_s - 0.5 * normal**2 - np.log(np.hypot(1, reach)), axis=1)
    u = -special.ndtri_exp(log_tail)
    u[0] = 0.0
    slope = np.exp(log_density + 0.5 * u**2) * np.cosh(half) / centre / RATIO_STRETCH
    return RatioTable(np.concatenate([-u[:0:-1], u]), np.concatenate([slope[:0:-1], slope]))


def ratio_quantile(z: Floats, centre: float, spread: float, upper: float) -> Floats:
    """Map z to x = sinh(Z)/S: the inverse of `ratio_table`, continued linearly beyond its ends."""
    (values, slopes), inverse = ratio_table(centre, spread, upper), _inverse_ratio(centre, spread, upper)
    inside = np.clip(z, values[0], values[-1])
    stretched = inverse(inside) + (z - inside) / np.where(z > inside, slopes[-1], slopes[0])
    return np.asarray(np.sinh(stretched / RATIO_STRETCH) / centre)


def ratio_slope(z: Floats, centre: float, spread: float, upper: float) -> Floats:
    """Return the derivative of `ratio_quantile` with respect to z."""
    (values, slopes), inverse = ratio_table(centre, spread, upper), _inverse_ratio(centre, spread, upper)
    inside = np.clip(z, values[0], values[-1])
    beyond = 1 / np.where(z > inside, slopes[-1], slopes[0])
    stretched = inverse(inside) + (z - inside) * beyond
    slope = np.where(z == inside, _inverse_ratio_slope(centre, spread, upper)(inside), beyond)
    return np.asarray(np.cosh(stretched / RATIO_STRETCH) / (RATIO_STRETCH * centre) * slope)


@cache
def _inverse_ratio_slope(centre: float, spread: float, upper: float) -> Callable[[Floats], Floats]:
    inverse = _inverse_ratio(centre, spread, upper)
    derivative: Callable[[Floats], Floats] = inverse.derivative()  # type: ignore[attr-defined]
    return derivative


def ratio_coordinate(x: Floats, centre: float, spread: float, upper: float) -> Floats:
    """Map x = sinh(Z)/S to its normal coordinate, linear beyond the table: inverts `ratio_quantile`."""
    slopes = ratio_table(centre, spread, upper).slopes
    stretched = RATIO_STRETCH * np.arcsinh(x * centre)
    inside = np.clip(stretched, GRID[0], GRID[-1])
    slope = np.where(stretched > inside, slopes[-1], slopes[0])
    return np.asarray(_ratio(centre, spread, upper)(inside) + (stretched - inside) * slope)


@cache
def _ratio(centre: float, spread: float, upper: float) -> Callable[[Floats], Floats]:
    values, slopes = ratio_table(centre, spread, upper)
    spline: Callable[[Floats], Floats] = scipy.interpolate.CubicHermiteSpline(GRID, values, slopes)
    return spline


@cache
def _inverse_ratio(centre: float, spread: float, upper: float) -> Callable[[Floats], Floats]:
    values, slopes = ratio_table(centre, spread, upper)
    spline: Callable[[Floats], Floats] = scipy.interpolate.CubicHermiteSpline(values, GRID, 1 / slopes)
    return spline
