"""Changes of the tables, one file each under `versions/`, applied by Alembic when a service or a worker starts."""

from pathlib import Path

import sqlalchemy
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from equipoise.errors import ServiceError

_LOCK = 7_351_000  # PostgreSQL's advisory lock of those who migrate


def upgrade(connection: Connection) -> None:
    """Apply, in the transaction of this connection, what is not applied yet."""
    if connection.dialect.name == "postgresql":
        connection.execute(sqlalchemy.text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    scripts = ScriptDirectory.from_config(config)
    applied = MigrationContext.configure(connection).get_current_revision()
    if applied == scripts.get_current_head():
        return
    if applied is not None and applied not in {script.revision for script in scripts.walk_revisions()}:
        raise ServiceError(
            f"this database was made by a newer Equipoise (its tables are of revision {applied!r}, which this one does "
            "not know); update Equipoise, or restore a backup from before"
        )
    command.upgrade(config, "head")
