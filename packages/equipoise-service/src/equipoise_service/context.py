"""The context that every rule works with: the database, the service's key, its folder and its clock."""

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from sqlalchemy import select
from sqlalchemy.engine import URL

from equipoise._util.files import exists
from equipoise.errors import KeyFileError, ServiceError
from equipoise.protocol.keys import create_key, fingerprint, load_key, public_hex
from equipoise_service.db import event_log
from equipoise_service.db.database import Database
from equipoise_service.db.tables import Event
from equipoise_service.errors import Unavailable

KEY = "service.key"
DATABASE = "equipoise.sqlite"
# The suffix of a key file that no database refers to yet.
NEW_SUFFIX = ".new"
MIN_FREE_BYTES = 2**20


def now() -> int:
    """Return the time of the system's clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Context:
    """An open service. `clock` returns milliseconds since 1970."""

    database: Database
    key: Ed25519PrivateKey
    folder: Path
    clock: Callable[[], int] = now

    @cached_property
    def public_key(self) -> str:
        """The service's public key. The signature of every request covers it as the audience."""
        return public_hex(self.key)

    def path_secret(self, identity: str | None) -> str:
        """Derive the secret of degraded rewards' noise for an agreement's identity: 64 hexadecimal digits.

        All rounds of an agreement share the secret, because a recipient of several rounds with the same releases
        could otherwise average the noise away. Agreements do not share it, so that an auditor who is handed the secret
        of one learns nothing about the others. It follows from the service's key and is never stored. Versions up to
        0.14 had one secret for the whole service, which is that of no identity.
        """
        label = b"equipoise degraded rewards" + (b"" if identity is None else b" " + identity.encode("ascii"))
        raw = self.key.private_bytes_raw()
        return HKDF(SHA256(), length=32, salt=None, info=label).derive(raw).hex()

    @classmethod
    def open(
        cls, folder: Path, url: str | None = None, *, clock: Callable[[], int] = now, begin_anew: bool = False
    ) -> Self:
        """Open the service of a data folder, after creating the folder if necessary, and migrate its tables.

        A folder that has a key but no database is refused: the service would have the fingerprint that its members
        know, yet have lost all records of them. With `begin_anew`, a new service with a key of its own is created.
        """
        path = (folder / DATABASE).absolute()
        _ensure_dir(folder, None if url else path)
        if url is None:
            url = URL.create("sqlite", database=str(path)).render_as_string()
        database = Database(url)
        try:
            database.migrate()
            return cls(database, _service_key(database, folder / KEY, clock, begin_anew=begin_anew), folder, clock)
        except Unavailable as error:
            database.close()
            if database.is_sqlite and (left := shutil.disk_usage(folder).free) < MIN_FREE_BYTES:
                raise ServiceError(
                    f"the disk of the data folder {str(folder)!r} is full ({left:,} bytes are left); free some room, "
                    "or give a folder on another disk with --data"
                ) from error
            raise
        except BaseException:
            database.close()
            raise

    def close(self) -> None:
        """Close all connections to the database."""
        self.database.close()


def _ensure_dir(folder: Path, file: Path | None) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(13, "permission denied")
        if file is not None:
            os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise ServiceError(f"cannot use the data folder {str(folder)!r}: {error.strerror}; choose another") from error


def _service_key(database: Database, path: Path, clock: Callable[[], int], *, begin_anew: bool) -> Ed25519PrivateKey:
    """Load or create the service's key. The first event names it, so receipts are never signed with another key.

    A new key file gets its final name only after the event is committed. If the process is killed in between, the next
    start completes or repeats the step.
    """
    unconfirmed = path.with_name(path.name + NEW_SUFFIX)
    with database.writing(exclusive=True) as session:
        first = session.scalars(select(Event).where(Event.sequence == 1)).one_or_none()
        if first is None:
            if exists(path):
                _archive_key(path, begin_anew=begin_anew)
            unconfirmed.unlink(missing_ok=True)
            agreed = public_hex(create_key(unconfirmed))
            event_log.append(session, time=clock(), actor=event_log.SERVICE, kind="service-started", public_key=agreed)
        else:
            agreed = json.loads(first.details_json)["public_key"]
            if begin_anew:
                raise ServiceError(
                    f"the database holds the service with the key {agreed[:16]}…, so that no other can begin in it; "
                    "leave out --begin-anew, or give another folder or database"
                )
    if not exists(path) and exists(unconfirmed):
        # Another process that starts at the same time may rename the file first.
        with suppress(KeyFileError, FileNotFoundError):
            if public_hex(load_key(unconfirmed)) == agreed:
                unconfirmed.replace(path)
    key = load_key(path) if exists(path) else None
    if key is None or public_hex(key) != agreed:
        which = "is missing" if key is None else "is another one"
        raise ServiceError(
            f"this database belongs to the service with the key {agreed[:16]}…, but {str(path)!r} {which}; put that "
            "service's key there (it is in its data folder and its backups)"
        )
    return key


def _archive_key(path: Path, *, begin_anew: bool) -> None:
    """Rename the key of a service whose database is gone. Refuse unless `begin_anew` asks for a new service."""
    name = fingerprint(public_hex(load_key(path)))
    if not begin_anew:
        raise ServiceError(
            f"{str(path)!r} is the key of the service {name}, but its database is empty or gone; restore a backup of "
            "both, or begin another service, with a new key that everybody must be told, with --begin-anew"
        )
    path.rename(path.with_name(f"{path.name}.{name}"))
