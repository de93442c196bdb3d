"""The contents of a round's export, for the service that writes it and for everybody who checks it.

The export is a zip file of plain names. The manifest names the SHA-256 of every other file and the head of the event
log, and is signed by the service; receipts that parties hold name events of the same log.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from equipoise._util.canonical import StrictJSONError, canonical_json, sha256_hex, strict_json
from equipoise.agreement.schema import PARTY_NAME
from equipoise.errors import VerificationError
from equipoise.protocol.keys import public_hex, verify

FORMAT = "equipoise-export"
VERSION = 2
VERSIONS = (1, VERSION)  # version 1, written up to 0.7, has the whole log
MANIFEST, AGREEMENT, SETTLEMENT = "manifest.json", "agreement.json", "settlement.json"
EVENTS, ANSWERS = "events.jsonl", "answers.jsonl"
NOISE = "noise.secret"  # only in rounds with added noise, which nobody could settle again without it
PARTS = {"submissions": ".json", "receipts": ".json", "rewards": ".nc"}  # folders with a file for each party
MAX_MANIFEST_BYTES = 16 * 2**20  # read before any signature is verified
_PARTY = PARTY_NAME.strip("^$")
NAMES = re.compile(
    "|".join(
        [
            *map(re.escape, (MANIFEST, AGREEMENT, SETTLEMENT, NOISE, EVENTS, ANSWERS)),
            *(f"{part}/{_PARTY}{re.escape(ending)}" for part, ending in PARTS.items()),
        ]
    )
)


def file_of(part: str, party: str) -> str:
    """Return the name of a party's file in `submissions`, `receipts` or `rewards`."""
    return f"{part}/{party}{PARTS[part]}"


@dataclass(frozen=True)
class Manifest:
    """The service's signed statement of an export's contents; genuine only if the key it names signed it."""

    round: str
    service: str
    time: int
    files: dict[str, str]
    sequence: int  # sequence number of the last event
    head: str  # digest of the last event
    signature: str
    signed: bytes

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse a manifest, and check its signature."""
        try:
            document = strict_json(data, max_bytes=MAX_MANIFEST_BYTES)
            if document["format"] != FORMAT or document["version"] not in VERSIONS:
                raise ValueError(f"format {document['format']!r}, version {document['version']!r}")
            signature = str(document.pop("signature"))
            manifest = cls(
                round=str(document["round"]),
                service=str(document["service"]),
                time=int(document["time"]),
                files={str(name): str(digest) for name, digest in document["files"].items()},
                sequence=int(document["head"]["sequence"]),
                head=str(document["head"]["digest"]),
                signature=signature,
                signed=canonical_json(document),
            )
        except (StrictJSONError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise VerificationError(
                f"the manifest cannot be read ({error!r}); is this an export of Equipoise?"
            ) from error
        verify(manifest.service, manifest.signature, manifest.signed, what="the manifest")
        return manifest


def signed_manifest(
    key: Ed25519PrivateKey, *, round_id: str, time: int, files: Mapping[str, bytes], head: Mapping[str, Any]
) -> bytes:
    """Return the manifest of these files, with the log's last event as `head`, signed with the service's key."""
    document: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "round": round_id,
        "service": public_hex(key),
        "time": time,
        "files": {name: sha256_hex(content) for name, content in files.items()},
        "head": {"sequence": head["sequence"], "digest": head["digest"]},
    }
    document["signature"] = key.sign(canonical_json(document)).hex()
    return canonical_json(document) + b"\n"
