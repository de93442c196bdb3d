r"""Adaptive importance sampling around a mode, for posteriors of few parameters with N(0, I) for a prior.

Points are drawn from a multivariate t distribution around the mode and from the prior. If their weights are too uneven,
further t distributions are fitted to the weighted points, and all points are weighted by the mixture of everything they
were drawn from (deterministic mixture weights; Cornuet et al. 2012). The tail of the weights is smoothed by a Pareto
distribution whose shape says whether the estimates can be relied on (Vehtari et al. 2024).

The weights know the normalising constant, so that the divergence from the prior needs no density estimate:

    KL(posterior ‖ prior) = E_posterior[log L] − log E_prior[L].
"""

import math
from typing import NamedTuple

import numpy as np
import scipy

from equipoise._util.arrays import Floats
from equipoise.errors import InferenceError
from equipoise.estimate import Estimate
from equipoise.inference.diagnostics import TAIL_SHAPE_LIMIT
from equipoise.inference.mode import STEP, Mode, Problem

# Degrees of freedom of the t distributions: few where tails are long, more where points are wasted on tails.
DEGREES = (3.0, 8.0)
WIDENING = 1.2  # of the first distribution, around the mode
FROM_PRIOR = 0.1  # share of the first points that come from the prior
FIRST_TRIAL = 2_048  # points
AT_ONCE = 2_048  # points that are weighted together
TRIAL = 4_096
TRIALS = 15
REFITS = 8  # most refits of the mixture to all points, while the tail of their weights is heavy
EVEN = 0.25  # effective share of a trial's points that ends the trials
FULL = 0.5  # effective share below which more points are drawn, because they cost less than trials do
MOST_MORE = 2.0  # most points, as a multiple of the number asked for
LIGHT = 0.4  # shape of a trial's tail that leaves some room for a larger sample's
PATIENCE = 4  # trials without a clear improvement after which no further one is made
BETTER = 1.1  # factor of the effective share that counts as a clear improvement
COMPONENTS = 12
POINTS_PER_COORDINATE = 20  # effective points that components are fitted to
HALVINGS = 10
SPREAD = 2.5  # standard deviations between the first centres and the mode
SMALLEST_SHARE = 0.01  # smallest share of a component that is kept


class Proposal(NamedTuple):
    """A multivariate t distribution; a normal one if degrees of freedom are infinite.

    If it is `flat`, its points are those in which the search for the mode moves, not coordinates.
    """

    centre: Floats
    root: Floats
    degrees: float
    flat: bool = False

    def draw(self, rng: np.random.Generator, number: int) -> Floats:
        """Draw points [number, d]."""
        normal = rng.normal(size=(number, len(self.centre)))
        if math.isfinite(self.degrees):
            normal *= np.sqrt(self.degrees / rng.chisquare(self.degrees, size=number))[:, None]
        return np.asarray(self.centre + normal @ self.root.T)

    def log_density(self, squares: Floats) -> Floats:
        """Return the log density at points, given squares of their distances from the centre in units of the root."""
        dimension, scale = len(self.centre), np.linalg.slogdet(self.root)[1]
        if not math.isfinite(self.degrees):
            return np.asarray(-0.5 * squares - scale - 0.5 * dimension * math.log(2 * math.pi))
        constant = scipy.special.gammaln((self.degrees + dimension) / 2) - scipy.special.gammaln(self.degrees / 2)
        constant -= 0.5 * dimension * math.log(self.degrees * math.pi) + scale
        return np.asarray(constant - 0.5 * (self.degrees + dimension) * np.log1p(squares / self.degrees))


class Mixture(NamedTuple):
    """A mixture of distributions, the last of which is the prior."""

    problem: Problem
    parts: list[Proposal]
    shares: Floats

    def draw(self, rng: np.random.Generator, number: int) -> Floats:
        """Draw coordinates [number, d], of each part in proportion to its share, in random order."""
        counts = np.diff(np.round(np.cumsum([0.0, *self.shares]) * number).astype(int))
        drawn = []
        for part, count in zip(self.parts, counts, strict=True):
            points = part.draw(rng, count)
            drawn.append(self.problem.unflatten(points) if part.flat else points)
        return np.asarray(rng.permutation(np.concatenate(drawn)))

    def measure(self, points: "Points") -> Floats:
        """Return the squares of the points' distances from the centres of the parts [parts, n]."""
        squares = np.empty((len(self.parts), len(points.coordinates)))
        for is_flat, at in ((False, points.coordinates), (True, points.flat)):
            places = [index for index, part in enumerate(self.parts) if part.flat == is_flat]
            if places:
                squares[places] = _squares(at, [self.parts[index] for index in places])
        return squares

    def log_densities(self, points: "Points", squares: Floats) -> Floats:
        """Return log densities of the parts, times their shares [parts, n], from points and squared distances."""
        densities = np.empty_like(squares)
        for index, (part, share, square) in enumerate(zip(self.parts, self.shares, squares, strict=True)):
            densities[index] = math.log(share) + part.log_density(square) + (points.log_volumes if part.flat else 0.0)
        return densities


class Points(NamedTuple):
    """Points in coordinates and flat ones [n, d], and the log determinants of the derivatives between these [n]."""

    coordinates: Floats
    flat: Floats
    log_volumes: Floats

    @classmethod
    def of(cls, mixture: Mixture, coordinates: Floats) -> "Points":
        """Flatten coordinates, if any part of a mixture is flat."""
        problem = mixture.problem
        if problem.log_volume is None or not any(part.flat for part in mixture.parts):
            return cls(coordinates, coordinates, np.zeros(len(coordinates)))
        return cls(coordinates, problem.flatten(coordinates), problem.log_volume(coordinates))


def _squares(points: Floats, parts: list[Proposal]) -> Floats:
    """Return squared distances from centres, in units of roots [parts, n], by a single matrix product for all parts."""
    number, dimension = len(parts), points.shape[1]
    inverses = np.linalg.inv(np.stack([part.root for part in parts]))
    centres = np.matmul(inverses, np.stack([part.centre for part in parts])[:, :, None])[:, :, 0]
    white = points @ inverses.reshape(number * dimension, dimension).T - centres.reshape(-1)
    return np.asarray(np.sum(white.reshape(len(points), number, dimension) ** 2, axis=2).T)


class Weighted(NamedTuple):
    """Weighted points [points, d] of a posterior.

    `weights` add up to 1; `log_likelihood` is that of the points, `log_evidence` log E_prior[L], and `shape` that of
    the Pareto distribution of the weights' tail.
    """

    points: Floats
    weights: Floats
    log_likelihood: Floats
    log_evidence: float
    shape: float

    @property
    def effective(self) -> float:
        """The effective number of points."""
        return float(1 / np.sum(self.weights**2))

    @property
    def reliable(self) -> bool:
        """True if the tail of the weights is light enough for estimates to be relied on."""
        return self.shape < TAIL_SHAPE_LIMIT

    def divergence(self) -> Estimate:
        """Estimate KL(posterior ‖ prior), with the standard error of independent points."""
        if math.isnan(self.log_evidence):
            raise InferenceError("no point of the sample has any weight; the posterior was not found")
        usable = self.weights > 0
        likelihood = np.where(usable, self.log_likelihood, 0.0)
        mean = float(self.weights @ likelihood)
        relative = self.weights * len(self.weights)
        influence = relative * (likelihood - mean) - (relative - 1)
        return Estimate(mean - self.log_evidence, float(np.sqrt(np.mean(influence**2) / len(influence))))

    def resample(self, rng: np.random.Generator, number: int) -> Floats:
        """Draw points in proportion to their weights, with as few repeats as possible (systematic resampling)."""
        places = (rng.uniform() + np.arange(number)) / number
        chosen = np.searchsorted(np.cumsum(self.weights), places * (1 - 1e-12))
        return np.asarray(self.points[rng.permutation(np.minimum(chosen, len(self.points) - 1))])


class Trial(NamedTuple):
    """Points drawn from a mixture, their weights, and the log densities of its parts [parts, n]."""

    mixture: Mixture
    points: Points
    weighted: Weighted
    log_parts: Floats


class Adapted(NamedTuple):
    """A mixture that was moved to the posterior, and the effective share of points drawn from it."""

    mixture: Mixture
    share: float


def sample(problem: Problem, mode: Mode, rng: np.random.Generator, number: int, *, even: float = EVEN) -> Weighted:
    """Draw at least `number` weighted points, after as many trials as it takes to make their weights `even`."""
    return draw_adapted(problem, adapt(problem, mode, rng, even=even), rng, number)


def adapt(problem: Problem, mode: Mode, rng: np.random.Generator, *, even: float = EVEN) -> Adapted:
    """Move a mixture until weights are `even`, or hardly become more so."""
    dimension = len(mode.centre)
    prior = Proposal(np.zeros(dimension), np.eye(dimension), math.inf)
    around = Proposal(mode.centre, WIDENING * mode.root, DEGREES[-1])
    best = Mixture(problem, [around, prior], np.array([1 - FROM_PRIOR, FROM_PRIOR]))
    highest = _draw(problem, best, rng, FIRST_TRIAL).weighted.effective / FIRST_TRIAL
    if highest < even:
        proposals, waited = _surround(problem, mode, prior, rng), 0
        lightest = math.inf
        for _ in range(TRIALS):
            trial = _draw(problem, proposals, rng, TRIAL)
            weighted = trial.weighted
            share = weighted.effective / TRIAL
            waited = 0 if share > BETTER * highest or not weighted.reliable else waited + 1
            if share > highest or (share >= even and weighted.shape < min(lightest, LIGHT + 0.1)):
                highest, best, lightest = share, proposals, weighted.shape
            if (highest >= even and lightest < LIGHT) or waited == PATIENCE:
                break
            proposals = _fit(trial)
    return Adapted(best, highest)


def draw_adapted(problem: Problem, adapted: Adapted, rng: np.random.Generator, number: int) -> Weighted:
    """Draw at least `number` weighted points, more if weights are uneven; refit while their tail is heavy."""
    number = math.ceil(number * min(max(FULL / adapted.share, 1.0), MOST_MORE))
    best = trial = _draw(problem, adapted.mixture, rng, number)
    for _ in range(REFITS):
        if best.weighted.reliable:
            break
        trial = _draw(problem, _fit(trial), rng, number)
        best = trial if trial.weighted.shape < best.weighted.shape else best
    return best.weighted


def _surround(problem: Problem, mode: Mode, prior: Proposal, rng: np.random.Generator) -> "Mixture":
    """Return components around the mode: half of them flat, if there is a volume to weight their points by.

    A ridge of weights that the observation leaves undetermined is straight in the weights themselves, and bent in
    coordinates. Weights that the observation says nothing about are normal in coordinates alone.
    """
    dimension = len(mode.centre)
    spaces = [Proposal(mode.centre, WIDENING * mode.root, DEGREES[0])]
    if problem.log_volume is not None:
        steps = STEP * np.eye(dimension)
        slopes = (problem.flatten(mode.centre + steps) - problem.flatten(mode.centre - steps)).T / (2 * STEP)
        centre = problem.flatten(mode.centre[None])[0]
        spaces.append(Proposal(centre, WIDENING * slopes @ mode.root, DEGREES[0], flat=True))
    # Components begin beside each other, so that each can move to where the others are too narrow.
    parts = list(spaces)
    for k in range(COMPONENTS - len(spaces)):
        part = spaces[k % len(spaces)]
        parts.append(
            part._replace(
                centre=part.centre + part.root @ (SPREAD / WIDENING / math.sqrt(dimension) * rng.normal(size=dimension))
            )
        )
    shares = np.append(np.full(COMPONENTS, (1 - FROM_PRIOR) / COMPONENTS), FROM_PRIOR)
    return Mixture(problem, [*parts, prior], shares)


# A point that is too far off for its coordinates to be computed has no weight.
@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _draw(problem: Problem, mixture: "Mixture", rng: np.random.Generator, number: int) -> Trial:
    """Draw from a mixture in proportion to its shares, and weight by the posterior."""
    coordinates = mixture.draw(rng, number)
    dimension = coordinates.shape[1]
    log_prior = -0.5 * np.sum(coordinates**2, axis=1) - 0.5 * dimension * math.log(2 * math.pi)
    # Some points at a time, whose tables stay in the cache.
    parts = np.array_split(coordinates, -(-number // AT_ONCE))
    log_likelihood = np.concatenate([problem.log_likelihood(part) for part in parts])
    points = Points(*map(np.concatenate, zip(*(Points.of(mixture, part) for part in parts), strict=True)))
    log_parts = mixture.log_densities(points, mixture.measure(points))
    log_weights = log_likelihood + log_prior - np.logaddexp.reduce(log_parts)
    smoothed, shape = smooth(log_weights)
    if not np.isfinite(smoothed).any():
        weights, total = np.full(number, 1 / number), math.nan
        weighted = Weighted(coordinates, weights, log_likelihood, math.nan, math.inf)
        return Trial(mixture, points, weighted, log_parts)
    total = float(scipy.special.logsumexp(smoothed))
    weights = np.exp(smoothed - total)
    weighted = Weighted(coordinates, weights, log_likelihood, total - math.log(number), shape)
    return Trial(mixture, points, weighted, log_parts)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _fit(trial: Trial) -> Mixture:
    """Move all parts but the prior to the weighted points, by one step of expectation–maximisation."""
    mixture = trial.mixture
    # Points without weight may be too far off to be flattened.
    usable = trial.weighted.weights > 0
    points, weights, log_parts = (
        Points(*(array[usable] for array in trial.points)),
        trial.weighted.weights[usable],
        trial.log_parts[:, usable],
    )
    dimension = points.coordinates.shape[1]
    weights = _temper(weights, POINTS_PER_COORDINATE * dimension)
    log_drawn = np.logaddexp.reduce(log_parts)
    responsible = np.exp(log_parts - log_drawn) * weights
    spaces = {False: points.coordinates, True: points.flat}
    covariances = {is_flat: _weighted_covariance(space, weights) for is_flat, space in spaces.items()}
    parts, shares = [], []
    for part, owned in zip(mixture.parts[:-1], responsible[:-1], strict=True):
        space, overall = spaces[part.flat], covariances[part.flat]
        share = float(owned.sum())
        if share < SMALLEST_SHARE:
            continue
        # Far points count less towards a t distribution, as in its maximum likelihood.
        squares = _squares(space, [part])[0]
        near = owned * (part.degrees + dimension) / (part.degrees + squares)
        middle = near @ space / near.sum()
        covariance = ((space - middle) * near[:, None]).T @ (space - middle) / share
        # A few points say little of a covariance, which leans on that of all points.
        effective = share**2 / float(np.sum(owned**2))
        trust = effective / (effective + 2 * dimension)
        covariance = trust * covariance + (1 - trust) * overall
        try:
            root = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            continue
        if np.isfinite(root).all() and np.all(np.diagonal(root) > 0):
            parts.append(part._replace(centre=middle, root=root))
            shares.append(share)
    # Hardly any weight is near the mixture, so that nothing can be fitted.
    if not parts:
        return mixture
    of_prior = max(FROM_PRIOR, float(responsible[-1].sum()))
    total = np.array([*shares, of_prior])
    moved = Mixture(mixture.problem, [*parts, mixture.parts[-1]], total / total.sum())
    if trial.weighted.shape >= LIGHT:
        return _with_degrees(moved, DEGREES[0])
    return _with_best_degrees(moved, points, weights, log_drawn)


def _temper(weights: Floats, effective: float) -> Floats:
    """Raise weights to the largest power of at most 1 that leaves `effective` points effective.

    A few points with all the weight would draw all parts to themselves, while the posterior is still far away.
    """
    log_weights = np.log(weights)

    def raised(power: float) -> Floats:
        raised_weights = np.exp(power * (log_weights - log_weights.max()))
        return np.asarray(raised_weights / raised_weights.sum())

    def is_even(power: float) -> bool:
        return float(1 / np.sum(raised(power) ** 2)) >= effective

    if is_even(1.0) or len(weights) <= effective:
        return weights
    low, high = 0.0, 1.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_even(middle) else (low, middle)
    return raised(low)


def _with_best_degrees(mixture: Mixture, points: Points, weights: Floats, log_drawn: Floats) -> Mixture:
    """Choose the degrees of freedom that would leave weights of points from the mixture most even.

    The existing points estimate E_posterior[posterior / mixture], which is the inverse of their effective share. Points
    drawn from a density of logarithm `log_drawn` have weights in proportion to posterior / drawn.
    """
    squares = mixture.measure(points)

    def unevenness(degrees: float) -> float:
        log_density = np.logaddexp.reduce(_with_degrees(mixture, degrees).log_densities(points, squares))
        return float(np.sum(weights**2 * np.exp(log_drawn - log_density)))

    return _with_degrees(mixture, min(DEGREES, key=unevenness))


def _with_degrees(mixture: Mixture, degrees: float) -> Mixture:
    parts = [part._replace(degrees=degrees) for part in mixture.parts[:-1]]
    return mixture._replace(parts=[*parts, mixture.parts[-1]])


def _weighted_covariance(points: Floats, weights: Floats) -> Floats:
    moved = points - weights @ points
    return np.asarray((moved * weights[:, None]).T @ moved)


def smooth(log_weights: Floats) -> tuple[Floats, float]:
    """Replace the largest weights by quantiles of a Pareto distribution fitted to them; also return its shape.

    The tail is the largest fifth, or 3√n if that is fewer. The shape is estimated as Zhang and Stephens (2009) do.
    """
    number = len(log_weights)
    tail = min(number // 5, math.ceil(3 * math.sqrt(number)))
    log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
    order = np.argsort(log_weights)
    largest = order[-tail:]
    cutoff = log_weights[order[-tail - 1]]
    top = float(log_weights[order[-1]])
    if not math.isfinite(cutoff) or tail < 5 or top - cutoff < 1e-9:
        return log_weights, 0.0 if math.isfinite(cutoff) else math.inf
    exceedances = np.exp(log_weights[largest] - top) - math.exp(cutoff - top)
    # Most weights are equal, and a few stand out.
    if np.count_nonzero(exceedances) < tail - tail // 5:
        return log_weights, math.inf
    # Weights that differ by hundreds of orders of magnitude have no shape.
    with np.errstate(all="ignore"):
        shape, scale = _pareto(exceedances)
    if not (math.isfinite(shape) and math.isfinite(scale)):
        return log_weights, math.inf
    levels = (np.arange(tail) + 0.5) / tail
    steps = -np.log1p(-levels)
    # The largest weight limits all others.
    with np.errstate(over="ignore"):
        quantiles = scale * (np.expm1(shape * steps) / shape if abs(shape) > 1e-12 else steps)
    smoothed = log_weights.copy()
    smoothed[largest] = np.minimum(np.log(quantiles + math.exp(cutoff - top)), 0.0) + top
    return smoothed, shape


def _pareto(values: Floats) -> tuple[float, float]:
    """Estimate shape and scale of a generalised Pareto distribution from ascending values."""
    number = len(values)
    points = 30 + int(math.sqrt(number))
    grid = 1 - np.sqrt(points / (np.arange(1, points + 1) - 0.5))
    grid = grid / (3 * values[(number + 2) // 4 - 1]) + 1 / values[-1]
    shapes = np.mean(np.log1p(-grid[:, None] * values), axis=1)
    profile = number * (np.log(-grid / shapes) - shapes - 1)
    weights = 1 / np.sum(np.exp(profile - profile[:, None]), axis=1)
    chosen = float(np.sum(grid * weights))
    shape = float(np.mean(np.log1p(-chosen * values)))
    # A weak prior at 1/2 with the weight of ten values steadies small tails.
    return (shape * number + 5) / (number + 10), -shape / chosen
