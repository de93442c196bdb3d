"""Opening a service: its folder, its key, its first event, and what the server need not load."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.errors import ServiceError
from equipoise_service.context import Context
from equipoise_service.db import event_log
from equipoise_service.db.tables import Event
from equipoise_service.rules import events
from equipoise_service.rules.access import Actor

EVERYBODY = Actor(1, "x", "operator", None)


def test_a_new_folder_is_private_and_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "data %20 ünïcode"
    first = Context.open(folder)
    head = events.verify_chain(first)
    first.close()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "service.key").stat().st_mode & 0o777 == 0o600
    assert (folder / "equipoise.sqlite").stat().st_mode & 0o777 == 0o600
    again = Context.open(folder)
    assert again.public_key == first.public_key
    assert events.verify_chain(again) == head
    [begun] = events.list_events(again, EVERYBODY)
    assert (begun["kind"], begun["details"]) == ("service-started", {"public_key": first.public_key})
    again.close()


def test_another_key_than_the_first_is_refused(tmp_path: Path, database_url: str) -> None:
    first = Context.open(tmp_path / "one", database_url)
    with pytest.raises(ServiceError, match=r"service\.key' is missing"):
        Context.open(tmp_path / "two", database_url)
    assert not (tmp_path / "two" / "service.key").exists()
    Context.open(tmp_path / "three").close()
    with pytest.raises(ServiceError, match="another one"):
        Context.open(tmp_path / "three", database_url)
    shutil.copy(tmp_path / "one" / "service.key", tmp_path / "two" / "service.key")
    second = Context.open(tmp_path / "two", database_url)
    assert second.public_key == first.public_key
    first.close()
    second.close()


def test_a_folder_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ServiceError, match="choose another"):
        Context.open(tmp_path / "file" / "data")
    (tmp_path / "data" / "equipoise.sqlite").mkdir(parents=True)
    with pytest.raises(ServiceError, match="choose another"):
        Context.open(tmp_path / "data")


def test_a_damaged_file_is_said(tmp_path: Path) -> None:
    (tmp_path / "equipoise.sqlite").write_bytes(b"not a database" * 1000)
    with pytest.raises(ServiceError, match="restore a backup"):
        Context.open(tmp_path)


def test_an_altered_log_shows(tmp_path: Path) -> None:
    context = Context.open(tmp_path / "service")
    with context.database.writing() as session:
        event_log.append(session, time=1, actor="ana", kind="test", number=1)
        forged = Event(
            sequence=3, time=2, actor="eve", kind="test", details_json="{}", previous="0" * 64, digest="1" * 64
        )
        session.add(forged)
    with pytest.raises(Exception, match="altered at event 3"):
        events.verify_chain(context)
    context.close()


def test_events_are_listed_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_CHUNK", 3)
    context = Context.open(tmp_path / "service")
    with context.database.writing() as session:
        for number in range(10):
            event_log.append(session, time=1, actor="ana", kind="test", number=number, odd="\0\ud800")
    events.verify_chain(context)
    found = events.list_events(context, EVERYBODY, after=3, limit=2)
    assert [one["sequence"] for one in found] == [4, 5]
    assert found[0]["details"] == {"number": 2, "odd": "\0\ud800"}
    assert len(events.list_events(context, EVERYBODY, after=-5, limit=10**30)) == 11
    assert events.list_events(context, EVERYBODY, after=10**30) == []
    assert len(events.list_events(context, EVERYBODY, limit=0)) == 1
    context.close()


@pytest.mark.process
def test_the_server_need_not_load_what_samples() -> None:
    program = (
        "import sys; from equipoise_service import backup, serving; "
        "heavy = {'jax', 'scipy.special', 'scipy.stats', 'arviz', 'matplotlib', 'equipoise.party'}; "
        "assert not heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
