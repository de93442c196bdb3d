"""Migrations of the tables, one file each in `versions/`, which Alembic applies when a service or a worker starts."""

from pathlib import Path

import sqlalchemy
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from equipoise._util.text import counted
from equipoise.errors import ServiceError
from equipoise_service.db.tables import Base

# PostgreSQL's advisory lock of processes that migrate.
_LOCK = 7_351_000
_WRITE_REVISION = (
    "CREATE TABLE IF NOT EXISTS alembic_version (version_num VARCHAR(32) PRIMARY KEY); "
    "DELETE FROM alembic_version; INSERT INTO alembic_version VALUES"
)


def upgrade(connection: Connection) -> None:
    """Apply all missing migrations in the transaction of this connection."""
    if connection.dialect.name == "postgresql":
        connection.execute(sqlalchemy.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)
    newest = scripts.get_current_head()
    applied = MigrationContext.configure(connection).get_current_heads()
    if applied == (newest,):
        return
    if len(applied) > 1 or (not applied and _has_tables(connection)):
        raise ServiceError(
            "this database has tables of Equipoise, but does not say of which revision: the table alembic_version has "
            f"{counted(len(applied), 'row')} instead of one. Restore a backup. Or, if this very version of Equipoise "
            f"used the database last, write the row: {_WRITE_REVISION} ('{newest}')"
        )
    if unknown := set(applied) - {script.revision for script in scripts.walk_revisions()}:
        raise ServiceError(
            f"this database was made by a newer Equipoise (its tables are of revision {unknown.pop()!r}, which this "
            "one does not know); update Equipoise, or restore a backup from before"
        )
    command.upgrade(config, "head")


def _has_tables(connection: Connection) -> bool:
    """Return True if the database has any table of Equipoise."""
    return not set(sqlalchemy.inspect(connection).get_table_names()).isdisjoint(Base.metadata.tables)
