"""What a worker process does for `processes.py`. Importing this module must not start JAX."""

import os
import pickle
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from equipoise.inference.chains import Sampled

THREADS_VARIABLE = "NPROC"  # read by XLA when it starts


def sample_one(index: int, task: bytes) -> "tuple[int, Sampled]":
    """Sample one scenario, on one thread. `task` is unpacked only after XLA has been told, because that starts it."""
    if "jax" not in sys.modules:  # a process of our own, not a thread of somebody else's
        os.environ[THREADS_VARIABLE] = "1"
    import jax

    from equipoise.inference.engine import Problem, run

    key, model, prior, observations, scenario, settings = pickle.loads(task)  # noqa: S301  (made by `processes.py`)
    with jax.enable_x64(True):
        problem = Problem(model, prior, observations)
        return index, run(jax.random.wrap_key_data(key), problem, scenario, settings)[0]
