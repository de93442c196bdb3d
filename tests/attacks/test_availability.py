"""A disk that is full, a lock that is not given back, a database that is gone: said at once, and others served."""

import asyncio
import errno
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import event

from equipoise.errors import ServiceError
from equipoise.protocol.keys import create_key, public_hex
from equipoise.protocol.requests import sign_request
from equipoise_service import serving
from equipoise_service.context import Context
from equipoise_service.db import database as databases
from equipoise_service.db.database import Database
from equipoise_service.errors import Unavailable
from equipoise_service.rules import authentication, events, people
from equipoise_service.settings import Settings
from equipoise_service.web.api import service
from equipoise_service.web.api.service import HealthCheck
from equipoise_service.web.app import create_app
from service import conftest as services
from service.api.calls import URL
from service.world import World, key_of

world = services.world


@contextmanager
def locked(world: World) -> Iterator[None]:
    """Another process writes, and does not stop."""
    other = sqlite3.connect(world.context.folder / "equipoise.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("ROLLBACK")
    other.close()


@pytest.mark.slow
def test_a_lock_that_is_not_given_back_stops_those_who_write_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(databases, "LOCK_TIMEOUT_S", 3)
    monkeypatch.setattr(databases, "STALLED_S", 0.1)
    made = World.on(tmp_path / "service")
    app = create_app(made.context, Settings(public_url=URL))
    token = authentication.new_token(made.context, made.parties["south"])[0]

    def signed() -> dict[str, str]:
        moment = made.clock.now // 1000
        key = key_of("north")
        return sign_request(key, audience=made.context.public_key, method="GET", target="/v1/me", body=b"", time=moment)

    async def main() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as client:
            # A signed request is written down; a token is only looked up.
            writers = [asyncio.create_task(client.get("/v1/me", headers=signed())) for _ in range(60)]
            await asyncio.sleep(0.6)
            began = time.monotonic()
            reader = await client.get("/v1/me", headers={"Authorization": f"Bearer {token}"})
            healthy = await client.get("/v1/health")
            waited = time.monotonic() - began
            assert (reader.status_code, healthy.status_code) == (200, 503)
            assert "the database" in healthy.json()["error"]["message"]
            assert waited < 2.8, waited
            for answer in await asyncio.gather(*writers):
                assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")

    with locked(made):
        asyncio.run(main())
    made.context.close()


@contextmanager
def full(database: Database) -> Iterator[Callable[[bool], None]]:
    """A disk that is full when told to be."""
    pages = 2**30

    def limit(connection: Any) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    def fill(is_full: bool) -> None:
        nonlocal pages
        pages = 1 if is_full else 2**30

    event.listen(database._engine, "begin", limit)
    yield fill
    event.remove(database._engine, "begin", limit)


def test_health_says_that_the_disk_is_full(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "VALID_SECONDS", 0.0)
    # A small change needs no room that is not there already; so a large one stands for it.
    monkeypatch.setattr(service, "_HEALTH_KEY", "x" * 50_000)
    app = create_app(world.context, Settings(public_url=URL))

    async def main() -> list[tuple[int, str]]:
        found = []
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=URL) as client:
            with full(world.context.database) as fill:
                for state in (True, True, False):
                    fill(state)
                    answer = await client.get("/v1/health")
                    found.append((answer.status_code, answer.text))
        return found

    bad, still, again = asyncio.run(main())
    assert (bad[0], still[0], again[0]) == (503, 503, 200)
    assert "the disk of the database is full" in bad[1]
    assert "disk-full" in bad[1]


def test_health_says_that_the_disk_is_nearly_full(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 4_096

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage)
    with pytest.raises(Unavailable, match="the disk is full: 4,096 bytes are left"):
        asyncio.run(HealthCheck(world.context).check())


def test_health_is_not_written_down_for_everyone_who_asks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    plain = HealthCheck._write

    def counting(self: HealthCheck) -> None:
        nonlocal written
        written += 1
        plain(self)

    monkeypatch.setattr(HealthCheck, "_write", counting)
    now = 0.0

    async def main() -> None:
        nonlocal now
        one = HealthCheck(world.context, clock=lambda: now)
        await asyncio.gather(*(one.check() for _ in range(50)))
        await one.check()
        assert written == 1
        now = 6.0
        await one.check()

    asyncio.run(main())
    assert written == 2


def test_a_full_disk_at_the_start_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cannot(_: Database) -> None:
        raise Unavailable("the database cannot be used just now")

    class Usage:
        free = 4_096

    with monkeypatch.context() as patched:
        patched.setattr(Database, "migrate", cannot)
        patched.setattr(shutil, "disk_usage", lambda _: Usage)
        with pytest.raises(ServiceError, match=r"the disk of the data folder .* is full \(4,096 bytes are left\)"):
            Context.open(tmp_path / "data")

    def no_room(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", no_room)
    with pytest.raises(ServiceError, match="No space left on device; free some room"):
        serving._write_address(tmp_path, URL)


def test_a_key_whose_database_is_gone_is_no_new_service(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    first = Context.open(folder)
    people.first_operator_secret(first)
    first.close()
    for file in folder.glob("equipoise.sqlite*"):
        file.unlink()
    with pytest.raises(ServiceError, match=r"restore a backup .* --begin-anew"):
        Context.open(folder)
    with pytest.raises(ServiceError, match="restore a backup"):  # and again, though a database was made by the first
        Context.open(folder)
    anew = Context.open(folder, begin_anew=True)
    assert anew.public_key != first.public_key
    assert events.verify_chain(anew)
    anew.close()
    [kept] = folder.glob("service.key.*")
    assert kept.stat().st_mode & 0o777 == 0o600
    Context.open(folder).close()
    with pytest.raises(ServiceError, match="no other can begin in it"):
        Context.open(folder, begin_anew=True)


def test_who_is_killed_while_beginning_begins_again(tmp_path: Path) -> None:
    """Before the first event is kept, the new key has not its name; after it, whoever comes next gives it that."""
    folder = tmp_path / "data"
    folder.mkdir()
    stale = create_key(folder / "service.key.new")
    begun = Context.open(folder)
    assert begun.public_key != public_hex(stale)
    begun.close()
    (folder / "service.key").rename(folder / "service.key.new")
    again = Context.open(folder)
    assert again.public_key == begun.public_key
    again.close()
    assert [path.name for path in sorted(folder.glob("service.key*"))] == ["service.key"]
