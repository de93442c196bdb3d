"""Measure what one posterior costs by number of features and parties: the figures behind docs/scaling.md.

Parties have 5,000 rows and ε = 1. From 10 features on, these lie in an agreed ball. The posterior is that of all
parties; seconds are of one core.

    OMP_NUM_THREADS=1 python benchmarks/scaling.py [--cases 10x3,10x10,…] [--kind logistic]
"""

import argparse
import time

import numpy as np

from equipoise._util.cores import one_core_each
from equipoise.inference.regression.posterior import sample_posterior
from wide_models import Setting, release

CASES = "4x3,10x3,10x10,10x100,3x1000,24x3,50x3"
ROWS, EPSILON, DRAWS = 5_000, 1.0, 4_000
MANY = 10  # features, from which on their norm is bounded: a box would drown them in noise


def main() -> None:
    """Print one row of a table for each case."""
    parser = argparse.ArgumentParser(description="Cost of a posterior by features and parties.")
    parser.add_argument("--cases", default=CASES, help="features x parties, with commas")
    parser.add_argument("--kind", choices=["linear", "logistic"], default="linear")
    asked = parser.parse_args()
    print("| features | parties | coordinates | CPU s | effective draws | converged |\n|---|---|---|---|---|---|")
    for case in asked.cases.split(","):
        width, parties = (int(part) for part in case.split("x"))
        setting = Setting(asked.kind, [0] * width, [ROWS] * parties, [EPSILON] * parties, ball=width >= MANY)
        model, releases = release(setting, 0)
        start = time.process_time()
        with one_core_each():
            found = sample_posterior(model, releases, np.random.default_rng(0), DRAWS)
        seconds, report = time.process_time() - start, found.diagnostics
        effective = min(report.ess_bulk.min(), report.ess_tail.min())
        print(
            f"| {width} | {parties:,} | {model.dimension} | {seconds:.1f} | {effective:,.0f} "
            f"| {'yes' if report.converged else 'no'} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
