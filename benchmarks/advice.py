"""Laplace's approximation of imagined rounds against sampling them all: how good, and how fast.

For advice, values are approximated and corrected by a few sampled rounds (`mediation/advice/expected.py`). Here every
coalition of some rounds is both approximated and sampled: mean difference in nats, and the ratio of the times.
"""

from time import perf_counter

import numpy as np

from equipoise.agreement import Agreement
from equipoise.agreement.templates import example_agreement
from equipoise.cli.demo.examples import EXAMPLES
from equipoise.mediation.advice import expected
from equipoise.mediation.advice.engines import engine_of
from equipoise.mediation.advice.imagined import Assumed, imagine

ROUNDS = 5
EPSILONS = (0.01, 0.1, 1.0)
ROWS = 300


def compare(name: str, agreement: Agreement) -> None:
    """Print one line for each ε of the first party; all others release at 1."""
    engine = engine_of(agreement)
    rng = np.random.default_rng(0)
    parties = [Assumed(ROWS, EPSILONS[-1])] * len(agreement.parties)
    choices = expected.Choices(0, np.array([1 / epsilon - 1 for epsilon in EPSILONS]))
    tasks = [
        expected.Task(engine, one, expected.plan(len(parties), rng), choices)
        for one in imagine(engine, parties, ROUNDS, rng)
    ]
    expected.SAMPLED_SIZE = len(parties)
    start = perf_counter()
    rough = np.array([expected.by_approximation(task)[0] for task in tasks])
    approximating = perf_counter() - start
    start = perf_counter()
    added = np.array([expected.correction(task, range(len(EPSILONS)), k) for k, task in enumerate(tasks)])
    sampling = perf_counter() - start - approximating  # which it does as well
    for k, epsilon in enumerate(EPSILONS):
        alone, team = (f"{rough[:, k, q].mean():6.2f} {-added[:, k, q].mean():+6.2f}" for q in (1, 0))
        print(f"{name:12} {epsilon:8g}   {alone}   {team}   {sampling / approximating:8.1f}")


def main() -> None:
    """Compare on four models."""
    print(f"{'model':12} {'epsilon':>8}   alone   bias   together bias   times as long")
    compare("linear, 4", Agreement.parse(EXAMPLES["regression"].agreement))
    compare("logistic, 3", Agreement.parse(EXAMPLES["classification"].agreement))
    for kind in ("gaussian", "poisson"):
        compare(kind, Agreement.parse(example_agreement(kind)))


if __name__ == "__main__":
    main()
