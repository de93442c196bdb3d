"""What an agreement means, in words and numbers a data scientist can check before agreeing."""

import math
from dataclasses import dataclass
from typing import Any

from equipoise._util.text import counted, first_few
from equipoise.agreement import Agreement
from equipoise.guarantee import DEFAULT_DELTA, Guarantee, approx_dp, guess_percent
from equipoise.models import Layout, ScaledColumn, layout_of
from equipoise.models.priors import StandardisedEffects, StandardisedFeatures, StandardisedLogOdds
from equipoise.models.schema import LabelColumn, LinearModel, LogisticModel, NumberColumn, RegressionColumn

_PURPOSES = {
    "linear": "linear regression of {target} on {features}",
    "logistic": "logistic regression of {target} on {features}",
    "bernoulli": "the share of rows whose {target} is {positive}",
    "categorical": "the shares of the values of {target}",
    "poisson": "the rate of the count {target}",
    "exponential": "the rate of the waiting time {target}",
    "gaussian": "the mean and variance of {target}",
}

_FALLBACKS = {
    "alone": "Where no exponent leaves a party as well off as alone (it adds nothing to the others, or knows as much "
    "alone as all together), it gets the posterior of its own release, and rho is set by the rest.",
    "shares": "Where no exponent leaves a party as well off as alone (it adds nothing to the others, or knows as much "
    "alone as all together), it gets its share all the same, and rho is set by the rest.",
}

TOLERANCE = 0.05
MOST_SHOWN = 8  # features
_USUAL = math.sinh(1) / math.sqrt((math.e**2 - 1) / 2)  # deviations that effects are within, two times out of three


@dataclass(frozen=True)
class NoiseRow:
    """Noise of a party that chooses one ε.

    `guess` is how often somebody who knows all other rows can tell which of two values one row has.
    `deviation` is the standard deviation on a sum to which every row adds `Explanation.contribution`;
    `square_deviation` the one on sums of squares, which get less;
    `rows_needed` how many rows bring the noise on a mean down to `TOLERANCE`.
    """

    epsilon: float
    zcdp: float
    epsilon_delta: float
    delta: float
    guess: float
    deviation: float
    square_deviation: float | None
    rows_needed: int


@dataclass(frozen=True)
class Explanation:
    """An agreement explained: `sentences` to read, `columns` and `noise` to tabulate."""

    identity: str
    contribution: str
    sentences: tuple[str, ...]
    columns: tuple[tuple[str, str, str], ...]
    noise: tuple[NoiseRow, ...]


def explain(agreement: Agreement, epsilons: tuple[float, ...] = (), delta: float = DEFAULT_DELTA) -> Explanation:
    """Say what is agreed, and what noise a party of each ε will add (by default a range up to the agreed maximum)."""
    layout = layout_of(agreement)
    top = agreement.privacy.max_epsilon
    least = agreement.privacy.min_epsilon or 0.0
    chosen = epsilons or tuple(dict.fromkeys(max(top / 4**step, least) for step in (4, 3, 2, 1, 0)))
    guarantees = [agreement.guarantee(epsilon=epsilon) for epsilon in chosen]
    return Explanation(
        identity=agreement.identity,
        contribution=contribution(layout),
        sentences=_sentences(agreement, layout),
        columns=tuple(_column_row(agreement, column) for column in agreement.columns),
        noise=tuple(_noise_row(layout, guarantee, delta) for guarantee in guarantees),
    )


def contribution(layout: Layout) -> str:
    """What one row can add to a sum."""
    low = -1 if any(isinstance(c, ScaledColumn) or -1 in c.codes for c in layout.columns) else 0
    return f"between {low} and 1"


def _sentences(agreement: Agreement, layout: Layout) -> tuple[str, ...]:
    privacy, reward, parties = agreement.privacy, agreement.reward, agreement.parties
    weakest = Guarantee(order=privacy.order, epsilon=privacy.max_epsilon)
    pinned = [party.name for party in parties if party.public_key]
    rule = (
        "the largest that leaves everybody better off than alone, by a margin for the errors of the estimates"
        if reward.rho == "max"
        else f"{reward.rho:g}, whether or not that leaves everybody better off than alone"
    )
    least = "" if privacy.min_epsilon is None else f", the smallest {privacy.min_epsilon:g}"
    mechanism = {"tempering": "a tempered likelihood", "noise": "added noise"}[reward.mechanism]
    return (
        f"What is learnt: {_purpose(agreement)}.",
        f"Each party sends {counted(len(layout), 'perturbed sum')}, its row count (in the clear), its epsilon and a "
        "signature.",
        f"Replacing one row changes the sums by at most {_units(layout):.4g} in Euclidean norm; the noise hides that.",
        f"The weakest guarantee allowed is {approx_dp(weakest)}: whoever knows all other rows can tell which of two "
        f"values one row has at most {guess_percent(weakest.zcdp)} of the time, where a coin is right 50 %.",
        f"Guarantees are stated as Rényi differential privacy of order {privacy.order:g}; the largest epsilon allowed "
        f"is {privacy.max_epsilon:g}, which is zCDP {weakest.zcdp:g}{least}.",
        *_norm_sentence(agreement),
        *_beliefs(agreement),
        f"Rewards are controlled by {mechanism}; the fairness exponent rho is {rule}."
        + (f" The operator may choose otherwise: {', '.join(may)}." if (may := reward.operator_may_choose) else ""),
        "Whoever brings nothing that can be told from 0 gets the prior, which is worth nothing. "
        + _FALLBACKS[reward.fallback],
        f"The parties are {', '.join(agreement.party_names)}; "
        + (f"submissions of {', '.join(pinned)} must carry the agreed key." if pinned else "no keys are agreed."),
    )


def _purpose(agreement: Agreement) -> str:
    model = agreement.model
    features = [feature.name for feature in getattr(model, "features", ())]
    target = model.target
    return _PURPOSES[model.kind].format(
        target=target.name,
        features=", ".join(features) if len(features) <= 8 else f"{len(features)} features",
        positive=repr(target.labels[1]) if isinstance(target, LabelColumn) else "",
    )


def _norm_sentence(agreement: Agreement) -> tuple[str, ...]:
    model = agreement.model
    if not isinstance(model, LinearModel | LogisticModel) or model.norm_bound is None:
        return ()
    return (f"Rows whose features, each scaled to [-1, 1], have a norm above {model.norm_bound:g} are pulled onto it.",)


def _beliefs(agreement: Agreement) -> tuple[str, ...]:
    """What is believed before any data."""
    model = agreement.model
    if not isinstance(model, LinearModel | LogisticModel):
        return (f"Prior beliefs: {_fields(model.prior)}.",)
    prior, data = model.prior, model.data_prior
    if not isinstance(data, StandardisedFeatures):
        return f"Prior beliefs: {_fields(prior)}.", f"Beliefs about the features: {_fields(data)}."
    return (
        _belief_about_effects(model),
        "Before any data, features' standard deviations and means are believed to be about "
        f"{_shown([_typical(column) for column in model.features])}; two times out of three the deviation is right "
        f"within a factor of {_factor(data.sd_spread)}, or {_factor(data.stated_spread)} where a typical range is "
        f"stated, and the mean within {data.mean_spread:g} deviations.",
        "All parties' features are believed to come from one distribution."
        if data.scope == "shared"
        else "Every party's features are believed to come from a distribution of its own.",
    )


def _belief_about_effects(model: LinearModel | LogisticModel) -> str:
    target, prior = model.target, model.prior
    if isinstance(prior, StandardisedLogOdds):
        return (
            f"Before any data, one standard deviation more of a feature is believed to multiply the odds of "
            f"{model.target.name} by up to {_factor(_USUAL * prior.effect)}, or divide them, two times out of three; "
            f"the odds where all features are at their means are between 1 to {_factor(prior.bias_spread)} and "
            f"{_factor(prior.bias_spread)} to 1."
        )
    assert isinstance(prior, StandardisedEffects)
    assert isinstance(target, RegressionColumn)
    residual = prior.residual * _typical_deviation(target)
    explained = f"all features together are believed as likely as not to explain half of the variance of {target.name}"
    if prior.effect is not None:
        explained = (
            f"each feature is believed to explain {prior.effect**2:.3g} times as much of the variance of {target.name} "
            "as is left over, on average, most of them less and some far more"
        )
    return (
        f"Before any data, {explained}, whatever the features' scales; what is left over is believed to have a "
        f"standard deviation of about {residual:.3g}, two times out of three within a factor of "
        f"{_factor(prior.residual_spread)}."
    )


def _shown(columns: list[str]) -> str:
    more = len(columns) - MOST_SHOWN
    return ", ".join(columns[:MOST_SHOWN]) + (f" and {counted(more, 'other')}" if more > 0 else "")


def _factor(spread: float) -> str:
    return f"{math.exp(spread):.2g}"


def _typical_deviation(column: RegressionColumn) -> float:
    """As `StandardisedFeatures` has it, in the column's own units."""
    lower, upper = column.typical or column.bounds
    return (upper - lower) / (4 if column.typical else 8)


def _typical(column: RegressionColumn) -> str:
    lower, upper = column.typical or column.bounds
    return f"{column.name} {_typical_deviation(column):.3g} around {(lower + upper) / 2:.4g}"


def _fields(prior: Any) -> str:
    settings = {name: value for name, value in prior.model_dump().items() if value is not None and name != "kind"}
    return f"{type(prior).__name__}({', '.join(f'{name} = {value}' for name, value in settings.items())})"


def _units(layout: Layout) -> float:
    return layout.sensitivity / min(layout.steps_per_unit)


def _column_row(agreement: Agreement, column: Any) -> tuple[str, str, str]:
    role = "target" if column is agreement.model.target else "feature"
    if isinstance(column, NumberColumn):
        lower, upper = column.bounds
        stated = getattr(column, "typical", None)
        usually = f"; typically {stated[0]:g} to {stated[1]:g}" if stated else ""
        return column.name, role, f"{lower:g} to {upper:g}, clipped{usually}"
    return column.name, role, f"one of {first_few(column.values)}"


def _noise_row(layout: Layout, guarantee: Guarantee, delta: float) -> NoiseRow:
    deviations = layout.noise_deviations(guarantee)
    ordinary = min(entry.weight for entry in layout.entries)
    squares = [
        deviation
        for deviation, entry in zip(deviations, layout.entries, strict=True)
        if entry.first == entry.second and entry.weight > ordinary
    ]
    widest = max(deviations)
    return NoiseRow(
        epsilon=guarantee.epsilon,
        zcdp=guarantee.zcdp,
        epsilon_delta=guarantee.epsilon_at(delta),
        delta=delta,
        guess=guarantee.guess,
        deviation=widest,
        square_deviation=max(squares) if squares else None,
        rows_needed=math.ceil(widest / TOLERANCE),
    )
