"""Signing keys that others on the machine can read or replace."""

import os
from pathlib import Path

import pytest

from equipoise.errors import KeyFileError, KeyFileWarning
from equipoise.protocol.keys import create_key, load_key, public_hex
from program import run

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has other permissions")


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o604])
def test_a_key_that_others_can_read_is_used_with_a_word(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "my key"
    key = create_key(path)
    path.chmod(mode)
    with pytest.warns(KeyFileWarning, match=rf"my key' is open to others .*\(mode {mode:o}\).*`chmod 600 '/.*my key'`"):
        assert public_hex(load_key(path)) == public_hex(key)


@pytest.mark.parametrize("mode", [0o666, 0o602, 0o777])
def test_a_key_that_anybody_can_replace_is_refused(mode: int, tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    (tmp_path / "key").chmod(mode)
    with pytest.raises(KeyFileError, match=f"replaced by anybody on this machine .mode {mode:o}.*chmod 600"):
        load_key(tmp_path / "key")


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_key_of_ones_own_is_used_without(mode: int, tmp_path: Path) -> None:
    create_key(tmp_path / "key")
    (tmp_path / "key").chmod(mode)
    load_key(tmp_path / "key")


def test_the_program_says_so_once_on_standard_error(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    run("agreement", "new", "gaussian", "-o", shared / "agreement.toml", cwd=tmp_path)
    run("join", shared, "--party", "north", cwd=tmp_path)
    path = next(tmp_path.glob("*.key"))
    path.chmod(0o644)
    result = run("status", "--json", cwd=tmp_path)
    assert result.stderr == (
        f"Warning: the key {str(path.name)!r} is open to others on this machine (mode 644), who could sign as you; "
        f"`chmod 600 {path.name}`\n"
    )
    assert result.stdout.startswith("{")
