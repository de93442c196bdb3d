"""One secret for each operator and agreement: two settlements of the same releases share their noise."""

import os
from pathlib import Path

import pytest

import equipoise as eq
from equipoise.mediation import noise_secret
from equipoise.mediation.noise_secret import OPERATOR_SECRET, SECRET, noise_secret_of
from equipoise.mediation.seeds import path_of
from equipoise.mediation.task import task_of

IDENTITY = "ab" * 32


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home" / "config"
    monkeypatch.setenv("EQUIPOISE_CONFIG_DIR", str(folder))
    return folder


def degraded(folder: Path | None, identity: str = IDENTITY) -> str:
    secret = noise_secret_of("degraded", None, folder, identity)
    assert secret is not None
    return secret


def test_folders_of_one_operator_share_the_secret_of_an_agreement(config: Path, tmp_path: Path) -> None:
    """In version 0.14 `mediate -o out1` and then `-o out2` had two noises, worth more together than either."""
    for name in ("out1", "out2"):
        (tmp_path / name).mkdir()
    first, second = degraded(tmp_path / "out1"), degraded(tmp_path / "out2")
    assert first == second == degraded(None)
    assert (tmp_path / "out1" / SECRET).read_text() == f"{first} degraded {IDENTITY}\n"
    assert degraded(None, "cd" * 32) != first
    master = config / OPERATOR_SECRET
    assert first not in master.read_text()
    assert (master.stat().st_mode & 0o077, config.stat().st_mode & 0o077) == (0, 0)


def test_noise_that_each_recipient_has_for_itself_is_new_in_every_folder(config: Path) -> None:
    first, second = (noise_secret_of("noise", None, None, IDENTITY) for _ in range(2))
    assert first != second
    assert not config.exists()


def test_two_tasks_of_the_same_releases_have_one_path(
    config: Path, tmp_path: Path, agreed: eq.Agreement, sent: list[eq.Submission]
) -> None:
    assert not config.exists()
    paths = set()
    for name in ("out1", "out2"):
        task = task_of(agreed, sent, mechanism="degraded", deviate=True, folder=tmp_path / name)
        assert task.settings.noise_secret is not None
        paths.add(path_of(task.settings.noise_secret))
    assert len(paths) == 1


def test_the_secret_of_a_folder_goes_first(config: Path, tmp_path: Path) -> None:
    """It may have come from another machine, or from an older version."""
    (tmp_path / SECRET).write_text("5a" * 32)
    assert degraded(tmp_path) == "5a" * 32
    assert not config.exists()
    for damaged in ("damaged", "", "\n"):
        (tmp_path / SECRET).write_text(damaged)
        with pytest.raises(eq.MediationError, match="Keep it, or restore it"):
            degraded(tmp_path)


def test_a_folder_keeps_a_secret_for_each_mechanism_and_agreement(config: Path, tmp_path: Path) -> None:
    """Rewards by noise in the same folder must not leave their secret to degraded ones, which share theirs with all."""
    by_noise = noise_secret_of("noise", None, tmp_path, IDENTITY)
    assert degraded(tmp_path) == degraded(None)
    assert degraded(tmp_path, "cd" * 32) == degraded(None, "cd" * 32)
    assert noise_secret_of("noise", None, tmp_path, IDENTITY) == by_noise
    assert len((tmp_path / SECRET).read_text().splitlines()) == 3
    assert (tmp_path / SECRET).stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")
def test_a_secret_that_others_could_know_is_refused(config: Path) -> None:
    degraded(None)
    (config / OPERATOR_SECRET).chmod(0o644)
    with pytest.raises(eq.MediationError, match="others can read .*chmod 600"):
        degraded(None)
    (config / OPERATOR_SECRET).chmod(0o600)
    config.chmod(0o777)
    with pytest.raises(eq.MediationError, match="others can write"):
        degraded(None)
    config.chmod(0o700)
    (config / OPERATOR_SECRET).write_text("12")
    with pytest.raises(eq.MediationError, match="too short"):
        degraded(None)


def test_where_no_secret_can_be_kept_there_is_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EQUIPOISE_CONFIG_DIR", str(tmp_path / "file" / "config"))
    with pytest.raises(eq.MediationError, match="EQUIPOISE_CONFIG_DIR"):
        degraded(None)
    assert noise_secret_of("degraded", "5a" * 32, None, IDENTITY) == "5a" * 32
    monkeypatch.setenv("EQUIPOISE_CONFIG_DIR", "config")
    with pytest.raises(eq.MediationError, match="'config', another folder in every working directory"):
        degraded(None)


@pytest.mark.parametrize("unset", ["", "relative"])
def test_variables_that_name_no_folder_count_as_unset(
    unset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty XDG_CONFIG_HOME put the secret into the working directory, another one in each."""
    monkeypatch.delenv("EQUIPOISE_CONFIG_DIR", raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", unset)
    degraded(None)
    assert (tmp_path / ".config" / "equipoise" / OPERATOR_SECRET).exists()
    assert (tmp_path / ".config").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("platform", "variable", "place"),
    [
        ("linux", "XDG_CONFIG_HOME", "set/equipoise"),
        ("win32", "APPDATA", "set/equipoise"),
        ("darwin", "APPDATA", "Library/Application Support/equipoise"),
    ],
)
def test_the_usual_folder(
    platform: str, variable: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EQUIPOISE_CONFIG_DIR", raising=False)
    monkeypatch.setattr("sys.platform", platform)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(variable, str(tmp_path / "set"))
    assert noise_secret.config_folder() == tmp_path / place
