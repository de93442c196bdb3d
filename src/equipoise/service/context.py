"""What every rule works with: the database, the service's key, its folder and its clock."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import select
from sqlalchemy.engine import URL

from equipoise.errors import ServiceError
from equipoise.keys import load_or_create_key, public_hex
from equipoise.service import events
from equipoise.service.database import Database
from equipoise.service.tables import Event

KEY = "service.key"
DATABASE = "equipoise.sqlite"


def now() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Context:
    """An open service. `clock` gives milliseconds since 1970."""

    database: Database
    key: Ed25519PrivateKey
    folder: Path
    clock: Callable[[], int] = now

    @cached_property
    def audience(self) -> str:
        """The service's public key, which requests to it are signed for."""
        return public_hex(self.key)

    @classmethod
    def open(cls, folder: Path, url: str | None = None, *, clock: Callable[[], int] = now) -> Self:
        """Open the service of a data folder, which is made if it is not there, and bring its tables up to date."""
        path = (folder / DATABASE).absolute()
        _make_private(folder, None if url else path)
        if url is None:
            url = URL.create("sqlite", database=str(path)).render_as_string()
        database = Database(url)
        try:
            database.migrate()
            return cls(database, _key(database, folder / KEY, clock), folder, clock)
        except BaseException:
            database.close()
            raise

    def close(self) -> None:
        """End all connections to the database."""
        self.database.close()


def _make_private(folder: Path, file: Path | None) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(13, "permission denied")
        if file is not None:
            os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise ServiceError(f"cannot use the data folder {str(folder)!r}: {error.strerror}; choose another") from error


def _key(database: Database, path: Path, clock: Callable[[], int]) -> Ed25519PrivateKey:
    """The service's key. The first event names it, so that receipts are never signed with another."""
    with database.writing(alone=True) as session:
        first = session.scalars(select(Event).where(Event.sequence == 1)).one_or_none()
        if first is None:
            key = load_or_create_key(path)
            events.record(
                session, time=clock(), actor=events.SERVICE, kind="service-started", public_key=public_hex(key)
            )
            return key
        agreed = json.loads(first.details_json)["public_key"]
        key_found = load_or_create_key(path) if path.exists() else None
        if key_found is None or public_hex(key_found) != agreed:
            found = "is missing" if key_found is None else "is another one"
            raise ServiceError(
                f"this database belongs to the service with the key {agreed[:16]}…, but {str(path)!r} {found}; put "
                "that service's key there (it is in its data folder and its backups)"
            )
        return key_found
