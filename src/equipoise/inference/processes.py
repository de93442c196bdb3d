"""Scenarios spread over processes: on one machine or, through joblib's Dask backend, on many.

Programs of one process take turns (`engine.py`); those of several do not. Each process keeps to one core, which costs
it little: a scenario's chains hardly fill more. joblib decides where tasks run: in processes of its own, which stay for
the next call, or wherever the caller's `joblib.parallel_config` says.
"""

import multiprocessing.resource_tracker
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import jax
import joblib
import numpy as np
from jax import Array
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from joblib.externals.loky.process_executor import TerminatedWorkerError

from equipoise.errors import InferenceError
from equipoise.inference import engine
from equipoise.inference.chains import Problem, Sampled, Settings
from equipoise.inference.engine import Finished, Progress, planned_rounds
from equipoise.inference.observations import Scenarios
from equipoise.inference.runtime import on_accelerator
from equipoise.inference.worker import call

Result = TypeVar("Result")

WORTHWHILE = 18  # scenarios: rounds of three parties and more; a process takes seconds to load compiled programs


def processes_for(scenarios: int) -> int:
    """How many processes to use when nobody says; what the caller's `joblib.parallel_config` says comes first."""
    if on_accelerator() or scenarios < WORTHWHILE:
        return 1
    configured = int(joblib.effective_n_jobs(None))
    return configured if configured > 1 else int(joblib.cpu_count())  # minds the quota of a container


def run(
    keys: Array,
    problem: Problem,
    scenarios: Scenarios,
    settings: Sequence[Settings],
    progress: Progress | None = None,
    finished: Finished | None = None,
    *,
    processes: int | None,
) -> list[Sampled]:
    """`engine.run`, a scenario at a time with settings of its own, in processes; the longest first."""
    results: dict[int, Sampled] = {}
    tasks = tasks_of(keys, problem, scenarios, settings)
    order = sorted(range(len(tasks)), key=lambda index: -settings[index].draws)
    for place, sampled in spread(sample_one, [tasks[index] for index in order], processes):
        index = order[place]
        if progress:
            progress(planned_rounds(settings[index]))
        if finished:
            finished(index, sampled)
        else:
            results[index] = sampled
    return [results[index] for index in sorted(results)]


def tasks_of(
    keys: Array, problem: Problem, scenarios: Scenarios, settings: Sequence[Settings]
) -> list[tuple[Any, ...]]:
    """Arguments of `sample_one` for every scenario; plain arrays, which any process can read."""
    data = np.asarray(jax.random.key_data(keys))
    plain, whole = jax.tree.map(np.asarray, ((problem.prior, problem.observations), scenarios))

    def one(k: int) -> Scenarios:
        chosen: Scenarios = jax.tree.map(lambda part: part[k : k + 1], whole)
        return chosen

    return [(data[k : k + 1], problem.model, *plain, one(k), own) for k, own in enumerate(settings)]


def sample_one(key: Any, model: Any, prior: Any, observations: Any, scenario: Any, settings: Settings) -> Sampled:
    """`engine.run` of one scenario."""
    return engine.run(jax.random.wrap_key_data(key), Problem(model, prior, observations), scenario, settings)[0]


def spread(
    function: Callable[..., Result], tasks: Sequence[tuple[Any, ...]], processes: int | None
) -> Iterator[tuple[int, Result]]:
    """Call a function of this package with each task's arguments; places and results as they come.

    One process is this one.
    """
    if processes == 1:
        yield from ((index, function(*task)) for index, task in enumerate(tasks))
        return
    # A worker that has grown, as compiled programs make it, is replaced. joblib warns of that in the thread that does
    # it, which an error in its place would end, with the caller waiting for ever.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor", UserWarning)
    packed = [(index, pickle.dumps((function, task))) for index, task in enumerate(tasks)]
    if processes is not None:
        processes = min(processes, len(tasks))
    try:
        parallel = _parallel(processes)
        _start_trackers()
        with interrupts_blocked() if parallel.return_generator else nullcontext():  # else this call is the whole work
            results = parallel(joblib.delayed(call)(*task) for task in packed)
        yield from results
    except TerminatedWorkerError as error:
        raise InferenceError(
            "a worker process ended before its time, perhaps for lack of memory; use fewer processes, or processes=1"
        ) from error


def _start_trackers() -> None:
    """Start what Python and joblib start with the first worker: Python's unblocks interrupts when it does."""
    if sys.platform != "win32":
        multiprocessing.resource_tracker.ensure_running()
        loky_tracker.ensure_running()


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Start threads and processes that Ctrl-C does not reach: they inherit the mask, and the caller ends them.

    A terminal sends the signal to every process. One that starts or collects garbage then would print a traceback.
    """
    if sys.platform == "win32":  # no masks
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _parallel(processes: int | None) -> joblib.Parallel:
    """Results as they come, or all at the end where the caller's backend can do no better (Dask's can)."""
    try:
        return joblib.Parallel(n_jobs=processes, batch_size=1, return_as="generator_unordered")
    except ValueError:
        return joblib.Parallel(n_jobs=processes, batch_size=1)
