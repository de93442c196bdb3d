"""Sample what `real_tables.py export` wrote, all repetitions of a table side by side, on an accelerator.

    PYTHONPATH=src python benchmarks/side_by_side.py FOLDER [--tables pima] --output real_tables.json

Needs JAX, NumPy and SciPy alone. `real_tables.py print` shows what was found.
"""

import argparse
import json
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from equipoise.inference import collapsed, hmc
from equipoise.inference.diagnostics import rhat
from equipoise.inference.models.linear import MixedLinear
from equipoise.inference.models.logistic import MixedLogistic
from equipoise.inference.models.mixed import Entries
from equipoise.inference.models.standardised import StandardisedPrior
from equipoise.inference.observations import Observations, Scenarios, observe
from equipoise.inference.quantile_maps import Table
from equipoise.inference.runtime import compiler_options, double_precision

Floats = NDArray[np.float64]

SHARE = 0.9  # of an interval
LIMIT = 1.05  # of R̂, above which a repetition is counted as not converged
WARM_UP = 5  # rounds of the sampler


class Coding:
    """What models ask of a coding, as it was written."""

    def __init__(self, **parts: Any) -> None:
        self.__dict__.update(parts)


def compared(number: int, truth: Floats, weights: Floats, rhat: float, seconds: float) -> dict[str, Any]:
    """Distances of a repetition's truths from posterior means, in posterior deviations, and which are covered."""
    low, high = np.quantile(weights, [(1 - SHARE) / 2, (1 + SHARE) / 2], axis=0)
    mean, deviation = weights.mean(axis=0), weights.std(axis=0)
    return {
        "number": number,
        "covered": ((low <= truth) & (truth <= high))[:-1].tolist(),
        "z": ((truth - mean) / deviation)[:-1].round(3).tolist(),
        "deviation": deviation[:-1].round(5).tolist(),
        "rhat": round(rhat, 4),
        "seconds": round(seconds, 1),
    }


def opened(given: Any, parties: int) -> tuple[Any, StandardisedPrior]:
    """The model and its prior."""
    model = json.loads(str(given["model"]))
    coding = Coding(
        terms=range(model["terms"]),
        numbers=tuple(model["numbers"]),
        level_terms=tuple(model["level_terms"]),
        always_zero={tuple(pair) for pair in model["always_zero"]},
        levels_of_cells=given["levels_of_cells"],
        present=given["present"],
        cells=len(given["levels_of_cells"]),
    )
    table = Entries(coding, tuple((first, second) for first, second in model["pairs"]))  # type: ignore[arg-type]
    parts: dict[str, Any] = dict.fromkeys(StandardisedPrior._fields)
    for name in parts:
        if f"prior/{name}" in given:
            parts[name] = jnp.asarray(given[f"prior/{name}"])
        elif f"prior/{name}/0" in given:
            parts[name] = Table(jnp.asarray(given[f"prior/{name}/0"]), jnp.asarray(given[f"prior/{name}/1"]))
    kind = MixedLinear if model["kind"] == "linear" else MixedLogistic
    return kind(model["terms"], parties, True, table), StandardisedPrior(**parts)


@partial(jax.jit, static_argnames=("model", "chains"), compiler_options=compiler_options(0))
def begin(
    keys: Array, model: Any, chains: int, prior: Any, observations: Observations, scenarios: Scenarios
) -> hmc.Ensemble:
    """Start the chains of every repetition."""

    def one(key: Array, observed: Observations, scenario: Scenarios) -> hmc.Ensemble:
        approximation = collapsed.approximate(model, "power", prior, observed, scenario)
        evidence = model.prepare(observe(observed, scenario, "power"))
        density = partial(collapsed.log_density, model, prior, evidence)
        return hmc.begin(key, density, approximation, chains, collapsed.bending(model, prior))

    return jax.vmap(one)(keys, observations, scenarios)


@partial(jax.jit, static_argnames=("model",), compiler_options=compiler_options(1))
def advance(
    keys: Array,
    model: Any,
    prior: Any,
    observations: Observations,
    scenarios: Scenarios,
    ensembles: hmc.Ensemble,
    adapt: Array,
) -> tuple[hmc.Ensemble, Array, Array]:
    """Go on with the chains of every repetition: positions [repetitions, chains, draws, d], and steps taken."""

    def one(
        key: Array, observed: Observations, scenario: Scenarios, ensemble: hmc.Ensemble
    ) -> tuple[hmc.Ensemble, Array, Array]:
        evidence = model.prepare(observe(observed, scenario, "power"))
        density = partial(collapsed.log_density, model, prior, evidence)
        moved, draws, record = hmc.advance(key, density, ensemble, adapt, collapsed.bending(model, prior))
        return moved, draws.position, jnp.sum(record.steps)

    return jax.vmap(one)(keys, observations, scenarios, ensembles)


@dataclass(frozen=True)
class Sampled:
    """Of many repetitions: positions [repetitions, chains, draws, d], coefficients [repetitions, draws, …], R̂, cost."""

    positions: Floats
    weights: Floats
    rhat: Floats
    gradients: Floats

    def some(self, part: slice) -> "Sampled":
        """Some of the repetitions."""
        return Sampled(self.positions[part], self.weights[part], self.rhat[part], self.gradients[part])


def positions_side_by_side(
    model: Any,
    prior: Any,
    observations: Observations,
    scenarios: Scenarios,
    chains: int,
    rounds: int,
    seed: int,
) -> tuple[Floats, Floats]:
    """Draws of one scenario of every repetition [repetitions, chains, draws, d], all side by side, and their cost."""
    repetitions = len(observations.rows)
    keys = jax.random.split(jax.random.key(seed), repetitions)
    ensembles = begin(keys, model, chains, prior, observations, scenarios)
    kept, gradients = [], np.zeros(repetitions)
    for number in range(WARM_UP + rounds):
        adapt = number < WARM_UP
        keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, number)
        ensembles, positions, steps = advance(
            keys, model, prior, observations, scenarios, ensembles, jnp.asarray(adapt)
        )
        if not adapt:
            kept.append(np.asarray(positions))
            gradients += np.asarray(steps) * chains
    return np.concatenate(kept, axis=2), gradients


def sampled_side_by_side(
    model: Any, prior: Any, observations: Observations, chains: int, rounds: int, seed: int
) -> Sampled:
    """Draws of every repetition's posterior, all side by side."""
    repetitions, slots = observations.rows.shape
    everybody = Scenarios(jnp.ones((repetitions, slots)), jnp.ones(repetitions), jnp.zeros((repetitions, slots)))
    found, gradients = positions_side_by_side(model, prior, observations, everybody, chains, rounds, seed)
    flat = found.reshape(repetitions * chains, -1, model.dimension)
    weights = np.asarray(collapsed.parameters(model, prior, flat)["weights"])
    largest = np.array([rhat(one).max() for one in found])
    return Sampled(found, weights.reshape(repetitions, -1, weights.shape[-1]), largest, gradients)


@double_precision
def main() -> None:
    """Sample, add to what is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", nargs="+", help="all of the folder unless said")
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--at-once", type=int, default=600, help="repetitions that memory has room for")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    document: dict[str, Any] = {"coverage": {}, "losses": {}}
    if options.output.exists():
        document = json.loads(options.output.read_text(encoding="utf-8"))
    for name in options.tables or sorted(path.stem for path in options.folder.glob("*.npz")):
        start = time.perf_counter()
        with np.load(options.folder / f"{name}.npz") as given:
            settings = [key.removesuffix("/truth") for key in given if key.endswith("/truth")]
            parts = [
                np.concatenate([given[f"{setting}/{part}"] for setting in settings])
                for part in ("statistic", "rows", "variance", "truth")
            ]
            labels = [(one, place) for one in settings for place in range(len(given[f"{one}/truth"]))]
            model, prior = opened(given, parts[0].shape[1])
        statistic, rows, variance, truth = parts
        for first in range(0, len(rows), options.at_once):
            chosen = slice(first, first + options.at_once)
            nothing = np.zeros_like(statistic[chosen])
            arrays = (statistic[chosen], rows[chosen], variance[chosen], nothing, nothing)
            observations = Observations(*(jnp.asarray(part) for part in arrays))
            found = sampled_side_by_side(model, prior, observations, options.chains, options.rounds, first)
            seconds = (time.perf_counter() - start) / len(found.rhat)
            for (setting, number), true, draws, worst in zip(
                labels[chosen], truth[chosen], found.weights, found.rhat, strict=True
            ):
                kind, epsilon = setting.split("/")
                done = document["coverage"].setdefault(f"{kind}/{name}/{epsilon}", [])
                done.append(compared(number, true, draws, float(worst), seconds))
        shown = {
            key: round(float(np.mean([one["covered"] for one in done])), 3)
            for key, done in document["coverage"].items()
            if key.split("/")[1] == name
        }
        print(f"{name}: {time.perf_counter() - start:.0f} s, {shown}", flush=True)
        options.output.write_text(json.dumps(document) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
