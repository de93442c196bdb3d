"""PostgreSQL that is killed, or loses its connections, at any moment: nothing accepted is lost or done twice."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import event

import postgres
import rounds as small_rounds
from client.listening import listening
from equipoise.client.connection import Connection, RefusedError
from equipoise.client.verify.check import check_export
from equipoise.errors import ServiceError
from equipoise.protocol.receipts import Receipt
from equipoise_service.context import Context
from equipoise_service.db import event_log
from equipoise_service.errors import OutcomeUnknown, Unavailable
from equipoise_service.rules import events, rounds
from service.test_faults import OPTIONS, Example, Stage, example, nursery, opened, state_of, wait_for
from service.working import kept
from service.world import World, key_of

pytestmark = [pytest.mark.slow, pytest.mark.process]

Result = TypeVar("Result")
ROUNDS = 5


@contextmanager
def answer_of_commit_lost(context: Context, *, after: int = 0) -> Iterator[None]:
    """One commit, `after` so many others, is made, and the connection is lost before PostgreSQL can say so."""
    commits = 0

    def commit(connection: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == after + 1:
            connection.connection.dbapi_connection.commit()
            connection.connection.dbapi_connection.close()

    event.listen(context.database._engine, "commit", commit)
    yield
    event.remove(context.database._engine, "commit", commit)
    assert commits > after


def test_a_commit_whose_answer_is_lost_is_not_called_undone(tmp_path: Path, postgres_url: str) -> None:
    world = World.on(tmp_path / "service", postgres_url)
    with answer_of_commit_lost(world.context), pytest.raises(OutcomeUnknown, match="done or not; look first"):
        world.round()
    assert len(rounds.list_visible(world.context, world.operator)) == 1
    world.context.close()


def test_the_client_does_not_repeat_what_may_have_been_done(tmp_path: Path, postgres_url: str) -> None:
    world = World.on(tmp_path / "service", postgres_url)
    world.clock.now = time.time_ns() // 1_000_000
    document = {"agreement": small_rounds.agreement_text("gaussian")}
    with listening(world.context) as url:
        audience = world.context.public_key
        with Connection(url, key=key_of("olga"), audience=audience, sleep=lambda _seconds: None) as connection:
            # The first commit notes that the request was seen, the second makes the round.
            with answer_of_commit_lost(world.context, after=1), pytest.raises(RefusedError) as refused:
                connection.post("/v1/rounds", document)
            assert (refused.value.status, refused.value.code) == (500, "outcome-unknown")
            assert len(connection.get("/v1/rounds")["rounds"]) == 1
    world.context.close()


@contextmanager
def disturbed(cluster: postgres.Cluster) -> Iterator[Counter[str]]:
    """Until the block ends, connections are ended, and the server is killed and started again, at random moments."""
    chance, over = random.Random(3), threading.Event()
    done: Counter[str] = Counter()

    def disturb() -> None:
        while not over.wait(chance.uniform(0.2, 1.5)):
            what = chance.choice(["connections", "server"])
            if what == "connections":
                cluster.end_connections()
            else:
                cluster.kill()
                time.sleep(chance.uniform(0, 0.5))
                cluster.start()
            done[what] += 1

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def persist(action: Callable[[], Result], seconds: float = 120.0) -> Result:
    """Repeat what may be repeated until the database is there."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return action()
        except (Unavailable, ServiceError) as error:
            if time.monotonic() > deadline or (isinstance(error, RefusedError) and error.status < 500):
                raise
            time.sleep(0.1)


def play(stage: Stage, round_id: str, folder: Path) -> Path:
    """Submit, settle and export one round; the export."""
    for one in stage.chosen.sent:
        line, path = stage.lines[one.party], f"/v1/rounds/{round_id}/submission"
        reply = persist(lambda line=line, path=path, one=one: line.request("PUT", path, body=one.to_json()))  # type: ignore[misc]
        stage.receipts.append(Receipt.parse(reply.body))
    chosen = {name: value for name, value in OPTIONS.to_json().items() if value is not None}
    operator = stage.lines["olga"]
    while persist(lambda: state_of(stage.context, round_id)) == "open":
        try:
            operator.post(f"/v1/rounds/{round_id}/settlement", chosen)
        except ServiceError as error:  # It may have been started all the same, which is looked at.
            if isinstance(error, RefusedError) and error.status not in (409, 500, 503):
                raise
    wait_for(lambda: persist(lambda: state_of(stage.context, round_id)) == "settled")
    export = folder / f"{round_id}.zip"
    export.write_bytes(persist(lambda: operator.request("GET", f"/v1/rounds/{round_id}/export")).body)
    return export


@pytest.mark.engine
def test_rounds_with_connections_ended_and_the_server_killed_throughout(tmp_path: Path) -> None:
    chosen: Example = example("linear", "naive", tmp_path / "naive")
    with (
        postgres.own_cluster() as cluster,
        cluster.database() as url,
        opened(tmp_path / "data", url) as context,
        nursery(context, url) as made,
    ):
        stage = Stage(context, chosen, made)
        names = [rounds.create(context, stage.operator, chosen.agreed) for _ in range(ROUNDS)]
        made.serve(stage.port)
        made.add()
        made.add()
        exports = [play(stage, names[0], tmp_path)]  # by then everything is up
        with disturbed(cluster) as done:
            exports += [play(stage, round_id, tmp_path) for round_id in names[1:]]
        stage.hang_up()
        assert min(done["connections"], done["server"]) >= 2, done
        with context.database.reading() as session:
            log = event_log.documents(session)
        happened = Counter((one["round"], one["kind"]) for one in log)
        for round_id in names:
            assert kept(context, round_id) == chosen.undisturbed
            assert happened[round_id, "submission-accepted"] == len(chosen.sent)
            assert happened[round_id, "settlement-started"] == happened[round_id, "settled"] == 1
            assert happened[round_id, "settlement-failed"] == 0
        digests = {one["sequence"]: one["digest"] for one in log}
        assert len({receipt.event for receipt in stage.receipts}) == ROUNDS * len(chosen.sent)
        assert all(digests[receipt.event] == receipt.event_digest for receipt in stage.receipts)
        for export in exports:
            [failed] = [check.message for check in check_export(export) if check.outcome == "failed"]
            assert "method = 'naive'" in failed  # as it was, to be quick
        events.verify_chain(context)
