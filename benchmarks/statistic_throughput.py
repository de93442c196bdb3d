"""How much the exact statistic costs above the one matrix product nobody can avoid.

Both work on the same in-memory array: `X.T @ X` in NumPy (which uses every core), and the whole path from rows to
statistic (validate, map, clip, round, multiply, add exactly). Aim: within 2×.

    python benchmarks/statistic_throughput.py
"""

import numpy as np
import pyarrow as pa

from equipoise._util.cores import usable_cores
from equipoise.agreement import Agreement
from equipoise.models import layout_of
from equipoise.party.statistics import exact_statistic
from timing import best_seconds


def agreement(width: int) -> Agreement:
    """Linear regression on `width` features, all columns within three standard deviations."""
    features = ", ".join(f'{{ name = "x{k}", bounds = [-3, 3] }}' for k in range(width))
    return Agreement.parse(
        f'format = 1\n[model]\nkind = "linear"\nfeatures = [{features}]\ntarget = {{ name = "y", bounds = [-3, 3] }}\n'
        '[privacy]\nmax_epsilon = 1\n[[parties]]\nname = "a"\n'
    )


def main() -> None:
    """Print one line for each width."""
    print(f"{usable_cores()} cores")
    print(
        f"{'features':>8} {'rows':>10} {'X.T @ X':>10} {'array':>8} {'Arrow':>8} {'1 thread':>9}   (ratios to X.T @ X)"
    )
    for width, rows in ((6, 4_000_000), (50, 1_000_000)):
        matrix = np.random.default_rng(0).normal(size=(rows, width + 1))
        layout = layout_of(agreement(width))
        names = [column.name for column in layout.columns]
        table = pa.table(dict(zip(names, np.ascontiguousarray(matrix.T), strict=True)))
        product = best_seconds(lambda m=matrix: m.T @ m)  # type: ignore[misc]
        ours = [
            best_seconds(lambda s=source, t=threads, la=layout: exact_statistic(la, s, threads=t))  # type: ignore[misc]
            for source, threads in ((matrix, None), (table, None), (matrix, 1))
        ]
        ratios = " ".join(f"{seconds / product:>8.2f}" for seconds in ours)
        print(f"{width:>8} {rows:>10,} {product * 1e3:>8.1f}ms {ratios}")


if __name__ == "__main__":
    main()
