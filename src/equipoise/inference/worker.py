"""What a worker process does for `processes.py`. Importing this module must not start JAX."""

import os
import pickle
import sys
from typing import Any

from equipoise._util.cores import THREADS_VARIABLE


def call(index: int, task: bytes) -> tuple[int, Any]:
    """Call a function in double precision, on one thread.

    `task` is unpacked only after XLA has been told, because that starts it.
    """
    if "jax" not in sys.modules:  # a process of our own, not a thread of somebody else's
        os.environ[THREADS_VARIABLE] = "1"
    import jax

    function, arguments = pickle.loads(task)  # noqa: S301  (made by `processes.py`)
    with jax.enable_x64(True):
        return index, function(*arguments)
