"""Tables and pictures of docs/worth.md, from what `worth_joining.py` measured.

The page's text is written by hand; what lies between its two markers is written here, for every mechanism and fairness
exponent that was measured. Standard errors are over repetitions: parties of one repetition share their deal, and
are averaged first; that of a share is no smaller than if it were one more win and one more loss.
"""

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from equipoise._util.text import counted
from equipoise.estimate import Estimate

DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
OWN, HOME, POOLED = "own rows", "at home", "pooled rows"
EVERYTHING = "everything to everybody"  # what rewards would be if nothing were held back
MODELS = (OWN, "own rows, ridge", "reward", HOME, POOLED, "AdaSSP", "DP-FedAvg, tuned")
COLOURS = {
    OWN: "#000000",
    "own rows, ridge": "#888888",
    "reward": "#E69F00",
    HOME: "#0072B2",
    POOLED: "#009E73",
    "AdaSSP": "#CC79A7",
    "DP-FedAvg, tuned": "#D55E00",
}
WHOLE = 20, 5  # repetitions and tables of the measurement

Record = dict[str, Any]


def slug(setting: str) -> str:
    """A setting as part of a file's name."""
    return re.sub("[^a-z0-9.]+", "-", setting).strip("-")


def has_most(record: Record) -> bool:
    """Whether a party has more rows than all others together."""
    return bool(record["rows"] > record["others"])


def gain(record: Record, model: str = HOME) -> float:
    """Nats a row by which a model is better than own rows."""
    return float(record["losses"][OWN] - record["losses"][model])


def mean(records: Sequence[Record], what: Callable[[Record], float]) -> Estimate:
    """Mean over deals of tables, each the mean of its parties and ε."""
    by_deal: dict[tuple[Any, ...], list[float]] = {}
    for one in records:
        by_deal.setdefault((one["table"], one["number"]), []).append(what(one))
    means = [float(np.mean(values)) for values in by_deal.values()]
    return Estimate(float(np.mean(means)), float(np.std(means, ddof=1) / len(means) ** 0.5) if len(means) > 1 else 0.0)


def better(record: Record) -> float:
    """1 if the model at home beats own rows, 0 otherwise."""
    return float(gain(record) > 0)


def _nats(one: Estimate) -> str:
    return f"{one.value:+.4f} ± {one.error:.4f}"


def _share(records: Sequence[Record]) -> str:
    """In how many cases the model at home beats own rows."""
    found, number = mean(records, better), len({(one["table"], one["number"]) for one in records})
    smoothed = (number * found.value + 1) / (number + 2)
    return f"{found.value:.0%} ± {max(found.error, (smoothed * (1 - smoothed) / number) ** 0.5):.0%}"


def _where(records: Sequence[Record], **wanted: Any) -> list[Record]:
    return [one for one in records if all(one[name] == value for name, value in wanted.items())]


def section(setting: str, records: Sequence[Record]) -> str:
    """Write what was measured with one mechanism and fairness exponent, as Markdown."""
    tables = sorted({one["table"] for one in records})
    epsilons = sorted({one["epsilon"] for one in records})
    few, most = ([one for one in records if has_most(one) == flag] for flag in (False, True))
    found = [_where(records, table=table, epsilon=epsilon) for table in tables for epsilon in epsilons]
    numbers = sorted(len({one["number"] for one in cell}) for cell in found if cell)
    repetitions = f"{numbers[0]} to {numbers[-1]}" if numbers[0] < numbers[-1] else str(numbers[0])
    shown = ", ".join(f"{one:g}" for one in epsilons)
    trial = "**A trial run, not the measurement.** " if numbers[-1] < WHOLE[0] or len(tables) < WHOLE[1] else ""
    others = [model for model in MODELS[1:] if model not in (HOME, POOLED)]
    lines = [
        f"## Measured: {setting}",
        "",
        f"{trial}Repetitions: {repetitions}, of {counted(len(tables), 'table')} at ε = {shown}. Of the small "
        f"and the middle parties {_share(few)} predict better at home than with own rows, by "
        f"{_nats(mean(few, gain))} nats a row; of the large ones {_share(most)}, by {_nats(mean(most, gain))}.",
        "",
        f"![Held-out loss of everything that a party can predict with](pictures/worth-models-{slug(setting)}.svg)",
        "",
        "Gains over own rows in nats a held-out row, mean of the small and the middle party, whose others hold at "
        "least as many rows; how much of the gain of pooled rows the model at home has, and how often it beats own "
        "rows; and its gain for the large party.",
        "",
        f"| table | ε | of the pooled gain | {HOME} | {POOLED} | {' | '.join(others)} | better | large party |",
        "|---|---|" + "---|" * (len(others) + 5),
    ]
    for table in tables:
        for epsilon in epsilons:
            chosen = _where(few, table=table, epsilon=epsilon)
            if not chosen:
                continue
            of = mean(chosen, gain).value / mean(chosen, partial(gain, model=POOLED)).value
            gains = [_nats(mean(chosen, partial(gain, model=model))) for model in (HOME, POOLED, *others)]
            large = _nats(mean(_where(most, table=table, epsilon=epsilon), gain))
            cells = [f"`{table}`", f"{epsilon:g}", f"{of:.0%}", *gains, _share(chosen), large]
            lines.append(f"| {' | '.join(cells)} |")
    late = np.mean([not one["converged"] for one in records])
    fell = np.mean([one["amount"] is None for one in records])
    poor = np.mean([one["misfit"] is not None and one["misfit"] > 0.1 for one in records])
    missed = np.mean([abs(one["attained"] - one["target"]) for one in records])
    ending = [
        f"{fell:.0%} of the parties fell back on their own release, because no share would have been worth more."
        if fell
        else "",
        f"Rewards are {missed:.2f} nats from their targets on average." if setting != EVERYTHING else "",
        f"{late:.1%} of rewards or others' evidence did not converge"
        + (f", and {poor:.0%} of the latter were fitted with more than 0.1 nats left." if poor else "."),
    ]
    return "\n".join([*lines, "", " ".join(one for one in ending if one), ""])


def _figure(records: Sequence[Record]) -> tuple[Figure, Any, list[str], list[float]]:
    tables = sorted({one["table"] for one in records})
    figure = Figure(figsize=(2.3 * len(tables) + 0.8, 3.9), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, len(tables), sharex=True))
    for ax, table in zip(axes, tables, strict=True):
        ax.axhline(0, color="#888888", linewidth=1)
        ax.set_title(table, loc="left")
        ax.set_xscale("log")
        ax.set_xlabel("ε")
    epsilons = sorted({one["epsilon"] for one in records})
    axes[0].set_xticks(epsilons, [f"{one:g}" for one in epsilons])
    axes[0].minorticks_off()
    return figure, axes, tables, epsilons


def models(records: Sequence[Record]) -> Figure:
    """Held-out loss of everything, relative to own rows, where others hold at least as many rows."""
    few = [one for one in records if not has_most(one)]
    figure, axes, tables, epsilons = _figure(few)
    for ax, table in zip(axes, tables, strict=True):
        for place, model in enumerate(MODELS[1:]):
            there = [one for one in epsilons if _where(few, table=table, epsilon=one)]
            cells = [_where(few, table=table, epsilon=one) for one in there]
            found = [mean(one, lambda record, model=model: -gain(record, model)) for one in cells]  # type: ignore[misc]
            values, errors = [one.value for one in found], [2 * one.error for one in found]
            shifted = np.array(there) * 1.05 ** (place - 2)
            ax.errorbar(shifted, values, errors, color=COLOURS[model], marker=".", capsize=2, label=model)
        ax.set_yscale("symlog", linthresh=0.02)
    axes[0].set_ylabel("loss relative to own rows\n(nats a row; below 0 is better)")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=8)
    return figure


def page(records: Sequence[Record], docs: Path = DOCS) -> None:
    """Write the measured part of the page, and its pictures."""
    mpl.use("Agg")
    mpl.rcParams.update({"axes.spines.right": False, "axes.spines.top": False, "legend.frameon": False})
    mpl.rcParams.update({"svg.hashsalt": "equipoise", "font.size": 9})
    sections = []
    for setting in sorted({one["setting"] for one in records}):
        chosen = _where(records, setting=setting)
        sections.append(section(setting, chosen))
        models(chosen).savefig(docs / "pictures" / f"worth-models-{slug(setting)}.svg", metadata={"Date": None})
    file = docs / "worth.md"
    before, _, rest = file.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    file.write_text(f"{before}{BEGIN}\n\n" + "\n".join(sections) + f"\n{END}{after}", encoding="utf-8")
