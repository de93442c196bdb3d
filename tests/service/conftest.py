"""A service on SQLite, and one on each kind of database for what the databases must see to."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """On SQLite."""
    made = World.on(tmp_path / "service")
    yield made
    made.context.close()


@pytest.fixture
def either_world(tmp_path: Path, database_url: str) -> Iterator[World]:
    """On SQLite, then on PostgreSQL."""
    made = World.on(tmp_path / "service", database_url)
    yield made
    made.context.close()
