"""Effective draws per second of the slowest model coordinate: the collapsed sampler against Algorithm 1 of the paper.

Three samplers of the same posterior, on the shapes of Syn and CaliH, at the paper's ε and at ε = 1 for everybody:

    collapsed   `engine.run` as users get it, timed whole: start, warm-up, sampling, diagnostics, any thinning
    textbook    `textbook_gibbs.py`: dense covariances; only its sampling is timed, neither start nor burn-in
    gibbs       `engine.run(sampler="gibbs")`, timed whole, without the further thinning that poor mixing would set off

"Effective" is the bulk effective sample size, smallest over the weights, the bias and log variance; the textbook's is
of every sweep, unthinned. Everything is compiled beforehand. An R-hat well above 1.01 means that a sampler has not got
round its posterior, and that its effective sample size flatters it.

Times are the best of several: of whole runs for the engine; for the textbook the fastest chunk of sweeps stands for
all, which favours it. A machine can stall in one call, so the last column gives the slowest call over the fastest.

    python benchmarks/auto_against_gibbs.py [--draws 4000] [--sweeps 5000] [--chains 16] [--repeats 3]
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from equipoise.inference import engine
from equipoise.inference.diagnostics import ess_bulk, rhat
from equipoise.inference.runtime import double_precision
from settings import Setting, calih, syn
from textbook_gibbs import CHUNK, Sampler, model_coordinates

Floats = NDArray[np.float64]


class Speed(NamedTuple):
    """What one sampler did in how many seconds."""

    seconds: float
    effective: float
    rhat: float
    unsteadiness: float  # slowest call over the fastest

    @property
    def rate(self) -> float:
        """Effective draws per second."""
        return self.effective / self.seconds


def timed(sample: Callable[[], Floats], calls: int, *, join: bool) -> Speed:
    """Time calls that return model coordinates [chains, draws, coordinates].

    The fastest call counts: for all of them if they go on from each other (`join`), else for one.
    """
    times, parts = [], []
    for _ in range(calls):
        start = time.perf_counter()
        parts.append(sample())
        times.append(time.perf_counter() - start)
    draws = np.concatenate(parts, axis=1) if join else parts[0]
    seconds = min(times) * (calls if join else 1)
    return Speed(seconds, float(ess_bulk(draws).min()), float(rhat(draws).max()), max(times) / min(times))


def with_engine(setting: Setting, settings: engine.Settings, seed: int) -> Floats:
    """One scenario through the engine."""
    keys = jax.random.split(jax.random.key(seed), 1)
    sampled = engine.run(keys, setting.problem, setting.scenarios, settings)[0]
    return model_coordinates(sampled.parameters)


def compare(name: str, setting: Setting, options: argparse.Namespace) -> None:
    """Print three lines and two ratios."""
    chains, seed = options.chains, options.seed
    speeds: dict[str, Speed] = {}
    auto = engine.Settings(options.draws, chains)
    with_engine(setting, replace(auto, max_thinning=1), seed)  # compiles
    speeds["collapsed"] = timed(lambda: with_engine(setting, auto, seed + 1), options.repeats, join=False)
    gibbs = engine.Settings(options.draws, chains, sampler="gibbs", max_thinning=1)
    with_engine(setting, replace(gibbs, draws=1), seed)
    speeds["gibbs"] = timed(lambda: with_engine(setting, gibbs, seed + 1), options.repeats, join=False)
    textbook = Sampler(jax.random.key(seed), setting.problem, setting.scenarios, chains)
    textbook.sample(max(CHUNK, options.burn_in))
    chunks = -(-options.sweeps // CHUNK)
    speeds["textbook"] = timed(lambda: textbook.sample(CHUNK)[0], chunks, join=True)

    base = speeds["textbook"].rate
    for sampler in ("collapsed", "textbook", "gibbs"):
        speed = speeds[sampler]
        print(
            f"{name:14} {sampler:10} {speed.seconds:>8.2f} {speed.effective:>9,.0f} {speed.rhat:>7.3f} "
            f"{speed.rate:>12,.1f} {speed.rate / base:>10.1f}x {speed.unsteadiness:>12.1f}x",
            flush=True,
        )


@double_precision
def main() -> None:
    """Print one block for each setting."""
    parser = argparse.ArgumentParser(description="Effective draws per second of three samplers.")
    parser.add_argument("--draws", type=int, default=4_000, help="kept by the engine, over all chains")
    parser.add_argument("--sweeps", type=int, default=5_000, help="of the textbook sampler, each chain")
    parser.add_argument("--burn-in", type=int, default=2_500, help="sweeps of the textbook sampler that do not count")
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3, help="whole runs of the engine, of which the fastest counts")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=["syn", "calih"])
    options = parser.parse_args()
    print(f"{options.chains} chains; ESS and R-hat: worst of weights, bias and log variance")
    print(
        f"{'setting':14} {'sampler':10} {'seconds':>8} {'ESS':>9} {'R-hat':>7} {'ESS/second':>12} {'/ textbook':>11} "
        f"{'slowest/best':>13}"
    )
    for name, build in {"syn": syn, "calih": calih}.items():
        if options.only not in (None, name):
            continue
        title = {"syn": "Syn", "calih": "CaliH"}[name]
        compare(f"{title}, paper ε", build(), options)
        compare(f"{title}, ε = 1", build([1.0] * 3), options)


if __name__ == "__main__":
    main()
