"""Backups of an embedded database while the service runs; each backup is itself a valid data folder.

To restore it, stop the service and its workers, and start them with a copy of the backup as their data folder.
"""

import os
import shutil
import sqlite3
from pathlib import Path

from equipoise._util.files import fsync_folder, partial_path
from equipoise.errors import ServiceError
from equipoise_service.context import DATABASE, KEY, Context
from equipoise_service.errors import Unavailable


def backup(context: Context, path: Path) -> None:
    """Write a new folder with a consistent copy of the database and the service's key; on failure, leave nothing."""
    if not context.database.is_sqlite:
        raise ServiceError(
            "this service keeps its data in PostgreSQL; back it up with pg_dump, and keep a copy of "
            f"{str(context.folder / KEY)!r} with it"
        )
    if path.exists():
        raise ServiceError(f"{str(path)!r} is there already; choose a new name for each backup")
    try:
        with partial_path(path) as partial:
            partial.mkdir(mode=0o700, parents=True)
            with context.database.autocommit() as connection:
                connection.exec_driver_sql("VACUUM INTO ?", (str(partial / DATABASE),))
            (partial / DATABASE).chmod(0o600)
            _check(partial / DATABASE)
            shutil.copy2(context.folder / KEY, partial / KEY)
            for file in partial.iterdir():
                _flush(file)
            fsync_folder(partial)
            partial.rename(path)
        fsync_folder(path.resolve().parent)
    except OSError as error:
        raise ServiceError(f"cannot write the backup {str(path)!r}: {error.strerror}; choose another place") from error
    except Unavailable as error:
        raise ServiceError(f"cannot write the backup {str(path)!r}: the disk may be full; choose another") from error


def _check(database: Path) -> None:
    connection = sqlite3.connect(database)
    try:
        report = connection.execute("PRAGMA integrity_check").fetchone()[0]
    finally:
        connection.close()
    if report != "ok":
        raise ServiceError(f"the copy of the database is damaged ({report}); is the disk?")


def _flush(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
