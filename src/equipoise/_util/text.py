"""Small pieces of wording that messages and tables share."""

import re
from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """A number with its noun: 1 row, 2 rows."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def short(number: float) -> str:
    """A small power of ten as people write it: 1e-6 rather than 1e-06."""
    return re.sub(r"e([-+])0(\d)$", r"e\1\2", f"{number:g}")


def first_few(values: Sequence[object], most: int = 6) -> str:
    """The first few values of a list that may be long."""
    return ", ".join(repr(value) for value in values[:most]) + (", …" if len(values) > most else "")
