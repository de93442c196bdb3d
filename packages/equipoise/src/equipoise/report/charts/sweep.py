"""Charts over the fairness exponent ρ: each party's target in nats, or its gain over going alone in another unit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from equipoise.report.charts.drawing import drawn, legend_below, legend_height, make_room, value_axes
from equipoise.report.charts.style import FAINT, GREEN, INK, RULE, look, shortened

HEIGHT = 2.6
BELOW = 0.47
LONGEST = 20
# Lines that get a name of their own in the legend.
NAMED = 8
STEPS = 101
EXPONENTS = tuple(step / (STEPS - 1) for step in range(STEPS))


@dataclass(frozen=True)
class Sweep:
    """A party's target or gain at each of `EXPONENTS`; `alone` is its value alone if the target may fall below it."""

    party: str
    values: Sequence[float]
    alone: float | None = None

    def at(self, exponent: float) -> float:
        """Return the interpolated target or gain at an exponent."""
        return float(np.interp(exponent, EXPONENTS, self.values))

    @property
    def crossing(self) -> float | None:
        """The exponent at which the target falls to the value alone, if that is above 0."""
        above = np.subtract(self.values, -np.inf if self.alone is None else self.alone)
        index = int(np.argmax(above <= 0))  # the first
        if index == 0:
            return None
        return float(np.interp(0.0, above[[index, index - 1]], [EXPONENTS[index], EXPONENTS[index - 1]]))


def exponent_sweep(
    sweeps: Sequence[Sweep],
    *,
    unit: str,
    chosen: float,
    rational: float | None = None,
    stable: float | None = None,
) -> str:
    """Draw lines for ρ from 0 to 1, shaded up to `rational`, where no party loses; a ring marks where one begins to."""
    names = shortened([sweep.party for sweep in sweeps], LONGEST)
    labels = names[:NAMED] + ([f"{len(names) - NAMED} others"] if len(names) > NAMED else [])
    labels.append(f"chosen: {chosen:.2f}")
    if rational is not None:
        labels.append(f"nobody loses to {rational:.2f}")
    if stable is not None:
        labels.append(f"stable to {stable:.2f}")
    crossings = [sweep.crossing for sweep in sweeps[:NAMED]]
    if any(crossings):
        labels.append("as good as alone")
    below = BELOW + legend_height(labels)

    def draw(figure: Figure) -> None:
        axes = value_axes(figure, below=below)
        handles: list[Any] = []
        bounds: list[Any] = [axes.axvline(chosen, color=INK, linewidth=1.6, zorder=1.5)]
        if rational is not None:
            bounds.append(axes.axvspan(0.0, rational, color=GREEN, alpha=0.14, linewidth=0))
        if stable is not None:
            bounds.append(axes.axvline(stable, color=FAINT, linewidth=1.6, linestyle=(0, (1, 1.5)), zorder=1.4))
        for index, sweep in enumerate(sweeps):
            style, named = look(index), index < NAMED
            (line,) = axes.plot(
                EXPONENTS,
                sweep.values,
                color=style.colour if named else RULE,
                linestyle=style.dash if named else "-",
                linewidth=1.8 if named else 1.0,
                zorder=2.0 if named else 1.2,
            )
            if index <= NAMED:
                handles.append(line)
            if named and (crossing := crossings[index]):
                axes.plot(crossing, sweep.at(crossing), "o", color=style.colour, markerfacecolor="white", markersize=6)
        if any(crossings):
            ring = Line2D([], [], marker="o", color=FAINT, markerfacecolor="white", linestyle="none", markersize=6)
            bounds.append(ring)
        every = [0.0, *(value for sweep in sweeps for value in sweep.values)]
        room = 0.06 * (max(every) - min(every) or 1.0)
        axes.set_xlim(0, 1.02)
        axes.set_ylim(min(every) - (room if min(every) < 0 else 0.0), max(every) + room)
        make_room(axes)
        if min(every) < 0:
            axes.axhline(0.0, color=FAINT, linewidth=1.0, zorder=1.3)
        axes.grid(axis="y")
        axes.set_xlabel("fairness exponent ρ")
        axes.set_ylabel(unit)
        legend_below(figure, [*handles, *bounds], labels)

    listed = ", ".join(f"{sweep.party} {sweep.at(chosen):.3g}" for sweep in sweeps)
    return drawn(
        HEIGHT + below + 0.1, f"{unit.capitalize()} against the fairness exponent; at ρ = {chosen:.2f}: {listed}.", draw
    )
