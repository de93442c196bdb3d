"""Chart of the benefit that a party can expect from each ε."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from equipoise.report.charts.drawing import WIDTH, legend_below, legend_height, saved
from equipoise.report.charts.style import FAINT, INK, look

# Heights of the two panels, and margins, in inches.
VALUES, QUALITY = 1.9, 2.1
BELOW, BETWEEN = 0.5, 0.2


@dataclass(frozen=True)
class Quantity:
    """One quantity at every ε, with its standard errors."""

    name: str
    values: Sequence[float]
    errors: Sequence[float]


@dataclass(frozen=True)
class PrivacyChoices:
    """Values in nats and qualities in per cent against ε; `knee` is the index of an ε to mark."""

    epsilons: Sequence[float]
    values: Sequence[Quantity]
    qualities: Sequence[Quantity]
    knee: int | None


def save_privacy_choices(path: Path, choices: PrivacyChoices) -> None:
    """Write the chart as a file."""
    saved(path, _height(choices), lambda figure: _draw(figure, choices))


def _names(choices: PrivacyChoices) -> list[str]:
    """Return the distinct names of all lines; a name in both panels has one look."""
    return list(dict.fromkeys(line.name for line in (*choices.values, *choices.qualities)))


def _labels(choices: PrivacyChoices) -> list[str]:
    return _names(choices) + ([] if choices.knee is None else ["knee"])


def _height(choices: PrivacyChoices) -> float:
    return legend_height(_labels(choices)) + BELOW + QUALITY + BETWEEN + VALUES + 0.12


def _draw(figure: Figure, choices: PrivacyChoices) -> None:
    height, below = figure.get_figheight(), legend_height(_labels(choices)) + BELOW

    shown = _readable(choices.epsilons)

    def panel(bottom: float, size: float) -> Axes:
        axes = figure.add_axes((0.62 / WIDTH, bottom / height, 1 - 0.8 / WIDTH, size / height))
        axes.set_xscale("log")
        axes.grid(axis="y")
        axes.set_axisbelow(True)
        axes.xaxis.set_major_locator(FixedLocator(shown))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda epsilon, _place: f"{epsilon:.2g}"))
        axes.minorticks_off()
        return axes

    lower = panel(below, QUALITY)
    upper = panel(below + QUALITY + BETWEEN, VALUES)
    handles: dict[str, Any] = {}
    looks = {name: look(index) for index, name in enumerate(_names(choices))}
    for axes, lines in ((upper, choices.values), (lower, choices.qualities)):
        for line in lines:
            style = looks[line.name]
            handles[line.name] = axes.errorbar(
                choices.epsilons,
                line.values,
                yerr=[2 * error for error in line.errors] if any(line.errors) else None,
                color=style.colour,
                marker=style.marker,
                linestyle=style.dash,
                markersize=4.5,
                linewidth=1.6,
                elinewidth=1.0,
                capsize=2,
            )
    if choices.knee is not None:
        for axes in (upper, lower):
            drawn_knee = axes.axvline(choices.epsilons[choices.knee], color=INK, linewidth=1.2, linestyle=(0, (1, 1.5)))
        handles["knee"] = drawn_knee
    upper.set_ylim(bottom=0)
    upper.set_ylabel("value (nats)")
    upper.tick_params(axis="x", labelbottom=False)
    lower.set_ylim(min(0.0, *(min(line.values) for line in choices.qualities)), 103)
    lower.set_ylabel("quality (%)")
    lower.set_xlabel("ε of my release (weaker privacy to the right)", color=INK)
    lower.tick_params(axis="x", colors=FAINT, labelcolor=INK)
    legend_below(figure, [handles[name] for name in _labels(choices)], _labels(choices))


def _readable(epsilons: Sequence[float]) -> list[float]:
    """Select the ε that have room for a number under them."""
    whole = math.log(epsilons[-1] / epsilons[0]) or 1.0
    shown = [epsilons[0]]
    for epsilon in epsilons[1:]:
        if math.log(epsilon / shown[-1]) / whole > 0.11:
            shown.append(epsilon)
    return shown
