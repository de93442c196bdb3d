"""Does the demo's first impression swing with the luck of the noise? Its round again and again, with other noise.

python benchmarks/demo_luck.py [regression|classification] [--draws 8] [--patients 0] [--sampled 0]

Gains are by how many nats a new patient is predicted better with reward and own rows together than with own rows. By
approximation (`approximate_rounds.py`); --sampled settles so many rounds in full as well, a minute each; --patients
takes as many other sets of patients besides. The exit code is 1 if a hospital gains nothing in some draw of the demo's
own patients.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from approximate_rounds import own_posterior, play, rows_of
from equipoise.agreement import Agreement
from equipoise.cli.demo.examples import EXAMPLES, HOSPITALS, PATIENTS, split_rows
from equipoise.cli.demo.rounds import at_home, play_round, settle_round

FRESH = 1_000  # seeds of noise below were used when the demo's patients were chosen


def gains(example: str, patients: int, draws: int) -> np.ndarray:
    """Gains at home [draws, hospitals], by approximation."""
    agreement = Agreement.parse(EXAMPLES[example].agreement)
    tables = split_rows(EXAMPLES[example].load(patients))
    test, epsilons = rows_of(agreement, tables["test"]), {name: epsilon for name, (_, epsilon) in HOSPITALS.items()}
    owns = {name: own_posterior(agreement, tables[name]) for name in HOSPITALS}
    rounds = [play(agreement, tables, epsilons, test, owns, seed) for seed in range(FRESH, FRESH + draws)]
    return np.array([[one.gain_at_home for one in outcomes] for outcomes in rounds])


def sampled(example: str, rounds: int) -> np.ndarray:
    """Gains at home [rounds, hospitals] of the demo itself."""
    found = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            played = play_round(Path(folder), example)
            settlement = settle_round(played, Path(folder) / "settlement", progress=False)
            found.append([one.gain.value for one in at_home(played, settlement).values()])
            print("sampled", np.round(found[-1], 3), flush=True)
    return np.array(found)


def show(what: str, found: np.ndarray) -> bool:
    """Print a line per hospital, and say whether everybody always gains."""
    for name, mine in zip(HOSPITALS, found.T, strict=True):
        share = f"{np.mean(mine > 0):4.0%}"
        print(f"{what:24} {name:6} mean {mine.mean():+.3f} least {mine.min():+.3f} gains in {share}", flush=True)
    return bool(np.all(found > 0))


def main() -> None:
    """Print gains, and fail where somebody loses by joining."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", nargs="?", default="regression", choices=list(EXAMPLES))
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--patients", type=int, default=0)
    parser.add_argument("--sampled", type=int, default=0)
    options = parser.parse_args()
    everybody = show("the demo's patients", gains(options.example, PATIENTS, options.draws))
    if options.patients:
        others = [gains(options.example, 1 + seed, 2) for seed in range(options.patients)]
        show("other patients", np.concatenate(others))
    if options.sampled:
        everybody &= show("in full", sampled(options.example, options.sampled))
    sys.exit(0 if everybody else 1)


if __name__ == "__main__":
    main()
