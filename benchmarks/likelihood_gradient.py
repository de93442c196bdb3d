"""Gradient of the structured likelihood of a linear statistic against the same with a dense covariance matrix.

Both differentiate the log density of one party's statistic by the second moment M, for a batch of matrices M; the dense
one is `jax.grad` through a Cholesky factorisation of the p × p covariance, p = (w+1)(w+4)/2. They are checked against
each other first. The growth exponent is log(t₆₀/t₆)/log(62/8), by the size n = w + 2 of M: the dense gradient's is
about 6 in theory, the structured one's about 4. Compiled beforehand; best of several runs.

    python benchmarks/likelihood_gradient.py [--batch 64]
"""

import argparse
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise.inference.runtime import double_precision
from equipoise.inference.statistic_likelihood import MatrixNoise, log_likelihood
from textbook_gibbs import dense_moments, pairs
from timing import best_seconds

DENSE_WIDTHS = (2, 4, 6, 8, 12)
FAST_WIDTHS = (6, 12, 24, 48, 60)
ROWS = 1_000.0
Gradient = Callable[[Array], Array]


def moments_of(width: int, batch: int) -> Array:
    """Second moments of random rows (x, 1, y) [batch, n, n]."""
    rng = np.random.default_rng(width)
    rows = rng.normal(size=(batch, 4 * (width + 2), width + 2)) / np.sqrt(width + 2)
    rows[:, :, width] = 1.0
    return jnp.asarray(np.einsum("bri,brj->bij", rows, rows) / rows.shape[1])


def noise_of(width: int) -> MatrixNoise:
    """The noise of one party at ε = 1, with all columns within ±1."""
    off_diagonal = float((width + 2) ** 2)
    diagonal = np.full((1, width + 2), off_diagonal / ((width + 4) / 2))
    diagonal[0, width] = 2 * off_diagonal
    return MatrixNoise(jnp.full((1,), off_diagonal), jnp.asarray(diagonal))


def fast_gradient(width: int, statistic: Array) -> Gradient:
    """Gradient of the library's likelihood."""
    noise, count = noise_of(width), jnp.full((1,), ROWS)

    def value(moment: Array) -> Array:
        return log_likelihood(moment, statistic[None], count, count, noise, width)[0]

    return jax.jit(jax.vmap(jax.grad(value)))


def dense_gradient(width: int, statistic: Array) -> Gradient:
    """Gradient of the normal log density of all entries."""
    i, j = pairs(width)
    noise = noise_of(width)
    variance = jnp.where(i == j, noise.diagonal[0][i], noise.off_diagonal[0])
    observed = statistic[i, j]

    def value(moment: Array) -> Array:
        mean, covariance = dense_moments(moment, width)
        lower = jnp.linalg.cholesky(ROWS * covariance + jnp.diag(variance))
        white = jax.scipy.linalg.solve_triangular(lower, observed - ROWS * mean, lower=True)
        constant = 0.5 * len(observed) * math.log(2 * math.pi)
        return -0.5 * white @ white - jnp.sum(jnp.log(jnp.diagonal(lower))) - constant

    return jax.jit(jax.vmap(jax.grad(value)))


def microseconds(gradient: Gradient, moments: Array, repeats: int) -> float:
    """Time per gradient."""
    jax.block_until_ready(gradient(moments))  # type: ignore[no-untyped-call]
    seconds = best_seconds(lambda: jax.block_until_ready(gradient(moments)), repeats)  # type: ignore[no-untyped-call]
    return seconds / len(moments) * 1e6


def disagreement(width: int) -> float:
    """Largest relative difference of the two gradients along symmetric directions."""
    moments = moments_of(width, 3)
    statistic = ROWS * moments[0]
    fast, dense = fast_gradient(width, statistic)(moments), dense_gradient(width, statistic)(moments)
    fast, dense = fast + fast.mT, dense + dense.mT
    # The bias entry of M is the constant 1: neither gradient means anything there.
    fast, dense = fast.at[:, width, width].set(0.0), dense.at[:, width, width].set(0.0)
    return float(jnp.max(jnp.abs(fast - dense)) / jnp.max(jnp.abs(dense)))


@double_precision
def main() -> None:
    """Print one line for each width."""
    parser = argparse.ArgumentParser(description="Structured against dense likelihood gradients.")
    parser.add_argument("--batch", type=int, default=64, help="matrices at once; a quarter of it beyond 24 features")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--widest", type=int, default=60)
    options = parser.parse_args()
    print(f"largest relative difference of the gradients at w = 3, 6: {disagreement(3):.1e}, {disagreement(6):.1e}")
    print(f"{'features':>8} {'entries':>8} {'batch':>6} {'structured':>14} {'dense':>14} {'dense/structured':>17}")
    times: dict[int, float] = {}
    for width in sorted({*DENSE_WIDTHS, *FAST_WIDTHS}):
        if width > options.widest:
            continue
        batch = options.batch if width <= 24 else max(1, options.batch // 4)
        moments = moments_of(width, batch)
        statistic = ROWS * moments[0]
        times[width] = fast = microseconds(fast_gradient(width, statistic), moments, options.repeats)
        line = f"{width:>8} {(width + 1) * (width + 4) // 2:>8} {batch:>6} {fast:>11,.1f} µs"
        if width in DENSE_WIDTHS:
            dense = microseconds(dense_gradient(width, statistic), moments, options.repeats)
            line += f" {dense:>11,.1f} µs {dense / fast:>16.1f}x"
        print(line, flush=True)
    if 60 in times:
        exponent = math.log(times[60] / times[6]) / math.log(62 / 8)
        print(f"growth exponent of the structured gradient from 6 to 60 features: {exponent:.2f}")


if __name__ == "__main__":
    main()
