"""Gradient of logistic regression's likelihood by block elimination against that of its dense covariance matrix.

Both differentiate the sum of three parties' log densities by a position, for 16 positions at once as chains do, and
both are written by hand from the covariance matrix on; the dense one factorises p × p matrices,
p = 2w + 1 + w(w + 1)/2. They are checked against each other first. Also the Fisher information of the Laplace
approximation, at one position. Times are processor time, which other programs disturb less; seconds to compile are
those of the gradient, where there is no cache (EQUIPOISE_CACHE_DIR=off).

    python benchmarks/logistic_gradient.py [--widths 2 4 6 8 16 30] [--chains 16] [--repeats 7] [--information]
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise.inference import moment_likelihood
from equipoise.inference.models.logistic import LogisticPrior, LogisticRegression, logistic_prior
from equipoise.inference.observations import Observed
from equipoise.inference.runtime import compiler_options, double_precision

ROWS = np.array([500.0, 1_000.0, 2_000.0])
Function = Callable[[Array], Array]


def prior_of(width: int) -> LogisticPrior:
    """The paper's prior, with means that are not 0."""
    return logistic_prior(
        width=width,
        degrees_of_freedom=float(width),
        max_squared_norm=12.0,
        weight_scale=2.5,
        bias_scale=1.0,
        mean_spread=0.5,
        concentration=2.0,
        sd_mean=0.5,
        sd_spread=0.5,
        sd_max=1.0,
    )


def observed_of(model: LogisticRegression, prior: LogisticPrior) -> Observed:
    """Expected statistics at a position, with the noise of ε = 1 where all columns are within ±1."""
    width = model.width
    position = jax.random.normal(jax.random.key(width), (model.dimension,))
    mean = jax.jit(lambda at: model.row_moments(prior, at).mean)(position)[0]
    first, second = np.triu_indices(width + 1)
    squares = np.concatenate([np.zeros(width + 1, bool), (first == second)[:-1]])
    variance = np.tile((width + 2) ** 2 / np.where(squares, (width + 5) / 2, 1.0), (len(ROWS), 1))
    noise = np.random.default_rng(width).normal(size=variance.shape) * np.sqrt(variance)
    rows = jnp.asarray(ROWS)
    return Observed(rows[:, None] * mean + noise, rows, rows, jnp.asarray(variance), jnp.ones(len(ROWS)))


def compiled(function: Function, example: Array) -> tuple[float, Function]:
    """Seconds to compile, as programs of chains are, and the program."""
    start = time.perf_counter()
    program: Any = jax.jit(function, compiler_options=compiler_options(1)).lower(example).compile()
    return time.perf_counter() - start, program


def milliseconds(program: Function, at: Array, repeats: int) -> float:
    """Processor time of one call, the best of several."""
    times = []
    jax.block_until_ready(program(at))  # type: ignore[no-untyped-call]
    for _ in range(repeats):
        start = time.process_time()
        jax.block_until_ready(program(at))  # type: ignore[no-untyped-call]
        times.append(time.process_time() - start)
    return 1e3 * min(times)


@double_precision
def main() -> None:
    """Print one line for each width."""
    parser = argparse.ArgumentParser(description="Block elimination against dense likelihood gradients.")
    parser.add_argument("--widths", type=int, nargs="+", default=[2, 4, 6, 8, 16, 30])
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--information", action="store_true", help="also time the Fisher information")
    options = parser.parse_args()
    print(f"{'':>8} {'':>7} | {'µs per gradient':^31} | {'seconds to compile':^18} | {'ms, information':^26}")
    print(
        f"{'features':>8} {'entries':>7} | {'blocks':>9} {'dense':>11} {'ratio':>9} | {'blocks':>9} {'dense':>8} | "
        f"{'blocks':>8} {'dense':>8} {'ratio':>8}"
    )
    for width in options.widths:
        model, prior = LogisticRegression(width, len(ROWS), shared=True), prior_of(width)
        observed = observed_of(model, prior)
        evidence = model.by_blocks(observed)
        positions = jax.random.normal(jax.random.key(1), (options.chains, model.dimension))

        def blocks(at: Array, model: Any = model, prior: Any = prior, evidence: Any = evidence) -> Array:
            return jnp.sum(model.log_likelihood(prior, evidence, at))

        def dense(at: Array, model: Any = model, prior: Any = prior, observed: Any = observed) -> Array:
            return jnp.sum(moment_likelihood.log_likelihood(model.row_moments(prior, at), observed))

        seconds, programs = zip(
            *(compiled(jax.vmap(jax.grad(function)), positions) for function in (blocks, dense)), strict=True
        )
        ours, theirs = (program(positions) for program in programs)
        assert jnp.max(jnp.abs(ours - theirs)) < 1e-9 * jnp.max(jnp.abs(theirs))
        times = [1e3 * milliseconds(one, positions, options.repeats) / options.chains for one in programs]
        line = f"{width:>8} {model.entries:>7} | {times[0]:>9,.0f} {times[1]:>11,.0f} {times[1] / times[0]:>8.1f}x"
        line += f" | {seconds[0]:>9.1f} {seconds[1]:>8.1f}"
        if options.information:
            functions = (
                partial(model.information, prior, evidence),
                partial(moment_likelihood.information, partial(model.row_moments, prior), observed),
            )
            took = [milliseconds(compiled(one, positions[0])[1], positions[0], options.repeats) for one in functions]
            line += f" | {took[0]:>8.1f} {took[1]:>8.1f} {took[1] / took[0]:>7.1f}x"
        print(line, flush=True)


if __name__ == "__main__":
    main()
