"""What one coalition's posterior costs, by number of features and parties: the figures behind docs/scaling.md.

Seconds of `engine.run` for 4,000 draws on one core, compiled, from a short run: start and warm-up as measured, sampling
scaled from 640 draws. One feature distribution for all parties; all of them are in.

    python benchmarks/scaling.py [--cases 10x3,10x10,…]
"""

import argparse
import os
import time

os.environ["NPROC"] = "1"  # one core, as a worker has; read when JAX starts

import jax
import numpy as np

from equipoise.inference import engine
from equipoise.inference.runtime import double_precision
from settings import wide

CASES = "4x3,10x3,10x10,6x100,24x3"


@double_precision
def main() -> None:
    """Print one line for each case."""
    parser = argparse.ArgumentParser(description="Cost of a posterior by features and parties.")
    parser.add_argument("--cases", default=CASES, help="features x parties, with commas")
    options = parser.parse_args()
    print(
        f"{'features':>8} {'parties':>8} {'coordinates':>12} {'fixed s':>8} {'per 1,000 draws':>16} {'4,000 draws':>12}"
    )
    for case in options.cases.split(","):
        width, parties = (int(part) for part in case.split("x"))
        problem, scenarios = wide(width, parties)
        key = jax.random.split(jax.random.key(0), 1)
        times = {}
        for draws in (640, 1_920):
            settings = engine.Settings(draws=draws, max_thinning=1)
            if draws == 640:
                engine.run(key, problem, scenarios, settings)  # compiles
            start = time.perf_counter()
            engine.run(key, problem, scenarios, settings)
            times[draws] = time.perf_counter() - start
        each = (times[1_920] - times[640]) / 1_280
        fixed = times[640] - 640 * each
        print(
            f"{width:>8} {parties:>8} {problem.model.dimension:>12,} {fixed:>8.2f} {1_000 * each:>16.2f} "
            f"{np.maximum(fixed, 0) + 4_000 * each:>12.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
