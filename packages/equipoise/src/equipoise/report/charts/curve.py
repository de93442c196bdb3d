"""Chart of the value of a team's posterior against κ or τ, with the rewards on the curve."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from equipoise.estimate import UNSURE, Estimate
from equipoise.report.charts.drawing import drawn, legend_below, legend_height, value_axes
from equipoise.report.charts.style import FAINT, Look, look, shortened

HEIGHT = 2.5  # inches of the axes
BELOW = 0.47
LONGEST = 22
AXES = {
    "kappa": "κ: share of the evidence that is used",
    "tau": "τ: noise added before the posterior is made",
}


@dataclass(frozen=True)
class Line:
    """Estimates of r(κ) or r(τ); `party` is set if the curve belongs to one party."""

    points: Sequence[tuple[float, Estimate]]
    party: str | None = None


@dataclass(frozen=True)
class Mark:
    """A reward: its position on the axis, and its value."""

    party: str
    place: float
    value: Estimate


def reward_curve(lines: Sequence[Line], marks: Sequence[Mark], *, control: Literal["kappa", "tau"]) -> str:
    """Draw the curve (one for all, or one for each party) and the rewards; bars are two standard errors either way."""
    looks = {mark.party: look(position) for position, mark in enumerate(marks)}
    labels = shortened([mark.party for mark in marks], LONGEST)
    below = BELOW + (legend_height(labels) if labels else 0.0)
    places = [position for line in lines for position, _ in line.points] + [mark.place for mark in marks]
    least = min((position for position in places if position > 0), default=0.5)
    # A logarithmic axis has no 0, so points at 0 are drawn at the left end.
    zero = least / 4 if 0.0 in places else None

    def draw(figure: Figure) -> None:
        axes = value_axes(figure, below=below)
        axes.set_xscale("log")
        for line in lines:
            style = looks.get(line.party or "")
            _draw_line(axes, sorted(line.points, key=lambda point: point[0]), style, zero)
        handles: list[Any] = []
        for mark in marks:
            style = looks[mark.party]
            handles.append(
                axes.errorbar(
                    mark.place or zero or least,
                    mark.value.value,
                    yerr=UNSURE * mark.value.error,
                    fmt=style.marker,
                    color=style.colour,
                    markeredgecolor="white",
                    markeredgewidth=0.8,
                    markersize=8,
                    elinewidth=1.4,
                    zorder=5,
                )
            )
        _label_axis(axes, zero)
        axes.grid(axis="y")
        axes.set_xlabel(AXES[control])
        axes.set_ylabel("value (nats)")
        if handles:
            legend_below(figure, handles, labels)

    symbol = {"kappa": "κ", "tau": "τ"}[control]
    listed = "; ".join(f"{mark.party}: {symbol} = {mark.place:.3g}, {mark.value.value:.2f} nats" for mark in marks)
    return drawn(HEIGHT + below + 0.1, f"Value of the reward against {symbol}. {listed}.", draw)


def _draw_line(axes: Axes, points: Sequence[tuple[float, Estimate]], style: Look | None, zero: float | None) -> None:
    axes.errorbar(
        [index or zero or 1.0 for index, _ in points],
        [value.value for _, value in points],
        yerr=[UNSURE * value.error for _, value in points],
        color=style.colour if style else FAINT,
        linestyle=style.dash if style else "-",
        linewidth=1.4,
        marker=".",
        markersize=4,
        elinewidth=1,
    )


def _label_axis(axes: Axes, zero: float | None) -> None:
    """Label powers of ten (of two on a short axis), and 0 at its position."""
    low, high = axes.get_xlim()
    start = low if zero is None else zero * (high / low) ** 0.1  # room for the 0
    ticks = [10.0**power for power in range(-12, 13) if start <= 10.0**power <= high]
    if len(ticks) < 2:
        ticks = [2.0**power for power in range(-40, 41) if start <= 2.0**power <= high]
    ticks = ticks[:: -(-len(ticks) // 5)] if ticks else []
    shown = ([zero] if zero else []) + ticks
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: "0" if value == zero else f"{value:g}"))
