"""Run a batch of scenarios: warm up, sample until the chains agree, diagnose. Arrays in, arrays out.

Two compiled programs, `begin` and `advance`, serve any number of scenarios. On an accelerator a group of scenarios goes
through them at once, and two groups take turns: while one is diagnosed, the other is sampled. On a CPU a group is one
scenario: its chains already keep a core busy, and scenarios that need few leaps do not wait for those that need many.
Other cores are for other processes (`processes.py`).

Whole rounds of draws are kept, the requested number or a few more. When trajectories diverge, steps are halved and the
draws taken again. When the chains do not agree yet, they go on for as long again, and so on: all draws are kept up to
`MOST_KEPT`, so that a small request costs what its posterior needs and no more; from there on every other one, up to
`max_thinning`. A posterior that cannot be sampled at all, as of a release that contradicts itself, is given up after a
budget of gradients (`Diagnostics.hopeless`) and reported as not converged.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax import Array
from numpy.typing import NDArray

from equipoise.inference.chains import Chains, Problem, Sampled, Sampler, Settings, chains_of, warm_up_rounds
from equipoise.inference.observations import Scenarios
from equipoise.inference.programs import cancel_compiling
from equipoise.inference.runtime import ONE_AT_A_TIME, double_precision, on_accelerator, use_compilation_cache

__all__ = ["Finished", "Problem", "Progress", "Sampled", "Sampler", "Settings", "planned_rounds", "run"]

Progress = Callable[[float], None]  # called with the number of scenarios that have gone on by a round
Result = TypeVar("Result")
Finished = Callable[[int, Sampled], None]  # called with each scenario's place and result as soon as it is there

GROUPS: tuple[int, ...] = (8, 64)  # scenarios in a call on an accelerator; each size takes compiled programs
CHEAP = 2**27  # numbers in one array of a call of the smallest size, which may repeat a scenario; beyond, it has one
IN_FLIGHT = 2  # groups on an accelerator
MOST_KEPT = 5_120  # draws, unless more were asked for
MAX_HALVINGS = 3  # of the step, when trajectories diverge


class _Group(NamedTuple):
    """Scenarios of a batch that are `members` of one call, and the scenarios that it has room for."""

    scenarios: Scenarios
    members: NDArray[np.intp]
    size: int


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
    ticking, stop = threading.Lock(), threading.Event()

    def tick(number: int) -> None:
        if stop.is_set():
            raise InterruptedError("others of this batch have failed, or were interrupted")
        if progress:
            with ticking:
                progress(number)

    def arranged(group: _Group) -> tuple[Array, Scenarios]:
        padded = np.resize(group.members, group.size)  # a short group repeats its scenarios
        chosen = jax.tree.map(lambda part: part[padded], group.scenarios)
        return jax.random.wrap_key_data(data[padded]), chosen

    @double_precision
    def sampled(group: _Group) -> list[Sampled]:
        with nullcontext() if on_accelerator() else ONE_AT_A_TIME:
            keys, chosen = arranged(group)
            chains = chains_of(settings)(keys, problem, chosen, settings)
            return _sample(chains, settings, partial(tick, len(group.members)))[: len(group.members)]

    shape = problem.observations.statistic.shape
    number = len(data)
    size = group_size(number, settings.chains, shape)
    groups = [_Group(scenarios, part, size) for part in np.split(np.arange(number), range(size, number, size))]
    if on_accelerator():
        # A few of them, who may be asked for more draws, would take the smallest size, all slots, and noise of 0.
        first: Scenarios = jax.tree.map(lambda part: part[:1], scenarios)
        none: Any = np.zeros((1, *shape))
        first = first._replace(noise=none) if first.noise is None else first
        few = _Group(first, np.arange(1), group_size(1, settings.chains, shape))
        for group in (groups[-1], few):
            chains_of(settings).compile_ahead(problem, settings, *arranged(group))
    tasks = (partial(sampled, group) for group in groups)
    try:
        with closing(_ahead(tasks, IN_FLIGHT if on_accelerator() else 1, stop)) as found:
            for group, of_group in zip(groups, found, strict=True):
                for index, one in zip(group.members, of_group, strict=True):
                    finished(int(index), one)
    except BaseException:
        cancel_compiling()
        raise
    return [results[index] for index in sorted(results)]


def _ahead(tasks: Iterable[Callable[[], Result]], number: int, stop: threading.Event) -> Generator[Result, None, None]:
    """Results of tasks in their order, so many being at work in threads; one works here.

    `stop` is set when nobody asks for more, so that those at work can end.
    """
    if number == 1:
        yield from (task() for task in tasks)
        return
    pool = ThreadPoolExecutor(number)
    try:
        waiting: deque[Future[Result]] = deque()
        for task in tasks:
            waiting.append(pool.submit(task))
            if len(waiting) > number:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def group_size(number: int, chains: int, shape: tuple[int, ...]) -> int:
    """Scenarios in one call, of which there are so many; statistics of all parties have a shape [slots, entries].

    A likelihood's largest arrays have some √(2 · entries) numbers for each entry, slot and chain.
    """
    if not on_accelerator():
        return 1
    slots, entries = shape
    numbers = chains * slots * entries * math.sqrt(2 * entries)
    if GROUPS[0] * numbers > CHEAP:
        return 1
    return next((size for size in GROUPS if number <= size), GROUPS[-1])


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
        elif (
            all(latest[k].diagnostics.mixed or latest[k].diagnostics.hopeless for k in open_ones)
            or thin == settings.max_thinning
        ):
            return [settled.get(k, one) for k, one in enumerate(latest)]
        elif 2 * rounds <= most:
            rounds *= 2
        else:
            thin *= 2
            chains.halve()
