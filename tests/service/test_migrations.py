"""Migrations: they make what the tables say, on both databases, once, and never touch a newer one."""

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text

from equipoise.errors import ServiceError
from equipoise_service.context import Context
from equipoise_service.db.database import Database
from equipoise_service.db.tables import Base
from postgres import KINDS_OF_DATABASE, shared_cluster

SQLITE = "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'index') AND sql IS NOT NULL ORDER BY name"
POSTGRESQL = (
    "SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, column_default "
    "FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2",
    "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
    "WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2",
    "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2",
)


@pytest.fixture
def bare_urls(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Two databases without tables, of the kind that is asked for."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'one.sqlite'}", f"sqlite:///{tmp_path / 'two.sqlite'}"
        return
    with shared_cluster().database(template="template0") as one, shared_cluster().database(template="template0") as two:
        yield one, two


BOTH = pytest.mark.parametrize("bare_urls", KINDS_OF_DATABASE, indirect=True)


def _shape(connection: Connection) -> list[Any]:
    """All tables, columns, constraints and indexes, in the database's own words."""
    if connection.dialect.name == "sqlite":
        found = connection.execute(text(SQLITE))
        return [
            (name, sorted(part.strip() for part in re.split(r",\s*\n|,\s(?=[a-z_]+ [A-Z])", sql.removesuffix(")"))))
            for name, sql in found
            if "alembic" not in name
        ]
    rows = [row for query in POSTGRESQL for row in connection.execute(text(query))]
    return [tuple(row) for row in rows if "alembic" not in row[0]]


@BOTH
@pytest.mark.filterwarnings("ignore:.*expression-based index")  # SQLite's is compared by its own words alone
def test_migrations_make_what_the_tables_say(bare_urls: tuple[str, str]) -> None:
    migrated, made = map(Database, bare_urls)
    migrated.migrate()
    with made.writing() as session:
        Base.metadata.create_all(session.connection())
    with migrated.reading() as one, made.reading() as two:
        shape = _shape(one.connection())
        assert len(shape) > 10
        assert shape == _shape(two.connection())
        assert compare_metadata(MigrationContext.configure(one.connection()), Base.metadata) == []
    migrated.close()
    made.close()


@BOTH
def test_several_may_migrate_at_once(bare_urls: tuple[str, str]) -> None:
    databases = [Database(bare_urls[0]) for _ in range(4)]
    problems: list[BaseException] = []
    barrier = threading.Barrier(len(databases))

    def migrate(database: Database) -> None:
        barrier.wait()
        try:
            database.migrate()
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=migrate, args=(database,)) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    for database in databases:
        with database.reading() as session:
            assert session.scalars(text("SELECT version_num FROM alembic_version")).all() == ["0003"]
        database.close()


def test_a_newer_database_is_left_alone(tmp_path: Path, database_url: str) -> None:
    context = Context.open(tmp_path / "service", database_url)
    with context.database.writing() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    context.close()
    with pytest.raises(ServiceError, match="newer Equipoise.*'9999'"):
        Context.open(tmp_path / "service", database_url)


@pytest.mark.parametrize("change", ["DELETE FROM alembic_version", "DROP TABLE alembic_version"])
def test_a_database_without_its_revision_is_left_alone(tmp_path: Path, database_url: str, change: str) -> None:
    context = Context.open(tmp_path / "service", database_url)
    with context.database.writing() as session:
        session.execute(text(change))
    context.close()
    with pytest.raises(ServiceError, match="alembic_version has 0 rows instead of one. Restore a backup") as refusal:
        Context.open(tmp_path / "service", database_url)
    remedy = str(refusal.value).rpartition("write the row: ")[2]
    database = Database(database_url)
    with database.writing() as session:
        for statement in remedy.split(";"):
            session.execute(text(statement))
    database.close()
    Context.open(tmp_path / "service", database_url).close()


@pytest.mark.parametrize("change", ["UPDATE events SET actor = 'x'", "DELETE FROM events", "TRUNCATE events"])
def test_the_database_itself_keeps_events_as_they_are(tmp_path: Path, database_url: str, change: str) -> None:
    if change.startswith("TRUNCATE") and database_url.startswith("sqlite"):
        pytest.skip("SQLite has no TRUNCATE")
    context = Context.open(tmp_path / "service", database_url)
    with pytest.raises(Exception, match="append-only"), context.database.writing() as session:
        session.execute(text(change))
    with context.database.reading() as session:
        assert session.scalars(text("SELECT actor FROM events")).all() == ["service"]
    context.close()
