"""The database: embedded SQLite, or PostgreSQL by its URL, with one interface to read and write for both.

SQLite allows one writer at a time, and a transaction that starts to write after it has read may fail. So `writing`
takes the lock at once (BEGIN IMMEDIATE), and threads of one process queue up for it instead of polling. While another
process holds the lock, only a short queue may wait, because readers need threads as well. A slow turn of this process
is no reason to refuse others: the lock is held by nobody else, and the queue moves.

PostgreSQL allows many writers. `writing(exclusive=True)` serializes those whose decisions depend on what others write.
Threads of one process use the same queue, so that few of them wait for the database's own lock, which has a time-out;
processes wait for that lock.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import sqlalchemy
from sqlalchemy import Executable, event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.orm import Session

from equipoise.errors import ServiceError
from equipoise_service.db.migrations import upgrade
from equipoise_service.db.tables import Base
from equipoise_service.errors import OutcomeUnknown, Unavailable

# Wait at most this long for a lock that another process holds.
LOCK_TIMEOUT_S = 5
# Wait at most this long for other processes that migrate the tables.
MIGRATION_TIMEOUT_S = 30
# Wait at most this long in the queue of this process. A client waits 120 s for its answer.
QUEUE_TIMEOUT_S = 60
# Wait at most this long for one turn that has the lock or is about to get it. A starved machine can take seconds.
TURN_TIMEOUT_S = 10
# Threads that may wait for a lock that another process does not release. A server has 40 threads.
MAX_WAITING = 20
# A lock that nobody has got for this long counts as not released.
STALLED_S = 2
# PostgreSQL's advisory lock of exclusive writers.
WRITE_LOCK = 7_351_001
BUSY, DAMAGED, FULL = "busy", "damaged", "disk-full"
_BEGIN = "equipoise_begin"

# Codes that say that somebody else holds a lock.
_BUSY_SQLITE, _BUSY_POSTGRESQL = {5, 6}, "55"
# SQLite: busy, locked, out of memory, read-only, input/output, cannot open.
_TRANSIENT_SQLITE = {*_BUSY_SQLITE, 7, 8, 10, 14}
_FULL_SQLITE, _FULL_POSTGRESQL = 13, "53100"
_DAMAGED_SQLITE = {11, 26}  # corrupt, not a database
# PostgreSQL: connection, rolled back, resources, locked, shut down.
_TRANSIENT_POSTGRESQL = {"08", "40", "53", _BUSY_POSTGRESQL, "57"}


class Database:
    """An open database; `close` it. Threads may share it, processes may not."""

    def __init__(self, url: str) -> None:
        self._url = _parse_url(url)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self._queue = _WriteQueue()
        options: dict[str, Any] = {"pool_size": 20, "max_overflow": 40, "pool_timeout": LOCK_TIMEOUT_S}
        if self.is_sqlite:
            options["connect_args"] = {"timeout": LOCK_TIMEOUT_S}
        else:
            options |= {"pool_pre_ping": True, "connect_args": {"connect_timeout": 10}}
        # Traces of unexpected errors go to the log, and must not contain what people sent.
        self._engine = sqlalchemy.create_engine(self._url, hide_parameters=True, **options)
        if self.is_sqlite:
            event.listen(self._engine, "connect", _prepare_sqlite)
            event.listen(self._engine, "begin", self._begin_sqlite)
        else:
            event.listen(self._engine, "connect", _prepare_postgresql)
        options = {} if self.is_sqlite else {"isolation_level": "REPEATABLE READ"}
        self._snapshots = self._engine.execution_options(**options)
        options = {_BEGIN: ""} if self.is_sqlite else {"isolation_level": "AUTOCOMMIT"}
        self._single = self._engine.execution_options(**options)

    @contextmanager
    def reading(self, *, snapshot: bool = False) -> Iterator[Session]:
        """Open a session for reading; with `snapshot`, all its queries see the database at one moment."""
        engine = self._snapshots if snapshot else self._engine
        with _translate_errors(), Session(engine, expire_on_commit=False) as session:
            yield session

    def rows(self, statement: Executable, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Return all rows of one statement, without a session, for queries that every request makes.

        A single statement is consistent without a transaction. A session and its transaction cost more than the query.
        """
        with _translate_errors(), self._single.connect() as connection:
            return connection.execute(statement, parameters).all()

    @contextmanager
    def writing(self, *, exclusive: bool = False) -> Iterator[Session]:
        """Open a session whose changes are committed if the block succeeds, and rolled back if it raises."""
        with self._write_turn(exclusive=exclusive), _translate_errors():
            engine = self._engine.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"}) if self.is_sqlite else self._engine
            # Leaving the session without a commit rolls it back.
            with Session(engine, expire_on_commit=False) as session:
                if exclusive and not self.is_sqlite:
                    self._lock(session)
                yield session
                session.flush()
                _commit(session)

    @contextmanager
    def autocommit(self) -> Iterator[Connection]:
        """Open a bare connection, for statements that SQLite cannot run within a transaction."""
        assert self.is_sqlite
        with _translate_errors(), self._engine.execution_options(**{_BEGIN: ""}).connect() as connection:
            yield connection

    def migrate(self) -> None:
        """Migrate the tables to the newest revision. Of several processes, one migrates while the others wait."""
        if self.is_sqlite:
            self._use_write_ahead_log()
        self._retry_while_busy(self._upgrade)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def _write_turn(self, *, exclusive: bool) -> AbstractContextManager[None]:
        return self._queue.turn() if self.is_sqlite or exclusive else nullcontext()

    def _lock(self, session: Session) -> None:
        """Take PostgreSQL's lock, and tell the queue if another process holds it."""
        # Try first: on a starved machine even a free lock can take seconds, and the queue must not think it is held.
        if not session.scalar(sqlalchemy.text(f"SELECT pg_try_advisory_xact_lock({WRITE_LOCK})")):
            self._queue.wait_for_lock()
            lock_exclusively(session)
        self._queue.have_lock()

    def _begin_sqlite(self, connection: Connection) -> None:
        begin = connection.get_execution_options().get(_BEGIN, "BEGIN")
        # A plain BEGIN locks nothing, so it cannot fail, and its errors need no translation.
        if begin == "BEGIN":
            connection.connection.cursor().execute(begin)
        elif begin:
            self._queue.wait_for_lock()
            connection.exec_driver_sql(begin)
            self._queue.have_lock()

    def _use_write_ahead_log(self) -> None:
        # The file remembers this mode. SQLite does not let two processes that switch at once wait for each other, so
        # they retry.
        self._retry_while_busy(self._switch)

    def _switch(self) -> None:
        with self.autocommit() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")

    def _upgrade(self) -> None:
        with self.writing() as session:
            upgrade(session.connection())

    def _retry_while_busy(self, action: Callable[[], None]) -> None:
        """Retry an action while other starting processes hold the lock."""
        deadline = time.monotonic() + MIGRATION_TIMEOUT_S
        while True:
            try:
                action()
                return
            except Unavailable as refused:
                if refused.code != BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)


class _WriteQueue:
    """A queue of the threads that want to write; they take turns, in the order of arrival.

    As long as turns finish, however slowly, a thread waits for its own. If another process holds the database's lock, a
    thread is refused once nobody has got the lock for `LOCK_TIMEOUT_S`, and sooner if many threads are before it. A
    turn that has the lock, or is about to get it, may take `TURN_TIMEOUT_S`: on a starved machine, one statement can
    take seconds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_taken = False
        self._waiting: deque[threading.Event] = deque()
        # The time at which a turn last succeeded, got the lock, or began with an empty queue.
        self._progress = 0.0
        # The time since which nobody has got the lock, if the current turn waits for it.
        self._locked_out: float | None = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the turn to write, and keep it within the block."""
        self._wait()
        is_done = True
        try:
            yield
        except Unavailable:
            is_done = False
            raise
        finally:
            self._hand_over(is_done=is_done)

    def wait_for_lock(self) -> None:
        """Record that the thread whose turn it is begins to wait for the database's lock."""
        with self._lock:
            if self._locked_out is None:
                self._locked_out = time.monotonic()

    def have_lock(self) -> None:
        """Record that the thread whose turn it is has got the database's lock."""
        with self._lock:
            self._locked_out, self._progress = None, time.monotonic()

    def _wait(self) -> None:
        called, arrived = threading.Event(), time.monotonic()
        with self._lock:
            if not self._is_taken:
                self._is_taken, self._progress, self._locked_out = True, arrived, None
                return
            self._waiting.append(called)
        try:
            while not called.wait(STALLED_S / 20):
                if self._is_hopeless(called, arrived):
                    message = "the database is busy: somebody else has been writing for a while; try again"
                    raise Unavailable(message, code=BUSY)
        except BaseException:
            self._leave(called)
            raise

    def _is_hopeless(self, called: threading.Event, arrived: float) -> bool:
        now = time.monotonic()
        with self._lock:
            locked_out = 0.0 if self._locked_out is None else now - self._locked_out
            stalled = now - self._progress
            is_far_back = called in list(self._waiting)[MAX_WAITING:]
        waited = now - arrived
        return (
            (is_far_back and locked_out >= STALLED_S)
            or min(locked_out, waited) >= LOCK_TIMEOUT_S
            or min(stalled, waited) >= TURN_TIMEOUT_S
            or waited >= QUEUE_TIMEOUT_S
        )

    def _leave(self, called: threading.Event) -> None:
        with self._lock:
            if called in self._waiting:
                self._waiting.remove(called)
                return
        # The turn was given to this thread at the same moment, so it must be passed on.
        self._hand_over(is_done=False)

    def _hand_over(self, *, is_done: bool) -> None:
        with self._lock:
            if is_done:
                self._progress = time.monotonic()
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False


def _commit(session: Session) -> None:
    """Commit. If the connection is lost meanwhile, raise `OutcomeUnknown`: PostgreSQL may have committed or not."""
    try:
        session.commit()
    except DBAPIError as error:
        if error.connection_invalidated:
            raise OutcomeUnknown(
                "the database was lost while it was being written, so that this may have been done or not; look first, "
                "then try again"
            ) from error
        raise


def lock_exclusively(session: Session) -> None:
    """Wait until no other transaction writes exclusively, and keep others waiting until this one ends."""
    if session.get_bind().dialect.name == "postgresql":
        session.execute(sqlalchemy.text(f"SELECT pg_advisory_xact_lock({WRITE_LOCK})"))


def insert_or_ignore(session: Session, table: type[Base], **values: Any) -> bool:
    """Insert a row unless one with the same key exists; return True if it was inserted."""
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    statement = dialect.insert(table.__table__).values(**values).on_conflict_do_nothing()
    return session.execute(statement.returning(sqlalchemy.literal(1))).first() is not None


def _parse_url(text: str) -> URL:
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
    # The driver must not begin transactions; this module does.
    connection.isolation_level = None
    cursor = connection.cursor()
    for setting in ("foreign_keys = ON", f"busy_timeout = {LOCK_TIMEOUT_S * 1000}", "synchronous = FULL"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _prepare_postgresql(connection: Any, _record: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET lock_timeout = '{LOCK_TIMEOUT_S}s'")
    connection.commit()


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translate errors of the driver into `Unavailable`, without the database's address or the statement."""
    try:
        yield
    except PoolTimeoutError as error:
        raise Unavailable("the service is busy; try again in a moment") from error
    except DBAPIError as error:
        if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF in _DAMAGED_SQLITE:
            message = "the database's file is damaged; stop the service and restore a backup"
            raise Unavailable(message, code=DAMAGED) from error
        if _is_full(error.orig):
            message = "the disk of the database is full; nothing was changed. Free some room, and try again"
            raise Unavailable(message, code=FULL) from error
        if not _is_transient(error):
            raise
        raise Unavailable(
            "the database cannot be used just now (it is out of reach or locked); nothing was changed, try again",
            code=BUSY if _is_busy(error.orig) else None,
        ) from error


def _is_busy(cause: Any) -> bool:
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    return code in _BUSY_SQLITE or (getattr(cause, "sqlstate", None) or "")[:2] == _BUSY_POSTGRESQL


def _is_full(cause: Any) -> bool:
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    return code == _FULL_SQLITE or getattr(cause, "sqlstate", None) == _FULL_POSTGRESQL


def _is_transient(error: DBAPIError) -> bool:
    if error.connection_invalidated:
        return True
    cause: Any = error.orig
    if (code := getattr(cause, "sqlite_errorcode", None)) is not None:
        return code & 0xFF in _TRANSIENT_SQLITE
    if not isinstance(error, sqlalchemy.exc.OperationalError | sqlalchemy.exc.InterfaceError):
        return False
    state = getattr(cause, "sqlstate", None)
    return state is None or state[:2] in _TRANSIENT_POSTGRESQL
