"""30,000 independent draws for each of the eight coalitions of Syn, on whatever device JAX finds, in one call.

"Independent" means a bulk effective sample size of at least 30,000 for the slowest of the weights, the bias and log
variance of every coalition (the empty one is the prior). Needs JAX, NumPy and SciPy alone, so that it runs on a bare
machine from a source tree. The first call compiles, the second is the one that counts; `of which diagnostics` repeats
R-hat and effective sample sizes of all eight on their own.

    PYTHONPATH=src python benchmarks/h200.py [--chains 2048] [--draws 81920] [--group 8]

Chains and draws default to 2,048 and 81,920 on an accelerator and to 64 and 40,960 on a CPU. `--group` sets how many
scenarios one program takes, on an accelerator or a CPU, instead of the engine's own choice: the engine fills a group
that is not full with copies.
"""

import argparse
import itertools
import time

import jax
import numpy as np
from numpy.typing import NDArray

from equipoise.inference import engine
from equipoise.inference.diagnostics import diagnose, ess_bulk
from equipoise.inference.runtime import double_precision, on_accelerator
from settings import scenarios_of, syn

Floats = NDArray[np.float64]
WANTED = 30_000


def slowest(sampled: engine.Sampled) -> float:
    """Smallest bulk effective sample size of the model's own parameters."""
    parameters = sampled.parameters
    own: Floats = np.concatenate([parameters["weights"], np.log(parameters["variance"])[..., None]], axis=-1)
    return float(ess_bulk(own).min())


@double_precision
def main() -> None:
    """Print the device, seconds, and how good the draws are."""
    wide = on_accelerator()
    parser = argparse.ArgumentParser(description="30,000 independent draws of eight coalitions.")
    parser.add_argument("--chains", type=int, default=2_048 if wide else 64)
    parser.add_argument("--draws", type=int, default=81_920 if wide else 40_960)
    parser.add_argument("--group", type=int)
    parser.add_argument("--max-thinning", type=int, default=engine.Settings.max_thinning)
    options = parser.parse_args()
    if options.group:
        engine.GROUPS = (options.group,)

    problem = syn().problem
    coalitions = list(itertools.product((0.0, 1.0), repeat=3))
    scenarios = scenarios_of(problem, coalitions, 1.0)
    settings = engine.Settings(options.draws, options.chains, max_thinning=options.max_thinning)
    seconds, sampled = [], []
    for call in range(2):
        start = time.perf_counter()
        keys = jax.random.split(jax.random.key(call), len(coalitions))
        sampled = engine.run(keys, problem, scenarios, settings)
        seconds.append(time.perf_counter() - start)
    start = time.perf_counter()
    for scenario in sampled:
        assert scenario.positions is not None
        diagnose(scenario.positions)
    checking = time.perf_counter() - start

    effective = [slowest(one) for one in sampled]
    found = [one.diagnostics for one in sampled]
    shape = problem.observations.statistic.shape
    group = engine.group_size(len(scenarios.kappa), options.chains, shape)
    print(f"device                   {jax.devices()[0].device_kind} ({jax.default_backend()}), JAX {jax.__version__}")
    print(f"chains, draws, group     {options.chains:,}, {found[0].draws:,}, {group}")
    print(f"seconds, compiled        {seconds[1]:.2f}")
    print(f"  of which diagnostics   {checking:.2f}")
    print(f"compile seconds          {seconds[0] - seconds[1]:.2f} (first call {seconds[0]:.2f})")
    print(f"smallest ESS             {min(effective):,.0f} of model parameters (wanted: {WANTED:,})")
    print(f"R-hat max                {max(float(one.rhat.max()) for one in found):.4f} of all coordinates")
    print(f"\n{'coalition':12} {'ESS':>9} {'R-hat':>8} {'thin':>5} {'gradients':>13} {'acceptance':>11} {'dropped':>8}")
    for coalition, ess, one in zip(coalitions, effective, found, strict=True):
        name = "".join(str(k + 1) for k, member in enumerate(coalition) if member) or "nobody"
        print(
            f"{name:12} {ess:>9,.0f} {one.rhat.max():>8.4f} {one.thin:>5} {one.gradients:>13,} {one.acceptance:>11.2f} "
            f"{len(one.dropped_chains):>8}"
        )


if __name__ == "__main__":
    main()
