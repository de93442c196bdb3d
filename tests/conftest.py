"""Property tests: no deadlines (machines are noisy), and the same examples on every CI run; locally they vary.

What is costly and can be shared by all workers of a run lives in a folder of the run: see `postgres.py`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        from postgres import begin_run

        begin_run()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        from postgres import end_run

        end_run()


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """A fresh database of PostgreSQL with all tables."""
    from postgres import shared_cluster

    with shared_cluster().database() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh database of each kind; that of SQLite has no tables yet."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path / 'fresh.sqlite'}"
