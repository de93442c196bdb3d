"""The service under load, on this machine alone: everybody at once, and viewers while it settles.

python benchmarks/service_load.py [--database URL]

1. 200 parties, each from an address of its own in 127.0.0.0/8, submit at the same moment, and do not try again.
2. The same in another round, by the client of `equipoise submit`, which does, while 50 viewers reload the round's page.
   It ends in 200 receipts.
3. 50 viewers reload a round's page for 20 seconds while a settlement runs.
4. Requests per second of an endpoint that authenticates, reads a round and says who has submitted, as a ratio to a bare
   FastAPI endpoint with one SQLAlchemy query, in turns within one run.
5. How long a member waits while eight strangers post 2 MB of JSON each, again and again.
"""

import argparse
import http.client
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx
import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equipoise.agreement import Agreement
from equipoise.client.connection import Connection
from equipoise.errors import ServiceError
from equipoise.party.release import release
from equipoise.protocol.keys import create_key, fingerprint, public_hex
from equipoise.protocol.requests import sign_request
from equipoise_service.context import Context
from equipoise_service.options import Options
from equipoise_service.rules import authentication, people, rounds, settlements, submissions
from equipoise_service.rules.access import Actor

PARTIES, VIEWERS, SETTLING = 200, 50, 3
VIEWING = 20.0  # seconds
LIMIT = 60.0  # seconds for any one answer
TURNS, THREADS, REQUESTS = 4, 8, 100
STRANGERS, LARGE = 8, b'{"agreement":[' + b"1," * 2**20 + b"1]}"

BARE = """
import sys, time
import uvicorn
from fastapi import FastAPI
from sqlalchemy import create_engine, text
engine = create_engine("sqlite:///" + sys.argv[1])
with engine.begin() as connection:
    connection.execute(text("PRAGMA journal_mode=WAL"))
    connection.execute(text("CREATE TABLE rounds (id TEXT PRIMARY KEY, title TEXT)"))
    connection.execute(text("INSERT INTO rounds VALUES ('a', 'one')"))
app = FastAPI()

@app.get("/rounds/{name}")
def read(name: str) -> dict[str, str]:
    with engine.connect() as connection:
        found = connection.execute(text("SELECT title FROM rounds WHERE id = :id"), {"id": name}).one()
    return {"title": found.title}

uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="critical", access_log=False)
"""


def agreement(names: list[str]) -> Agreement:
    """An agreement about a mean and a variance."""
    members = "".join(f'[[parties]]\nname = "{name}"\n' for name in names)
    return Agreement.parse(
        'format = 1\ntitle = "Load"\n[model]\nkind = "gaussian"\ntarget = { name = "y", bounds = [-3, 3] }\n'
        f"[privacy]\norder = 2\nmax_epsilon = 10.0\n{members}"
    )


class World:
    """People and rounds, made before the server starts, by the rules themselves."""

    def __init__(self, folder: Path, url: str | None) -> None:
        self.context = Context.open(folder / "data", url)
        self.operator = people.claim_first_operator(
            self.context, people.first_operator_secret(self.context), name="ana"
        )
        names = [f"party{number:03}" for number in range(PARTIES)]
        self.keys: dict[str, Ed25519PrivateKey] = {}
        self.actors: dict[str, Actor] = {}
        for name in names:
            self.actors[name] = self._join(folder, name, "party")
        self.viewers = [self._join(folder, f"viewer{number:03}", "auditor") for number in range(VIEWERS)]
        self.crowd, self.few = agreement(names), agreement(names[:SETTLING])
        self.crowded = [rounds.create(self.context, self.operator, self.crowd) for _ in range(2)]
        self.settling = rounds.create(self.context, self.operator, self.few)
        self.bodies = {name: self._release(folder, self.crowd, name) for name in names}
        for name in names[:SETTLING]:
            body = self._release(folder, self.few, name)
            submissions.accept(self.context, self.actors[name], self.settling, body)

    def _join(self, folder: Path, name: str, role: str) -> Actor:
        self.keys[name] = key = create_key(folder / f"{name}.key")
        person = people.ask_to_join(self.context, name=name, role=role, public_key=public_hex(key))
        people.decide(self.context, self.operator, person.id, approve=True, fingerprint=fingerprint(public_hex(key)))
        return authentication.actor_of_key(self.context, public_hex(key))

    def looks(self, port: int, round_id: str) -> list[Callable[[], int]]:
        """One look at a round's page for each viewer, who is signed in and has an address of its own."""

        def view(cookie: str, source: str) -> int:
            headers = {"Cookie": f"equipoise_session={cookie}"}
            return answer(port, "GET", f"/rounds/{round_id}", b"", headers, source=source)[0]

        sessions = [authentication.start_session(self.context, viewer) for viewer in self.viewers]
        return [partial(view, session, f"127.0.3.{number + 1}") for number, session in enumerate(sessions)]

    def _release(self, folder: Path, agreed: Agreement, name: str) -> bytes:
        rng = np.random.default_rng(int(name[-3:]))
        submission = release(
            agreed, {"y": rng.normal(0.5, 0.8, 200)}, party=name, epsilon=1.0,
            ledger=folder / f"{name}-{agreed.identity[:8]}.ledger", key=folder / f"{name}.key",
        )  # fmt: skip
        return submission.to_json()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--database", help="URL of an empty PostgreSQL database [SQLite]")
    url: str | None = parser.parse_args().database
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        world = World(folder, url)
        database = [] if url is None else ["--database", url]
        with serving(folder, database) as port:
            everybody_at_once(world, port)
            everybody_with_viewers(world, port)
            viewers(world, port)
        with serving(folder, [*database, "--no-worker", "--rate", "100000"]) as port, bare(folder) as bare_port:
            against_bare(world, port, bare_port)
            strangers(world, port)


def everybody_at_once(world: World, port: int) -> None:
    """Submissions that all begin at the same moment."""
    target = f"/v1/rounds/{world.crowded[0]}/submission"

    def submit(number: int, name: str) -> int:
        body = world.bodies[name]
        headers = sign_request(
            world.keys[name], audience=world.context.public_key, method="PUT", target=target, body=body,
            time=int(time.time()),
        )  # fmt: skip
        return answer(port, "PUT", target, body, headers, source=address_of(number))[0]

    tell("200 submissions at once", together([partial(submit, *one) for one in enumerate(world.bodies)], 1))


def everybody_with_viewers(world: World, port: int) -> None:
    """Submissions by the client, which tries again, that all begin at the same moment, and pages until they are in."""
    target = f"/v1/rounds/{world.crowded[1]}/submission"
    waits: list[float] = []  # seconds that clients waited before they tried again

    def pause(seconds: float) -> None:
        waits.append(seconds)
        time.sleep(seconds)

    def connect(number: int, name: str) -> Connection:
        transport = httpx.HTTPTransport(local_address=address_of(number))
        url, audience = f"http://127.0.0.1:{port}", world.context.public_key
        return Connection(url, key=world.keys[name], audience=audience, transport=transport, sleep=pause)

    def submit(connection: Connection, body: bytes) -> int:
        try:
            return connection.request("PUT", target, body=body).status
        except ServiceError as error:
            raise OSError(str(error)) from error

    # Beforehand: each takes tens of milliseconds for certificates of authorities.
    connections = [connect(number, name) for number, name in enumerate(world.bodies)]
    actions = [partial(submit, *one) for one in zip(connections, world.bodies.values(), strict=True)]
    looks, over, seen = world.looks(port, world.crowded[1]), threading.Event(), list[tuple[float, int | str]]()
    watching = threading.Thread(target=lambda: seen.extend(together(looks, 10**6, while_=lambda: not over.is_set())))
    watching.start()
    tell("200 submissions with 50 viewers", together(actions, 1))
    over.set()
    watching.join()
    for connection in connections:
        connection.close()
    tell("  their pages meanwhile", seen)
    receipts = submissions.receipts(world.context, world.operator, world.crowded[1])
    print(f"  {len(receipts)} receipts; clients tried again {len(waits)} times")


def viewers(world: World, port: int) -> None:
    """Pages while a settlement runs."""
    settlements.start(world.context, world.operator, world.settling, Options(draws=4000, precision=0.02))
    end = time.monotonic() + VIEWING
    looks = world.looks(port, world.settling)
    tell(f"{VIEWERS} viewers during a settlement", together(looks, 10**6, while_=lambda: time.monotonic() < end))
    progress = settlements.progress(world.context, world.operator, world.settling)
    print(f"  the settlement then: {progress.state}, {progress.done} of {progress.planned}")


def against_bare(world: World, port: int, bare_port: int) -> None:
    """Requests per second, in turns."""
    token, _ = authentication.new_token(world.context, world.operator)
    asked: dict[str, tuple[int, str, dict[str, str]]] = {
        "service": (port, f"/v1/rounds/{world.settling}", {"Authorization": f"Bearer {token}"}),
        "bare": (bare_port, "/rounds/a", {}),
    }
    rates: dict[str, list[float]] = {name: [] for name in asked}
    for _ in range(TURNS):
        for name, (where, path, headers) in asked.items():
            start = time.perf_counter()
            threads = [threading.Thread(target=keep_asking, args=(where, path, headers)) for _ in range(THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rates[name].append(THREADS * REQUESTS / (time.perf_counter() - start))
    service, plain = (statistics.median(rates[name]) for name in ("service", "bare"))
    print(f"requests per second: service {service:.0f}, bare endpoint {plain:.0f}, ratio {service / plain:.2f}")


def strangers(world: World, port: int) -> None:
    """A member's requests, alone and while strangers send what nobody should parse."""
    token, _ = authentication.new_token(world.context, world.operator)
    over = threading.Event()
    answers: list[int | str] = []

    def bother(number: int) -> None:
        while not over.is_set():
            try:
                headers = {"Content-Type": "application/json"}
                answers.append(answer(port, "POST", "/v1/rounds", LARGE, headers, source=f"127.0.4.{number + 1}")[0])
            except OSError as error:  # what is not read may end in a reset
                answers.append(type(error).__name__)

    def waits() -> float:
        path, headers = f"/v1/rounds/{world.settling}", {"Authorization": f"Bearer {token}"}
        found = []
        for _ in range(REQUESTS):
            start = time.perf_counter()
            assert answer(port, "GET", path, b"", headers, source="127.0.0.1")[0] == 200
            found.append(time.perf_counter() - start)
        return 1000 * statistics.median(found)

    quiet = waits()
    threads = [threading.Thread(target=bother, args=(number,)) for number in range(STRANGERS)]
    for thread in threads:
        thread.start()
    bothered = waits()
    over.set()
    for thread in threads:
        thread.join()
    print(f"a member waits {quiet:.1f} ms alone, {bothered:.1f} ms with {STRANGERS} strangers; they had "
          f"{len(answers)} answers, {sorted({str(one) for one in answers})}")  # fmt: skip


def keep_asking(port: int, path: str, headers: dict[str, str]) -> None:
    """Many requests over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT)
    for _ in range(REQUESTS):
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        response.read()
        assert response.status == 200, response.status
    connection.close()


def answer(
    port: int, method: str, path: str, body: bytes, headers: dict[str, str], *, source: str
) -> tuple[int, bytes]:
    """One request over a connection of its own, from an address of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT, source_address=(source, 0))
    try:
        connection.request(method, path, body or None, headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def address_of(number: int) -> str:
    """An address of this machine for each of 200 and more parties."""
    return f"127.0.{1 + number // 200}.{1 + number % 200}"


def together(
    actions: Sequence[Callable[[], int]], times: int, *, while_: Callable[[], bool] = lambda: True
) -> list[tuple[float, int | str]]:
    """Everybody acts at once, so many times, or while that holds; seconds and status (or what went wrong) of each."""
    barrier = threading.Barrier(len(actions))
    found: list[tuple[float, int | str]] = []

    def act(action: Callable[[], int]) -> None:
        barrier.wait()
        for _ in range(times):
            if not while_():
                return
            start = time.perf_counter()
            outcome: int | str
            try:
                outcome = action()
            except OSError as error:  # counted as a failure, and shown
                outcome = repr(error)
            found.append((time.perf_counter() - start, outcome))

    threads = [threading.Thread(target=act, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def tell(what: str, found: list[tuple[float, int | str]]) -> None:
    """Print how many there were, how many failed, and how long they took."""
    failed = [outcome for _, outcome in found if outcome not in (200, 201)]
    seconds = np.array([one for one, _ in found])
    middle, high = np.percentile(seconds, [50, 99])
    print(f"{what}: {len(found)} requests, {len(failed)} failed {sorted({str(one) for one in failed})[:3]}, "
          f"median {middle:.2f} s, p99 {high:.2f} s")  # fmt: skip


@contextmanager
def serving(folder: Path, options: list[str]) -> Iterator[int]:
    """The service as a process."""
    command = [sys.executable, "-m", "equipoise", "serve", "--data", str(folder / "data"), "--port", "0", "--json"]
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        yield int(json.loads(process.stdout.readline())["url"].rsplit(":", 1)[1])
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def bare(folder: Path) -> Iterator[int]:
    """The bare endpoint as a process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    process = subprocess.Popen([sys.executable, "-c", BARE, str(folder / "bare.sqlite"), str(port)])
    try:
        end = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert time.monotonic() < end, "the bare server does not listen"
                time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(30)


if __name__ == "__main__":
    main()
