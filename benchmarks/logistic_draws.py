"""Time to 10,000 near-independent draws of the Diab posterior: the engine against NUTS on the same density.

    engine            `engine.run`, timed whole: start, warm-up, sampling and diagnostics
    NumPyro NUTS      four chains, vectorised and one after the other, started near the mode, 500 warm-up iterations
    BlackJAX NUTS     four vectorised chains, window adaptation with 500 iterations
    BlackJAX MEADS    64 vectorised chains of generalised HMC, 500 adaptation iterations

All but the engine are timed twice: sampling alone, and with their warm-up. "10,000 effective" scales seconds (of
sampling, or for the engine of everything) to a bulk effective sample size of 10,000 for the slowest of the weights and
the bias. Compile times are reported on their own; set EQUIPOISE_CACHE_DIR=off, or they may come from a cache.

    python benchmarks/logistic_draws.py [--draws 20000] [--chains 16] [--nuts-draws 10000] [--others]
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from numpyro.infer import NUTS

from equipoise.inference import collapsed, engine
from equipoise.inference.diagnostics import ess_bulk, rhat
from equipoise.inference.observations import observe
from equipoise.inference.runtime import double_precision
from settings import Setting, diab

Floats = NDArray[np.float64]
LogDensity = Callable[[Array], Array]
WARM_UP = 500
NUTS_CHAINS = 4
MEADS_CHAINS = 64
WANTED = 10_000


class Outcome(NamedTuple):
    """Seconds by phase, and the draws' quality."""

    compiling: float
    warming: float
    sampling: float
    effective: float
    rhat: float

    @property
    def without_warm_up(self) -> float:
        """Seconds for the wanted effective sample size, sampling alone."""
        return self.sampling * WANTED / self.effective

    @property
    def with_warm_up(self) -> float:
        """The same, and one warm-up."""
        return self.warming + self.without_warm_up


class Program(NamedTuple):
    """A sampler as two compiled functions: key ↦ warm state, (key, warm state) ↦ positions [chains, draws, d]."""

    warm_up: Callable[[Array], Any]
    sample: Callable[[Array, Any], Array]


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came of it."""
    start = time.perf_counter()
    result = jax.block_until_ready(action())  # type: ignore[no-untyped-call]
    return time.perf_counter() - start, result


def quality(coefficients: Floats) -> tuple[float, float]:
    """Smallest bulk effective sample size and largest R-hat."""
    return float(ess_bulk(coefficients).min()), float(rhat(coefficients).max())


def run_engine(setting: Setting, draws: int, chains: int) -> Outcome:
    """The engine, compiled and then timed whole."""
    settings = engine.Settings(draws, chains)

    def sample(seed: int) -> Any:
        keys = jax.random.split(jax.random.key(seed), 1)
        return engine.run(keys, setting.problem, setting.scenarios, settings)[0].parameters["weights"]

    first, _ = timed(lambda: sample(0))
    second, coefficients = timed(lambda: sample(1))
    return Outcome(max(0.0, first - second), 0.0, second, *quality(coefficients))


def run_program(setting: Setting, program: Program) -> Outcome:
    """Any other sampler: compile both functions, then time both."""
    first, state = timed(lambda: program.warm_up(jax.random.key(0)))
    warming, state = timed(lambda: program.warm_up(jax.random.key(1)))
    second, _ = timed(lambda: program.sample(jax.random.key(2), state))
    sampling, positions = timed(lambda: program.sample(jax.random.key(3), state))
    named = collapsed.parameters(setting.problem.model, setting.problem.prior, positions)
    compiling = max(0.0, first - warming) + max(0.0, second - sampling)
    return Outcome(compiling, warming, sampling, *quality(np.asarray(named["weights"])))


def target(setting: Setting) -> tuple[LogDensity, Callable[[Array, int], Array]]:
    """The log density that the engine samples, and a start near its mode for any number of chains."""
    model, prior, observations = setting.problem.model, setting.problem.prior, setting.problem.observations
    scenario = jax.tree.map(lambda part: part[0], setting.scenarios)
    evidence = model.prepare(observe(observations, scenario, "power"))
    near = jax.jit(collapsed.approximate, static_argnums=(0, 1))(model, "power", prior, observations, scenario)

    def log_density(position: Array) -> Array:
        return collapsed.log_density(model, prior, evidence, position)

    def start(key: Array, chains: int) -> Array:
        positions: Array = near.centre + jax.random.normal(key, (chains, model.dimension)) @ near.root.T
        return positions

    return log_density, start


def numpyro_nuts(setting: Setting, draws: int, *, vectorised: bool) -> Program:
    """NumPyro's kernel under `scan`, as its MCMC class runs it, but compiled only once."""
    log_density, start = target(setting)

    def potential(position: Array) -> Array:
        return -log_density(position)

    def iterate(kernel: Any, number: int, state: Any) -> tuple[Any, Array]:
        def step(state: Any, _: None) -> tuple[Any, Array]:
            state = kernel.sample(state, (), {})
            return state, state.z

        return jax.lax.scan(step, state, None, number)

    if vectorised:
        kernel = NUTS(potential_fn=potential)
        keys = jax.random.split(jax.random.key(9), NUTS_CHAINS)
        begun = kernel.init(keys, WARM_UP, start(jax.random.key(8), NUTS_CHAINS), (), {})

        def warm_up(key: Array) -> Any:
            return iterate(kernel, WARM_UP, begun._replace(rng_key=jax.random.split(key, NUTS_CHAINS)))[0]

        def sample(key: Array, state: Any) -> Array:
            state = state._replace(rng_key=jax.random.split(key, NUTS_CHAINS))
            return jnp.swapaxes(iterate(kernel, draws // NUTS_CHAINS, state)[1], 0, 1)

    else:
        kernel = NUTS(potential_fn=potential)
        starts = start(jax.random.key(8), NUTS_CHAINS)
        states = [kernel.init(jax.random.key(9), WARM_UP, one, (), {}) for one in starts]
        begun = jax.tree.map(lambda *parts: jnp.stack(parts), *states)

        def warm_up(key: Array) -> Any:
            state = begun._replace(rng_key=jax.random.split(key, NUTS_CHAINS))
            return jax.lax.map(lambda one: iterate(kernel, WARM_UP, one)[0], state)

        def sample(key: Array, state: Any) -> Array:
            state = state._replace(rng_key=jax.random.split(key, NUTS_CHAINS))
            positions: Array = jax.lax.map(lambda one: iterate(kernel, draws // NUTS_CHAINS, one)[1], state)
            return positions

    return Program(jax.jit(warm_up), jax.jit(sample))


def blackjax_nuts(setting: Setting, draws: int) -> Program:
    """BlackJAX's NUTS, each chain with an adaptation of its own."""
    log_density, start = target(setting)
    adaptation = blackjax.window_adaptation(blackjax.nuts, log_density)
    kernel = blackjax.nuts.build_kernel()

    def warm_up(key: Array) -> Any:
        def one(key: Array, position: Array) -> Any:
            (state, parameters), _ = adaptation.run(key, position, WARM_UP)
            return state, parameters["step_size"], parameters["inverse_mass_matrix"]

        return jax.vmap(one)(jax.random.split(key, NUTS_CHAINS), start(key, NUTS_CHAINS))

    def sample(key: Array, warm: Any) -> Array:
        def one(key: Array, state: Any, step_size: Array, mass: Array) -> Array:
            def step(state: Any, key: Array) -> tuple[Any, Array]:
                state, _ = kernel(key, state, log_density, step_size, mass)
                return state, state.position

            return jax.lax.scan(step, state, jax.random.split(key, draws // NUTS_CHAINS))[1]

        return jax.vmap(one)(jax.random.split(key, NUTS_CHAINS), *warm)

    return Program(jax.jit(warm_up), jax.jit(sample))


def blackjax_meads(setting: Setting, draws: int) -> Program:
    """BlackJAX's generalised HMC with the parameters that MEADS finds."""
    log_density, start = target(setting)
    adaptation = blackjax.meads_adaptation(log_density, MEADS_CHAINS)

    def warm_up(key: Array) -> Any:
        (states, parameters), _ = adaptation.run(key, start(key, MEADS_CHAINS), WARM_UP)
        return states, parameters

    def sample(key: Array, warm: Any) -> Array:
        states, parameters = warm
        one_step = blackjax.ghmc(log_density, **parameters).step

        def step(states: Any, key: Array) -> tuple[Any, Array]:
            states, _ = jax.vmap(one_step)(jax.random.split(key, MEADS_CHAINS), states)
            return states, states.position

        positions = jax.lax.scan(step, states, jax.random.split(key, draws // MEADS_CHAINS))[1]
        return jnp.swapaxes(positions, 0, 1)

    return Program(jax.jit(warm_up), jax.jit(sample))


@double_precision
def main() -> None:
    """Print one line for each sampler."""
    parser = argparse.ArgumentParser(description="Time to 10,000 effective draws of a logistic posterior.")
    parser.add_argument("--draws", type=int, default=20_000, help="kept by the engine, over all chains")
    parser.add_argument("--chains", type=int, default=16, help="of the engine")
    parser.add_argument("--nuts-draws", type=int, default=10_000, help="of NUTS, over its four chains")
    parser.add_argument("--others", action="store_true", help="also BlackJAX's NUTS and MEADS")
    options = parser.parse_args()
    setting = diab()
    nuts_draws = options.nuts_draws
    programs: dict[str, Callable[[], Program]] = {
        "NumPyro NUTS, vectorised": partial(numpyro_nuts, setting, nuts_draws, vectorised=True),
        "NumPyro NUTS, sequential": partial(numpyro_nuts, setting, nuts_draws, vectorised=False),
    }
    if options.others:
        programs["BlackJAX NUTS"] = partial(blackjax_nuts, setting, nuts_draws)
        programs["BlackJAX MEADS"] = partial(blackjax_meads, setting, 10 * nuts_draws)
    print(f"Diab, {setting.problem.model.dimension} coordinates; seconds")
    print(
        f"{'':25} {'compile':>8} {'warm-up':>8} {'sampling':>9} {'ESS':>8} {'R-hat':>7} {'10,000 effective':>17} "
        f"{'with warm-up':>13}"
    )

    outcomes: dict[str, Outcome] = {}

    def report(name: str, outcome: Outcome) -> None:
        outcomes[name] = outcome
        print(
            f"{name:25} {outcome.compiling:>8.1f} {outcome.warming:>8.2f} {outcome.sampling:>9.2f} "
            f"{outcome.effective:>8,.0f} {outcome.rhat:>7.3f} {outcome.without_warm_up:>17.2f} "
            f"{outcome.with_warm_up:>13.2f}",
            flush=True,
        )

    report("engine, whole", run_engine(setting, options.draws, options.chains))
    for name, build in programs.items():
        report(name, run_program(setting, build()))
    ours = outcomes.pop("engine, whole").with_warm_up
    numpyro = [outcome for name, outcome in outcomes.items() if name.startswith("NumPyro")]
    print(
        f"faster NumPyro NUTS takes {min(o.without_warm_up for o in numpyro) / ours:.1f} times as long as the engine, "
        f"{min(o.with_warm_up for o in numpyro) / ours:.1f} times with its warm-up"
    )


if __name__ == "__main__":
    main()
