"""Write the mean errors of nearest-neighbour densities that the package carries (`valuation/neighbours.json`).

    python benchmarks/calibrate_neighbours.py [--output packages/equipoise/src/equipoise/valuation/neighbours.json]

Other dimensions and numbers of draws are simulated when they are needed, which takes a second or more.
"""

import argparse
import json
from pathlib import Path

from equipoise.valuation.divergence import log_density_by_neighbours, simulate_error

DIMENSIONS = range(1, 17)
NUMBERS = [2**power for power in range(9, 15)]


def main() -> None:
    """Simulate all of them."""
    parser = argparse.ArgumentParser(description="Mean errors of nearest-neighbour densities.")
    parser.add_argument(
        "--output", type=Path, default=Path("packages/equipoise/src/equipoise/valuation/neighbours.json")
    )
    options = parser.parse_args()
    found = {
        dimension: {number: simulate_error(log_density_by_neighbours, number, dimension) for number in NUMBERS}
        for dimension in DIMENSIONS
    }
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
