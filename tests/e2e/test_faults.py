"""Servers, databases and clocks that fail at the worst moment: no accepted submission is lost, no decision differs."""

import random
import resource
import shutil
import threading
import time
from pathlib import Path

import pytest

from e2e.processes import Home, Server, Worker
from e2e.stage import EPSILONS, Stage

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.process]


def _restarted(stage: Stage, server: Server, *options: object) -> Server:
    server.kill()
    return Server(stage.folder / "server", *options, port=server.port)


def test_the_server_is_killed_while_parties_submit(stage: Stage) -> None:
    """Kill it again and again while everybody submits in a loop; whoever has a receipt is in the log."""
    rng = random.Random(7)
    server = Server(stage.folder / "server", "--no-worker")
    try:
        stage.enter(server)
        done = threading.Event()

        def submit(name: str, home: Home) -> None:
            script = f"until $equipoise submit {name}.csv --epsilon {EPSILONS[name]}; do sleep 0.2; done"
            said, _ = home.begin(script).communicate(timeout=300)
            assert (home.folder / f"{name}.receipt.json").exists(), said

        threads = [threading.Thread(target=submit, args=item) for item in stage.parties.items()]
        for thread in threads:
            thread.start()

        def watch() -> None:
            for thread in threads:
                thread.join()
            done.set()

        threading.Thread(target=watch).start()
        killed = 0
        while not done.is_set() and killed < 5:
            time.sleep(rng.uniform(0.3, 2.5))
            server = _restarted(stage, server, "--no-worker")
            killed += 1
        assert done.wait(240)
        assert killed > 0
        with Worker(stage.folder / "server"):
            stage.start()
            stage.finished()
        stage.equals_undisturbed()
        export = stage.operator.folder / f"{stage.round}.zip"
        for name, home in stage.parties.items():
            home.do("verify", export, "--receipt", f"{name}.receipt.json")
    finally:
        server.kill()


@pytest.mark.exhaustive
def test_server_and_worker_are_killed_during_a_settlement(stage: Stage) -> None:
    rng = random.Random(11)
    server = Server(stage.folder / "server", "--lease", 2)
    try:
        stage.enter(server)
        stage.submit()
        stage.start()
        for _ in range(3):
            time.sleep(rng.uniform(1.0, 6.0))
            server = _restarted(stage, server, "--lease", 2)
        stage.finished()
        stage.equals_undisturbed()
    finally:
        server.kill()


@pytest.mark.exhaustive
def test_requests_twice_and_out_of_order(stage: Stage) -> None:
    """Everything that can be said again is harmless, and what comes too early is refused and can be said later."""
    with Server(stage.folder / "server") as server:
        stage.operator.do("join", server.operator_link, "--party", "ana", "--role", "operator")
        stage.operator.do("join", server.operator_link, "--party", "ana", "--role", "operator")
        north = stage.parties["north"]
        north.do("join", server.url, "--party", "north")
        again = north.do("join", server.url, "--party", "north")
        assert "approved" in north.do("submit", "north.csv", "--epsilon", 8, code=11)
        for _ in range(2):
            stage.operator.do("operator", "approve", again["fingerprint"])
        for name in ("south", "west"):
            joined = stage.parties[name].do("join", server.url, "--party", name)
            stage.operator.do("operator", "approve", joined["fingerprint"])
        stage.open_round()
        assert "nobody has submitted" in stage.operator.do("operator", "start", stage.round, code=11)
        north.do("fetch", code=11)
        stage.submit()
        first = (north.folder / "north.receipt.json").read_bytes()
        stage.submit()
        assert (north.folder / "north.receipt.json").read_bytes() == first
        stage.start()
        stage.operator.do("operator", "start", stage.round, code=11)
        stage.operator.do("operator", "cancel", stage.round)
        stage.start()
        stage.finished()
        stage.equals_undisturbed()


@pytest.mark.skipif(shutil.which("faketime") is None, reason="faketime is not installed: make test-packages")
@pytest.mark.exhaustive
def test_a_clock_that_jumps_changes_nothing(stage: Stage, tmp_path: Path) -> None:
    """A day ahead during submissions, then back during the settlement."""
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    variables = {
        "LD_PRELOAD": str(library),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with Server(stage.folder / "server", "--lease", 5, variables=variables) as server:
        stage.enter(server)
        clock.write_text("+86400\n")
        stage.submit()
        stage.start()
        time.sleep(3)
        clock.write_text("-86400\n")
        stage.finished()
        clock.write_text("+0\n")
        stage.equals_undisturbed()


@pytest.mark.exhaustive
def test_the_disk_is_full_for_a_while(stage: Stage) -> None:
    """No file may grow during submissions: they are refused with words, and accepted once there is room."""
    with Server(stage.folder / "server") as server:
        stage.enter(server)
        number = server.process.pid
        before = resource.prlimit(number, resource.RLIMIT_FSIZE)
        resource.prlimit(number, resource.RLIMIT_FSIZE, (4096, before[1]))  # not one page more fits into a file
        assert "try again" in stage.parties["north"].do("submit", "north.csv", "--epsilon", 8, code=11)
        resource.prlimit(number, resource.RLIMIT_FSIZE, before)
        stage.submit()
        stage.start()
        stage.finished()
        stage.equals_undisturbed()
