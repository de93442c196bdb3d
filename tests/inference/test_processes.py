"""Scenarios in worker processes: the same draws as in this one, and a worker's end is not the caller's."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import joblib
import numpy as np
import pytest
from equipoise.inference.engine import Settings
from equipoise.inference.observations import Scenarios

from equipoise._util import cores
from equipoise.errors import InferenceError
from equipoise.inference import engine, processes
from problems import simulate_linear

pytestmark = [pytest.mark.engine, pytest.mark.process]

SETTINGS = Settings(draws=640, max_thinning=1)


def three_scenarios(slots: int) -> Scenarios:
    return Scenarios(jnp.ones((3, slots)), jnp.array([0.1, 0.5, 1.0]), jnp.zeros((3, slots)))


@pytest.mark.slow
def test_draws_are_those_of_one_process_whatever_the_order() -> None:
    problem = simulate_linear(1).problem
    scenarios = three_scenarios(problem.model.slots)
    keys = jax.random.split(jax.random.key(3), 3)
    here = engine.run(keys, problem, scenarios, SETTINGS)
    ticks: list[float] = []
    there = processes.run(keys, problem, scenarios, [SETTINGS] * 3, ticks.append, processes=2)
    assert sum(ticks) == 3 * engine.planned_rounds(SETTINGS)
    for one, other in zip(here, there, strict=True):
        assert one.positions is not None
        assert other.positions is not None
        np.testing.assert_array_equal(other.positions, one.positions)
        np.testing.assert_array_equal(other.parameters["weights"], one.parameters["weights"])
        assert other.diagnostics.gradients == one.diagnostics.gradients


class Deadly:
    """A model that ends the process that unpacks it."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return os._exit, (1,)


def test_a_worker_that_dies_is_reported_with_a_remedy() -> None:
    problem = simulate_linear(1).problem
    deadly = engine.Problem(Deadly(), problem.prior, problem.observations)
    keys = jax.random.split(jax.random.key(3), 3)
    with pytest.raises(InferenceError, match="processes=1"):
        processes.run(keys, deadly, three_scenarios(3), [SETTINGS] * 3, processes=2)


def test_ctrl_c_does_not_reach_a_worker() -> None:
    """Not in a process where nothing was spread before, either: what starts with the first worker lets it through."""
    code = """
import signal
from joblib.externals.loky import get_reusable_executor
from equipoise.inference import processes

for _ in range(2):
    found = processes.spread(signal.raise_signal, [(signal.SIGINT,)] * 4, 2)
    assert dict(found) == dict.fromkeys(range(4))
    get_reusable_executor().shutdown(kill_workers=True)  # workers start with the next call
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.timeout(120)
@pytest.mark.filterwarnings("error")
def test_a_worker_that_grows_is_replaced() -> None:
    """joblib's warning of it must not become an error, in a thread that nobody would hear of."""
    code = "import builtins, time; builtins.__dict__.setdefault('grown', []).append(b'x' * 2**28); time.sleep(0.6)"
    found = list(processes.spread(exec, [(code, {})] * 6, 2))
    assert sorted(index for index, _ in found) == list(range(6))


def test_a_worker_is_told_its_threads_before_jax_starts() -> None:
    """The worker learns it even though its task cannot be unpacked."""
    code = """
import os, sys
from equipoise.inference import worker
assert "jax" not in sys.modules
try:
    worker.call(0, b"")
except EOFError:
    assert os.environ["NPROC"] == "1"
else:
    raise AssertionError
"""
    environment = {name: value for name, value in os.environ.items() if name != cores.THREADS_VARIABLE}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.usefixtures("all_cores")
def test_few_scenarios_stay_in_this_process() -> None:
    assert processes.processes_for(processes.WORTHWHILE - 1) == 1
    assert processes.processes_for(processes.WORTHWHILE) == joblib.cpu_count()
    with joblib.parallel_config(n_jobs=3):
        assert processes.processes_for(1) == 1
        assert processes.processes_for(processes.WORTHWHILE) == 3


def test_a_backend_that_cannot_hand_over_results_as_they_come_will_do() -> None:
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2):
        assert not processes._parallel(None).return_generator
    assert processes._parallel(2).return_generator


@pytest.mark.slow
def test_a_thread_of_this_process_leaves_its_threads_alone() -> None:
    problem = simulate_linear(1).problem
    keys = jax.random.split(jax.random.key(3), 3)
    with joblib.parallel_config(backend="threading", n_jobs=1):
        found = processes.run(keys, problem, three_scenarios(3), [SETTINGS] * 3, processes=None)
    assert len(found) == 3
    assert os.environ.get(cores.THREADS_VARIABLE) is None  # this process keeps its threads
