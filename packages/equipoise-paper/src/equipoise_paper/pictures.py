"""The experiments' pictures, as PNG and SVG: lines with standard errors shaded as in the paper, and contours."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from numpy.typing import NDArray
from scipy.stats import gaussian_kde

from equipoise.estimate import Estimate
from equipoise.report.charts.drawing import WIDTH, legend_below, legend_height, saved
from equipoise.report.charts.style import look

# Draws into axes, and returns the artists that the legend names.
Draw = Callable[[Axes], list[object]]

HEIGHT, BELOW = 2.4, 0.5
LEFT = 0.72
KINDS = (".png", ".svg")
GRID = 120


@dataclass(frozen=True)
class Curve:
    """A named line of estimates; curves in one picture may have different x."""

    name: str
    x: Sequence[float]
    y: Sequence[Estimate]


def draw_curves(
    path: Path,
    curves: Sequence[Curve],
    x_label: str,
    y_label: str,
    *,
    logarithmic: bool = True,
    first_look: int = 0,
) -> list[Path]:
    """Write a picture of curves in all file formats; `path` has no ending.

    Colours and markers are numbered from `first_look`.
    """

    def draw(axes: Axes) -> list[object]:
        handles: list[object] = []
        for number, curve in enumerate(curves, first_look):
            style = look(number)
            values = [estimate.value for estimate in curve.y]
            (line,) = axes.plot(
                curve.x,
                values,
                color=style.colour,
                marker=style.marker,
                linestyle=style.dash,
                markersize=4.5,
                linewidth=1.6,
            )
            low = [estimate.value - estimate.error for estimate in curve.y]
            high = [estimate.value + estimate.error for estimate in curve.y]
            axes.fill_between(curve.x, low, high, color=style.colour, alpha=0.2, linewidth=0)
            handles.append(line)
        if logarithmic:
            ticks = sorted({x for curve in curves for x in curve.x})
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(FixedLocator(ticks))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _place: f"{value:g}"))
        axes.grid(axis="y")
        return handles

    return _write(path, [curve.name for curve in curves], x_label, y_label, HEIGHT, draw)


def draw_contours(
    path: Path, clouds: dict[str, NDArray[np.float64]], x_label: str, y_label: str, shares: Sequence[float]
) -> list[Path]:
    """Draw, for clouds of points [points, 2], the regions of highest density with the given shares, and the means."""
    narrow = [np.quantile(points, [0.01, 0.99], axis=0) for points in list(clouds.values())[1:]]
    low, high = np.min([lower for lower, _ in narrow], axis=0), np.max([upper for _, upper in narrow], axis=0)
    # The first cloud may be far wider than the picture, which must only include its mean.
    middle = np.mean(next(iter(clouds.values())), axis=0)
    low, high = np.minimum(low, middle), np.maximum(high, middle)
    margin = 0.2 * (high - low)
    across, up = (np.linspace(low[k] - margin[k], high[k] + margin[k], GRID) for k in range(2))
    x, y = np.meshgrid(across, up)

    def draw(axes: Axes) -> list[object]:
        handles: list[object] = []
        for number, points in enumerate(clouds.values()):
            style = look(number)
            density = gaussian_kde(points.T)
            height = density(np.stack([x.ravel(), y.ravel()])).reshape(x.shape)
            levels = np.quantile(density(points.T), sorted(1 - share for share in shares))
            axes.contour(x, y, height, levels=levels, colors=style.colour, linewidths=1.4, linestyles=[style.dash])
            (mark,) = axes.plot(*points.mean(axis=0), color=style.colour, marker=style.marker, linestyle="")
            handles.append(mark)
        axes.set_xlim(across[0], across[-1])
        axes.set_ylim(up[0], up[-1])
        return handles

    return _write(path, list(clouds), x_label, y_label, 1.4 * HEIGHT, draw)


def _write(path: Path, labels: list[str], x_label: str, y_label: str, tall: float, draw: Draw) -> list[Path]:
    below = BELOW + legend_height(labels)

    def whole(figure: Figure) -> None:
        height = figure.get_figheight()
        box = (LEFT / WIDTH, below / height, 1 - (LEFT + 0.12) / WIDTH, 1 - (below + 0.1) / height)
        axes = figure.add_axes(box)
        handles = draw(axes)
        axes.set_axisbelow(True)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        legend_below(figure, handles, labels)

    paths = [path.with_name(path.name + kind) for kind in KINDS]
    for file in paths:
        saved(file, tall + below + 0.1, whole)
    return paths
