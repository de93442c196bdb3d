"""Recognition of a round's files by their suffix and first bytes, for messages to people who mixed them up."""

from pathlib import Path

_TABLES = (".csv", ".tsv", ".parquet", ".arrow", ".feather", ".ipc")
SPREADSHEETS = (".xlsx", ".xlsm", ".xls", ".ods", ".numbers")
_COMPRESSED = (".gz", ".bz2", ".zst")
_FIRST_BYTES = 4096
# What a file holds, by texts that all occur near its beginning; a ledger, which holds submissions, comes before them.
_CONTENTS: tuple[tuple[str, tuple[bytes, ...]], ...] = (
    ("a signing key", (b"-----BEGIN PRIVATE KEY-----",)),
    ("a ledger", (b'"previous":"', b'"sequence":', b'"kind":"')),
    ("a submission", (b'"equipoise-submission"',)),
    ("a file of bought bounds", (b'{"count":', b'"counts":{')),
    ("an agreement", (b"[model]", b"kind")),
    ("a reward", (b"\x89HDF",)),
    ("a table", (b"PAR1",)),
    ("a table", (b"ARROW1",)),
)


def recognised(path: Path) -> str:
    """Return what a file seems to be, such as "a table"; empty if it does not exist or its kind is not known."""
    try:
        with path.open("rb") as file:
            start = file.read(_FIRST_BYTES)
    except (OSError, ValueError):
        return ""
    for kind, texts in _CONTENTS:
        if all(text in start for text in texts):
            return kind
    ending = Path(path.stem).suffix.lower() if path.suffix.lower() in _COMPRESSED else path.suffix.lower()
    return "a table" if ending in _TABLES else "a spreadsheet" if ending in SPREADSHEETS else ""


def mixed_up(path: Path, wanted: str) -> str:
    """Say that a file is something else than what is wanted; return an empty string if that cannot be told."""
    kind = recognised(path)
    if kind in ("", wanted):
        return ""
    return f"{str(path)!r} looks like {kind}, where {wanted} is wanted; have two arguments changed places?"
