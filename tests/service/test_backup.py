"""Backups: taken while the service is in use, restored by copying them, and nothing left over when they fail."""

import shutil
from pathlib import Path

import pytest

from equipoise.errors import ServiceError
from equipoise_service import backup
from equipoise_service.context import Context
from equipoise_service.rules import events, people, results, rounds, submissions
from service.world import World, sent


@pytest.mark.engine
@pytest.mark.group("gaussian")
def test_a_backup_is_a_service_of_its_own(world: World, tmp_path: Path) -> None:
    round_id = world.settled_round()
    reward = results.reward(world.context, world.parties["north"], round_id)
    head = events.verify_chain(world.context)
    backup.backup(world.context, tmp_path / "saved" / "today")
    later = world.round()  # not in the backup
    shutil.copytree(tmp_path / "saved" / "today", tmp_path / "restored")
    restored = Context.open(tmp_path / "restored")
    assert restored.public_key == world.context.public_key
    assert events.verify_chain(restored) == head
    north = world.parties["north"]
    assert results.reward(restored, north, round_id) == reward
    assert submissions.own_submission(restored, north, round_id) == sent()["north"]
    assert [one.id for one in rounds.list_visible(restored, world.operator)] == [round_id] != [later]
    assert people.has_operator(restored)
    restored.close()
    saved = sorted((tmp_path / "saved" / "today").iterdir())
    assert [path.name for path in saved] == ["equipoise.sqlite", "service.key"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in (*saved, saved[0].parent))


def test_a_backup_is_whole_or_not_there(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(ServiceError, match="already"):
        backup.backup(world.context, tmp_path / "there")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copy2", full)
    with pytest.raises(ServiceError, match="No space"):
        backup.backup(world.context, tmp_path / "new" / "one")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.slow
@pytest.mark.process
def test_postgresql_is_backed_up_by_its_own_program(tmp_path: Path, postgres_url: str) -> None:
    context = Context.open(tmp_path / "service", postgres_url)
    with pytest.raises(ServiceError, match="pg_dump"):
        backup.backup(context, tmp_path / "backup")
    context.close()
