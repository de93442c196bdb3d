"""Seconds to find every draw's fifth neighbour: by a k-d tree, and by products of matrices, on one thread.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/neighbours.py [--numbers 4096,16384]

`valuation/neighbours.py` takes whichever is faster in so many dimensions.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.valuation import neighbours


def main() -> None:
    """Print a line for each number of draws and of dimensions."""
    parser = argparse.ArgumentParser(description="Nearest neighbours, two ways.")
    parser.add_argument("--numbers", default="4096,16384", help="of draws, with commas")
    parser.add_argument("--dimensions", default="6,8,10,12,16,24,52", help="with commas")
    options = parser.parse_args()
    neighbours._threads = lambda: 1  # one core, whatever the machine has
    rng = np.random.default_rng(0)

    def seconds(search: Callable[..., Any], points: np.ndarray) -> float:
        start = time.perf_counter()
        search(points, points, 5)
        return time.perf_counter() - start

    print(f"{'dimensions':>10} {'draws':>7} {'tree':>7} {'products':>9} {'ratio':>6}")
    for dimension in map(int, options.dimensions.split(",")):
        for number in map(int, options.numbers.split(",")):
            points = rng.normal(size=(number, dimension))
            tree, products = (seconds(one, points) for one in (neighbours._by_tree, neighbours._by_products))
            print(f"{dimension:>10} {number:>7,} {tree:>7.2f} {products:>9.2f} {products / tree:>6.2f}", flush=True)


if __name__ == "__main__":
    main()
