"""Drawing with Matplotlib, as an `<svg>` element that can stand beside others in one page.

Matplotlib keeps its settings in one global table, so drawing holds a lock and restores the table afterwards. Threads of
a service may draw at once, as long as they all draw here. No window system and no `pyplot` is involved. Text stays
text, so that it can be searched, copied and read aloud; it is laid out with a wide font and shown in the reader's own,
narrower one. No CSS is used: pages may forbid styles within elements, and recolour `[fill="#1a1a1a"]` with their own.
"""

import io
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from equipoise._util.canonical import sha256_hex
from equipoise.report.charts.style import FAINT, INK, RULE
from equipoise.report.wording import number

# Lengths are in inches; a chart is 422 pixels wide.
WIDTH = 4.4
# Font size in points.
TEXT = 10.0
# The average width of a letter in the font of the layout.
LETTER = 0.6 * TEXT / 72
# The distance from one row to the next.
LINE = 0.215
# The font of the layout, which comes with Matplotlib.
FAMILY = "DejaVu Sans"
SHOWN_FAMILY = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

_LOCK = threading.Lock()
_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SVG, _HREF = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_SETTINGS: dict[str, Any] = {
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.labelsize": TEXT,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": ["sans-serif"],
    "font.sans-serif": [FAMILY],
    "font.size": TEXT,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "legend.fontsize": TEXT,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "equipoise",
    "text.color": INK,
    "text.parse_math": False,  # a party may be called a$b$c
    "xtick.color": FAINT,
    "xtick.labelcolor": INK,
    "xtick.labelsize": TEXT,
    "ytick.color": FAINT,
    "ytick.labelcolor": INK,
    "ytick.labelsize": TEXT,
}


def drawn(height: float, words: str, draw: Callable[[Figure], None]) -> str:
    """Draw a figure of `height` inches as an `<svg>` element; `words` describe it for those who cannot see it."""
    with _figure(height) as figure:
        draw(figure)
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    return _embeddable(buffer.getvalue(), words)


def saved(path: Path, height: float, draw: Callable[[Figure], None]) -> None:
    """Draw a figure of `height` inches into a file, whose ending decides the format: .png, .svg or .pdf."""
    # Letters become paths, because the reader of a file may not have the font.
    with _figure(height, {"svg.fonttype": "path"}) as figure:
        draw(figure)
        figure.savefig(path, format=path.suffix[1:].lower(), dpi=200)


@contextmanager
def _figure(height: float, settings: dict[str, Any] | None = None) -> Iterator[Figure]:
    # The user's own settings do not apply, because the same numbers should look the same everywhere.
    usual: dict[Any, Any] = {k: v for k, v in mpl.rcParamsDefault.items() if not k.startswith("backend")}
    with _LOCK, mpl.rc_context(usual | _SETTINGS | (settings or {})), warnings.catch_warnings():
        # The reader's own font may have glyphs that the layout's font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield Figure(figsize=(WIDTH, height))


def _embeddable(document: str, words: str) -> str:
    """Return a file's drawing as an element for a page, with ids that no other drawing in the page has.

    Metadata, styles and ids without references are left out. CSS declarations become attributes of the same names.
    """
    # Matplotlib wrote the document, so it holds no hostile entities. But it copies control characters from names.
    root = ElementTree.fromstring(_NOT_IN_XML.sub("\ufffd", document))  # noqa: S314
    prefix = "c" + sha256_hex(f"{words}\n{document}".encode())[:10]
    ids: dict[str, str] = {}
    for element in root.iter():
        for child in list(element):
            if child.tag in (f"{_SVG}metadata", f"{_SVG}style"):
                element.remove(child)
        # Names without namespaces are written without prefixes, and indentation is not needed.
        element.tag, element.tail = element.tag.removeprefix(_SVG), None
        element.text = element.text if element.text and element.text.strip() else None
        element.attrib = _plain_attributes(element)
        for name, value in element.items():
            if name == "href" or value.startswith("url(#"):
                referred = value.removeprefix("url(").removesuffix(")").removeprefix("#")
                new = ids.setdefault(referred, f"{prefix}-{len(ids)}")
                element.set(name, value.replace(f"#{referred}", f"#{new}"))
    # Rename definitions last, because one may precede the first reference to it.
    for element in root.iter():
        if (old := element.attrib.pop("id", "")) in ids:
            element.set("id", ids[old])
    root.attrib = {
        "xmlns": _SVG.strip("{}"),
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-label": words,
        "width": str(round(WIDTH * 96)),
        "stroke-linejoin": "round",
    }
    return ElementTree.tostring(root, "unicode")


def _plain_attributes(element: ElementTree.Element) -> dict[str, str]:
    """Return an element's attributes, with its CSS declarations among them, in the reader's font."""
    attributes = {name: value for name, value in element.items() if name != "style"}
    if _HREF in attributes:
        attributes["href"] = attributes.pop(_HREF)
    for declaration in element.get("style", "").split(";"):
        name, _, value = declaration.partition(":")
        if value:
            attributes[name.strip()] = value.strip().replace(f"'{FAMILY}'", SHOWN_FAMILY)
    return attributes


def row_axes(figure: Figure, rows: float, *, left: float, below: float, above: float = 0.08) -> Axes:
    """Add axes with `rows` rows from the top down, `left` inches for their labels and `below` for ticks and legend."""
    height = figure.get_figheight()
    axes = figure.add_axes((left / WIDTH, below / height, 1 - (left + 0.16) / WIDTH, 1 - (below + above) / height))
    axes.set_ylim(rows - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    few_ticks(axes)
    return axes


def value_axes(figure: Figure, *, below: float, left: float = 0.62) -> Axes:
    """Add axes for values of up to four digits along the left, with the axis label beside them."""
    height = figure.get_figheight()
    axes = figure.add_axes((left / WIDTH, below / height, 1 - (left + 0.17) / WIDTH, 1 - (below + 0.1) / height))
    # These steps give ticks at 20 and 25, but not at 22.5.
    axes.yaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
    return axes


def make_room(axes: Axes) -> None:
    """Write values along the left without exponents, and move the axes to the right if these are long."""
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    low, high = axes.get_ylim()
    longest = max(len(number(tick)) for tick in axes.get_yticks() if low <= tick <= high)
    more = max(0, longest - 3) * LETTER / WIDTH
    box = axes.get_position()
    axes.set_position((box.x0 + more, box.y0, box.width - more, box.height))


def few_ticks(axes: Axes, most: int = 5) -> None:
    """Limit the ticks along the bottom to as many as fit on a telephone."""
    axes.xaxis.set_major_locator(MaxNLocator(most))


def legend_columns(labels: Sequence[str]) -> int:
    """Return how many labels of a legend fit beside each other."""
    widest = max(map(len, labels)) * LETTER + 0.43
    return max(1, min(len(labels), int((WIDTH - 0.1) / widest)))


def legend_height(labels: Sequence[str]) -> float:
    """Return the height in inches of a legend with these labels."""
    return -(-len(labels) // legend_columns(labels)) * 0.18 + 0.05


def legend_below(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """Add a legend along the bottom edge."""
    figure.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.0, 0.0),
        ncols=legend_columns(labels),
        borderaxespad=0.1,
        borderpad=0.1,
        labelspacing=0.3,
        columnspacing=1.0,
        handletextpad=0.6,
        handlelength=1.6,
        numpoints=1,
    )
