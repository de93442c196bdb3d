"""Whoever else could write a folder is named, however they could."""

import grp
import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from equipoise._util.ownership import find_intruder

STRANGER = 65_534
pytestmark = pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="gives files to others")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "above" / "ours"
    place.mkdir(parents=True, mode=0o755)
    yield place
    place.parent.chmod(0o755)


def test_a_folder_of_ours(folder: Path) -> None:
    (folder / "below").mkdir()
    (folder / "below" / "file").write_text("")
    assert find_intruder(folder) is None


def test_files_of_others_below_the_folder(folder: Path) -> None:
    (folder / "below").mkdir()
    planted = folder / "below" / "planted"
    planted.write_text("")
    os.chown(planted, STRANGER, STRANGER)
    assert "planted' belongs to" in (find_intruder(folder) or "")


def test_links_in_the_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("")
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    assert "is a link" in (find_intruder(folder) or "")


@pytest.mark.parametrize(
    ("name", "members", "primary", "is_safe"),
    [
        ("me", [], {}, True),
        ("me", ["me"], {}, True),
        ("me", ["me", "mallory"], {}, False),
        ("me", [], {"mallory": 0}, False),
        ("users", [], {}, False),
    ],
)
def test_groups_that_can_replace_the_folder(
    name: str,
    members: list[str],
    primary: dict[str, int],
    is_safe: bool,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A group of the user's name with nobody else in it is the user; any other may hold somebody else."""
    folder.parent.chmod(0o775)
    me = SimpleNamespace(pw_name="me", pw_gid=0)
    others = [SimpleNamespace(pw_name=other, pw_gid=group) for other, group in primary.items()]
    monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name=name, gr_mem=members))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: me)
    monkeypatch.setattr(pwd, "getpwall", lambda: [me, *others])
    assert (find_intruder(folder) is None) is is_safe
