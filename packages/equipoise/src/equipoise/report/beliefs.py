"""Posteriors as panels of a chart: which parameters, in which units, on which axis.

A weight of a regression is shown as the effect of moving its feature from the lower to the upper agreed bound. That is
in the target's units, or in log-odds, for every feature, so that all effects share one axis.
"""

from collections.abc import Mapping, Sequence

from equipoise.agreement import Agreement
from equipoise.models.base import Readable
from equipoise.report.charts import Panel, Parameter
from equipoise.reward.summary import Summary

# Parameters that are shown.
MOST = 12
# Summaries of "prior", "alone", "reward" and "team", as far as they may be shown.
Beliefs = Mapping[str, Summary]


def panels(agreement: Agreement, beliefs: Beliefs) -> list[Panel]:
    """Return panels of the first parameters, in the order of the agreement."""
    first, *others = agreement.model.axes()
    room = MOST - sum(len(axis.parameters) for axis in others)
    shown = [first._replace(parameters=first.parameters[:room]), *others]
    return [
        Panel(axis.unit, [_parameter(parameter, beliefs) for parameter in axis.parameters], axis.zero) for axis in shown
    ]


def _parameter(readable: Readable, beliefs: Beliefs) -> Parameter:
    known = {whose: summary[readable.name] for whose, summary in beliefs.items() if readable.name in summary}
    return Parameter(
        readable.label, {whose: [readable.factor * value for value in each] for whose, each in known.items()}
    )


def introduction(agreement: Agreement, shown: Sequence[str]) -> list[str]:
    """Explain the charts, for the kinds of posterior that they show."""
    words = [
        "Each line is a belief: the mark is the median, the thick part holds half of the belief and the thin part nine "
        "tenths. The shorter, the more is known. An arrow says that the line goes on beyond the axis, which is as wide "
        "as tells apart what was learnt; the prior is often far wider.",
        *agreement.model.reading(),
    ]
    if "alone" not in shown:
        words.append("Posteriors of single parties were not kept, of so many parties.")
    if (left := len(agreement.model.readable_names) - MOST) > 0:
        words.append(f"The first {MOST} parameters of the agreement are shown, and {left} more are not.")
    return words
