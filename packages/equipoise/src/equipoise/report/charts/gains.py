"""Chart of each party's value alone, target and attained value: three marks on a line."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from equipoise.estimate import UNSURE, Estimate
from equipoise.report.charts.drawing import LETTER, drawn, legend_below, legend_height, row_axes
from equipoise.report.charts.style import BLUE, FAINT, INK, RULE, VERMILION, shortened

LONGEST = 20
# Inches for each row, and for what is below the axes.
ROW = 0.34
BELOW = 0.46
SERIES = {"alone": ("o", FAINT, 0.0), "target": ("D", VERMILION, -0.2), "attained": ("s", BLUE, 0.2)}
LABELS = {"alone": "alone", "target": "target", "attained": "reward as attained", "whole": "whole team"}


@dataclass(frozen=True)
class Gain:
    """One party's values in nats; `whole` is its team's value, None if that is not shown."""

    party: str
    alone: Estimate
    target: Estimate
    attained: Estimate
    whole: Estimate | None


def gains(rows: Sequence[Gain]) -> str:
    """Draw values alone, targets, attained values and teams' values; bars are two standard errors either way."""
    names = shortened([row.party for row in rows], LONGEST)
    labels = {name: label for name, label in LABELS.items() if name != "whole" or any(row.whole for row in rows)}
    below = BELOW + legend_height(list(labels.values()))

    def draw(figure: Figure) -> None:
        left = max(map(len, names)) * LETTER + 0.1
        axes = row_axes(figure, len(rows), left=left, below=below)
        handles: dict[str, Any] = {}
        for index, row in enumerate(rows):
            shown = [row.alone.value, row.target.value, row.attained.value]
            axes.plot([min(shown), max(shown)], [index, index], color=RULE, linewidth=5, solid_capstyle="round")
            if row.whole is not None:
                mark = axes.plot(row.whole.value, index, "|", color=INK, markersize=17, markeredgewidth=1.4)
                handles["whole"] = mark[0]
            for name, (marker, colour, shift) in SERIES.items():
                estimate: Estimate = getattr(row, name)
                handles[name] = axes.errorbar(
                    estimate.value,
                    index + shift,
                    xerr=UNSURE * estimate.error,
                    fmt=marker,
                    color=colour,
                    markerfacecolor="white" if name == "alone" else colour,
                    markersize=5.5,
                    elinewidth=1.4,
                    capsize=2,
                )
        axes.set_yticks(range(len(rows)), names)
        axes.set_xlabel("value (nats)")
        legend_below(figure, [handles[name] for name in labels], list(labels.values()))

    words = "; ".join(
        f"{row.party}: alone {row.alone.value:.2f}, target {row.target.value:.2f}, attained {row.attained.value:.2f}"
        for row in rows
    )
    return drawn(len(rows) * ROW + below + 0.08, f"Values in nats. {words}.", draw)
