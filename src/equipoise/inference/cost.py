"""What sampling costs on this machine, before anything is sampled: gradients of all chains, timed.

Nearly all time goes into gradients, and what one takes depends on the model and the number of parties, not on anybody's
data. How many a posterior takes does depend on the data; `LEAPS` is what is usual.

On a CPU the time is that of the processor, not of the clock on the wall: what else the machine does at the moment would
make the same question take minutes or hours. All cores that work on one gradient count, so that the seconds are those
of one core. An accelerator works beside the processor, and there only the clock tells.
"""

from collections.abc import Callable
from functools import partial
from time import perf_counter, process_time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from equipoise.agreement import Agreement
from equipoise.inference import collapsed, engine
from equipoise.inference.chains import Settings, chains_of
from equipoise.inference.diagnostics import diagnose
from equipoise.inference.observations import Observations, Scenarios, observe
from equipoise.inference.problem import observations_of, problem_of, scenario_arrays
from equipoise.inference.programs import CachedProgram
from equipoise.inference.runtime import (
    ONE_AT_A_TIME,
    compiler_options,
    double_precision,
    on_accelerator,
    use_compilation_cache,
)
from equipoise.inference.scenario import Scenario

LEAPS = 3  # gradients of one iteration, usually 2 to 6
SEEN = 0.3  # seconds of looking
MOST = 50  # times to look


class Speed(NamedTuple):
    """Seconds: of one gradient of all chains of a scenario, of diagnosing its draws, and of compiling the gradient.

    They are seconds of one core, or of the accelerator. `dimension` is the number of coordinates.
    """

    gradient: float
    diagnosing: float
    compiling: float
    dimension: int = 0

    def posterior(self, settings: Settings) -> float:
        """Seconds of one scenario's posterior on one core, if its chains agree at once."""
        iterations = engine.planned_rounds(settings, self.dimension) * chains_of(settings).round_length(settings.chains)
        return LEAPS * iterations * self.gradient + self.diagnosing


@double_precision
def measure(agreement: Agreement, settings: Settings, scenarios: int = 1) -> Speed:
    """Time one gradient, at draws of the prior and for parties that sent nothing: the sizes are what counts.

    On an accelerator it is that of as many scenarios as go through one program, of `scenarios` in all.
    """
    use_compilation_cache()
    names, observations = agreement.party_names, observations_of(agreement, [])
    size = engine.group_size(scenarios, settings.chains, observations.statistic.shape)
    problem = problem_of(agreement, observations)
    model = problem.model
    batch = scenario_arrays(agreement, names, [Scenario(names)] * size)
    rng = np.random.default_rng(0)
    positions = jnp.asarray(rng.normal(size=(size, settings.chains, model.dimension)))  # on the device

    def gradient() -> None:
        _gradients(model, problem.prior, observations, batch, positions)[1].block_until_ready()

    with ONE_AT_A_TIME:
        first, times = seconds_of(gradient), [seconds_of(gradient)]
        while len(times) < MOST and sum(times) < SEEN:
            times.append(seconds_of(gradient))
    draws = rng.normal(size=(settings.chains, max(4, settings.draws // settings.chains), model.dimension))
    return Speed(
        gradient=float(np.median(times)) / size,
        diagnosing=seconds_of(lambda: diagnose(draws)),
        compiling=max(0.0, first - times[0]),
        dimension=model.dimension,
    )


@partial(CachedProgram, static=(0,), effort=1, like=(0, 0))
@partial(jax.jit, static_argnames=("model",), compiler_options=compiler_options(1))
def _gradients(
    model: collapsed.CollapsedModel, prior: Any, observations: Observations, scenarios: Scenarios, positions: Array
) -> tuple[Array, Array]:
    """Log densities and their gradients at positions [scenarios, chains, d]."""

    def one(scenario: Scenarios, at: Array) -> tuple[Array, Array]:
        evidence = model.prepare(observe(observations, scenario, "power"))
        return jax.vmap(jax.value_and_grad(partial(collapsed.log_density, model, prior, evidence)))(at)

    return jax.vmap(one)(scenarios, positions)


def seconds_of(work: Callable[[], object]) -> float:
    """Time some work: seconds of the processor, on whatever cores, or of the clock where an accelerator works."""
    clock = perf_counter if on_accelerator() else process_time
    start = clock()
    work()
    return clock() - start
