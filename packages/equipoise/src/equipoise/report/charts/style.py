"""Style of all charts: colours, markers, line styles, and names short enough to be drawn."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

# Okabe and Ito's palette, without its yellow, which is too pale on white; the order keeps neighbours far apart.
BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
INK, FAINT, RULE = "#1a1a1a", "#5f6670", "#d5d9de"

COLOURS = (BLUE, VERMILION, GREEN, PURPLE, SKY, ORANGE, INK)
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "p", "<", ">")
DASHES: tuple[tuple[float, tuple[float, ...] | None], ...] = ((0, None), (0, (5, 2)), (0, (2, 1.5)), (0, (6, 2, 1, 2)))

ELLIPSIS = "…"


class Look(NamedTuple):
    """Colour, marker and dashes of one series, which can be told apart without its colour."""

    colour: str
    marker: str
    dash: tuple[float, tuple[float, ...] | None]


def look(series: int) -> Look:
    """Return the look of series number `series`; 70 differ."""
    return Look(COLOURS[series % len(COLOURS)], MARKERS[series % len(MARKERS)], DASHES[series % len(DASHES)])


def shortened(names: Sequence[str], most: int) -> list[str]:
    """Shorten names to at most `most` characters by leaving out the middle; they stay different from each other."""
    plain = ["".join(letter if letter.isprintable() else " " for letter in name).strip() or "?" for name in names]
    short = [_cut(name, most) for name in plain]
    times = Counter(short)
    for index, name in enumerate(short):
        if times[name] > 1:
            number = str(index + 1)
            short[index] = f"{plain[index][: max(1, most - len(number) - 1)]}{ELLIPSIS}{number}"
    return short


def _cut(name: str, most: int) -> str:
    if len(name) <= most:
        return name
    tail = (most - 1) // 3
    return f"{name[: most - 1 - tail]}{ELLIPSIS}{name[len(name) - tail :] if tail else ''}"
