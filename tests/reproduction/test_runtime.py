"""Where compiled programs are kept: as asked, as JAX was told, or nowhere, and never at the price of a run."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from equipoise.errors import CacheWarning
from equipoise_paper import runtime


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What JAX is told, in a process where nobody has told it anything yet."""
    settings: dict[str, Any] = {"jax_compilation_cache_dir": None}
    monkeypatch.setattr(runtime, "jax", SimpleNamespace(config=SimpleNamespace(values=settings)))
    monkeypatch.setattr(runtime, "_set", settings.__setitem__)
    monkeypatch.setattr("equipoise_paper.runtime.compilation_cache.reset_cache", lambda: None)
    monkeypatch.delenv(runtime.CACHE_VARIABLE, raising=False)
    return settings


def use() -> Path | None:
    return runtime.use_compilation_cache.__wrapped__()


def test_the_folder_that_is_asked_for(told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runtime.CACHE_VARIABLE, str(tmp_path / "deep" / "cache"))
    assert use() == tmp_path / "deep" / "cache"
    assert told["jax_compilation_cache_dir"] == str(tmp_path / "deep" / "cache")
    assert (tmp_path / "deep" / "cache").stat().st_mode & 0o077 == 0


def test_off_and_what_jax_was_told_before(told: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(runtime.CACHE_VARIABLE, "off")
    assert use() is None
    monkeypatch.delenv(runtime.CACHE_VARIABLE)
    told["jax_compilation_cache_dir"] = "theirs"
    assert use() is None
    assert told == {"jax_compilation_cache_dir": "theirs"}


def test_a_folder_that_cannot_be_had_costs_no_run(
    told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(runtime.CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    assert use() is None
    monkeypatch.setenv(runtime.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr("os.access", lambda *_: False)
    assert use() is None
    assert told == {"jax_compilation_cache_dir": None}


def test_a_folder_that_others_can_write_is_not_used(
    told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 0.14 ran a program that somebody else had left there, and a posterior mean moved."""
    folder = tmp_path / "shared" / "cache"
    monkeypatch.setenv(runtime.CACHE_VARIABLE, str(folder))
    assert use() == folder
    told["jax_compilation_cache_dir"] = None
    folder.chmod(0o777)
    with pytest.warns(CacheWarning, match="others can write .*cache.*EQUIPOISE_CACHE_DIR"):
        assert use() is None
    folder.chmod(0o755)
    (folder / "planted.program").write_bytes(b"")
    (folder / "planted.program").chmod(0o666)
    with pytest.warns(CacheWarning, match="others can write .*planted.program"):
        assert use() is None
    (folder / "planted.program").unlink()
    folder.parent.chmod(0o777)
    with pytest.warns(CacheWarning, match="others can replace folders in .*shared"):
        assert use() is None
    folder.parent.chmod(0o1777)
    assert use() == folder


@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_with_files_of_others_is_not_used(
    told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told["jax_compilation_cache_dir"] is None
    monkeypatch.setenv(runtime.CACHE_VARIABLE, str(tmp_path))
    (tmp_path / "planted.program").write_bytes(b"")
    os.chown(tmp_path / "planted.program", 65_534, 65_534)
    with pytest.warns(CacheWarning, match="planted.program' belongs to"):
        assert use() is None
    (tmp_path / "planted.program").unlink()
    os.chown(tmp_path, 54_321, 54_321)
    with pytest.warns(CacheWarning, match="belongs to the user with the number 54321"):
        assert use() is None


@pytest.mark.parametrize(
    ("platform", "variable", "place"),
    [
        ("linux", "XDG_CACHE_HOME", "set/equipoise/jax"),
        ("win32", "LOCALAPPDATA", "set/equipoise/jax"),
        ("darwin", "XDG_CACHE_HOME", "Library/Caches/equipoise/jax"),
    ],
)
def test_the_usual_folder(
    platform: str, variable: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, str(tmp_path / "set"))
    assert runtime.default_cache_directory() == tmp_path / place
