"""Elliptical slice sampling: draws from a low-dimensional density without its gradient.

The sampler first approximates the density at each mode (by finite differences) with the normal distribution that has
the same mode and curvature. The reference is a multivariate t of that shape. Every step moves along an ellipse through
the chain's position and a fresh draw of the reference, to a point where density over reference is above a random level
(Murray, Adams and MacKay 2010; Nishihara, Murray and Adams 2014). The steps leave the density invariant however bad the
reference is. With a good reference, a draw is nearly independent of the one before and costs little more than one
evaluation. All chains move at once.

If the chains do not agree, they run again from where they are with twice the steps per draw, up to 32.
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

# In 8 superchains (`diagnostics.py`). Evaluating the density at many points costs little more than at one.
CHAINS = 64
# Degrees of freedom of the reference.
DEGREES = 8.0
ADAPTATIONS, ADAPTATION_STEPS = 3, 15
# Steps per draw at which the sampler gives up doubling them.
MOST_STEPS = 32
# Modes with a smaller share of the probability are ignored.
LEAST_SHARE = 0.001
# Proposals on one ellipse, by which time its bracket has shrunk to a point.
MOST_TRIES = 200
# Steps of finite differences, in coordinates where the density's scale is about 1 or less.
STEP, SECOND_STEP = 1e-4, 1e-3


def sample(log_density: LogDensity, around: Sequence[Normal], draws: int, seed: int) -> tuple[Floats, Diagnostics]:
    """Sample a density: return draws [superchains, draws, d] and their diagnostics.

    `around` has distributions near which the density may have modes. Superchains start at all modes that matter, so if
    chains cannot move between modes, the superchains disagree and the diagnostics show it.
    """
    rng = np.random.default_rng(seed)

    def density(points: Floats) -> Floats:
        with np.errstate(all="ignore"):
            values = log_density(points)
        return np.where(np.isfinite(values), values, -np.inf)

    modes, shares = _modes(density, around)
    number = superchains_of(CHAINS)
    starts = [modes[superchain % len(modes)] for superchain in range(number)]
    steps_aside = 0.5 * rng.normal(size=(number, len(modes[0].mean)))
    positions = np.array([mode.mean + aside @ mode.root.T for mode, aside in zip(starts, steps_aside, strict=True)])
    usable = np.isfinite(density(positions))
    positions[~usable] = np.array([mode.mean for mode in starts])[~usable]
    chains = _Chains(density, _together(modes, shares), np.repeat(positions, CHAINS // number, axis=0), rng)
    for _ in range(ADAPTATIONS):
        chains.adapt()
    length, steps = -(-draws // CHAINS), 1
    while True:
        sampled = chains.run(length, steps)
        diagnostics, _ = diagnose(sampled, thin=steps, superchains=number)
        if diagnostics.mixed or steps >= MOST_STEPS:
            return sampled.reshape(number, -1, sampled.shape[2]), diagnostics
        chains.reference = _moments(sampled)
        steps *= 2


@dataclass
class _Chains:
    density: LogDensity
    reference: Normal
    positions: Floats  # [chains, d]
    rng: np.random.Generator

    def run(self, length: int, steps: int) -> Floats:
        """Sample `length` draws per chain [chains, draws, d], thinned by `steps`."""
        draws = np.empty((len(self.positions), length, self.positions.shape[1]))
        ratio = self._ratio(self.positions)
        for draw in range(length):
            for _ in range(steps):
                ratio = self._step(ratio)
            draws[:, draw] = self.positions
        return draws

    def adapt(self) -> None:
        """Run the chains briefly, and average the reference's covariance with that of these draws."""
        seen, before = _moments(self.run(ADAPTATION_STEPS, 1)), self.reference
        self.reference = Normal.of(seen.mean, 0.5 * (seen.covariance + before.covariance))

    def _ratio(self, points: Floats) -> Floats:
        """Return the logarithm of density over reference at points [n, d]."""
        squares = np.sum(self.reference.whitened(points) ** 2, axis=1)
        return np.asarray(self.density(points) + 0.5 * (DEGREES + points.shape[1]) * np.log1p(squares / DEGREES))

    def _step(self, ratio: Floats) -> Floats:
        """Move every chain along its own ellipse; return the log ratio at the new positions."""
        rng, reference = self.rng, self.reference
        offset = self.positions - reference.mean
        number, dimension = offset.shape
        # A t distribution is normal given a scale, which is drawn given the chain's position.
        squares = np.sum(reference.whitened(self.positions) ** 2, axis=1)
        scale = 0.5 * (DEGREES + squares) / rng.gamma(0.5 * (DEGREES + dimension), size=number)
        other = np.sqrt(scale)[:, None] * (rng.normal(size=offset.shape) @ reference.root.T)
        level = ratio + np.log(rng.uniform(size=number))
        angle = np.asarray(2 * math.pi * rng.uniform(size=number))
        low, high = angle - 2 * math.pi, angle.copy()
        moved, new_ratio = self.positions.copy(), ratio.copy()
        open_ = np.arange(number)
        for _ in range(MOST_TRIES):
            turn = angle[open_, None]
            tried = reference.mean + offset[open_] * np.cos(turn) + other[open_] * np.sin(turn)
            ratios = self._ratio(tried)
            above = ratios >= level[open_]
            moved[open_[above]], new_ratio[open_[above]] = tried[above], ratios[above]
            open_ = open_[~above]
            if not len(open_):
                break
            below = angle[open_] < 0
            low[open_[below]] = angle[open_[below]]
            high[open_[~below]] = angle[open_[~below]]
            angle[open_] = rng.uniform(low[open_], high[open_])
        self.positions = moved
        return new_ratio


def _moments(draws: Floats) -> Normal:
    points = draws.reshape(-1, draws.shape[2])
    dimension = points.shape[1]
    covariance = np.cov(points.T).reshape(dimension, dimension)
    return Normal.of(points.mean(axis=0), covariance + 1e-12 * np.eye(dimension))


def _modes(density: LogDensity, around: Sequence[Normal]) -> tuple[list[Normal], Floats]:
    """Return normal approximations at the modes that matter, with the approximate share of each."""
    modes = [touching(density, start) for start in around]
    masses = np.array([density(mode.mean[None])[0] + np.sum(np.log(np.diag(mode.root))) for mode in modes])
    shares = scipy.special.softmax(masses) if np.any(np.isfinite(masses)) else np.full(len(modes), 1 / len(modes))
    kept = shares >= LEAST_SHARE
    return [mode for mode, keep in zip(modes, kept, strict=True) if keep], shares[kept] / shares[kept].sum()


def _together(parts: Sequence[Normal], shares: Floats) -> Normal:
    """Return the normal distribution with the mean and covariance of a mixture."""
    if len(parts) == 1:
        return parts[0]
    mean = shares @ np.array([part.mean for part in parts])
    apart = [np.outer(part.mean - mean, part.mean - mean) for part in parts]
    covariances = [share * (part.covariance + aside) for share, part, aside in zip(shares, parts, apart, strict=True)]
    return Normal.of(mean, np.sum(covariances, axis=0))


def touching(density: LogDensity, around: Normal) -> Normal:
    """Return the normal distribution with the mode and curvature of a log density, searched from `around`."""
    dimension = len(around.mean)
    root, centre = around.root, around.mean

    def at(white: Floats) -> Floats:
        return density(centre + white @ root.T)

    def slopes(white: Floats, step: float) -> Floats:
        shifts = step * np.eye(dimension)
        values = at(np.concatenate([white + shifts, white - shifts]))
        # Where the density is 0 on both sides, the difference is ∞ − ∞.
        with np.errstate(invalid="ignore"):
            return np.nan_to_num((values[:dimension] - values[dimension:]) / (2 * step), posinf=0.0, neginf=0.0)

    def cost(white: Floats) -> float:
        return float(np.nan_to_num(-at(white[None])[0], posinf=1e300))

    def downhill(white: Floats) -> Floats:
        return -slopes(white, STEP)

    mode = scipy.optimize.minimize(cost, np.zeros(dimension), jac=downhill, method="BFGS").x
    shifts = SECOND_STEP * np.eye(dimension)
    second = [slopes(mode + shift, STEP) - slopes(mode - shift, STEP) for shift in shifts]
    values, vectors = np.linalg.eigh(-(np.array(second) + np.array(second).T) / (4 * SECOND_STEP))
    # Rows only add information, so in these coordinates the curvature is about 1 or more.
    spread = root @ (vectors / np.sqrt(np.maximum(values, 0.5)))
    return Normal.of(centre + root @ mode, spread @ spread.T)
