"""Tables and charts that render themselves: as text on a terminal, as HTML in a notebook, without further imports."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import shorten

from equipoise._util.text import cells_on_screen

# Sizes of a chart, in pixels.
WIDTH, ROW, LABEL = 560, 22, 150
# Everybody can tell these apart, colour-blind people included.
COLOURS = ("#0072b2", "#9a9a9a", "#d55e00", "#222222")
LONGEST = 22  # most letters of a label


@dataclass(frozen=True)
class Interval:
    """A value with its lower and upper end on a line of a chart; `series` tells intervals of a line apart."""

    series: str
    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Chart:
    """Lines of intervals on a common axis, each with its label."""

    unit: str
    lines: Sequence[tuple[str, Sequence[Interval]]]

    def svg(self) -> str:
        """Return the chart as SVG, or an empty string if there is nothing to draw."""
        shown = [interval for _, line in self.lines for interval in line]
        if not shown:
            return ""
        low, high = min(interval.low for interval in shown), max(interval.high for interval in shown)
        margin = 0.03 * (high - low) or abs(high) or 1.0
        low, high = low - margin, high + margin
        series = list(dict.fromkeys(interval.series for interval in shown))
        pitch = max(ROW, 9 * len(series) + 8)
        height = pitch * len(self.lines) + 40

        def x(value: float) -> float:
            return LABEL + (value - low) / (high - low) * (WIDTH - LABEL - 12)

        parts = [
            f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="0" y2="{height - 36}" stroke="#ddd"/>'
            f'<text x="{x(tick):.1f}" y="{height - 22}" text-anchor="middle">{tick:g}</text>'
            for tick in _ticks(low, high)
        ]
        for index, (label, line) in enumerate(self.lines):
            top = pitch * index
            parts.append(
                f'<text x="{LABEL - 8}" y="{top + pitch / 2 + 4:.1f}" text-anchor="end">'
                f"{escape(shorten(label, LONGEST, placeholder='…') or label[:LONGEST])}</text>"
            )
            for interval in line:
                colour = COLOURS[series.index(interval.series) % len(COLOURS)]
                y = top + pitch / 2 + 9 * (series.index(interval.series) - (len(series) - 1) / 2)
                parts.append(
                    f'<line x1="{x(interval.low):.1f}" x2="{x(interval.high):.1f}" y1="{y:.1f}" y2="{y:.1f}" '
                    f'stroke="{colour}" stroke-width="2"/>'
                    f'<circle cx="{x(interval.middle):.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>'
                )
        legend = " &#160; ".join(
            f'<tspan fill="{colour}">●</tspan> {escape(name)}'
            for name, colour in zip(series, itertools.cycle(COLOURS), strict=False)
        )
        parts.append(f'<text x="{LABEL}" y="{height - 4}">{escape(self.unit)}: {legend}</text>')
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
            f'role="img" style="font: 12px sans-serif; background: white">{"".join(parts)}</svg>'
        )


@dataclass(frozen=True, repr=False)
class Table:
    """A titled table as data, which a command line, a report or a notebook each renders in its own way.

    The first cell of a row names it, and columns from `numeric_from` on hold numbers. Cells are strings, or objects
    shown by their `str`, such as an `Estimate`.
    """

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    chart: Chart | None = None
    notes: Sequence[str] = ()
    numeric_from: int = 1
    codes: bool = False  # cells are long digests, which may be broken anywhere
    folded: bool = False  # shown folded, to be opened on demand

    @property
    def narrow(self) -> bool:
        """True if the table fits beside a chart."""
        return len(self.headers) <= 3 and not self.codes and not self.folded

    def __repr__(self) -> str:
        rows = [list(map(str, row)) for row in self.rows]
        widths = [max(map(cells_on_screen, column)) for column in zip(self.headers, *rows, strict=True)]

        def line(cells: Sequence[str]) -> str:
            padded = []
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True)):
                blank = " " * (width - cells_on_screen(cell))
                padded.append(blank + cell if column >= self.numeric_from else cell + blank)
            return "  ".join(padded).rstrip()

        rule = "  ".join("─" * width for width in widths)
        return "\n".join([self.title, line(self.headers), rule, *map(line, rows), *self.notes])

    def _repr_html_(self) -> str:
        def row(cells: Sequence[object], tag: str) -> str:
            aligned = (
                f'<{tag} style="padding: 2px 8px; text-align: {"right" if column >= self.numeric_from else "left"}">'
                f"{escape(str(cell))}</{tag}>"
                for column, cell in enumerate(cells)
            )
            return f"<tr>{''.join(aligned)}</tr>"

        table = row(self.headers, "th") + "".join(row(cells, "td") for cells in self.rows)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        picture = self.chart.svg() if self.chart is not None else ""
        return f"<div><p><b>{escape(self.title)}</b></p><table>{table}</table>{picture}{notes}</div>"


def _ticks(low: float, high: float) -> list[float]:
    """Return a few round numbers within a range."""
    span = high - low
    power = 10.0 ** math.floor(math.log10(span / 6))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= 6)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]
