"""The meaning of an agreement, in words and numbers a data scientist can check before agreeing."""

import math
from dataclasses import dataclass

from equipoise._util.display import Table
from equipoise._util.text import counted, first_few, short
from equipoise.agreement import Agreement
from equipoise.models import Layout, layout_of
from equipoise.models.columns import Column, NumberColumn, OrdinalFeature
from equipoise.models.guarantee import DEFAULT_DELTA, Guarantee, approx_dp, guess_percent

_FALLBACKS = {
    "alone": "Where no exponent leaves a party as well off as alone (it adds nothing to the others, or knows as much "
    "alone as all together), it gets the posterior of its own release, and rho is set by the rest.",
    "shares": "Where no exponent leaves a party as well off as alone (it adds nothing to the others, or knows as much "
    "alone as all together), it gets its share all the same, and rho is set by the rest.",
}
_SURPLUS = (
    "A reward is worth what the party knows alone and a share of what it can gain, (φ/φ_max)^rho by its Shapley value "
    "φ: nobody gets less than alone, and whoever brings nothing that can be told from 0 gets its own posterior."
)
_OWN_IS_WHOLE = (
    "Nobody gets less than the posterior of its own release: whoever brings nothing that can be told from 0, or whose "
    "share would be less than it knows alone, gets just that."
)

TOLERANCE = 0.05
MANY_ROWS = 2_000  # more than many tables have


@dataclass(frozen=True)
class NoiseRow:
    """The noise of a party that chooses a certain ε.

    `guess` is how often somebody who knows all other rows can tell which of two values a row has.
    `deviation` is the standard deviation on a sum to which every row adds `Explanation.contribution`;
    `square_deviation` the one on sums of squares, which get less;
    `rows_needed` the number of rows that bring the noise on a mean down to `TOLERANCE`.
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
    """An agreement explained: `sentences` to read, `columns` and `noise` to tabulate, `cautions` about unwise terms."""

    identity: str
    contribution: str
    sentences: tuple[str, ...]
    columns: tuple[tuple[str, str, str], ...]
    noise: tuple[NoiseRow, ...]
    cautions: tuple[str, ...] = ()

    def column_table(self) -> Table:
        """Tabulate the agreed columns with the public facts about their values."""
        return Table("Columns", ("column", "role", "public values"), self.columns, numeric_from=9)

    def noise_table(self) -> Table:
        """Tabulate the noise that a party adds, by its ε, and the number of rows that make it small beside a mean."""
        squares = any(row.square_deviation for row in self.noise)
        return Table(
            "Noise a party adds, by its choice of ε: standard deviation on a sum, to which one row adds "
            f"{self.contribution}. The guess about one row, by whoever knows all others, is right so often at most; "
            "a coin’s 50 %.",
            (
                f"ε at δ = {short(self.noise[0].delta)}",
                "guess",
                "Rényi ε",
                "zCDP",
                "noise",
                *(("noise on squares",) if squares else ()),
                f"rows for a mean ±{TOLERANCE:g}",
            ),
            [
                (
                    f"{row.epsilon_delta:.3g}",
                    guess_percent(row.zcdp),
                    f"{row.epsilon:.4g}",
                    f"{row.zcdp:.4g}",
                    f"{row.deviation:.4g}",
                    *((f"{row.square_deviation:.4g}",) if squares else ()),
                    f"{row.rows_needed:,}",
                )
                for row in self.noise
            ],
            numeric_from=0,
        )


def explain(agreement: Agreement, epsilons: tuple[float, ...] = (), delta: float = DEFAULT_DELTA) -> Explanation:
    """Explain what is agreed, and what noise a party of each ε adds (by default a range up to the agreed maximum)."""
    layout = layout_of(agreement)
    top = agreement.privacy.max_epsilon
    least = agreement.privacy.min_epsilon or 0.0
    chosen = epsilons or tuple(dict.fromkeys(max(top / 4**step, least) for step in (4, 3, 2, 1, 0)))
    guarantees = [agreement.guarantee(epsilon=epsilon) for epsilon in chosen]
    return Explanation(
        identity=agreement.identity_digest,
        contribution=contribution(layout),
        sentences=_sentences(agreement, layout),
        columns=tuple(_column_row(agreement, column) for column in agreement.columns),
        noise=tuple(_noise_row(layout, guarantee, delta) for guarantee in guarantees),
        cautions=(*agreement.model.cautions(), *_row_cautions(layout), *_noise_cautions(agreement, layout)),
    )


def _row_cautions(layout: Layout) -> tuple[str, ...]:
    """Caution about several rows of the same individual, which are not independent observations."""
    if layout.individuals is None or layout.individuals.rows == 1:
        return ()
    return (
        f"Up to {layout.individuals.rows} rows may be of one {layout.individuals.column}. The model takes rows to be "
        "independent: where those of one are alike, intervals are too narrow, and a party with many rows of few counts "
        "for more than it knows. How many rows somebody has is not protected, only what is in them.",
    )


def _noise_cautions(agreement: Agreement, layout: Layout) -> tuple[str, ...]:
    """Caution if only large tables rise above the noise of even the largest ε."""
    largest = agreement.guarantee(epsilon=agreement.privacy.max_epsilon)
    needed, features = _noise_row(layout, largest, DEFAULT_DELTA).rows_needed, len(agreement.columns) - 1
    if needed <= MANY_ROWS:
        return ()
    share = (
        f" Each of the {counted(features, 'feature')} is about {1 / (features + 2):.0%} of the noise: leave out what "
        "matters least, or agree on a norm_bound."
        if features > 1 and layout.squared_radius is None
        else ""
    )
    return (
        f"Even with the largest epsilon, {largest.epsilon:g}, a party needs {needed:,} rows before the noise on a mean "
        f"falls below {TOLERANCE:g} of half the width of the bounds.{share}",
    )


def contribution(layout: Layout) -> str:
    """Describe the range of what a row adds to a sum."""
    return f"between {min(low for low, _ in layout.row_limits):.0f} and 1"


def _sentences(agreement: Agreement, layout: Layout) -> tuple[str, ...]:
    privacy, reward, parties = agreement.privacy, agreement.reward, agreement.parties
    weakest = Guarantee(order=privacy.order, epsilon=privacy.max_epsilon)
    pinned = [party.name for party in parties if party.public_key]
    rule = (
        ("1" if reward.rho == "max" else f"{reward.rho:g}")
        if reward.rule == "surplus"
        else "the largest that leaves everybody better off than alone, by a margin for the errors of the estimates"
        if reward.rho == "max"
        else f"{reward.rho:g}"
        + ("" if reward.mechanism == "degraded" else ", whether or not that leaves everybody better off than alone")
    )
    least = "" if privacy.min_epsilon is None else f", the smallest {privacy.min_epsilon:g}"
    mechanism = {
        "tempering": "a tempered likelihood",
        "noise": "added noise",
        "degraded": "noise added to the others' releases, the party's own staying as it is",
    }[reward.mechanism]
    return (
        f"What is learnt: {agreement.model.purpose}.",
        f"Each party sends {counted(len(layout), 'perturbed sum')}, its row count (in the clear"
        + (f", at most {privacy.max_rows:,}" if privacy.max_rows else "")
        + "), its epsilon and a signature.",
        *_made_one(layout),
        f"Replacing {_protected(layout)} changes the sums by at most {_units(layout):.4g} in Euclidean norm; the noise "
        "hides that.",
        f"The weakest guarantee allowed is {approx_dp(weakest)}: whoever knows all other rows can tell which of two "
        f"values {_protected(layout)} {'have' if _are_several(layout) else 'has'} at most "
        f"{guess_percent(weakest.zcdp)} of the time, where a coin is right 50 %.",
        f"Guarantees are stated as Rényi differential privacy of order {privacy.order:g}; the largest epsilon allowed "
        f"is {privacy.max_epsilon:g}, which is zCDP {weakest.zcdp:g}{least}.",
        *agreement.model.beliefs(),
        f"Rewards are controlled by {mechanism}; the fairness exponent rho is {rule}."
        + (f" The operator may choose otherwise: {', '.join(may)}." if (may := reward.operator_may_choose) else ""),
        _SURPLUS
        if reward.rule == "surplus"
        else _OWN_IS_WHOLE
        if reward.mechanism == "degraded"
        else "Whoever brings nothing that can be told from 0 gets the prior, which is worth nothing. "
        + _FALLBACKS[reward.fallback],
        f"The parties are {', '.join(agreement.party_names)}; "
        + (f"submissions of {', '.join(pinned)} must carry the agreed key." if pinned else "no keys are agreed."),
    )


def _protected(layout: Layout) -> str:
    """Name what is protected: the part in which neighbouring tables differ."""
    if layout.individuals is None:
        return "one row"
    most = "" if layout.individuals.aggregate is not None else f", at most {layout.individuals.rows},"
    rows = f"all rows{most}" if _are_several(layout) else "the row"
    return f"{rows} of one {layout.individuals.column}"


def _are_several(layout: Layout) -> bool:
    individuals = layout.individuals
    return individuals is not None and (individuals.aggregate is not None or individuals.rows > 1)


def _made_one(layout: Layout) -> tuple[str, ...]:
    """Explain how several rows of an individual become a single row, if that is agreed."""
    if layout.individuals is None or layout.individuals.aggregate is None:
        return ()
    how = {
        "mean": "the mean of numbers, and the most frequent of levels (of equals, the one agreed first)",
        "first": "each column's first value in the order of the table",
        "last": "each column's last value in the order of the table",
    }[layout.individuals.aggregate]
    return (
        f"All rows of one {layout.individuals.column} count as one row: {how}. A value is missing only where it is in "
        "all of them. What is learnt is about such rows: make rows one in the same way before you predict.",
    )


def _units(layout: Layout) -> float:
    return layout.sensitivity / min(layout.steps_per_unit)


def _column_row(agreement: Agreement, column: Column) -> tuple[str, str, str]:
    role = "target" if column is agreement.model.target else "feature"
    if isinstance(column, NumberColumn):
        lower, upper = column.scaled_range
        stated, valid = getattr(column, "typical", None), column.valid_range
        usually = f"; typically {stated[0]:g} to {stated[1]:g}" if stated and stated != column.scaled_range else ""
        usually += f"; valid are {valid[0]:g} to {valid[1]:g}" if valid and valid != column.scaled_range else ""
        taken = getattr(column, "transform", None)
        if since := getattr(column, "since", None):
            usually += f"; days since {since}"
        transform = f"; its {_TRANSFORMED[taken]}" if taken else ""
        return column.name, role, f"{lower:g} to {upper:g}, others moved there{usually}{transform}{_gaps(column)}"
    if isinstance(column, OrdinalFeature):
        scores = ", ".join(f"{level} = {score:g}" for level, score in zip(column.levels, column.places, strict=True))
        return column.name, role, f"in order: {scores}{_gaps(column)}"
    reference = getattr(column, "reference", None)
    compared = "" if reference is None else f", compared with {reference}"
    other = "; anything else is a level of its own" if getattr(column, "other", False) else ""
    return column.name, role, f"one of {first_few(column.values)}{compared}{other}{_gaps(column)}"


_TRANSFORMED = {"log": "logarithm", "sqrt": "square root", "logit": "log odds"}


def _gaps(column: Column) -> str:
    """Say what a missing value counts as, unless it is refused."""
    missing = getattr(column, "missing", "refuse")
    if missing == "value":
        return f"; missing counts as {column.fill}"  # type: ignore[union-attr]
    return "; missing has a weight of its own" if missing == "indicator" else ""


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
