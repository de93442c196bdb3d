"""The canonical JSON form of everything that is hashed or signed, and strict readers of everything received."""

import hashlib
import json
import math
import re
import tomllib
from pathlib import Path
from typing import Any, NoReturn

MAX_DOCUMENT_BYTES = 4 * 2**20
MAX_DEPTH = 32
# Every reader of JSON represents whole numbers up to this one exactly.
MAX_INTEGER = 2**53 - 1
# Of TOML, whose parser is slow, and takes time that grows with the square of a key's parts.
MAX_TOML_BYTES, MAX_VALUES, MAX_KEY_PARTS = 2 * 2**20, 100_000, 8

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)  # of JSON
_NO_BRACKETS = bytes(set(range(256)) - set(b'[]{}"'))
# Strings and comments of TOML, which may hold anything; one that does not end goes to the end of its line, or of all.
_TEXTS = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)|'{3}(?:[^']|'(?!''))*+(?:'{3}|\Z)|'''
    r""""(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?|\#[^\n]*+""",
    re.DOTALL,
)
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}")


class StrictJSONError(ValueError):
    """The text is not the one JSON document it claims to be."""


def canonical_json(document: Any) -> bytes:
    """Serialise to the only accepted byte form: sorted keys, no spaces, ASCII, no NaN or Infinity."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.encode("ascii")


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 digest as 64 lowercase hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def strict_json(data: bytes, *, max_bytes: int = MAX_DOCUMENT_BYTES, one_number_type: bool = False) -> Any:
    """Parse JSON from an untrusted sender.

    Python's parser accepts more than JSON: NaN and Infinity literals, and repeated keys (the last one wins, so two
    readers can disagree about what was signed). It also lets an attacker choose recursion depth and integer length. All
    of these are refused here, before any schema sees the document. With `one_number_type`, as in JSON itself, 1.0 is
    the integer 1, so that a schema of integers accepts it too.
    """
    if len(data) > max_bytes:
        raise StrictJSONError(f"the document has {len(data):,} bytes; at most {max_bytes:,} are accepted")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise StrictJSONError(f"the document is not UTF-8 text (byte {error.start})") from error
    if _is_deep(data):
        raise StrictJSONError("the document is nested too deeply")
    try:
        return json.loads(
            text,
            object_pairs_hook=_without_repeats,
            parse_constant=_refuse_constant,
            parse_float=_parse_number if one_number_type else _finite_float,
        )
    except StrictJSONError:
        raise
    except ValueError as error:
        # The text is malformed JSON, or has an integer of thousands of digits.
        raise StrictJSONError(f"the document is not valid JSON: {error}") from error


def strict_toml(text: str) -> dict[str, Any]:
    """Parse TOML from an untrusted sender within bounded time; raise `ValueError` for every mistake.

    Without these limits, Python's parser needs a minute for 58 kB of a single key with many dots.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_TOML_BYTES:
        raise ValueError(f"it has more than {MAX_TOML_BYTES:,} bytes")
    bare = _TEXTS.sub("text", text)
    if sum(map(bare.count, "=[{,")) > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES:,} keys, tables and values")
    if _LONG_KEY.search(bare):
        raise ValueError(f"a key of it has more than {MAX_KEY_PARTS} parts")
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", bare):
        depth = max(depth + (1 if bracket in "[{" else -1), 0)
        if depth > MAX_DEPTH:
            raise ValueError("it is nested too deeply")
    return tomllib.loads(text)


def read_limited(path: Path, *, max_bytes: int = MAX_DOCUMENT_BYTES) -> bytes:
    """Read at most one byte more than the limit, so that the size of a file does not decide how much memory is used."""
    with path.open("rb") as file:
        return file.read(max_bytes + 1)


def _is_deep(data: bytes) -> bool:
    """Return whether JSON is nested deeper than any of our documents, too deep perhaps for a later serialiser."""
    # Most documents have so few brackets that they cannot be deep.
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    # Without backslashes, strings end at the next quote: drop most of the text, then pairs layer by layer.
    if b"\\" not in data:
        bare = _STRING.sub(b"", data.translate(None, _NO_BRACKETS).replace(b'""', b""))
        for _ in range(MAX_DEPTH):
            bare = bare.replace(b"[]", b"").replace(b"{}", b"")
            if not bare:
                return False
    depth = 0
    for bracket in _STRING.sub(b"", data):
        depth += (bracket in b"[{") - (bracket in b"]}")
        if depth > MAX_DEPTH:
            return True
    return False


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for name, value in pairs:
        if name in document:
            raise StrictJSONError(f"the key {name!r} appears twice in one object")
        document[name] = value
    return document


def _finite_float(text: str) -> float:
    value = float(text)
    # The literal 1e999 is valid JSON, and infinity after reading it.
    if math.isinf(value):
        raise StrictJSONError(f"the number {text[:40]} is too large")
    return value


def _parse_number(text: str) -> int | float:
    value = _finite_float(text)
    return int(value) if value.is_integer() and abs(value) <= MAX_INTEGER else value


def _refuse_constant(literal: str) -> NoReturn:
    raise StrictJSONError(f"the literal {literal} is not a JSON number")
