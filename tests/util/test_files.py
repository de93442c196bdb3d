"""Files that are on disk whole, or not there: nobody else reads what is half written, and nothing is left over."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from equipoise._util.files import partial_path, replaced_file, write_new_file

# Dies in the midst of saving, as if it was killed.
KILLED = """
import os, signal, sys
from pathlib import Path
from equipoise._util.files import replaced_file
with replaced_file(Path(sys.argv[1])) as partial:
    partial.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
# Waits in the midst of saving until it is told to go on.
WAITING = """
import sys
from pathlib import Path
from equipoise._util.files import replaced_file
with replaced_file(Path(sys.argv[1])) as partial:
    partial.write_text("theirs")
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def usual_mask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def partials(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(".partial")]


@pytest.mark.parametrize(("mode", "final"), [(0o666, 0o644), (0o600, 0o600)])
def test_a_partial_file_is_for_its_owner_alone(tmp_path: Path, mode: int, final: int) -> None:
    path = tmp_path / "report.html"
    with replaced_file(path, mode=mode) as partial:
        assert mode_of(partial) == 0o600
        partial.write_text("half")
        assert mode_of(partial) == 0o600
        assert partials(tmp_path) == [partial]
        assert not path.exists()
    assert mode_of(path) == final
    assert partials(tmp_path) == []
    other = tmp_path / "new.html"
    write_new_file(other, b"whole", mode=mode)
    assert mode_of(other) == final
    assert other.read_bytes() == b"whole"


def test_what_fails_leaves_the_earlier_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text("before")
    with pytest.raises(FileNotFoundError), replaced_file(path) as partial:
        (tmp_path / "no folder" / partial.name).write_text("half")
    with pytest.raises(FileExistsError):
        write_new_file(path, b"another", mode=0o600)
    assert path.read_text() == "before"
    assert partials(tmp_path) == []


@pytest.mark.process
def test_what_a_killed_process_left_is_removed_by_the_next_that_saves_the_file(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", KILLED, path]).returncode < 0
        [left] = partials(tmp_path)
        assert mode_of(left) == 0o600
    with replaced_file(tmp_path / "another.html") as partial:
        partial.write_text("another")
    assert partials(tmp_path) == [left]  # it may be somebody's who means another file
    with replaced_file(path) as partial:
        partial.write_text("whole")
    assert partials(tmp_path) == []
    assert path.read_text() == "whole"


@pytest.mark.process
def test_what_another_process_still_writes_is_left_to_it(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    other = subprocess.Popen([sys.executable, "-c", WAITING, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"writing\n"
    with replaced_file(path) as partial, partial_path(path):
        partial.write_text("ours")
        assert len(partials(tmp_path)) == 2
    other.communicate()
    assert other.returncode == 0
    assert path.read_text() == "theirs"
    assert partials(tmp_path) == []


def test_a_folder_that_was_left_is_removed_with_all_that_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "monday"
    with partial_path(path) as left:
        pass
    left.mkdir()
    (left / "service.key").write_text("secret")
    with partial_path(path):
        assert not left.exists()
