"""Whatever is killed, restarted or full, and whenever: every settlement is the undisturbed one."""

import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import event, func, select

import equipoise as eq
import postgres
from equipoise.client.connection import Connection, RefusedError
from equipoise.errors import ServiceError
from equipoise.protocol.keys import fingerprint, load_key, public_hex
from equipoise.protocol.receipts import Receipt
from equipoise_service.context import Context
from equipoise_service.db import event_log
from equipoise_service.db.tables import Answer, Job, Round
from equipoise_service.jobs import worker
from equipoise_service.options import Options
from equipoise_service.rules import events, people, rounds, settlements
from service.working import OPERATOR, decided, kept, ready_round, small

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.process]

OPTIONS = Options(draws=400, precision=0.5)
LEASE = 1.0


@dataclass(frozen=True)
class Example:
    """What there is to settle by a method, and what is decided undisturbed."""

    agreed: eq.Agreement
    sent: list[eq.Submission]
    keys: dict[str, Ed25519PrivateKey]
    undisturbed: tuple[str, dict[str, str]]


@pytest.fixture(scope="module")
def naive(tmp_path_factory: pytest.TempPathFactory) -> Example:
    """Settled quickly: see `zygote.py`."""
    return example("linear", "naive", tmp_path_factory.mktemp("naive"))


@pytest.fixture(scope="module")
def sampled(tmp_path_factory: pytest.TempPathFactory) -> Example:
    """Settled as usual."""
    return example("bernoulli", "auto", tmp_path_factory.mktemp("sampled"))


def example(kind: str, method: Any, folder: Path) -> Example:
    agreed, sent = small(kind, folder, 3)
    options = OPTIONS.model_dump(include={"draws", "precision"})
    settlement = eq.mediate(agreed, sent, method=method, processes=1, progress=False, **options)
    keys = {party: load_key(folder / f"{party}.ledger.key") for party in agreed.party_names}
    return Example(agreed, sent, keys, decided(settlement))


class Nursery:
    """Workers as processes of their own, to be killed."""

    def __init__(self, context: Context, url: str | None, method: str) -> None:
        program = Path(__file__).with_name("zygote.py")
        self._zygote = subprocess.Popen(
            [sys.executable, program, context.folder, url or "", str(LEASE), method],
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join([str(program.parents[1]), os.environ.get("PYTHONPATH", "")])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.workers: list[int] = []
        self.server: int | None = None

    def add(self) -> None:
        """One worker more."""
        self.workers.append(self._spawn("\n"))

    def serve(self, port: int) -> None:
        """A server in place of the one before, which is killed."""
        self.stop_serving()
        self.server = self._spawn(f"{port}\n")

    def _spawn(self, line: str) -> int:
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.write(line)
        self._zygote.stdin.flush()
        return int(self._zygote.stdout.readline())

    def stop_serving(self) -> None:
        """Kill the server, at once and without warning."""
        if self.server is not None:
            os.kill(self.server, signal.SIGKILL)
            wait_for(lambda: not Path(f"/proc/{self.server}").exists())  # its port is free then
            self.server = None

    def kill(self) -> None:
        """The oldest worker, at once and without warning."""
        os.kill(self.workers.pop(0), signal.SIGKILL)

    def close(self) -> None:
        self.stop_serving()
        while self.workers:
            self.kill()
        self._zygote.communicate()


@contextmanager
def nursery(context: Context, url: str | None, method: str = "naive") -> Iterator[Nursery]:
    made = Nursery(context, url, method)
    try:
        yield made
    finally:
        made.close()


@contextmanager
def opened(folder: Path, url: str | None = None) -> Iterator[Context]:
    context = Context.open(folder, url)
    try:
        yield context
    finally:
        context.close()


def begin(context: Context, round_id: str, chosen: Example) -> str:
    ready_round(context, round_id, chosen.agreed, chosen.sent)
    settlements.start(context, OPERATOR, round_id, OPTIONS)
    return round_id


def killed_rounds(
    context: Context, url: str | None, chosen: Example, number: int, *, method: str, workers: int = 1
) -> int:
    """Settle so many rounds, a worker killed in each at a random moment; how often the moment was in its midst."""
    chance = random.Random(7)
    midway = 0
    with nursery(context, url, method) as made:
        for _ in range(workers):
            made.add()
        settled_in(context, begin(context, "undisturbed0", chosen))
        lasting = settled_in(context, begin(context, "undisturbed1", chosen))  # of a worker that is warm
        for place in range(number):
            round_id = begin(context, f"round{place}", chosen)
            time.sleep(chance.uniform(0, 1.2 * lasting))
            made.kill()
            midway += state_of(context, round_id) == "settling" and was_begun(context, round_id)
            made.add()
            settled_in(context, round_id)
        for place in range(number):
            assert kept(context, f"round{place}") == chosen.undisturbed
    events.verify_chain(context)
    return midway


@pytest.mark.parametrize("number", [6, pytest.param(50, marks=pytest.mark.exhaustive)])
def test_rounds_with_server_or_worker_killed_in_each(number: int, tmp_path: Path, naive: Example) -> None:
    """Parties submit and the operator starts over the network; each time something is killed meanwhile, or both."""
    chance = random.Random(13)
    with opened(tmp_path / "data") as context, nursery(context, None) as made, ExitStack() as ending:
        stage = Stage(context, naive, made)
        ending.callback(stage.hang_up)
        made.add()
        made.serve(stage.port)
        stage.play()
        began = time.monotonic()
        stage.play()
        lasting = time.monotonic() - began
        midway = sum(stage.play_disturbed(chance, lasting) for _ in range(number))
        assert midway >= number / 5  # or the moments tell nothing
        for round_id in stage.rounds:
            assert kept(context, round_id) == naive.undisturbed
        with context.database.reading() as session:
            log = {one["sequence"]: one["digest"] for one in event_log.documents(session)}
        assert len(stage.receipts) == (number + 2) * len(naive.sent)
        assert all(log[receipt.event] == receipt.event_digest for receipt in stage.receipts)
        events.verify_chain(context)


class Stage:
    """Parties and an operator with keys, who talk to a server that may be killed."""

    def __init__(self, context: Context, chosen: Example, made: Nursery) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.context, self.chosen, self.made = context, chosen, made
        self.rounds: list[str] = []
        self.receipts: list[Receipt] = []
        key = Ed25519PrivateKey.generate()
        secret = people.first_operator_secret(context)
        self.operator = people.claim_first_operator(context, secret, name="olga", public_key=public_hex(key))
        self.lines = {"olga": self._line(key)}
        for one in chosen.sent:
            key = chosen.keys[one.party]
            person = people.ask_to_join(context, name=one.party, role="party", public_key=public_hex(key))
            shown = fingerprint(public_hex(key))
            people.decide(context, self.operator, person.id, approve=True, fingerprint=shown)
            self.lines[one.party] = self._line(key)

    def play(self) -> None:
        """A round from its opening to its settlement."""
        round_id = rounds.create(self.context, self.operator, self.chosen.agreed)
        self.rounds.append(round_id)
        for one in self.chosen.sent:
            path = f"/v1/rounds/{round_id}/submission"
            reply = self.lines[one.party].request("PUT", path, body=one.to_json(), repeatable=True)
            self.receipts.append(Receipt.parse(reply.body))
        chosen = {name: value for name, value in OPTIONS.to_json().items() if value is not None}
        while state_of(self.context, round_id) == "open":
            try:
                self.lines["olga"].post(f"/v1/rounds/{round_id}/settlement", chosen)
            except ServiceError as error:  # whether it was started before the answer was lost, is looked at
                if isinstance(error, RefusedError) and error.code == "invalid":
                    raise
        settled_in(self.context, round_id)

    def play_disturbed(self, chance: random.Random, lasting: float) -> bool:
        """A round in which the server, the worker or both are killed; whether that was before it was settled."""
        what = chance.choice(["server", "worker", "both"])
        midway = []

        def disturb() -> None:
            time.sleep(chance.uniform(0, lasting))
            midway.append(state_of(self.context, self.rounds[-1]) != "settled")
            if what != "worker":
                self.made.serve(self.port)
            if what != "server":
                self.made.kill()
                self.made.add()

        number = len(self.rounds)
        thread = threading.Thread(target=disturb)
        playing = threading.Thread(target=self.play)
        playing.start()
        wait_for(lambda: len(self.rounds) > number)
        thread.start()
        thread.join()
        playing.join()
        return midway[0]

    def hang_up(self) -> None:
        for line in self.lines.values():
            line.close()

    def _line(self, key: Ed25519PrivateKey) -> Connection:
        url = f"http://127.0.0.1:{self.port}"
        return Connection(url, key=key, audience=self.context.public_key, sleep=lambda _seconds: time.sleep(0.6))


def test_workers_killed_while_they_sample(tmp_path: Path, sampled: Example) -> None:
    with opened(tmp_path / "data") as context:
        assert killed_rounds(context, None, sampled, 3, method="auto") >= 1


def test_workers_killed_on_postgresql(tmp_path: Path, naive: Example) -> None:
    with postgres.shared_cluster().database() as url, opened(tmp_path / "data", url) as context:
        assert killed_rounds(context, url, naive, 5, method="naive", workers=2) >= 1


def test_the_database_restarts_while_a_settlement_runs(tmp_path: Path, sampled: Example) -> None:
    with postgres.own_cluster() as cluster, cluster.database() as url, opened(tmp_path / "data", url) as context:
        with working(context):
            begin(context, "round1", sampled)
            for mode in ("immediate", "fast"):
                wait_for(lambda: number_of_answers(context) > 0)
                cluster.stop(mode)
                time.sleep(0.5)
                cluster.start()
            settled_in(context, "round1")
        assert kept(context, "round1") == sampled.undisturbed
        events.verify_chain(context)


def test_a_disk_that_is_full_for_a_while(tmp_path: Path, sampled: Example, caplog: pytest.LogCaptureFixture) -> None:
    pages = 2**30

    def limit(connection: Any) -> None:
        # Asked anew in every transaction. A file cannot be made smaller than it is, so 1 stands for "full now".
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    with opened(tmp_path / "data") as context:
        event.listen(context.database._engine, "begin", limit)
        begin(context, "round1", sampled)
        pages = 1
        with working(context):
            wait_for(lambda: "is full" in caplog.text)
            assert state_of(context, "round1") == "settling"
            pages = 2**30
            settled_in(context, "round1")
        assert kept(context, "round1") == sampled.undisturbed
        events.verify_chain(context)


@contextmanager
def working(context: Context) -> Iterator[None]:
    """A worker in a thread."""
    stop = threading.Event()
    thread = threading.Thread(target=worker.run, args=(context,), kwargs={"stop": stop, "lease": LEASE, "idle": 0.05})
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def number_of_answers(context: Context) -> int:
    with context.database.reading() as session:
        return session.scalars(select(func.count()).select_from(Answer)).one()


def state_of(context: Context, round_id: str) -> str:
    with context.database.reading() as session:
        return session.get_one(Round, round_id).state


def was_begun(context: Context, round_id: str) -> bool:
    with context.database.reading() as session:
        job = session.scalars(select(Job).where(Job.round_id == round_id, Job.kind == "settlement")).one()
    return job.stage is not None


def settled_in(context: Context, round_id: str) -> float:
    began = time.monotonic()
    wait_for(lambda: state_of(context, round_id) == "settled")
    return time.monotonic() - began


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
