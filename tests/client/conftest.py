"""A world with a service that listens, and commands in a folder."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from client.listening import Commands, listening
from service.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World.on(tmp_path / "service")
    made.clock.now = int(time.time() * 1000)
    yield made
    made.context.close()


@pytest.fixture
def url(world: World) -> Iterator[str]:
    with listening(world.context) as address:
        yield address


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Commands:
    return Commands(tmp_path, capsys, monkeypatch)
