"""Charts of dots with error bars along one axis: values of coalitions, Shapley values."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from equipoise.estimate import UNSURE, Estimate
from equipoise.report.charts.drawing import LETTER, LINE, drawn, row_axes
from equipoise.report.charts.style import BLUE, FAINT, INK, shortened

# Characters of a label.
LONGEST = 22
# Inches for ticks and the axis label.
BELOW = 0.47

# A label and its value; a heading has no value.
Row = tuple[str, Estimate | None]


def shapley_values(values: Mapping[str, Estimate]) -> str:
    """Draw Shapley values by party, in the order given; bars are two standard errors either way."""
    names = shortened(list(values), LONGEST)
    rows: list[Row] = list(zip(names, values.values(), strict=True))
    return _dots(rows, "Shapley value (nats)", f"Shapley values in nats: {_listed(rows)}.", from_zero=True)


def coalition_values(values: Mapping[tuple[str, ...], Estimate], parties: Sequence[str]) -> str:
    """Draw values of coalitions, grouped by size; bars are two standard errors either way."""
    rows: list[Row] = []
    for size in sorted({len(members) for members in values}):
        if size < len(parties) or size == 1:
            rows.append(("alone" if size == 1 else f"{size} together", None))
        rows += [(_label(members, parties), value) for members, value in values.items() if len(members) == size]
    return _dots(rows, "value (nats)", f"Values of {len(values)} coalitions in nats: {_listed(rows)}.")


def _label(members: Sequence[str], parties: Sequence[str]) -> str:
    """Name a coalition by its members or by those absent, whichever is shorter."""
    absent = [party for party in parties if party not in members]
    if not absent and len(members) > 1:
        return f"all {len(members)} together"
    named, start = (absent, "all but ") if len(absent) < len(members) - 1 else (list(members), "")
    joint = ", " if start else " + "
    room = (LONGEST - len(start) - len(joint) * (len(named) - 1)) // len(named)
    short = dict(zip(parties, shortened(parties, max(5, room)), strict=True))
    whole = start + joint.join(named)
    return whole if len(whole) <= LONGEST else start + joint.join(short[name] for name in named)


def _dots(rows: Sequence[Row], axis: str, words: str, *, from_zero: bool = False) -> str:
    left = max(len(label) for label, _ in rows) * LETTER + 0.1

    def draw(figure: Figure) -> None:
        axes = row_axes(figure, len(rows), left=left, below=BELOW)
        for index, (_, value) in enumerate(rows):
            if value is not None:
                axes.errorbar(
                    value.value,
                    index,
                    xerr=UNSURE * value.error,
                    fmt="o",
                    color=BLUE,
                    markersize=5,
                    elinewidth=1.6,
                    capsize=2.5,
                )
        axes.set_yticks(range(len(rows)), [label for label, _ in rows])
        for tick, (_, value) in zip(axes.get_yticklabels(), rows, strict=True):
            tick.set_color(INK if value is not None else FAINT)
            tick.set_fontweight("normal" if value is not None else "bold")
        if from_zero:
            low, high = axes.get_xlim()
            axes.set_xlim(min(low, 0.0), max(high, 0.0))
        if axes.get_xlim()[0] <= 0:
            axes.axvline(0.0, color=FAINT, linewidth=1)
        axes.set_xlabel(axis)

    return drawn(len(rows) * LINE + BELOW + 0.08, words, draw)


def _listed(rows: Sequence[Row]) -> str:
    return ", ".join(f"{label} {value.value:.2f}" for label, value in rows if value is not None)
