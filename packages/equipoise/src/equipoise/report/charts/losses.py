"""Chart of losses on rows that nobody released."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from equipoise.estimate import Estimate
from equipoise.report.charts.drawing import LETTER, drawn, legend_below, legend_height, row_axes, saved
from equipoise.report.charts.style import BLUE, FAINT, GREEN, INK, VERMILION, shortened

LONGEST = 20
ROW = 0.5
BELOW = 0.46
# If the prior's loss is farther off than this many widths of all the others, its mark is drawn at the edge.
FAR = 1.5
SERIES = {
    "team": ("whole team", "|", INK, 14.0),
    "prior": ("no data", "v", FAINT, 6.0),
    "own rows": ("own rows", "D", INK, 5.0),
    "alone": ("alone", "o", VERMILION, 6.0),
    "reward": ("with its reward", "s", BLUE, 6.0),
    "both": ("at home, with both", "P", GREEN, 7.5),
}


def losses(rows: Mapping[str, Mapping[str, Estimate]]) -> str:
    """Draw the loss of each party's models (names of `SERIES`), as far as given; lower is better."""
    height, draw = _losses(rows)
    present = _present(rows)
    words = "; ".join(
        f"{party}: " + ", ".join(f"{SERIES[name][0]} {row[name].value:.3f}" for name in present if name in row)
        for party, row in rows.items()
    )
    return drawn(height, f"Loss on test rows. {words}.", draw)


def save_losses(path: Path, rows: Mapping[str, Mapping[str, Estimate]]) -> None:
    """Write the chart as a file."""
    saved(path, *_losses(rows))


def _present(rows: Mapping[str, Mapping[str, Estimate]]) -> list[str]:
    return [name for name in SERIES if any(name in row for row in rows.values())]


def _losses(rows: Mapping[str, Mapping[str, Estimate]]) -> tuple[float, Callable[[Figure], None]]:
    """Return the height in inches, and the function that draws."""
    names = shortened(list(rows), LONGEST)
    present = _present(rows)
    learnt = [row[name] for row in rows.values() for name in row if name != "prior"]
    low = min(loss.value - 2 * loss.error for loss in learnt)
    high = max(loss.value + 2 * loss.error for loss in learnt)
    width = max(high - low, 0.05)
    highest = max((row["prior"].value for row in rows.values() if "prior" in row), default=high)
    far = highest > high + FAR * width
    edge = high + 0.45 * width if far else max(highest, high)
    labels = [SERIES[name][0] + (" (off axis)" if name == "prior" and far else "") for name in present]
    below = BELOW + legend_height(labels)

    def draw(figure: Figure) -> None:
        left = max(map(len, names)) * LETTER + 0.1
        axes = row_axes(figure, len(rows), left=left, below=below)
        handles: dict[str, Any] = {}
        for index, row in enumerate(rows.values()):
            for name in present:
                if name in row:
                    _, marker, colour, size = SERIES[name]
                    beyond = name == "prior" and row[name].value > edge
                    height = index + 0.13 * (present.index(name) - (len(present) - 1) / 2)
                    handles[name] = axes.errorbar(
                        edge if beyond else row[name].value,
                        height,
                        xerr=None if beyond else 2 * row[name].error,
                        marker=">" if beyond else marker,
                        color=colour,
                        markersize=size,
                        markerfacecolor="white" if name == "alone" else colour,
                        markeredgewidth=1.4,
                        linestyle="none",
                        elinewidth=1.0,
                    )
        axes.set_xlim(low - 0.1 * width, edge + 0.1 * width)
        axes.set_yticks(range(len(rows)), names)
        axes.set_xlabel("loss on test rows (nats a row; less is better)")
        legend_below(figure, [handles[name] for name in present], labels)

    return len(rows) * ROW + below + 0.08, draw
