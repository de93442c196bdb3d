"""Share of rounds of the demo in which everybody gains, with other patients and other noise.

python benchmarks/demo_luck.py [regression|classification] [--draws 8] [--patients 50] [--sizes N N N] [--sampled 0]

Gains are by how many nats a new patient is predicted better with reward and own rows together than with own rows.
First come so many draws of noise for the demo's own patients, then so many other sets of patients (seeds 2, 3, …), each
with noise of its own, by approximation (`approximate_rounds.py`). --sizes plays hospitals of other sizes; --sampled
settles so many rounds in full as well. The exit code is 1 if everybody gains in fewer than 90 % of the other sets.
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

WANTED = 0.9  # of rounds


def gains(example: str, patients: int, draws: int) -> np.ndarray:
    """Gains at home [draws, hospitals], by approximation."""
    agreement = Agreement.parse(EXAMPLES[example].agreement)
    tables = split_rows(EXAMPLES[example].load(patients))
    test, epsilons = rows_of(agreement, tables["test"]), {name: epsilon for name, (_, epsilon) in HOSPITALS.items()}
    owns = {name: own_posterior(agreement, tables[name]) for name in HOSPITALS}
    rhos, seeds = (agreement.reward.rho,), range(patients, patients + draws)
    rounds = [play(agreement, tables, epsilons, test, owns, seed, rhos) for seed in seeds]
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


def show(what: str, found: np.ndarray) -> float:
    """Print a line per hospital and one for all, and return the share of rounds in which everybody gains."""
    for name, mine in zip(HOSPITALS, found.T, strict=True):
        share = f"{np.mean(mine > 0):4.0%}"
        print(f"{what:24} {name:6} mean {mine.mean():+.4f} least {mine.min():+.4f} gains in {share}")
    everybody = float(np.mean(np.all(found > 0, axis=1)))
    print(f"{what:24} everybody gains in {everybody:.0%} of {len(found)} rounds", flush=True)
    return everybody


def main() -> None:
    """Print gains, and fail where they are too rare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", nargs="?", default="regression", choices=list(EXAMPLES))
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--patients", type=int, default=50)
    parser.add_argument("--sizes", type=int, nargs=len(HOSPITALS))
    parser.add_argument("--sampled", type=int, default=0)
    options = parser.parse_args()
    for name, size in zip(HOSPITALS, options.sizes or (), strict=False):
        HOSPITALS[name] = (size, HOSPITALS[name][1])
    show("the demo's patients", gains(options.example, PATIENTS, options.draws))
    seeds = range(PATIENTS + 1, PATIENTS + 1 + options.patients)
    everybody = show("other patients", np.concatenate([gains(options.example, seed, 1) for seed in seeds]))
    if options.sampled:
        show("in full", sampled(options.example, options.sampled))
    sys.exit(0 if everybody >= WANTED else 1)


if __name__ == "__main__":
    main()
