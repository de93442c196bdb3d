"""Small pieces of wording that messages and tables share."""

import json
import re
import shutil
import textwrap
import unicodedata
from collections.abc import Sequence

# What steers a terminal or changes the order of letters: control codes but for line ends and tabs, invisible and
# bidirectional ones, line separators, halves of letters.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 row, 2 rows."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def duration(seconds: float) -> str:
    """Return a waiting time in words, rounded as coarsely as such estimates deserve."""
    if seconds < 60:
        return counted(max(1, round(seconds)), "second")
    if seconds < 5400:
        return counted(round(seconds / 60), "minute")
    return counted(round(seconds / 3600), "hour")


def short(number: float) -> str:
    """Format a small power of ten as people write it: 1e-6 rather than 1e-06."""
    return re.sub(r"e([-+])0(\d)$", r"e\1\2", f"{number:g}")


def first_few(values: Sequence[object], most: int = 6) -> str:
    """Join the first few values of a list that may be long."""
    return ", ".join(repr(value) for value in values[:most]) + (", …" if len(values) > most else "")


def visible(text: str) -> str:
    """Escape every character that would steer a terminal, as in JSON, so that no name can pretend to be more."""
    return _STEERING.sub(lambda match: json.dumps(match[0])[1:-1].replace("\x7f", "\\u007f"), text)


def toml_string(text: str) -> str:
    """Return a text as a TOML string on one line, with every character that would steer a terminal escaped.

    JSON escapes characters beyond 16 bits, such as emoji, as surrogate pairs, which TOML does not know.
    """
    return _STEERING.sub(lambda match: f"\\U{ord(match[0]):08X}", json.dumps(text, ensure_ascii=False))


def cells_on_screen(text: str) -> int:
    """Return how many terminal cells a text takes: two for wide letters and emoji, none for marks and joiners."""
    shown = [letter for letter in text if unicodedata.category(letter) not in ("Mn", "Me", "Cf")]
    return len(shown) + sum(unicodedata.east_asian_width(letter) in "WF" for letter in shown)


def paragraph(text: str, start: str = "") -> str:
    """Return a text, made visible and wrapped between words to the width of the terminal; `start` begins it."""
    width = max(40, shutil.get_terminal_size().columns)
    indented = " " * len(start)
    return textwrap.fill(visible(text), width, initial_indent=start, subsequent_indent=indented, break_on_hyphens=False)


def first_repeat(names: list[str]) -> str | None:
    """Return the first name that occurred before, or None."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
