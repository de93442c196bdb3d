"""Scenarios in worker processes: the same draws as in this one, and a worker's end is not the caller's."""

import os
import subprocess
import sys

import joblib
import numpy as np
import pytest

from equipoise.errors import InferenceError
from equipoise.inference import processes
from equipoise.inference.batch import Asked, sample_batch
from equipoise.inference.released import sampler_of
from equipoise.inference.sampling import Sample
from problems import WITHIN_BOUNDS, Simulated, agree, simulate_linear

pytestmark = pytest.mark.process


def three_scenarios(parties: int) -> list[Asked]:
    return [Asked(np.ones(parties), kappa, np.zeros(parties), None, 640, 3) for kappa in (0.1, 0.5, 1.0)]


def sample(simulated: Simulated, number: int | None) -> dict[int, Sample]:
    found: dict[int, Sample] = {}
    sampler = sampler_of(simulated.model.agreed)
    sample_batch(sampler, simulated.sums, three_scenarios(3), "power", found.__setitem__, processes=number)
    return found


@pytest.mark.slow
def test_draws_are_those_of_one_process_whatever_the_order() -> None:
    simulated = simulate_linear(1, agreement=agree(3, prior=WITHIN_BOUNDS))
    here, in_threads, there = (sample(simulated, number) for number in (1, None, 2))
    assert sorted(here) == sorted(in_threads) == sorted(there) == [0, 1, 2]
    for place, one in here.items():
        np.testing.assert_array_equal(in_threads[place].coordinates, one.coordinates)
        np.testing.assert_array_equal(there[place].coordinates, one.coordinates)
        assert there[place].divergence == one.divergence


class Deadly:
    """Ends the process that unpacks it."""

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return os._exit, (1,)


def test_a_worker_that_dies_is_reported_with_a_remedy() -> None:
    deadly: list[tuple[object, ...]] = [(Deadly(),)] * 3
    with pytest.raises(InferenceError, match="processes=1"):
        list(processes.spread(print, deadly, 2))


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


def test_processes_are_used_if_the_caller_configures_joblib() -> None:
    assert not processes.is_configured()
    with joblib.parallel_config(n_jobs=1):
        assert not processes.is_configured()
    with joblib.parallel_config(n_jobs=3):
        assert processes.is_configured()


def test_a_backend_that_cannot_hand_over_results_as_they_come_will_do() -> None:
    with joblib.parallel_config(backend="multiprocessing", n_jobs=2):
        assert not processes._parallel(None).return_generator
    assert processes._parallel(2).return_generator
