"""One canonical JSON form for everything that is hashed or signed, and one strict reader for everything received."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any, NoReturn

MAX_DOCUMENT_BYTES = 4 * 2**20


class StrictJSONError(ValueError):
    """The text is not the one JSON document it claims to be."""


def canonical_json(document: Any) -> bytes:
    """Serialise to the only accepted byte form: sorted keys, no spaces, ASCII, no NaN or Infinity."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def sha256_hex(data: bytes) -> str:
    """SHA-256 as 64 lowercase hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def strict_json(data: bytes, *, max_bytes: int = MAX_DOCUMENT_BYTES) -> Any:
    """Parse JSON from an untrusted sender.

    Python's parser accepts more than JSON: NaN and Infinity literals, repeated keys (the last one wins, so two readers
    can disagree about what was signed), and it lets an attacker choose recursion depth and integer length. All of these
    are refused here, before any schema sees the document.
    """
    if len(data) > max_bytes:
        raise StrictJSONError(f"the document has {len(data):,} bytes; at most {max_bytes:,} are accepted")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StrictJSONError(f"the document is not UTF-8 text (byte {error.start})") from error
    try:
        return json.loads(
            text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant, parse_float=_finite_float
        )
    except StrictJSONError:
        raise
    except RecursionError as error:
        raise StrictJSONError("the document is nested too deeply") from error
    except ValueError as error:  # malformed JSON, or an integer of thousands of digits
        raise StrictJSONError(f"the document is not valid JSON: {error}") from error


def read_limited(path: Path, *, max_bytes: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Read a file without letting its size decide how much memory is used: one byte past the limit is enough."""
    with path.open("rb") as file:
        return file.read(max_bytes + 1)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, value in pairs:
        if name in document:
            raise StrictJSONError(f"the key {name!r} appears twice in one object")
        document[name] = value
    return document


def _finite_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):  # 1e999 is valid JSON, and infinity after reading it
        raise StrictJSONError(f"the number {text[:40]} is too large")
    return value


def _refuse_constant(literal: str) -> NoReturn:
    raise StrictJSONError(f"the literal {literal} is not a JSON number")
