"""Exports that were tampered with: by others, who cannot sign, or by the service itself, which can."""

import io
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equipoise._util.canonical import canonical_json, sha256_hex
from equipoise.protocol.log import BEGINNING, event_digest
from equipoise.protocol.receipts import Receipt

Files = dict[str, bytes]


def unpacked(data: bytes) -> Files:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def pack(path: Path, files: Files, *more: tuple[str, bytes]) -> Path:
    """Write an export, with more files that may have the same names."""
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about names that are there twice
        for name, content in (*files.items(), *more):
            archive.writestr(name, content)
    return path


def signed(files: Files, key: Ed25519PrivateKey, /, **changes: Any) -> Files:
    """The same files with a manifest that fits them; the head is that of the log, unless it is to be another."""
    log = events(files)
    manifest = json.loads(files["manifest.json"])
    del manifest["signature"]
    manifest["files"] = {name: sha256_hex(content) for name, content in files.items() if name != "manifest.json"}
    manifest["head"] = {"sequence": len(log), "digest": log[-1]["digest"]}
    manifest |= changes
    manifest["signature"] = key.sign(canonical_json(manifest)).hex()
    return {**files, "manifest.json": canonical_json(manifest)}


def events(files: Files) -> list[dict[str, Any]]:
    return [json.loads(line) for line in files["events.jsonl"].splitlines()]


def with_events(files: Files, log: list[dict[str, Any]]) -> Files:
    return {**files, "events.jsonl": b"".join(canonical_json(event) + b"\n" for event in log)}


def rechained(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A log whose digests fit again after it was changed."""
    previous, found = BEGINNING, []
    for number, event in enumerate(log, start=1):
        one = {**event, "sequence": number, "previous": previous}
        one["digest"] = previous = event_digest(one)
        found.append(one)
    return found


def edited(files: Files, name: str, change: Callable[[Any], object]) -> Files:
    """With one JSON document changed."""
    document = json.loads(files[name])
    change(document)
    return {**files, name: json.dumps(document).encode()}


def with_receipts(files: Files, key: Ed25519PrivateKey) -> Files:
    """Receipts of submissions signed anew by the service, for the events of another log."""
    found = dict(files)
    for event in events(files):
        name = f"receipts/{event.get('details', {}).get('party')}.json"
        if event.get("kind") == "submission-accepted" and name in files:
            old = Receipt.parse(files[name]).model_dump(exclude={"format", "version", "service", "signature"})
            told = old | {"event": event["sequence"], "event_digest": event["digest"]}
            found[name] = Receipt.signed(key, **told).to_json()
    return found
