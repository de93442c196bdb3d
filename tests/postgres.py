"""A throw-away PostgreSQL: one cluster for each run of the tests, and a fresh, migrated database for each that asks.

Whoever first needs the cluster starts it in the folder of the run, and the main process stops it at the end. Without
PostgreSQL these tests are skipped.
"""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

import run_folder

KINDS_OF_DATABASE = ["sqlite", pytest.param("postgresql", marks=[pytest.mark.slow, pytest.mark.process])]
USER = "equipoise"
TEMPLATE = "migrated"
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "32MB",
}


@dataclass(frozen=True)
class Cluster:
    """A server that is reached by a socket in its folder alone."""

    folder: Path

    @property
    def exists(self) -> bool:
        return (self.folder / "data" / "PG_VERSION").exists()

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@/{database}?host={self.folder}"

    def make(self) -> None:
        self.folder.mkdir(mode=0o755)
        if os.geteuid() == 0:
            shutil.chown(self.folder, *_owner())
        self._run("initdb", "--auth=trust", f"--username={USER}", "--encoding=UTF8", "--locale=C", "--no-sync")
        with (self.folder / "data" / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in SETTINGS.items())
            file.write(f"unix_socket_directories = '{self.folder}'\n")
        self.start()
        self.execute(f"CREATE DATABASE {TEMPLATE}")
        from equipoise_service.db.database import Database  # most runs of a few tests need none of this

        database = Database(self.url(TEMPLATE))
        database.migrate()
        database.close()

    def start(self) -> None:
        self._run("pg_ctl", "start", "--wait", "--silent", f"--log={self.folder / 'log'}")

    def stop(self, mode: str = "fast") -> None:
        self._run("pg_ctl", "stop", "--wait", "--silent", f"--mode={mode}")

    def kill(self) -> None:
        """End the server and all its connections at once, as the system does when there is no memory left."""
        number = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{number}/task/{number}/children").read_text().split()
        for process in (number, *map(int, children)):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        while any(Path(f"/proc/{process}").exists() for process in (number, *children)):
            time.sleep(0.01)

    def end_connections(self) -> None:
        """End all connections but this one; the server goes on."""
        self.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def execute(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement.encode())

    @contextmanager
    def database(self, *, template: str = TEMPLATE) -> Iterator[str]:
        """The URL of a new database, migrated unless `template` is "template0"."""
        name = f"test_{secrets.token_hex(8)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield self.url(name)
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def _run(self, program: str, *arguments: str) -> None:
        user, group = _owner() if os.geteuid() == 0 else (None, None)  # PostgreSQL refuses to run as root
        done = subprocess.run(
            [_programs() / program, f"--pgdata={self.folder / 'data'}", *arguments],
            user=user,
            group=group,
            extra_groups=None if user is None else [],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # the server inherits it, and a pipe would never end
            stderr=subprocess.STDOUT,
        )
        if done.returncode:
            log = self.folder / "log"
            raise RuntimeError(f"{program} failed: {log.read_text() if log.exists() else ''}")


def shared_cluster() -> Cluster:
    """The cluster of this run of the tests."""
    cluster = Cluster(run_folder.path() / "postgresql")
    with FileLock(f"{cluster.folder}.lock"):
        if not cluster.exists:
            _skip_without_postgresql()
            cluster.make()
    return cluster


@contextmanager
def own_cluster() -> Iterator[Cluster]:
    """A cluster for a test that stops it; databases of others are not hurt."""
    _skip_without_postgresql()
    cluster = Cluster(run_folder.path() / f"own-{secrets.token_hex(4)}")
    cluster.make()
    try:
        yield cluster
    finally:
        if (cluster.folder / "data" / "postmaster.pid").exists():
            cluster.stop("immediate")


def stop_shared() -> None:
    """In the main process, after everything."""
    cluster = Cluster(run_folder.path() / "postgresql")
    if (cluster.folder / "data" / "postmaster.pid").exists():
        cluster.stop("immediate")


def _programs() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
    if found:
        return found[-1]
    program = shutil.which("initdb")
    return Path(program or "/nowhere/initdb").parent


def _owner() -> tuple[int, int]:
    entry = pwd.getpwnam("postgres")
    return entry.pw_uid, entry.pw_gid


def _skip_without_postgresql() -> None:
    if not (_programs() / "initdb").exists():
        pytest.skip("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    if os.geteuid() == 0 and not any(entry.pw_name == "postgres" for entry in pwd.getpwall()):
        pytest.skip("PostgreSQL does not run as root, and there is no user `postgres` to run it as")
