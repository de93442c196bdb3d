"""Chart of posteriors of parameters, before and after: intervals that hold half and nine tenths of each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from equipoise.report.charts.drawing import LETTER, WIDTH, drawn, few_ticks, legend_below, legend_height
from equipoise.report.charts.style import BLUE, FAINT, INK, VERMILION, shortened

STEP = 0.15  # inches from one interval to the next
TITLE = 0.24  # inches for the name of a parameter
AXIS = 0.5  # inches for ticks and unit
MARGIN = 0.14
SERIES = {
    "prior": ("before any data", "v", FAINT),
    "alone": ("alone", "o", VERMILION),
    "reward": ("with the reward", "s", BLUE),
    "team": ("whole team", "D", INK),
}
LONGEST = int((WIDTH - 2 * MARGIN) / (1.15 * LETTER))  # of a name in bold
MOST_STRETCH = 0.75  # of the width of what was learnt: how far a wider belief may push either end of an axis

Quantiles = Sequence[float]  # at 5, 25, 50, 75 and 95 %
Limits = tuple[float, float]


@dataclass(frozen=True)
class Parameter:
    """One parameter, with its quantiles under "prior", "alone", "reward" and "team", as far as given."""

    name: str
    beliefs: Mapping[str, Quantiles]


@dataclass(frozen=True)
class Panel:
    """Parameters that share a unit and an axis. `zero` draws a line there, where it means "no effect"."""

    unit: str
    parameters: Sequence[Parameter]
    zero: bool = False


def interval_limits(panel: Panel) -> Limits:
    """Return the ends of an axis on which posteriors can be told apart, however wide the prior is."""
    learnt = [p.beliefs[name] for p in panel.parameters for name in ("reward", "team") if name in p.beliefs]
    others = [p.beliefs[name] for p in panel.parameters for name in ("prior", "alone") if name in p.beliefs]
    core = learnt or others
    low, high = min(quantiles[0] for quantiles in core), max(quantiles[-1] for quantiles in core)
    room = MOST_STRETCH * (high - low) or abs(high) or 1.0
    wide_low = min(quantiles[0] for quantiles in core + others)
    wide_high = max(quantiles[-1] for quantiles in core + others)
    low, high = max(wide_low, low - room), min(wide_high, high + room)
    margin = 0.04 * (high - low) or room
    return low - margin, high + margin


def intervals(panels: Sequence[Panel], whose: str, limits: Sequence[Limits] | None = None) -> str:
    """Draw posteriors: thick lines hold half of one, thin lines nine tenths; marks are medians.

    Arrows point to values beyond the axis. `limits` are the ends of each panel's axis, so that several charts can share
    them.
    """
    ends = [interval_limits(panel) for panel in panels] if limits is None else list(limits)
    present = [name for name in SERIES if any(name in p.beliefs for panel in panels for p in panel.parameters)]
    labels = [SERIES[name][0] for name in present]
    below = legend_height(labels)
    pitch = TITLE + STEP * len(present)
    heights = [len(panel.parameters) * pitch + AXIS for panel in panels]
    total = sum(heights) + below

    def draw(figure: Figure) -> None:
        top = total
        for panel, height, (low, high) in zip(panels, heights, ends, strict=True):
            inside = height - AXIS
            axes = figure.add_axes((MARGIN / WIDTH, (top - inside) / total, 1 - 2 * MARGIN / WIDTH, inside / total))
            axes.set_xlim(low, high)
            axes.set_ylim(inside, 0)
            _draw_panel(axes, panel, present, pitch)
            top -= height
        legend_below(figure, [_handle(name) for name in present], labels)

    words = "; ".join(_in_words(parameter) for panel in panels for parameter in panel.parameters)
    return drawn(total, f"What is believed, {whose}. Medians and 5 to 95 % ranges. {words}.", draw)


def _draw_panel(axes: Axes, panel: Panel, present: Sequence[str], pitch: float) -> None:
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    few_ticks(axes, 6)
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    low, high = axes.get_xlim()
    if panel.zero and low < 0 < high:
        axes.axvline(0.0, color=FAINT, linewidth=1.1)
    names = shortened([parameter.name for parameter in panel.parameters], LONGEST)
    for index, (parameter, name) in enumerate(zip(panel.parameters, names, strict=True)):
        start = index * pitch
        # White behind the words, so that no grid line runs through them.
        axes.text(
            0.0,
            start + 0.14,
            name,
            transform=axes.get_yaxis_transform(),
            va="center",
            fontweight="bold",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.0},
        )
        for row, series in enumerate(present):
            if series in parameter.beliefs:
                _draw_interval(axes, parameter.beliefs[series], start + TITLE + STEP * (row + 0.45), series)
    axes.set_xlabel(panel.unit)


def _draw_interval(axes: Axes, quantiles: Quantiles, height: float, series: str) -> None:
    _, marker, colour = SERIES[series]
    low, high = axes.get_xlim()
    outer = (quantiles[0], quantiles[-1])
    for (start, end), width in ((outer, 1.2), ((quantiles[1], quantiles[3]), 3.6)):
        if start < high and end > low:
            axes.plot(
                [max(start, low), min(end, high)],
                [height, height],
                color=colour,
                linewidth=width,
                solid_capstyle="butt",
            )
    inset = 0.008 * (high - low)
    for beyond, where, arrow in ((outer[0] < low, low + inset, "<"), (outer[1] > high, high - inset, ">")):
        if beyond:
            axes.plot(where, height, arrow, color=colour, markersize=4.5, clip_on=False)
    if low <= quantiles[2] <= high:
        axes.plot(quantiles[2], height, marker, color=colour, markersize=5.5, markeredgecolor="white")


def _handle(name: str) -> Any:
    _, marker, colour = SERIES[name]
    return Line2D([], [], marker=marker, color=colour, linewidth=3, markersize=5.5, markeredgecolor="white")


def _in_words(parameter: Parameter) -> str:
    told = [
        f"{SERIES[name][0]} {quantiles[2]:.3g} ({quantiles[0]:.3g} to {quantiles[-1]:.3g})"
        for name, quantiles in parameter.beliefs.items()
        if name in SERIES
    ]
    return f"{parameter.name}: {', '.join(told)}"
