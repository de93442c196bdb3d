"""A round on a real Dask cluster on loopback: a scheduler and workers as processes of their own, one of them killed."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import joblib
import pytest

import equipoise as eq
import rounds
from equipoise.mediation import appraisal
from equipoise.mediation.requests import Evaluation

pytestmark = [pytest.mark.engine, pytest.mark.process, pytest.mark.slow]

OPTIONS = {"draws": 1_200, "precision": 0.2, "progress": False}


@contextlib.contextmanager
def processes(commands: list[list[str]], log: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start processes; end those that are left."""
    environment = {**os.environ, "DASK_DISTRIBUTED__ADMIN__TICK__LIMIT": "60s"}
    with log.open("ab") as output:
        started = [subprocess.Popen(command, stdout=output, stderr=output, env=environment) for command in commands]
        try:
            yield started
        finally:
            for one in started:
                one.terminate()
            for one in started:
                try:
                    one.wait(20)
                except subprocess.TimeoutExpired:
                    one.kill()
                    one.wait()


def dask(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "dask", *arguments]


@pytest.mark.filterwarnings("ignore")  # other libraries' own, on their way up and down
def test_a_cluster_decides_the_same_and_survives_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import Client

    agreed = rounds.agreement("gaussian", 4)
    sent = rounds.submissions(agreed, tmp_path / "ledgers", (4.0, 2.0, 1.0, 0.5))
    here = eq.mediate(agreed, sent, seed=1, processes=1, **OPTIONS)  # type: ignore[arg-type]

    address = tmp_path / "scheduler.json"
    log = tmp_path / "cluster.log"
    scheduler = dask(
        "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(address)
    )
    worker = dask("worker", "--scheduler-file", str(address), "--nthreads", "1", "--no-nanny", "--no-dashboard")
    still_at_work: list[int] = []  # tasks on the cluster, whenever a value came in
    value = appraisal.Evaluator._value
    with processes([scheduler], log), processes([worker, worker], log) as workers:
        _wait_for(address)
        with Client(scheduler_file=str(address)) as client:  # type: ignore[no-untyped-call]
            client.wait_for_workers(2, timeout=60)

            def noted(self: appraisal.Evaluator, *arguments: object) -> Evaluation:
                still_at_work.append(sum(map(len, client.processing().values())))
                return value(self, *arguments)  # type: ignore[arg-type]

            monkeypatch.setattr(appraisal.Evaluator, "_value", noted)

            def kill_one() -> None:
                """As soon as the first values are there."""
                while not still_at_work:
                    time.sleep(0.05)
                os.kill(workers[0].pid, signal.SIGKILL)

            killer = threading.Thread(target=kill_one, daemon=True)
            killer.start()
            with joblib.parallel_config("dask"):
                there = eq.mediate(agreed, sent, seed=1, folder=tmp_path / "out", **OPTIONS)  # type: ignore[arg-type]
            killer.join()
            assert len(client.scheduler_info()["workers"]) == 1
    assert there == here
    assert still_at_work[0] >= 1  # values came in, and into the journal, while others were sampled
    coalitions = still_at_work[:15]  # before rewards, which are few at a time
    assert sum(number >= 1 for number in coalitions) > len(coalitions) / 2


def _wait_for(path: Path) -> None:
    for _ in range(600):
        if path.exists() and path.stat().st_size:
            return
        time.sleep(0.1)
    raise AssertionError("the scheduler did not start")
