"""Run a batch of scenarios: warm up, sample until the chains agree, diagnose. Arrays in, arrays out.

Two compiled programs, `begin` and `advance`, serve any number of scenarios. On an accelerator a group of scenarios goes
through them at once. On a CPU a group is one scenario: its chains already keep a core busy, and scenarios that need few
leaps do not wait for those that need many. Other cores are for other processes (`processes.py`).

Whole rounds of draws are kept, the requested number or a few more. When trajectories diverge, steps are halved and the
draws taken again. When the chains do not agree yet, they go on for as long again and every other draw is kept, and so
on up to `max_thinning`: more work gives better draws, never more of them.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from equipoise.inference.chains import Chains, Problem, Sampled, Sampler, Settings, chains_of, warm_up_rounds
from equipoise.inference.observations import Scenarios
from equipoise.inference.runtime import ONE_AT_A_TIME, double_precision, on_accelerator, use_compilation_cache

__all__ = ["Finished", "Problem", "Progress", "Sampled", "Sampler", "Settings", "planned_rounds", "run"]

Progress = Callable[[float], None]  # called with the number of scenarios that have gone on by a round
Finished = Callable[[int, Sampled], None]  # called with each scenario's place and result as soon as it is there

GROUP = 1  # scenarios in one call on a CPU
WIDE_GROUP = 2**14  # chains at most in one call on an accelerator
MAX_HALVINGS = 3  # of the step, when trajectories diverge


@double_precision
def run(
    keys: Array,
    problem: Problem,
    scenarios: Scenarios,
    settings: Settings,
    progress: Progress | None = None,
    finished: Finished | None = None,
) -> list[Sampled]:
    """Sample every scenario; `keys` has one random key for each. What `finished` takes is not kept and not returned."""
    use_compilation_cache()
    number = len(scenarios.kappa)
    size = group_size(number, settings.chains)
    groups = [np.arange(first, min(first + size, number)) for first in range(0, number, size)]

    def one_group(members: NDArray[np.intp]) -> list[Sampled]:
        padded = np.resize(members, size)  # a short last group repeats its scenarios

        def tick() -> None:
            if progress:
                progress(len(members))

        chosen = jax.tree.map(lambda part: jnp.asarray(part)[padded], scenarios)
        chains = chains_of(settings)(keys[padded], problem, chosen, settings)
        return _sample(chains, settings, tick)[: len(members)]

    results: list[Sampled] = []
    for group in groups:
        with ONE_AT_A_TIME:
            sampled = one_group(group)
        if finished is None:
            results += sampled
        else:
            for index, one in zip(group, sampled, strict=True):
                finished(int(index), one)
    return results


def group_size(number: int, chains: int) -> int:
    """Scenarios in one call: rounded up by a quarter at most, so that batches of any length share a few programs."""
    if not on_accelerator():
        return GROUP
    unit = 1 << max(0, number.bit_length() - 3)
    return max(1, min(-(-number // unit) * unit, WIDE_GROUP // chains))


def planned_rounds(settings: Settings) -> int:
    """Rounds a scenario takes if its chains agree at once."""
    return warm_up_rounds(settings) + _rounds(settings)


def _rounds(settings: Settings) -> int:
    return max(1, -(-settings.draws // (settings.chains * chains_of(settings).draws_of_a_round)))


def _sample(chains: Chains, settings: Settings, tick: Callable[[], None]) -> list[Sampled]:
    """Sample a group until every scenario has converged or nothing more is to be tried.

    A scenario's result is settled when it first converges, whatever the others of its group still need.
    """
    for _ in chains.warm_up():
        tick()
    thin, halvings = 1, 0
    settled: dict[int, Sampled] = {}
    while True:
        for _ in chains.sample(_rounds(settings), thin):
            tick()
        latest = chains.report(thin)
        settled |= {k: one for k, one in enumerate(latest) if k not in settled and one.diagnostics.converged}
        open_ones = [k for k in range(len(latest)) if k not in settled]
        diverged = np.isin(np.arange(len(latest)), [k for k in open_ones if latest[k].diagnostics.diverged])
        if diverged.any() and halvings < MAX_HALVINGS:
            halvings += 1
            chains.shorten_steps(diverged)
            chains.forget()
        elif 2 * thin <= settings.max_thinning and not all(latest[k].diagnostics.mixed for k in open_ones):
            thin *= 2
            chains.halve()
        else:
            return [settled.get(k, one) for k, one in enumerate(latest)]
