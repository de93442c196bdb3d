"""Posteriors as panels of a chart: which parameters, in which units, on which axis.

A weight of a regression is shown as the effect of moving its feature from the lower to the upper agreed bound. That is
in the target's units, or in log-odds, for every feature, so that all effects share one axis.
"""

from collections.abc import Mapping, Sequence

from equipoise.agreement import Agreement
from equipoise.models.schema import (
    BernoulliModel,
    CategoricalModel,
    GaussianModel,
    LinearModel,
    LogisticModel,
    NumberColumn,
)
from equipoise.report.charts import Panel, Parameter
from equipoise.reward.summary import Summary

MOST = 12  # parameters shown
Beliefs = Mapping[str, Summary]  # "prior", "alone", "reward", "team", as far as they may be shown


def panels(agreement: Agreement, beliefs: Beliefs) -> list[Panel]:
    """Panels of the first parameters, in the order of the agreement."""
    model = agreement.model
    if isinstance(model, LinearModel | LogisticModel):
        return _regression(model, beliefs)
    if isinstance(model, BernoulliModel):
        name = f"share of rows whose {model.target.name} is {model.target.labels[1]}"
        return [Panel("probability", [_parameter(name, "probability", beliefs)])]
    if isinstance(model, CategoricalModel):
        shown = model.target.categories[:MOST]
        rows = [_parameter(f"{model.target.name} is {one}", f"probability[{one}]", beliefs) for one in shown]
        return [Panel("probability", rows)]
    if isinstance(model, GaussianModel):
        unit = f"in units of {model.target.name}"
        return [
            Panel(unit, [_parameter(f"mean of {model.target.name}", "mean", beliefs)]),
            Panel(unit, [_parameter(f"standard deviation of {model.target.name}", "sd", beliefs)]),
        ]
    unit = "rows' mean count" if model.kind == "poisson" else f"events per unit of {model.target.name}"
    return [Panel(unit, [_parameter(f"rate of {model.target.name}", "rate", beliefs)])]


def _regression(model: LinearModel | LogisticModel, beliefs: Beliefs) -> list[Panel]:
    linear = isinstance(model, LinearModel)
    kept = MOST - (2 if linear else 1)
    features = model.features if len(model.features) <= kept else model.features[:kept]
    unit = f"units of {model.target.name}" if linear else "log-odds"
    effects = [
        _parameter(_effect(one), f"weight[{one.name}]", beliefs, one.bounds[1] - one.bounds[0]) for one in features
    ]
    found = [
        Panel(f"effect in {unit}", effects, zero=True),
        Panel(f"in {unit}", [_parameter("intercept (all features 0)", "intercept", beliefs)]),
    ]
    if linear:
        found.append(Panel(f"in {unit}", [_parameter("spread of single rows (sd)", "residual_sd", beliefs)]))
    return found


def _effect(feature: NumberColumn) -> str:
    return f"{feature.name}: {feature.bounds[0]:g} → {feature.bounds[1]:g}"


def _parameter(name: str, key: str, beliefs: Beliefs, factor: float = 1.0) -> Parameter:
    found = {whose: [factor * value for value in one[key]] for whose, one in beliefs.items() if key in one}
    return Parameter(name, found)


def introduction(agreement: Agreement, shown: Sequence[str]) -> list[str]:
    """What the charts mean, for the kinds of belief that are in them."""
    model = agreement.model
    words = [
        "Each line is a belief: the mark is the median, the thick part holds half of the belief and the thin part nine "
        "tenths. The shorter, the more is known. An arrow says that the line goes on beyond the axis, which is as wide "
        "as tells apart what was learnt; the prior is often far wider."
    ]
    if isinstance(model, LinearModel):
        words.append(
            f"Effects are the change of {model.target.name} when a feature moves over its whole agreed range, all else "
            "equal; an effect whose line crosses 0 may be none."
        )
    elif isinstance(model, LogisticModel):
        words.append(
            f"Effects are the change of the log-odds of {model.target.name} = {model.target.labels[1]} when a feature "
            "moves over its whole agreed range, all else equal; an effect whose line crosses 0 may be none."
        )
    if "alone" not in shown:
        words.append("Posteriors of single parties were not kept: with so many parties, coalitions were sampled.")
    if left := _left_out(agreement):
        words.append(f"The first {MOST} parameters of the agreement are shown, and {left} more are not.")
    return words


def _left_out(agreement: Agreement) -> int:
    model = agreement.model
    if isinstance(model, CategoricalModel):
        return max(0, len(model.target.categories) - MOST)
    if isinstance(model, LinearModel | LogisticModel):
        return max(0, len(model.features) + (2 if isinstance(model, LinearModel) else 1) - MOST)
    return 0
