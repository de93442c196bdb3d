"""Tasks spread over processes: on one machine or, through joblib's Dask backend, on many.

joblib decides where tasks run: in processes of its own, which stay for the next call, or wherever the caller's
`joblib.parallel_config` says.
"""

import multiprocessing.resource_tracker
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import joblib
from joblib.externals.loky.backend import resource_tracker as loky_tracker
from joblib.externals.loky.process_executor import TerminatedWorkerError

from equipoise._util.cores import one_core_each
from equipoise.errors import InferenceError

Result = TypeVar("Result")


def is_configured() -> bool:
    """Return whether the caller's `joblib.parallel_config` asks for more than one worker."""
    return int(joblib.effective_n_jobs(None)) > 1


def call(index: int, task: bytes) -> tuple[int, Any]:
    """Call a function on one thread, in a worker process."""
    function, arguments = pickle.loads(task)  # noqa: S301  (made by `spread`)
    with one_core_each():
        return index, function(*arguments)


def spread(
    function: Callable[..., Result], tasks: Sequence[tuple[Any, ...]], processes: int | None
) -> Iterator[tuple[int, Result]]:
    """Call a function of this package with each task's arguments; yield indices and results as they come.

    With `processes=1`, the calls run in this process.
    """
    if processes == 1:
        yield from ((index, function(*task)) for index, task in enumerate(tasks))
        return
    # A worker that has grown is replaced. joblib warns of that in the thread that does it, which an error in its place
    # would end, with the caller waiting for ever.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given to the executor", UserWarning)
    packed = [(index, pickle.dumps((function, task))) for index, task in enumerate(tasks)]
    if processes is not None:
        processes = min(processes, len(tasks))
    try:
        parallel = _parallel(processes)
        _start_trackers()
        # Without a generator, this call does the whole work, and must stay interruptible.
        with interrupts_blocked() if parallel.return_generator else nullcontext():
            results = parallel(joblib.delayed(call)(*task) for task in packed)
        yield from results
    except TerminatedWorkerError as error:
        raise InferenceError(
            "a worker process ended before its time, perhaps for lack of memory; use fewer processes, or processes=1"
        ) from error


def _start_trackers() -> None:
    """Start Python's and joblib's trackers before a worker does: Python's unblocks interrupts as it starts."""
    if sys.platform != "win32":
        multiprocessing.resource_tracker.ensure_running()
        loky_tracker.ensure_running()


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Start threads and processes that Ctrl-C does not reach: they inherit the mask, and the caller ends them.

    A terminal sends the signal to every process. One that starts or collects garbage then would print a traceback.
    """
    # Windows has no signal masks.
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _parallel(processes: int | None) -> joblib.Parallel:
    """Return a pool that yields results as they come, or all at the end if the caller's backend cannot (Dask's can)."""
    try:
        return joblib.Parallel(n_jobs=processes, batch_size=1, return_as="generator_unordered")
    except ValueError:
        return joblib.Parallel(n_jobs=processes, batch_size=1)
