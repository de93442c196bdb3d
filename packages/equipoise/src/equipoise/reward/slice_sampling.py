"""Draws of a low-dimensional density without its gradient: elliptical slice sampling.

The density is first looked at around its mode, or its modes (found by finite differences), by the normal distribution
that touches it there. With a multivariate t of that shape as reference, every step moves along an ellipse through the
chain's place and a fresh draw of the reference, to a point where density over reference is above a random level
(Murray, Adams and MacKay 2010; Nishihara, Murray and Adams 2014). The density is left invariant however bad the
reference is; where it is good, a draw is nearly independent of the one before and costs little more than one
evaluation. All chains move at once.

Chains that do not agree are run again from where they are, twice as many steps for a draw, up to 32.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from equipoise._util.arrays import Floats
from equipoise.inference.diagnostics import Diagnostics, diagnose, superchains_of
from equipoise.reward.evidence import Normal

LogDensity = Callable[[Floats], Floats]  # of points [n, d]

CHAINS = 64  # in 8 superchains (`diagnostics.py`): an evaluation at many points costs little more than at one
DEGREES = 8.0  # of freedom of the reference
ADAPTATIONS, ADAPTATION_STEPS = 3, 15
MOST_STEPS = 32  # for a draw
LEAST_SHARE = 0.001  # of a mode that matters
MOST_TRIES = 200  # on one ellipse, which by then is a point
STEP, SECOND_STEP = 1e-4, 1e-3  # of finite differences, where the density's scale is about 1 or less


def sample(log_density: LogDensity, around: Sequence[Normal], draws: int, seed: int) -> tuple[Floats, Diagnostics]:
    """Draws [superchains, draws, d], and how well these agree; `around` says where modes of the density may be.

    Superchains begin at all of them that matter: where they cannot get from one to another, they do not agree.
    """
    rng = np.random.default_rng(seed)

    def density(points: Floats) -> Floats:
        with np.errstate(all="ignore"):
            found = log_density(points)
        return np.where(np.isfinite(found), found, -np.inf)

    modes, shares = _modes(density, around)
    number = superchains_of(CHAINS)
    starts = [modes[one % len(modes)] for one in range(number)]
    steps_aside = 0.5 * rng.normal(size=(number, len(modes[0].mean)))
    place = np.array([one.mean + aside @ one.root.T for one, aside in zip(starts, steps_aside, strict=True)])
    usable = np.isfinite(density(place))
    place[~usable] = np.array([one.mean for one in starts])[~usable]
    chains = _Chains(density, _together(modes, shares), np.repeat(place, CHAINS // number, axis=0), rng)
    for _ in range(ADAPTATIONS):
        chains.adapt()
    length, steps = -(-draws // CHAINS), 1
    while True:
        found = chains.run(length, steps)
        diagnostics, _ = diagnose(found, thin=steps, superchains=number)
        if diagnostics.mixed or steps >= MOST_STEPS:
            return found.reshape(number, -1, found.shape[2]), diagnostics
        chains.reference = _moments(found)
        steps *= 2


@dataclass
class _Chains:
    density: LogDensity
    reference: Normal
    place: Floats  # [chains, d]
    rng: np.random.Generator

    def run(self, length: int, steps: int) -> Floats:
        """So many draws of each chain [chains, draws, d], each after so many steps."""
        found = np.empty((len(self.place), length, self.place.shape[1]))
        ratio = self._ratio(self.place)
        for draw in range(length):
            for _ in range(steps):
                ratio = self._step(ratio)
            found[:, draw] = self.place
        return found

    def adapt(self) -> None:
        """Move a while, and make the reference what was seen, half and half with what it was."""
        found, before = _moments(self.run(ADAPTATION_STEPS, 1)), self.reference
        self.reference = Normal.of(found.mean, 0.5 * (found.covariance + before.covariance))

    def _ratio(self, points: Floats) -> Floats:
        """Logarithm of density over reference."""
        squares = np.sum(self.reference.whitened(points) ** 2, axis=1)
        return np.asarray(self.density(points) + 0.5 * (DEGREES + points.shape[1]) * np.log1p(squares / DEGREES))

    def _step(self, ratio: Floats) -> Floats:
        """Move every chain along an ellipse of its own; also return the ratio where they are then."""
        rng, reference = self.rng, self.reference
        offset = self.place - reference.mean
        number, dimension = offset.shape
        # A t distribution is normal given a scale, which is drawn given the place.
        squares = np.sum(reference.whitened(self.place) ** 2, axis=1)
        scale = 0.5 * (DEGREES + squares) / rng.gamma(0.5 * (DEGREES + dimension), size=number)
        other = np.sqrt(scale)[:, None] * (rng.normal(size=offset.shape) @ reference.root.T)
        level = ratio + np.log(rng.uniform(size=number))
        angle = np.asarray(2 * math.pi * rng.uniform(size=number))
        low, high = angle - 2 * math.pi, angle.copy()
        place, found = self.place.copy(), ratio.copy()
        open_ = np.arange(number)
        for _ in range(MOST_TRIES):
            turn = angle[open_, None]
            tried = reference.mean + offset[open_] * np.cos(turn) + other[open_] * np.sin(turn)
            ratios = self._ratio(tried)
            above = ratios >= level[open_]
            place[open_[above]], found[open_[above]] = tried[above], ratios[above]
            open_ = open_[~above]
            if not len(open_):
                break
            below = angle[open_] < 0
            low[open_[below]] = angle[open_[below]]
            high[open_[~below]] = angle[open_[~below]]
            angle[open_] = rng.uniform(low[open_], high[open_])
        self.place = place
        return found


def _moments(draws: Floats) -> Normal:
    points = draws.reshape(-1, draws.shape[2])
    dimension = points.shape[1]
    covariance = np.cov(points.T).reshape(dimension, dimension)
    return Normal.of(points.mean(axis=0), covariance + 1e-12 * np.eye(dimension))


def _modes(density: LogDensity, around: Sequence[Normal]) -> tuple[list[Normal], Floats]:
    """Normal distributions that touch the density at modes, and about how much of it each has; a few at least."""
    found = [touching(density, one) for one in around]
    masses = np.array([density(one.mean[None])[0] + np.sum(np.log(np.diag(one.root))) for one in found])
    shares = scipy.special.softmax(masses) if np.any(np.isfinite(masses)) else np.full(len(found), 1 / len(found))
    kept = shares >= LEAST_SHARE
    return [one for one, keep in zip(found, kept, strict=True) if keep], shares[kept] / shares[kept].sum()


def _together(parts: Sequence[Normal], shares: Floats) -> Normal:
    """The normal distribution with the mean and the covariance of a mixture."""
    if len(parts) == 1:
        return parts[0]
    mean = shares @ np.array([one.mean for one in parts])
    apart = [np.outer(one.mean - mean, one.mean - mean) for one in parts]
    covariances = [share * (one.covariance + aside) for share, one, aside in zip(shares, parts, apart, strict=True)]
    return Normal.of(mean, np.sum(covariances, axis=0))


def touching(density: LogDensity, around: Normal) -> Normal:
    """The normal distribution that touches a log density at its mode, as far as the mode can be found."""
    dimension = len(around.mean)
    root, centre = around.root, around.mean

    def at(white: Floats) -> Floats:
        return density(centre + white @ root.T)

    def slopes(white: Floats, step: float) -> Floats:
        shifts = step * np.eye(dimension)
        found = at(np.concatenate([white + shifts, white - shifts]))
        with np.errstate(invalid="ignore"):  # where there is no density on either side
            return np.nan_to_num((found[:dimension] - found[dimension:]) / (2 * step), posinf=0.0, neginf=0.0)

    def cost(white: Floats) -> float:
        return float(np.nan_to_num(-at(white[None])[0], posinf=1e300))

    def downhill(white: Floats) -> Floats:
        return -slopes(white, STEP)

    found = scipy.optimize.minimize(cost, np.zeros(dimension), jac=downhill, method="BFGS")
    shifts = SECOND_STEP * np.eye(dimension)
    second = [slopes(found.x + one, STEP) - slopes(found.x - one, STEP) for one in shifts]
    values, vectors = np.linalg.eigh(-(np.array(second) + np.array(second).T) / (4 * SECOND_STEP))
    # Rows add to what is known: in these coordinates, the curvature is about 1 or more.
    spread = root @ (vectors / np.sqrt(np.maximum(values, 0.5)))
    return Normal.of(centre + root @ found.x, spread @ spread.T)
