"""A posterior with fifty features and three parties: how long until its chains agree.

Features lie within ±1 with a standard deviation of 0.3 and in an agreed ball, each party has 5,000 rows and ε = 1, and
all share one feature distribution, so there are 1,377 coordinates. The first call compiles (or loads a compiled
program: set EQUIPOISE_CACHE_DIR=off for the true cost), further ones do not. Few chains are best here: a gradient is
dear, and a warm-up of many chains costs more than it teaches.

    python benchmarks/fifty_features.py [--width 50] [--draws 3200] [--chains 4] [--calls 1]
"""

import argparse
import time

import jax

from equipoise.inference import engine
from equipoise.inference.runtime import double_precision
from settings import wide


@double_precision
def main() -> None:
    """Print one line for each call."""
    parser = argparse.ArgumentParser(description="Time to a converged posterior with many features.")
    parser.add_argument("--width", type=int, default=50)
    parser.add_argument("--parties", type=int, default=3)
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--draws", type=int, default=3_200)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--max-thinning", type=int, default=1)
    parser.add_argument("--calls", type=int, default=1)
    options = parser.parse_args()
    problem, scenarios = wide(options.width, options.parties, rows=options.rows)
    settings = engine.Settings(options.draws, options.chains, max_thinning=options.max_thinning)
    print(
        f"{options.width} features, {options.parties} parties of {options.rows:,} rows, "
        f"{problem.model.dimension:,} coordinates, {options.chains} chains"
    )
    print(
        f"{'call':18} {'seconds':>8} {'draws':>7} {'thin':>5} {'R-hat max':>10} {'ESS bulk min':>13} "
        f"{'ESS tail min':>13} {'gradients':>10} {'acceptance':>11}"
    )
    for call in range(options.calls):
        start = time.perf_counter()
        key = jax.random.key(call)
        found = engine.run(jax.random.split(key, 1), problem, scenarios, settings)[0].diagnostics
        seconds = time.perf_counter() - start
        name = "first, compiling" if call == 0 else "compiled"
        print(
            f"{name:18} {seconds:>8.1f} {found.draws:>7,} {found.thin:>5} {found.rhat.max():>10.4f} "
            f"{found.ess_bulk.min():>13,.0f} {found.ess_tail.min():>13,.0f} {found.gradients:>10,} "
            f"{found.acceptance:>11.2f}",
            flush=True,
        )
        for problem_found in found.problems:
            print(f"  not converged: {problem_found}")


if __name__ == "__main__":
    main()
