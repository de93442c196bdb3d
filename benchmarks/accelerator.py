"""Many parties and many features on an accelerator: seconds a coalition, from observations to a value with its error.

Each case is features x parties, with a number of coalitions drawn at random (all of them where there are fewer); the
posterior of everybody is the first. Times are of the second of two calls (the first compiles, and is given too), with
diagnostics and values of all coalitions in threads, as `mediate` has them. Needs JAX, NumPy and SciPy alone, so that it
runs on a bare machine from a source tree.

    PYTHONPATH=src python benchmarks/accelerator.py 10x12:512 10x100:64 50x3:7 100x3:1 [--draws 1280] [--warm-up 4]
"""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
from numpy.typing import NDArray

from equipoise._util.cores import usable_cores
from equipoise.inference import collapsed, engine
from equipoise.inference.runtime import double_precision
from equipoise.valuation.divergence import divergence
from settings import scenarios_of, wide

Floats = NDArray[np.float64]


def coalitions(parties: int, number: int) -> Floats:
    """Everybody, then others at random, none twice."""
    if number >= 2**parties - 1:
        codes = np.arange(1, 2**parties)[::-1]
        return np.asarray((codes[:, None] >> np.arange(parties)) & 1, float)
    rng = np.random.default_rng(0)
    found = {(1.0,) * parties: None}
    while len(found) < number:
        share = rng.uniform()
        members = (rng.uniform(size=parties) < share).astype(float)
        if members.any():
            found[tuple(members.tolist())] = None
    return np.array(list(found))


def one_case(case: str, draws: int, chains: int, warm_up: int | None) -> None:
    """Print a line about a case."""
    shape, number = case.split(":")
    width, parties = (int(part) for part in shape.split("x"))
    problem, _ = wide(width, parties)
    scenarios = scenarios_of(problem, coalitions(parties, int(number)), 1.0)
    keys = jax.random.split(jax.random.key(0), len(scenarios.kappa))
    settings = engine.Settings(draws, chains, warm_up=warm_up)
    times = []
    errors: list[float] = []

    def value(one: engine.Sampled) -> float:
        assert one.positions is not None
        own = collapsed.own_coordinates(problem.model, problem.prior, one.positions)
        return divergence(np.asarray(own)).error

    sampled: list[engine.Sampled] = []
    for _ in range(2):
        start = time.perf_counter()
        sampled = engine.run(keys, problem, scenarios, settings)
        sampling = time.perf_counter() - start
        with ThreadPoolExecutor(usable_cores()) as pool:
            errors = list(pool.map(value, sampled))
        times.append(time.perf_counter() - start)
    found = [one.diagnostics for one in sampled]
    rhat = np.array([one.rhat.max() for one in found])
    ess = np.array([min(one.ess_bulk.min(), one.ess_tail.min()) for one in found])
    gradients = sum(one.gradients for one in found) / len(found) / chains
    print(
        f"{case:>12} {problem.model.dimension:>6} coordinates: {times[1]:.1f} s (sampling {sampling:.1f}; first call "
        f"{times[0]:.1f}), {times[1] / len(found):.3f} s each; R-hat median {np.median(rhat):.4f}, worst "
        f"{rhat.max():.4f}; "
        f"ESS median {np.median(ess):,.0f}, least {ess.min():,.0f}; error median {np.median(errors):.3f}, most "
        f"{max(errors):.3f}; draws {np.mean([one.draws for one in found]):,.0f}, thinned up to "
        f"{max(one.thin for one in found)}; {gradients:.0f} leaps; "
        f"acceptance {np.mean([one.acceptance for one in found]):.2f}; "
        f"{np.mean([one.converged for one in found]):.0%} converged",
        flush=True,
    )


@double_precision
def main() -> None:
    """Print the device, then a line for each case."""
    parser = argparse.ArgumentParser(description="Rounds of many parties and features on an accelerator.")
    parser.add_argument("cases", nargs="+", help="features x parties : coalitions")
    parser.add_argument("--draws", type=int, default=1_280)
    parser.add_argument("--chains", type=int, default=128)
    parser.add_argument("--warm-up", type=int)
    options = parser.parse_args()
    print(f"{jax.devices()[0].device_kind} ({jax.default_backend()}), JAX {jax.__version__}", flush=True)
    for case in options.cases:
        one_case(case, options.draws, options.chains, options.warm_up)


if __name__ == "__main__":
    main()
