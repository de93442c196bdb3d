"""Property tests: no deadlines (machines are noisy), and the same examples on every CI run; locally they vary.

What is costly and can be shared by all workers of a run is in the folder of the run: see `run_folder.py`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import run_folder
from postgres import KINDS_OF_DATABASE, shared_cluster, stop_shared

pytest_plugins = ["tiers", "record"]

(CACHE := Path(__file__).parents[1] / ".pytest_cache" / "jax").mkdir(mode=0o700, parents=True, exist_ok=True)

# One cache of the programs that Gibbs sampling compiles, for all workers and their processes; kept between runs.
os.environ.update(
    JAX_COMPILATION_CACHE_DIR=str(CACHE),
    JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS="0",
    JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES="-1",
)

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


# Every worker keeps to a core of its own, and so does what it starts: rounds are settled in one thread, where several
# would compete for cores that all workers use already. `all_cores` is for the others.
CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        run_folder.begin()
    elif CORES is not None:
        place = int(config.workerinput["workerid"].removeprefix("gw"))
        os.sched_setaffinity(0, {sorted(CORES)[place % len(CORES)]})


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        stop_shared()
        run_folder.end()


@pytest.fixture
def all_cores() -> Iterator[None]:
    """For tests of what is spread over cores when nobody says over how many."""
    if CORES is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CORES)
    yield
    os.sched_setaffinity(0, before)


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """A fresh database of PostgreSQL with all tables."""
    with shared_cluster().database() as url:
        yield url


@pytest.fixture(params=KINDS_OF_DATABASE)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh database of each kind; that of SQLite has no tables yet."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path / 'fresh.sqlite'}"
