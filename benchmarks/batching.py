"""Sixteen scenarios of Syn in one call against sixteen calls of one scenario each.

The scenarios are the seven non-empty coalitions, and the grand coalition tempered with nine factors κ below 1. Settings
and random keys are the same, both ways are compiled beforehand, and each is the best of a few runs, taken in turn.

    python benchmarks/batching.py [--draws 4000] [--repeats 3]
"""

import argparse
import itertools
import time
from operator import itemgetter

import jax
import numpy as np
from jax import Array

from equipoise._util.cores import usable_cores
from equipoise.inference import engine, processes
from equipoise.inference.engine import Problem, Sampled, Settings
from equipoise.inference.observations import Scenarios
from equipoise.inference.runtime import double_precision
from settings import scenarios_of, syn


def sixteen(problem: Problem) -> Scenarios:
    """Seven coalitions and nine tempered grand ones."""
    coalitions = [row for row in itertools.product((0.0, 1.0), repeat=3) if any(row)]
    members = np.array([*coalitions, *[(1.0, 1.0, 1.0)] * 9])
    kappas = np.concatenate([np.ones(7), np.arange(1, 10) / 10])
    return scenarios_of(problem, members, kappas)


def together(keys: Array, problem: Problem, scenarios: Scenarios, settings: Settings) -> list[Sampled]:
    """One call."""
    return engine.run(keys, problem, scenarios, settings)


def in_processes(keys: Array, problem: Problem, scenarios: Scenarios, settings: Settings) -> list[Sampled]:
    """One call, spread over a process for each core; they are started by the first call and stay."""
    return processes.run(keys, problem, scenarios, [settings] * len(keys), processes=usable_cores())


def apart(keys: Array, problem: Problem, scenarios: Scenarios, settings: Settings) -> list[Sampled]:
    """One call for each scenario."""
    results = []
    for index in range(len(keys)):
        one = jax.tree.map(itemgetter(slice(index, index + 1)), scenarios)
        results += engine.run(keys[index : index + 1], problem, one, settings)
    return results


@double_precision
def main() -> None:
    """Print one line for each way, and the ratio."""
    parser = argparse.ArgumentParser(description="One call of sixteen scenarios against sixteen calls.")
    parser.add_argument("--draws", type=int, default=Settings.draws)
    parser.add_argument("--chains", type=int, default=Settings.chains)
    parser.add_argument("--max-thinning", type=int, default=Settings.max_thinning, help="1: both ways do equal work")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    problem = syn().problem
    scenarios = sixteen(problem)
    keys = jax.random.split(jax.random.key(0), len(scenarios.kappa))
    settings = Settings(options.draws, options.chains, max_thinning=options.max_thinning)
    ways = {"one call": in_processes, "one process": together, "sixteen calls": apart}
    best = dict.fromkeys(ways, np.inf)
    results: dict[str, list[Sampled]] = {}
    for repeat in range(options.repeats + 1):  # the first only compiles
        for name, way in ways.items():
            start = time.perf_counter()
            results[name] = way(keys, problem, scenarios, settings)
            if repeat:
                best[name] = min(best[name], time.perf_counter() - start)
    print(f"{len(keys)} scenarios of Syn, {options.draws:,} draws each in {options.chains} chains")
    print(f"{'':14} {'seconds':>8} {'mean thin':>10} {'gradients':>11} {'R-hat max':>10} {'ESS min':>9}")
    for name, sampled in results.items():
        found = [one.diagnostics for one in sampled]
        print(
            f"{name:14} {best[name]:>8.2f} {np.mean([one.thin for one in found]):>10.2f} "
            f"{sum(one.gradients for one in found):>11,} {max(one.rhat.max() for one in found):>10.4f} "
            f"{min(one.ess_bulk.min() for one in found):>9,.0f}"
        )
    print(f"one call is {best['sixteen calls'] / best['one call']:.2f} times as fast")


if __name__ == "__main__":
    main()
