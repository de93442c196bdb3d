"""Run a batch of scenarios: warm up, sample until the chains agree, diagnose. Arrays in, arrays out.

Two compiled programs, `begin` and `advance`, serve any number of scenarios. On an accelerator a group of scenarios goes
through them at once. On a CPU a group is one scenario: its chains already keep a core busy, and scenarios that need few
leaps do not wait for those that need many. Other cores are for other processes (`processes.py`).

Whole rounds of draws are kept, the requested number or a few more. When trajectories diverge, steps are halved and the
draws taken again. When the chains do not agree yet, they go on for as long again, and so on: all draws are kept up to
`MOST_KEPT`, so that a small request costs what its posterior needs and no more; from there on every other one, up to
`max_thinning`.
"""

from collections.abc import Callable
from functools import partial

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from equipoise.inference.chains import Chains, Problem, Sampled, Sampler, Settings, chains_of, warm_up_rounds
from equipoise.inference.observations import Scenarios, by_size
from equipoise.inference.runtime import ONE_AT_A_TIME, double_precision, on_accelerator, use_compilation_cache

__all__ = ["Finished", "Problem", "Progress", "Sampled", "Sampler", "Settings", "planned_rounds", "run"]

Progress = Callable[[float], None]  # called with the number of scenarios that have gone on by a round
Finished = Callable[[int, Sampled], None]  # called with each scenario's place and result as soon as it is there

GROUP = 1  # scenarios in one call on a CPU
WIDE_GROUP = 2**14  # chains at most in one call on an accelerator
MOST_KEPT = 5_120  # draws, unless more were asked for
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
    # As NumPy's arrays, since JAX would compile a program for every way of choosing from its own.
    data, scenarios = jax.tree.map(np.asarray, (jax.random.key_data(keys), scenarios))
    results: dict[int, Sampled] = {}
    finished = finished or results.__setitem__
    for places, alike in _programs(problem, scenarios, settings):
        size = group_size(len(places), settings.chains)
        for first in range(0, len(places), size):
            members = np.arange(first, min(first + size, len(places)))
            padded = np.resize(members, size)  # a short last group repeats its scenarios
            with ONE_AT_A_TIME:
                chosen = jax.tree.map(lambda part, padded=padded: part[padded], alike)
                own = jax.random.wrap_key_data(data[places[padded]])
                chains = chains_of(settings)(own, problem, chosen, settings)
                sampled = _sample(chains, settings, partial(progress, len(members)) if progress else lambda: None)
            for index, one in zip(places[members], sampled[: len(members)], strict=True):
                finished(int(index), one)
    return [results[index] for index in sorted(results)]


def _programs(problem: Problem, scenarios: Scenarios, settings: Settings) -> list[tuple[NDArray[np.intp], Scenarios]]:
    """Scenarios by the compiled program that serves them, with their places.

    Where every party has parameters of its own, all are needed; elsewhere small coalitions have smaller programs.
    """
    if settings.sampler == "collapsed" and getattr(problem.model, "shared", True):
        return by_size(scenarios)
    return [(np.arange(len(scenarios.kappa)), scenarios)]


def group_size(number: int, chains: int) -> int:
    """Scenarios in one call: rounded up by a quarter at most, so that batches of any length share a few programs."""
    if not on_accelerator():
        return GROUP
    unit = 1 << max(0, number.bit_length() - 3)
    return max(1, min(-(-number // unit) * unit, WIDE_GROUP // chains))


def planned_rounds(settings: Settings, dimension: int = 0) -> int:
    """Rounds a scenario takes if its chains agree at once."""
    return warm_up_rounds(settings, dimension) + _rounds(settings)


def _rounds(settings: Settings) -> int:
    return max(1, -(-settings.draws // _draws_of_a_round(settings)))


def _draws_of_a_round(settings: Settings) -> int:
    return settings.chains * chains_of(settings).round_length(settings.chains)


def _sample(chains: Chains, settings: Settings, tick: Callable[[], None]) -> list[Sampled]:
    """Sample a group until every scenario has converged or nothing more is to be tried.

    A scenario's result is settled when it first converges, whatever the others of its group still need.
    """
    for _ in chains.warm_up():
        tick()
    thin, halvings, rounds = 1, 0, _rounds(settings)
    most = max(rounds, MOST_KEPT // _draws_of_a_round(settings))
    settled: dict[int, Sampled] = {}
    while True:
        for _ in chains.sample(rounds, thin):
            tick()
        latest = chains.report(thin)
        settled |= {k: one for k, one in enumerate(latest) if k not in settled and one.diagnostics.converged}
        open_ones = [k for k in range(len(latest)) if k not in settled]
        diverged = np.isin(np.arange(len(latest)), [k for k in open_ones if latest[k].diagnostics.diverged])
        if diverged.any() and halvings < MAX_HALVINGS:
            halvings += 1
            chains.shorten_steps(diverged)
            chains.forget()
        elif all(latest[k].diagnostics.mixed for k in open_ones) or thin == settings.max_thinning:
            return [settled.get(k, one) for k, one in enumerate(latest)]
        elif 2 * rounds <= most:
            rounds *= 2
        else:
            thin *= 2
            chains.halve()
