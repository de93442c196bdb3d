"""Bias of the nearest-neighbour estimators of KL(posterior ‖ prior): many coordinates, normal, skewed, heavy-tailed.

Posteriors are products of one distribution, scaled and shifted, in coordinates where the prior is N(0, I): as they are,
correlated with each other by one half, or rotated at random so that no coordinate is any of them. Their divergence is
known from the entropy of that one distribution. Another posterior is a multivariate t distribution with 5 degrees of
freedom, whose tails are heavy in all coordinates at once. Draws are independent. "spread" is the standard deviation
between sets of draws, "stated" the standard error that an estimate gives itself: they should agree.

    python benchmarks/estimator_bias.py [--draws 4096] [--repeats 20] [--dimensions 5 13 26]
        [--estimators knn-entropy knn-copula knn-mixture]
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from equipoise.valuation.divergence import Estimator, divergence

Floats = NDArray[np.float64]

CHAINS = 16
SHIFT, WIDTH = 0.3, 0.3
DEGREES_OF_FREEDOM = 5
ESTIMATORS: tuple[Estimator, ...] = ("knn-entropy", "knn-copula", "knn-mixture")


@dataclass(frozen=True)
class Case:
    """Numbers with mean 0 and variance 1, of known entropy per coordinate, mixed by a matrix."""

    name: str
    mixing: Floats
    entropy: float
    draw: Callable[[np.random.Generator, tuple[int, int]], Floats]

    @property
    def truth(self) -> float:
        """−H − E log prior."""
        dimension = len(self.mixing)
        second_moment = np.sum(self.mixing**2) + dimension * SHIFT**2
        own = dimension * self.entropy + np.linalg.slogdet(self.mixing)[1]
        return float(0.5 * second_moment + 0.5 * dimension * math.log(2 * math.pi) - own)

    def points(self, seed: int, number: int) -> Floats:
        """A set of draws [chains, draws, d]."""
        numbers = self.draw(np.random.default_rng(seed), (number, len(self.mixing)))
        return (SHIFT + numbers @ self.mixing.T).reshape(CHAINS, -1, len(self.mixing))


def _gamma(shape: float) -> tuple[float, Callable[[np.random.Generator, tuple[int, int]], Floats]]:
    entropy = float(stats.gamma(shape).entropy()) - 0.5 * math.log(shape)
    return entropy, lambda rng, size: (rng.gamma(shape, size=size) - shape) / math.sqrt(shape)


def _student(dimension: int) -> tuple[float, Callable[[np.random.Generator, tuple[int, int]], Floats]]:
    """Return the entropy per coordinate of a multivariate t distribution with covariance I, and how to draw from it."""
    scale = math.sqrt(1 - 2 / DEGREES_OF_FREEDOM)
    shape = scale**2 * np.eye(dimension)
    entropy = float(stats.multivariate_t(shape=shape, df=DEGREES_OF_FREEDOM).entropy())

    def draw(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        spread = np.sqrt(DEGREES_OF_FREEDOM / rng.chisquare(DEGREES_OF_FREEDOM, size=(size[0], 1)))
        return np.asarray(scale * spread * rng.normal(size=size))

    return entropy / dimension, draw


def cases(dimension: int) -> Iterator[Case]:
    """What is measured in so many coordinates."""
    normal = 0.5 * math.log(2 * math.pi * math.e), lambda rng, size: rng.normal(size=size)
    own = WIDTH * np.eye(dimension)
    correlated: Floats = np.asarray(WIDTH * np.linalg.cholesky(0.5 * np.eye(dimension) + 0.5), float)
    rotation = np.linalg.qr(np.random.default_rng(dimension).normal(size=(dimension, dimension)))[0]
    yield Case("normal", own, *normal)
    yield Case("normal, correlated", correlated, *normal)
    yield Case("gamma of shape 16", own, *_gamma(16.0))
    yield Case("gamma of shape 4", own, *_gamma(4.0))
    yield Case("gamma of shape 4, correlated", correlated, *_gamma(4.0))
    yield Case("gamma of shape 4, rotated", WIDTH * rotation, *_gamma(4.0))
    yield Case("exponential", own, *_gamma(1.0))
    yield Case("t of 5 degrees of freedom", own, *_student(dimension))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Bias of KL estimators in many coordinates.")
    parser.add_argument("--draws", type=int, default=4_096)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[5, 13, 26])
    parser.add_argument("--estimators", choices=ESTIMATORS, nargs="+", default=ESTIMATORS)
    options = parser.parse_args()
    print("| coordinates | posterior | truth | estimator | bias | spread | stated | ms |")
    print("|---|---|---|---|---|---|---|---|")
    for dimension in options.dimensions:
        for case in cases(dimension):
            for estimator in options.estimators:
                divergence(case.points(0, options.draws), estimator)  # calibrates
                start = time.perf_counter()
                found = [divergence(case.points(1 + k, options.draws), estimator) for k in range(options.repeats)]
                each = (time.perf_counter() - start) / options.repeats
                errors = np.array([one.value for one in found]) - case.truth
                spread = errors.std(ddof=1)
                print(
                    f"| {dimension} | {case.name} | {case.truth:.2f} | {estimator} | {errors.mean():+.3f} ± "
                    f"{spread / math.sqrt(options.repeats):.3f} | {spread:.3f} | "
                    f"{np.mean([one.error for one in found]):.3f} | {1000 * each:,.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
