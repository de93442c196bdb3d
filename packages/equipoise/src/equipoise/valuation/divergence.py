r"""Estimates of KL(posterior ‖ prior) from draws, in coordinates where the prior is N(0, I).

    knn-entropy   E log posterior density from nearest neighbours, minus E log prior density, which is known exactly
    knn-copula    the same, where nearest neighbours are only asked how coordinates depend on each other
    knn-mixture   the same, where nearest neighbours correct a mixture of normal distributions fitted to other draws
    knn           the paper's: distances to neighbours among posterior draws and among prior draws
    gaussian-fit  closed form for the normal distribution with the draws' mean and covariance
    classifier    the paper's probabilistic classification: mean log odds of a classifier that tells the two apart

Each is a mean of one number per draw, so that its standard error is that of a mean of autocorrelated draws; estimators
that are random themselves (prior draws, training) add what their repetitions differ by. KL does not depend on
coordinates; estimates of it do, and these are the ones in which posteriors are closest to normal.
"""

import json
import math
import threading
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import special
from threadpoolctl import threadpool_limits

from equipoise._util.arrays import Floats
from equipoise.estimate import Estimate
from equipoise.inference.diagnostics import ess_mean
from equipoise.valuation.mixtures import Mixture, fit_mixture
from equipoise.valuation.neighbours import Neighbours, distances, nearest

Estimator = Literal["knn-entropy", "knn-copula", "knn-mixture", "knn", "gaussian-fit", "classifier"]

# The paper's k.
NEIGHBOURS = 4
# Neighbours to search for, so that NEIGHBOURS of them remain, except once in a billion, when a block is left out.
SEARCHED = 16
# Repetitions of the paper's estimator, each with its own prior draws.
REPEATS = 5
# Blocks of draws that are left out in turn for a standard error.
BLOCKS = 16
# Components of a mixture at most.
MOST_COMPONENTS = 5
# Distinct draws in a half for every number that its mixture estimates.
DRAWS_PER_NUMBER = 2
# Points over all samples that calibrate one size and dimension.
CALIBRATION_POINTS = 40_000
_one_at_a_time = threading.Lock()


def divergence(draws: Floats, estimator: Estimator = "knn-entropy", *, seed: int = 0) -> Estimate:
    """Estimate the KL divergence from N(0, I) of the distribution behind draws [chains, draws, d]."""
    estimators: dict[str, Callable[[Floats, np.random.Generator], tuple[Floats, float]]] = {
        "knn-entropy": _by_entropy,
        "knn-copula": _by_copula,
        "knn-mixture": _by_mixture,
        "knn": _by_two_samples,
        "gaussian-fit": _by_gaussian_fit,
        "classifier": _by_classifier,
    }
    if estimator not in estimators:
        raise ValueError(f"there is no estimator {estimator!r}; choose one of {', '.join(get_args(Estimator))}")
    if draws.ndim != 3 or draws.shape[0] * draws.shape[1] <= 2 * draws.shape[2] + NEIGHBOURS:
        raise ValueError(f"draws of shape {draws.shape} are too few, or not [chains, draws, coordinates]")
    terms, own_variance = estimators[estimator](draws, np.random.default_rng(seed))
    terms = terms.reshape(draws.shape[:2])
    mean = mean_of_chains(terms)
    return Estimate(mean.value, math.hypot(mean.error, math.sqrt(own_variance)))


def divergence_between(draws: Floats, others: Floats) -> Estimate:
    """KL divergence of the distribution behind `draws` from the one behind `others`; both [chains, draws, d].

    Distances to neighbours among the other draws and among one's own, whitened by the others. Such an estimate is
    biased where the two differ much; it is corrected by its mean error on as many draws of the two fitted normal
    distributions, whose divergence is known. The standard error leaves out a sixteenth of both at a time.
    """
    points, reference = (part.reshape(-1, part.shape[2]) for part in (draws, others))
    lower = np.linalg.cholesky(np.cov(reference.T).reshape(points.shape[1], -1))
    centre = reference.mean(axis=0)
    points, reference = (np.linalg.solve(lower, (part - centre).T).T for part in (points, reference))
    mean, covariance = points.mean(axis=0), np.cov(points.T).reshape(points.shape[1], -1)
    known = 0.5 * float(np.trace(covariance) + mean @ mean - len(mean) - np.linalg.slogdet(covariance)[1])
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(covariance)
    on_normal = [
        _between(mean + rng.normal(size=points.shape) @ root.T, rng.normal(size=reference.shape))[0]
        for _ in range(max(4, CALIBRATION_POINTS // len(points)))
    ]
    whole, *left_out = _between(points, reference, BLOCKS)
    variance = (BLOCKS - 1) * np.var(left_out) + np.var(on_normal, ddof=1) / len(on_normal)
    return Estimate(whole + known - float(np.mean(on_normal)), float(np.sqrt(variance)))


def _between(points: Floats, reference: Floats, blocks: int = 0) -> list[float]:
    """Return the uncorrected estimate, and the estimates without each block of both samples.

    Neighbours are searched for among distinct points, as in `_by_entropy`, and only once: if a block is left out, the
    next neighbours that remain are used.
    """
    (own, times), (other, there) = (_distinct(part, blocks) for part in (points, reference))
    searched = SEARCHED if blocks else NEIGHBOURS + 1
    near, far = (nearest(part, own, min(searched, len(part))) for part in (own, other))
    estimates = []
    for mine, theirs in zip(times, there, strict=True):
        left, left_other = mine > 0, theirs > 0
        to_own = _distances_left(near, own, left, own, left, NEIGHBOURS + 1)  # the nearest point is itself
        to_other = _distances_left(far, other, left_other, own, left, NEIGHBOURS)
        log_ratio = np.average(np.log(to_other / to_own), weights=mine[left])
        estimates.append(float(own.shape[1] * log_ratio + math.log(left_other.sum() / (left.sum() - 1))))
    return estimates


def _distinct(points: Floats, blocks: int) -> tuple[Floats, NDArray[np.int64]]:
    """Return distinct points, and their counts [1 + blocks, points]: in all, and without each block."""
    distinct, index = np.unique(points, axis=0, return_inverse=True)
    index, number = index.reshape(-1), len(distinct)
    whole = np.bincount(index, minlength=number)
    parts = np.split(index, [k * len(index) // blocks for k in range(1, blocks)]) if blocks else []
    return distinct, np.array([whole, *(whole - np.bincount(part, minlength=number) for part in parts)])


def _distances_left(
    known: Neighbours,
    among: Floats,
    left: NDArray[np.bool_],
    points: Floats,
    asked: NDArray[np.bool_],
    neighbour: int,
) -> Floats:
    """Return distances of some points to the n-th nearest remaining point, from distances to the nearest of all."""
    distance, index = (part[asked] for part in known)
    count = np.cumsum(left[index], axis=1)
    if np.all(count[:, -1] >= neighbour):
        nearest: Floats = distance[np.arange(len(count)), np.argmax(count >= neighbour, axis=1)]
        if np.all(nearest > 0):
            return nearest
    return distances(among[left], points[asked], neighbour)


def mean_of_chains(terms: Floats) -> Estimate:
    """Return the mean of one number per draw [chains, draws]; its error allows for autocorrelation."""
    size = float(ess_mean(terms[:, :, None])[0])
    return Estimate(float(terms.mean()), float(terms.std() / math.sqrt(size)))


def _by_entropy(draws: Floats, rng: np.random.Generator) -> tuple[Floats, float]:  # noqa: ARG001  (nothing random)
    """Return log ratios of a nearest-neighbour density to the prior's, at every draw.

    This is Kozachenko–Leonenko on whitened points, corrected by the estimator's mean error on as many points of
    N(0, I). The remaining bias comes from the posterior's difference from a normal distribution.

    A rejected proposal repeats a draw, and neighbours at distance 0 have no information about the density. Neighbours
    are therefore searched for among the distinct points, and repeats count in the mean only.
    """
    points = draws.reshape(-1, draws.shape[2])
    distinct, row = np.unique(points, axis=0, return_inverse=True)
    centre, lower = points.mean(axis=0), np.linalg.cholesky(np.cov(points.T).reshape(draws.shape[2], -1))
    white = np.linalg.solve(lower, (distinct - centre).T).T
    log_density = log_density_by_neighbours(white) - np.sum(np.log(np.diag(lower)))
    log_density -= _mean_error(log_density_by_neighbours, *white.shape)
    terms: Floats = (log_density - _log_standard_normal(distinct))[row.reshape(-1)]
    return terms, 0.0


def _by_copula(draws: Floats, rng: np.random.Generator) -> tuple[Floats, float]:  # noqa: ARG001  (nothing random)
    """As `_by_entropy`, with the density of every whitened coordinate from its own order statistics.

    Of a density that is skewed in many coordinates, neighbours at a distance see a smoothed picture, and the estimate
    falls short by more, the more coordinates there are. In one dimension thousands of draws leave no such doubt. So
    coordinates are mapped to normal scores one by one, p(x) = p(z) Π_j f_j(x_j) / φ(z_j), and neighbours find p(z),
    which is normal if the coordinates are independent, whatever their distributions. The whole is corrected by its mean
    error on as many points of N(0, I).
    """
    points = draws.reshape(-1, draws.shape[2])
    distinct, row = np.unique(points, axis=0, return_inverse=True)
    log_density = _log_density_by_copula(distinct) - _mean_error(_log_density_by_copula, *distinct.shape)
    terms: Floats = (log_density - _log_standard_normal(distinct))[row.reshape(-1)]
    return terms, 0.0


def _log_density_by_copula(points: Floats) -> Floats:
    white, log_scale = _whitened(points)
    scores = np.empty_like(white)
    log_density = np.full(len(white), log_scale)
    for column in range(white.shape[1]):
        scores[:, column], gained = _normal_scores(white[:, column])
        log_density += gained
    white, log_scale = _whitened(scores)
    return np.asarray(log_density + log_scale + log_density_by_neighbours(white))


def _normal_scores(values: Floats) -> tuple[Floats, Floats]:
    """Normal quantiles z of the ranks, and log f(x)/φ(z), f from how far apart the ranks √n before and after are."""
    number = len(values)
    step = math.isqrt(number)
    order = np.argsort(values, kind="stable")
    ranks = np.arange(number)
    before, after = np.maximum(ranks - step, 0), np.minimum(ranks + step, number - 1)
    gaps = values[order[after]] - values[order[before]]
    if np.any(gaps <= 0):
        raise ValueError("too many draws are equal to estimate a density; the chains have hardly moved")
    quantiles = special.ndtri((ranks + 0.5) / number)
    scores, gained = np.empty(number), np.empty(number)
    scores[order] = quantiles
    gained[order] = np.log((after - before) / number) - np.log(gaps) - _log_standard_normal(quantiles[:, None])
    return scores, gained


def _by_mixture(draws: Floats, rng: np.random.Generator) -> tuple[Floats, float]:
    """Estimate the log ratio to the prior by two mixtures, each fitted to one half of the draws and used on the other.

    In heavy tails the neighbours of a draw lie on the denser side, and its density is overestimated: by more, the more
    coordinates there are. A mixture of a few scales describes such tails. Its Rosenblatt transform maps the other half
    to nearly N(0, I), and neighbours estimate there what the mixture leaves, p(x) = mixture(x) p(z) / φ(z), corrected
    by their mean error on as many points of N(0, I).

    The number of components is the one with the largest log density of the draws it was not fitted to. If that is one,
    or if the draws are too few for two, the terms are those of `_by_entropy`.
    """
    chains, length, dimension = draws.shape
    points = draws.reshape(-1, dimension)
    distinct, row = np.unique(points, axis=0, return_inverse=True)
    row = row.reshape(-1)
    cut = chains // 2 * length if chains > 1 else length // 2
    fewest = min(len(np.unique(half)) for half in (row[:cut], row[cut:]))
    numbers = (dimension + 1) * (dimension + 2) // 2
    most = min(MOST_COMPONENTS, fewest // (DRAWS_PER_NUMBER * numbers))
    # Repeats stay equal if each is the same row of the whitened distinct points.
    centre, lower = points.mean(axis=0), np.linalg.cholesky(np.cov(points.T).reshape(dimension, -1))
    white = np.linalg.solve(lower, (distinct - centre).T).T[row]
    mixtures = _fit_to_halves(white[:cut], white[cut:], most, rng)
    if mixtures is None:
        return _by_entropy(draws, rng)
    log_density = [_correct_by_neighbours(*pair) for pair in zip(mixtures, (white[:cut], white[cut:]), strict=True)]
    terms: Floats = np.concatenate(log_density) - np.sum(np.log(np.diag(lower))) - _log_standard_normal(points)
    return terms, 0.0


def _fit_to_halves(
    first: Floats, second: Floats, most: int, rng: np.random.Generator
) -> tuple[Mixture, Mixture] | None:
    """Fit mixtures to both halves; return the one to use on each, fitted to the other. None if one component is best.

    Mixtures of up to `most` components are judged by the log density of the half they were not fitted to.
    """
    best, reached = None, -math.inf
    # Matrices are so small that BLAS threads would only wait for each other.
    with threadpool_limits(1):
        for size in range(1, most + 1):
            pair = fit_mixture(second, size, rng), fit_mixture(first, size, rng)
            held_out = np.concatenate([pair[0].log_density(first), pair[1].log_density(second)])
            if np.mean(held_out) <= reached:
                break
            best, reached = pair if size > 1 else None, float(np.mean(held_out))
    return best


def _correct_by_neighbours(mixture: Mixture, points: Floats) -> Floats:
    """Estimate the log density at points that the mixture was not fitted to."""
    distinct, row = np.unique(points, axis=0, return_inverse=True)
    scores = mixture.map_to_normal(distinct)
    left = log_density_by_neighbours(scores) - _mean_error(log_density_by_neighbours, *scores.shape)
    log_density = mixture.log_density(distinct) + left - _log_standard_normal(scores)
    return np.asarray(log_density[row.reshape(-1)])


def _whitened(points: Floats) -> tuple[Floats, float]:
    """Points with mean 0 and covariance I, and the logarithm by which their density has shrunk."""
    lower = np.linalg.cholesky(np.cov(points.T).reshape(points.shape[1], -1))
    white = np.linalg.solve(lower, (points - points.mean(axis=0)).T).T
    return white, -float(np.sum(np.log(np.diag(lower))))


def log_density_by_neighbours(points: Floats) -> Floats:
    """Return ψ(k) − ψ(m) − log V_d − d log δ_k at each point, its log density by the distance to neighbour k."""
    number, dimension = points.shape
    distance = distances(points, points, NEIGHBOURS + 1)  # the nearest point is itself
    log_ball = 0.5 * dimension * math.log(math.pi) - special.gammaln(0.5 * dimension + 1)
    constant = special.digamma(NEIGHBOURS) - special.digamma(number) - log_ball
    return np.asarray(constant - dimension * np.log(distance))


def _mean_error(log_density: Callable[[Floats], Floats], number: int, dimension: int) -> float:
    """Return the mean error of a log density on N(0, I), interpolated between the two nearest powers of 2 points."""
    power = math.floor(math.log2(number))
    share = math.log2(number) - power
    low = _simulated_error(log_density, 2**power, dimension)
    return low if share == 0 else (1 - share) * low + share * _simulated_error(log_density, 2 ** (power + 1), dimension)


def _simulated_error(log_density: Callable[[Floats], Floats], number: int, dimension: int) -> float:
    known = _table().get(f"{dimension}", {}).get(f"{number}") if log_density is log_density_by_neighbours else None
    if known is not None:
        return known
    # Without the lock, many threads would compute the same number at once.
    with _one_at_a_time:
        return simulate_error(log_density, number, dimension)


@cache
def _table() -> dict[str, dict[str, float]]:
    """Read stored results of `simulate_error` for nearest neighbours, by dimension and number of draws."""
    text = resources.files("equipoise.valuation").joinpath("neighbours.json").read_text(encoding="utf-8")
    tables: dict[str, dict[str, float]] = json.loads(text)
    return tables


@cache
def simulate_error(log_density: Callable[[Floats], Floats], number: int, dimension: int) -> float:
    """Simulate the mean error of an estimated log density on a number of points of N(0, I)."""
    rng = np.random.default_rng(dimension)
    errors = []
    for _ in range(max(2, CALIBRATION_POINTS // number)):
        points = rng.normal(size=(number, dimension))
        errors.append(np.mean(log_density(points) - _log_standard_normal(points)))
    return float(np.mean(errors))


def _by_two_samples(draws: Floats, rng: np.random.Generator) -> tuple[Floats, float]:
    """Return the terms of the paper's estimate, averaged over prior samples, and the variance this leaves."""
    points = draws.reshape(-1, draws.shape[2])
    repeats = [two_sample_terms(points, rng.normal(size=points.shape)) for _ in range(REPEATS)]
    means = np.mean(repeats, axis=1)
    return np.mean(repeats, axis=0), float(means.var(ddof=1) / REPEATS)


def two_sample_terms(points: Floats, prior: Floats) -> Floats:
    """Return D log(δ_k^prior / δ_k^post) + log(m/(m − 1)) at each of m points, given m prior draws (App. C.3, H.1).

    Points are whitened by the covariance of both samples together.
    """
    number, dimension = points.shape
    both = np.concatenate([points, prior])
    lower = np.linalg.cholesky(np.cov(both.T).reshape(dimension, -1))
    white = np.linalg.solve(lower, (both - both.mean(axis=0)).T).T
    own = distances(white[:number], white[:number], NEIGHBOURS + 1)
    other = distances(white[number:], white[:number], NEIGHBOURS)
    return np.asarray(dimension * np.log(other / own) + math.log(number / (number - 1)))


def _by_gaussian_fit(draws: Floats, rng: np.random.Generator) -> tuple[Floats, float]:  # noqa: ARG001  (nothing random)
    return _log_ratio_of_fit(draws), 0.0


def _log_ratio_of_fit(draws: Floats) -> Floats:
    """Return log ratios of the fitted normal density to the prior's; moments agree, so the mean is the closed form."""
    points = draws.reshape(-1, draws.shape[2])
    covariance = np.cov(points.T, bias=True).reshape(draws.shape[2], -1)
    lower = np.linalg.cholesky(covariance)
    white = np.linalg.solve(lower, (points - points.mean(axis=0)).T).T
    log_density: Floats = _log_standard_normal(white) - np.sum(np.log(np.diag(lower)))
    return np.asarray(log_density - _log_standard_normal(points))


def _by_classifier(draws: Floats, rng: np.random.Generator) -> tuple[Floats, float]:
    """Return log odds of neural networks, each trained on one half of the chains and evaluated on the other."""
    from sklearn.neural_network import MLPClassifier

    chains, length, dimension = draws.shape
    if chains < 2:
        raise ValueError("the classifier needs two chains or more: it is trained on some and asked about the others")
    first_half = np.arange(chains) < chains // 2
    terms = np.empty((chains, length))
    for trained_on, asked in ((first_half, ~first_half), (~first_half, first_half)):
        posterior = draws[trained_on].reshape(-1, dimension)
        inputs = np.concatenate([posterior, rng.normal(size=posterior.shape)])
        labels = np.repeat([1, 0], len(posterior))
        network = MLPClassifier((64, 64), early_stopping=True, random_state=int(rng.integers(2**31)))
        network.fit(inputs, labels)
        terms[asked] = _log_odds(network, draws[asked].reshape(-1, dimension)).reshape(-1, length)
    halves = terms[first_half].mean() - terms[~first_half].mean()
    return terms, float(halves / 2) ** 2


def _log_odds(network: Any, points: Floats) -> Floats:
    """Return the network's output before the last activation; probabilities of distant classes would round to 1."""
    for weights, bias in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        points = np.maximum(points @ weights + bias, 0.0)
    return np.asarray((points @ network.coefs_[-1] + network.intercepts_[-1])[:, 0])


def _log_standard_normal(points: Floats) -> Floats:
    return np.asarray(-0.5 * np.sum(points**2, axis=1) - 0.5 * points.shape[1] * math.log(2 * math.pi))
