"""A worker, which runs one job after the other until told to stop.

Any number of workers may run, on any machine that reaches the database. Any of them may be killed: only the answer that
it was computing is lost, and after a lease others continue its job.
"""

import logging
import os
import signal
import threading
import time
from types import FrameType

from equipoise_service.context import Context
from equipoise_service.errors import Unavailable
from equipoise_service.jobs import queue
from equipoise_service.jobs.lease import LEASE, MAX_PAUSE, MIN_PAUSE, LeaseMonitor
from equipoise_service.rules import authentication

LOGGER = logging.getLogger("equipoise.worker")

# Seconds between two attempts to claim a job when there was none.
IDLE = 1.0
# Seconds between two deletions of expired secrets and nonces.
SWEEP = 3600.0
# Seconds that a job has to end by itself once the worker is told to stop.
GRACE = 2.0


def run(
    context: Context,
    *,
    stop: threading.Event,
    lease: float = LEASE,
    processes: int | None = 1,
    idle: float = IDLE,
    once: bool = False,
) -> None:
    """Run jobs until `stop` is set or, with `once`, until no job is left.

    When told to stop, the worker releases its job within moments, but returns only when the current answer is computed.
    A caller that cannot wait for that may end the process.
    """
    monitor = LeaseMonitor(lease)
    state = None
    swept = -SWEEP
    pause = MIN_PAUSE
    while not stop.is_set():
        try:
            if time.monotonic() - swept >= SWEEP:
                authentication.delete_expired(context)
                swept = time.monotonic()
            claim = queue.claim(context, monitor, avoid=() if state is None else state.declined)
        except Unavailable as error:
            LOGGER.warning("%s", error)
            stop.wait(pause)
            pause = min(2 * pause, MAX_PAUSE)
            continue
        pause = MIN_PAUSE
        if claim is not None:
            # This loads SciPy, which an idle worker does not need.
            from equipoise_service.jobs import runner

            state = state or runner.WorkerState(context, stop, lease, processes)
            runner.run_job(state, claim)
        elif once:
            return
        else:
            stop.wait(idle)


def run_until_signalled(
    context: Context,
    *,
    stop: threading.Event | None = None,
    lease: float = LEASE,
    processes: int | None = 1,
    idle: float = IDLE,
) -> None:
    """Work until SIGTERM or SIGINT, or until `stop` is set. Call it in the main thread of a process of its own.

    Jobs run in another thread, because a thread that computes does not handle signals. If that thread does not finish
    in time, the process exits here; its job was released before.
    """
    stop = stop or threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            run(context, stop=stop, lease=lease, processes=processes, idle=idle)
        except BaseException as error:
            failures.append(error)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    thread = threading.Thread(target=work, name="work", daemon=True)
    thread.start()
    LOGGER.info("worker %d is ready", os.getpid())
    while thread.is_alive() and not stop.wait(0.5):
        pass
    thread.join(GRACE)
    LOGGER.info("worker %d ends", os.getpid())
    if failures:
        raise failures[0]
    if thread.is_alive():
        logging.shutdown()
        os._exit(0)
