"""The database: all or nothing, one writer at a time, and a plain refusal when it is out of reach, locked or full."""

import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select, text
from sqlalchemy.exc import IntegrityError, OperationalError

from equipoise.errors import ServiceError
from equipoise_service.context import Context
from equipoise_service.db import database as databases
from equipoise_service.db import event_log
from equipoise_service.db.database import Database, insert_or_ignore
from equipoise_service.db.tables import Event, Nonce, Person
from equipoise_service.errors import Unavailable
from equipoise_service.rules import events, people, rounds, submissions
from postgres import own_cluster
from service.working import OPERATOR
from service.world import World, agreement, sent


def _record(context: Context, kind: str = "test") -> None:
    with context.database.writing(exclusive=True) as session:
        event_log.append(session, time=context.clock(), actor="ana", kind=kind)


def test_what_fails_changes_nothing(either_world: World) -> None:
    head = events.verify_chain(either_world.context)
    with pytest.raises(ZeroDivisionError), either_world.context.database.writing() as session:  # noqa: PT012
        event_log.append(session, time=1, actor="ana", kind="test")
        raise ZeroDivisionError
    assert events.verify_chain(either_world.context) == head


def test_the_databases_see_to_unique_names_and_keys(either_world: World) -> None:
    """The rules see to it before; these are for what they overlook."""
    taken: list[dict[str, Any]] = [
        {"name": "NORTH", "public_key": None, "state": "approved"},
        {"name": "new", "public_key": either_world.parties["north"].public_key, "state": "requested"},
        {"name": "new", "public_key": None, "state": "unheard-of"},
    ]
    for values in taken:
        with pytest.raises(IntegrityError), either_world.context.database.writing() as session:
            session.add(Person(role="party", note="", requested=1, **values))
    with either_world.context.database.writing() as session:
        session.add(Person(name="north", role="party", note="", requested=1, state="requested"))


def test_insert_or_ignore_says_which(either_world: World) -> None:
    with either_world.context.database.writing() as session:
        assert insert_or_ignore(session, Nonce, public_key="a", nonce="b", expires=1)
        assert not insert_or_ignore(session, Nonce, public_key="a", nonce="b", expires=2)
        assert insert_or_ignore(session, Nonce, public_key="a", nonce="c", expires=1)


def test_many_writers_keep_the_chain(either_world: World) -> None:
    """Threads of two services on one database, as of two processes."""
    context = either_world.context
    url = context.database._url.render_as_string(hide_password=False)
    second = Context.open(context.folder, url, clock=context.clock)
    before = len(events.list_events(context, either_world.operator))
    problems: list[BaseException] = []

    def write(own: Context) -> None:
        try:
            for _ in range(8):
                _record(own)
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=write, args=(own,)) for own in (context, second) * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    events.verify_chain(context)
    assert len(events.list_events(context, either_world.operator)) == before + 6 * 8
    second.close()


def test_a_snapshot_is_of_one_moment(either_world: World) -> None:
    context = either_world.context
    with context.database.reading(snapshot=True) as session:
        before = len(event_log.documents(session))
        writer = threading.Thread(target=_record, args=(context,))
        writer.start()
        writer.join()
        assert len(event_log.documents(session)) == before
    assert len(events.list_events(context, either_world.operator)) == before + 1


def test_two_that_approve_one_name_at_once_end_as_one(either_world: World) -> None:
    world = either_world
    asked = [
        people.ask_to_join(world.context, name="twin", role="party", public_key=f"{number:064x}")
        for number in (11, 12, 13, 14)
    ]
    outcomes: list[str] = []

    def approve(view: people.PersonView) -> None:
        try:
            people.decide(world.context, world.operator, view.id, approve=True, fingerprint=str(view.fingerprint))
            outcomes.append("approved")
        except Exception as error:
            outcomes.append(type(error).__name__)

    threads = [threading.Thread(target=approve, args=(view,)) for view in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["Conflict"] * 3 + ["approved"]


def test_a_full_disk_is_said_and_nothing_is_half_written(world: World) -> None:
    round_id = world.round()
    database, north = world.context.database, world.parties["north"]
    full = True

    def limit(connection: Any, _: object) -> None:
        used = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {used if full else 10**9}")

    event.listen(database._engine, "connect", limit)
    database.close()  # new connections have the limit
    head = events.verify_chain(world.context)
    large = agreement(parties=[{"name": f"p{number}"} for number in range(500)])
    with pytest.raises(Unavailable, match="full") as refused:
        world.round(large)
    assert "INSERT" not in str(refused.value)
    assert events.verify_chain(world.context) == head
    [view] = rounds.list_visible(world.context, world.operator)
    assert view.seats[0].submitted is None
    full = False
    database.close()
    receipt, new = submissions.accept(world.context, north, round_id, sent()["north"])
    assert new
    assert events.verify_chain(world.context) == receipt.event_digest


def test_a_locked_file_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "LOCK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(databases, "TURN_TIMEOUT_S", 0.1)
    context = Context.open(tmp_path / "service")
    other = sqlite3.connect(tmp_path / "service" / "equipoise.sqlite")
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="try again"):
        _record(context)
    events.verify_chain(context)  # reading goes on
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with context.database.writing():
            held.set()
            release.wait()

    other.rollback()
    other.close()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with pytest.raises(Unavailable, match="busy"):
        _record(context)
    release.set()
    thread.join()
    _record(context)
    context.close()


def test_a_queue_that_moves_refuses_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many write, and though each takes long enough that the last waits for many time-outs."""
    monkeypatch.setattr(databases, "LOCK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(databases, "STALLED_S", 0.1)
    context = Context.open(tmp_path / "service")
    barrier = threading.Barrier(40)
    refused: list[BaseException] = []

    def write() -> None:
        barrier.wait()
        try:
            with context.database.writing() as session:
                event_log.append(session, time=1, actor="x", kind="x")
                time.sleep(0.03)
        except Unavailable as error:
            refused.append(error)

    threads = [threading.Thread(target=write) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert refused == []
    assert len(events.list_events(context, OPERATOR)) == 41
    context.close()


def _write_at_once(context: Context, writers: int) -> list[Unavailable]:
    """Let this many threads queue up to write; the refusals."""
    refused: list[Unavailable] = []

    def write() -> None:
        try:
            _record(context)
        except Unavailable as error:
            refused.append(error)

    threads = [threading.Thread(target=write) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return refused


@pytest.mark.parametrize("slow_part", ["statement", "connection"])
def test_a_slow_turn_refuses_nobody(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch, slow_part: str
) -> None:
    """On a starved machine one statement takes longer than a lock may; no other process has the lock meanwhile."""
    context = Context.open(tmp_path / "service", database_url)
    context.database.close()
    monkeypatch.setattr(databases, "LOCK_TIMEOUT_S", 0.5)
    monkeypatch.setattr(databases, "STALLED_S", 0.5)
    slow, is_slow = threading.Lock(), threading.Event()

    def delay(*_arguments: object) -> None:
        if slow.acquire(blocking=False):  # once
            is_slow.set()
            time.sleep(1.5)

    def write_slowly() -> None:
        with context.database.writing(exclusive=True) as session:
            if slow_part == "statement":
                delay()
            event_log.append(session, time=1, actor="x", kind="slow")

    if slow_part == "connection":
        event.listen(context.database._engine, "checkout", delay)
    thread = threading.Thread(target=write_slowly)
    thread.start()
    is_slow.wait()
    refused = _write_at_once(context, 30)  # some have more than MAX_WAITING before them
    thread.join()
    assert refused == []
    assert len(events.list_events(context, OPERATOR)) == 32
    context.close()


def test_a_lock_of_another_process_refuses_all_who_wait(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soon, and long before a turn that is merely slow would be given up; then they can write again."""
    monkeypatch.setattr(databases, "LOCK_TIMEOUT_S", 0.5)
    monkeypatch.setattr(databases, "STALLED_S", 0.2)
    monkeypatch.setattr(databases, "TURN_TIMEOUT_S", 60)
    context = Context.open(tmp_path / "service", database_url)
    other = Database(context.database._url.render_as_string(hide_password=False))
    with other.writing(exclusive=True) as session:
        session.connection()  # SQLite's lock is taken by the first statement
        began = time.monotonic()
        refused = _write_at_once(context, 30)
        waited = time.monotonic() - began
    assert {one.code for one in refused} == {databases.BUSY}
    assert len(refused) == 30
    assert waited < 20
    _record(context)
    other.close()
    context.close()


def test_writers_have_their_turns_in_the_order_they_came(tmp_path: Path) -> None:
    context = Context.open(tmp_path / "service")
    queue = context.database._queue
    threads = [threading.Thread(target=_record, args=(context, f"writer {number}")) for number in range(8)]
    with context.database.writing():
        for number, thread in enumerate(threads, start=1):
            thread.start()
            while len(queue._waiting) < number:
                time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert [one["kind"] for one in events.list_events(context, OPERATOR)][1:] == [f"writer {n}" for n in range(8)]
    context.close()


def test_mistakes_of_ours_are_not_called_a_lack_of_database(either_world: World) -> None:
    with pytest.raises(Exception, match="nowhere") as refused, either_world.context.database.reading() as session:
        session.execute(text("SELECT * FROM nowhere"))
    assert not isinstance(refused.value, Unavailable)


def test_a_lost_connection_is_said_and_a_new_one_made(tmp_path: Path, postgres_url: str) -> None:
    context = Context.open(tmp_path / "service", postgres_url)
    head = events.verify_chain(context)
    with pytest.raises(Unavailable, match="nothing was changed"), context.database.writing() as session:  # noqa: PT012
        event_log.append(session, time=1, actor="ana", kind="test")
        process = session.scalar(text("SELECT pg_backend_pid()"))
        with context.database.reading() as killer:
            killer.execute(text(f"SELECT pg_terminate_backend({process})"))
        session.execute(select(Event))
    assert events.verify_chain(context) == head
    _record(context)
    context.close()


@pytest.mark.slow
@pytest.mark.process
def test_a_database_that_is_restarted_is_found_again(tmp_path: Path) -> None:
    with own_cluster() as cluster, cluster.database() as url:
        context = Context.open(tmp_path / "service", url)
        _record(context)
        head = events.verify_chain(context)
        cluster.stop("immediate")
        for attempt in (lambda: events.verify_chain(context), lambda: _record(context)):
            with pytest.raises(Unavailable) as refused:
                attempt()
            assert str(cluster.folder) not in str(refused.value)
        with pytest.raises(Unavailable):
            Context.open(tmp_path / "service", url)
        cluster.start()
        assert events.verify_chain(context) == head
        _record(context)
        context.close()


@pytest.mark.parametrize(
    "url", ["", "nonsense", "mysql://root:secret@host/x", "sqlite://", "sqlite:///:memory:", "postgresql+pg8000://h/x"]
)
def test_other_databases_are_refused_without_repeating_passwords(url: str) -> None:
    with pytest.raises(ServiceError, match="cannot be used") as refused:
        Database(url)
    assert "secret" not in str(refused.value)


def test_postgres_urls_are_taken_as_people_write_them(postgres_url: str) -> None:
    for url in (postgres_url, postgres_url.replace("postgresql:", "postgres:")):
        database = Database(url)
        with database.reading() as session:
            assert session.scalar(text("SELECT 1")) == 1
        database.close()


def test_a_database_that_is_not_there_is_unavailable_or_said(tmp_path: Path) -> None:
    with pytest.raises((Unavailable, OperationalError)), Database(f"sqlite:///{tmp_path}/no/x.sqlite").reading() as one:
        one.execute(text("SELECT 1"))
