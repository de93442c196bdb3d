"""How targets depend on the fairness exponent ρ."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from equipoise.report.charts.drawing import drawn, legend_below, legend_height, value_axes
from equipoise.report.charts.style import FAINT, GREEN, INK, RULE, look, shortened

HEIGHT = 2.6
BELOW = 0.47
LONGEST = 20
NAMED = 8  # lines that get a name of their own
STEPS = 101


@dataclass(frozen=True)
class Share:
    """What a party's target follows from: k + (v_N − k) (φ_i/φ_max)^ρ with `whole` = v_N and `ratio` = φ_i/φ_max.

    `kept` is k, its value alone by the surplus rule and 0 by the proportional one. `floor` is what it gets at least.
    """

    party: str
    alone: float
    whole: float
    ratio: float
    floor: float = 0.0
    kept: float = 0.0

    def target(self, exponent: float) -> float:
        """In nats, at a fairness exponent."""
        part = self.ratio**exponent if self.ratio > 0 else 0.0
        return max(self.floor, self.kept + part * (self.whole - self.kept))


def exponent_sweep(
    shares: Sequence[Share], *, chosen: float, rational: float | None, stable: float | None = None
) -> str:
    """Targets for ρ from 0 to 1: shaded where nobody is worse off than alone, a ring where a party would be."""
    exponents = [step / (STEPS - 1) for step in range(STEPS)]
    names = shortened([share.party for share in shares], LONGEST)
    labels = names[:NAMED] + ([f"{len(names) - NAMED} others"] if len(names) > NAMED else [])
    labels.append(f"chosen: {chosen:.2f}")
    if rational is not None:
        labels.append(f"nobody loses to {rational:.2f}")
    if stable is not None:
        labels.append(f"stable to {stable:.2f}")
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
        for place, share in enumerate(shares):
            style, named = look(place), place < NAMED
            (line,) = axes.plot(
                exponents,
                [share.target(exponent) for exponent in exponents],
                color=style.colour if named else RULE,
                linestyle=style.dash if named else "-",
                linewidth=1.8 if named else 1.0,
                zorder=2.0 if named else 1.2,
            )
            if place <= NAMED:
                handles.append(line)
            where = _crossing(share)
            if where is not None and named:
                axes.plot(where, share.alone, "o", color=style.colour, markerfacecolor="white", markersize=6)
        ring = Line2D([], [], marker="o", color=FAINT, markerfacecolor="white", linestyle="none", markersize=6)
        axes.set_xlim(0, 1.02)
        axes.set_ylim(0, 1.06 * max(share.whole for share in shares))
        axes.grid(axis="y")
        axes.set_xlabel("fairness exponent ρ")
        axes.set_ylabel("target (nats)")
        legend_below(figure, [*handles, *bounds, ring], labels)

    listed = ", ".join(f"{share.party} {share.target(chosen):.2f}" for share in shares)
    return drawn(
        HEIGHT + below + 0.1, f"Targets in nats against the fairness exponent; at ρ = {chosen:.2f}: {listed}.", draw
    )


def _crossing(share: Share) -> float | None:
    """The exponent at which a party's target falls to what it has alone, if that is between 0 and 1."""
    if share.kept or not (0 < share.ratio < 1 and 0 < share.alone < share.whole):
        return None
    where = log(share.alone / share.whole) / log(share.ratio)
    return where if where <= 1 else None
