"""Exports that are small and unpack to much: refused by what they say they are, before they are unpacked."""

import json
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equipoise._util.canonical import canonical_json, sha256_hex
from equipoise.client.verify import archive as export_archive
from equipoise.client.verify.check import check_export
from equipoise.errors import VerificationError
from equipoise.protocol.export import MAX_MANIFEST_BYTES

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def export(path: Path, files: dict[str, bytes], manifest: bytes | None = None) -> Path:
    """An export that its service signed, whatever is in it."""
    document = {
        "format": "equipoise-export",
        "version": 1,
        "round": "abcd",
        "service": KEY.public_key().public_bytes_raw().hex(),
        "time": 0,
        "files": {name: sha256_hex(content) for name, content in files.items()},
        "head": {"sequence": 0, "digest": "00" * 32},
    }
    signed = canonical_json({**document, "signature": KEY.sign(canonical_json(document)).hex()})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {"manifest.json": manifest or signed, **files}.items():
            archive.writestr(name, content)
    return path


def refused(path: Path) -> str:
    began = time.process_time()
    found = [check for check in check_export(path) if check.outcome == "failed"]
    assert time.process_time() - began < 5
    return found[0].message


def test_a_manifest_of_any_length(tmp_path: Path) -> None:
    """Which is read before it is known whose it is."""
    bomb = b"[" + b"[]," * (MAX_MANIFEST_BYTES // 3) + b"[]]"
    path = export(tmp_path / "round.zip", {}, bomb)
    assert path.stat().st_size < 100_000
    assert "the file 'manifest.json' is larger than 16,777,216 bytes" in refused(path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"format":' * 5_000 + b"1" + b"}" * 5_000, "nested too deeply"),
        (b'{"a":1,"a":2}', "appears twice"),
        (b'{"version":' + b"9" * 10_000 + b"}", "digits"),
        (b"null", "is this an export of Equipoise?"),
        (b"[]", "is this an export of Equipoise?"),
        (b"\xff\xfe", "not UTF-8"),
    ],
)
def test_manifests_that_are_none(content: bytes, says: str, tmp_path: Path) -> None:
    assert says in refused(export(tmp_path / "round.zip", {}, content))


def test_a_log_of_any_length_and_lines_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = b'{"details":"' + b"x" * export_archive.MAX_LINE_BYTES + b'"}\n'
    path = export(tmp_path / "round.zip", {"events.jsonl": b"{}\n" + long})
    assert "line 2 of the log cannot be read: the document has 1,048,59" in refused(path)
    path = export(tmp_path / "deep.zip", {"events.jsonl": b"[" * 100_000})
    assert "line 1 of the log cannot be read: the document is nested too deeply" in refused(path)
    monkeypatch.setitem(export_archive._MAX_BYTES_OF, "events.jsonl", 10_000)
    path = export(tmp_path / "many.zip", {"events.jsonl": b"{}\n" * 5_000})
    assert "the file 'events.jsonl' is larger than 10,000 bytes" in refused(path)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"1\n", b"[[],[],[]]\n"])
def test_a_log_of_fifty_million_lines_is_refused_with_little_memory(line: bytes, tmp_path: Path) -> None:
    """By the program itself, which has 2 GiB of memory besides what it takes to start."""
    number = min(50_000_000, export_archive.MAX_LOG_BYTES // len(line))
    path = export(tmp_path / "round.zip", {"events.jsonl": line * number})
    assert path.stat().st_size < 1_000_000
    code = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_DATA, (2**31, 2**31)); "
    code += f"sys.argv = ['equipoise', 'verify', {str(path)!r}]; runpy.run_module('equipoise', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode == VerificationError.exit_code
    said = " ".join((done.stdout + done.stderr).split())
    assert "lines and values; at most 10,000,000 are read" in said
    assert "ask the operator for another export" in said


def test_a_settlement_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_archive, "MAX_DOCUMENT_BYTES", 10_000)
    path = export(tmp_path / "round.zip", {"settlement.json": b" " * 10_001})
    with (
        export_archive.Archive(path) as archive,
        pytest.raises(VerificationError, match="larger than 10,000 bytes"),
    ):
        archive.document("settlement.json")


def test_a_list_of_millions_of_files(tmp_path: Path) -> None:
    """One entry of the list, repeated: a megabyte of it is twenty thousand files to the library."""
    path = export(tmp_path / "round.zip", {})
    data = path.read_bytes()
    start = data.index(b"PK\x01\x02")
    end = data.index(b"PK\x05\x06")
    times = export_archive.MAX_DIRECTORY_BYTES // (end - start) + 1
    entries = data[start:end] * times
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, times & 0xFFFF, times & 0xFFFF, len(entries), start, 0)
    path.write_bytes(data[:start] + entries + tail)
    assert "has a list of files of more than 16,777,216 bytes" in refused(path)


def test_nothing_is_read_at_once_that_is_larger(tmp_path: Path) -> None:
    path = export(tmp_path / "round.zip", {"answers.jsonl": json.dumps("x" * 40_000_000).encode()})
    with export_archive.Archive(path) as archive:
        assert max(map(len, archive.chunks("answers.jsonl"))) <= 2**20
