"""The database: embedded SQLite, or PostgreSQL by its URL; one way to read and one to write for both.

SQLite has one writer at a time, and a transaction that begins to write only after it has read may find that it cannot.
So `writing` takes the lock at once (BEGIN IMMEDIATE), and threads of one process queue up for it instead of polling.
PostgreSQL has many writers; `writing(alone=True)` makes those queue up whose decisions depend on what others write.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from equipoise.errors import ServiceError
from equipoise.service.refusals import Unavailable
from equipoise.service.tables import Base

PATIENCE_S = 30
ALONE = 7_351_001  # PostgreSQL's advisory lock of those who write alone
DAMAGED = "damaged"
_BEGIN = "equipoise_begin"

# SQLite: busy, locked, out of memory, read-only, input/output, full, cannot open.
_PASSING_SQLITE = {5, 6, 7, 8, 10, 13, 14}
_DAMAGED_SQLITE = {11, 26}  # corrupt, not a database
# PostgreSQL: connection, rolled back, resources (disk full among them), locked, shut down.
_PASSING_POSTGRESQL = {"08", "40", "53", "55", "57"}


class Database:
    """An open database; `close` it. Threads may share it, processes may not."""

    def __init__(self, url: str) -> None:
        self._url = _checked(url)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self._turn = threading.Lock()
        options: dict[str, Any] = {"pool_size": 20, "max_overflow": 40, "pool_timeout": PATIENCE_S}
        if self.is_sqlite:
            options["connect_args"] = {"timeout": PATIENCE_S}
        else:
            options |= {"pool_pre_ping": True, "connect_args": {"connect_timeout": 10}}
        # Traces of what nobody foresaw go to the log; what people sent does not.
        self._engine = sqlalchemy.create_engine(self._url, hide_parameters=True, **options)
        if self.is_sqlite:
            event.listen(self._engine, "connect", _prepare_sqlite)
            event.listen(self._engine, "begin", _begin_sqlite)

    @contextmanager
    def reading(self, *, snapshot: bool = False) -> Iterator[Session]:
        """A session that changes nothing; with `snapshot`, everything it reads is of one moment."""
        options = {"isolation_level": "REPEATABLE READ"} if snapshot and not self.is_sqlite else {}
        with _translated(), Session(self._engine.execution_options(**options), expire_on_commit=False) as session:
            yield session

    @contextmanager
    def writing(self, *, alone: bool = False) -> Iterator[Session]:
        """A session whose changes are all kept if the block ends well, and none if it does not."""
        with self._my_turn(), _translated():
            engine = self._engine.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"}) if self.is_sqlite else self._engine
            with Session(engine, expire_on_commit=False) as session, session.begin():
                if alone:
                    wait_alone(session)
                yield session

    @contextmanager
    def outside_transactions(self) -> Iterator[Connection]:
        """A bare connection, for what SQLite cannot do within a transaction."""
        assert self.is_sqlite
        with _translated(), self._engine.execution_options(**{_BEGIN: ""}).connect() as connection:
            yield connection

    def migrate(self) -> None:
        """Bring the tables up to date; of several processes that do, one does and the others wait."""
        from equipoise.service.migrations import upgrade

        if self.is_sqlite:
            self._use_write_ahead_log()
        with self.writing() as session:
            upgrade(session.connection())

    def close(self) -> None:
        """End all connections."""
        self._engine.dispose()

    @contextmanager
    def _my_turn(self) -> Iterator[None]:
        if not self.is_sqlite:
            yield
            return
        if not self._turn.acquire(timeout=PATIENCE_S):
            raise Unavailable("the database is busy; try again in a moment")
        try:
            yield
        finally:
            self._turn.release()

    def _use_write_ahead_log(self) -> None:
        # The file remembers it. Two processes that switch at once do not wait for each other, so they try again.
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                with self.outside_transactions() as connection:
                    connection.exec_driver_sql("PRAGMA journal_mode = WAL")
                return
            except Unavailable as refused:
                if refused.code == DAMAGED or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


def wait_alone(session: Session) -> None:
    """Wait until no other transaction writes alone, and keep others waiting until this one ends."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(sqlalchemy.text(f"SELECT pg_advisory_xact_lock({ALONE})"))


def insert_or_ignore(session: Session, table: type[Base], **values: Any) -> bool:
    """Insert a row unless one with the same key is there; whether it was inserted."""
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table.__table__).values(**values).on_conflict_do_nothing()
    return session.execute(statement.returning(sqlalchemy.literal(1))).first() is not None


def _checked(text: str) -> URL:
    try:
        url = make_url(text)
        if url.drivername in ("postgresql", "postgres"):
            url = url.set(drivername="postgresql+psycopg")
        if url.get_backend_name() == "postgresql":
            url.get_dialect().import_dbapi()
        elif url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
            raise ArgumentError(text)
    except (ArgumentError, NoSuchModuleError, ImportError, ValueError) as error:
        # The URL may hold a password, so it is not repeated.
        raise ServiceError(
            "the database's URL cannot be used; write postgresql://USER@HOST/NAME, or leave it out for a file of "
            "SQLite in the data folder"
        ) from error
    return url


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where this module begins them
    cursor = connection.cursor()
    for setting in ("foreign_keys = ON", f"busy_timeout = {PATIENCE_S * 1000}", "synchronous = FULL"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    if begin := connection.get_execution_options().get(_BEGIN, "BEGIN"):
        connection.exec_driver_sql(begin)


@contextmanager
def _translated() -> Iterator[None]:
    """Say that the database is out of reach, without its address or what was asked of it."""
    try:
        yield
    except PoolTimeoutError as error:
        raise Unavailable("the service is busy; try again in a moment") from error
    except DBAPIError as error:
        if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _DAMAGED_SQLITE:
            message = "the database's file is damaged; stop the service and restore a backup"
            raise Unavailable(message, code=DAMAGED) from error
        if not _is_passing(error):
            raise
        raise Unavailable(
            "the database cannot be used just now (it is out of reach, locked or full); nothing was changed, try again"
        ) from error


def _is_passing(error: DBAPIError) -> bool:
    if error.connection_invalidated:
        return True
    cause: Any = error.orig
    if (code := getattr(cause, "sqlite_errorcode", None)) is not None:
        return code & 0xFF in _PASSING_SQLITE
    if not isinstance(error, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError):
        return False
    state = getattr(cause, "sqlstate", None)
    return state is None or state[:2] in _PASSING_POSTGRESQL
