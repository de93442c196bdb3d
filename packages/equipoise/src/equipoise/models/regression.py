"""The common part of both regressions: features with bounds, an agreed ball of them, two kinds of prior, prediction.

Regressions work in *scaled* units: every bounded column is mapped publicly from its bounds to [−1, 1]. Their priors are
stated in those units, and there are two kinds. The *standardised* one, the default since format 2, states beliefs about
effects of one standard deviation of a feature, whatever that is within its bounds. The *conjugate* one is the paper's,
and all that format 1 knows: its scales are those of columns that fill their bounds.

With z = (value − middle) / half width, linear regression, z_y = Σ w_j z_j + b, is in the columns' own units

    y = intercept + Σ weight_j x_j,   weight_j = w_j h_y / h_j,   intercept = m_y + h_y (b − Σ w_j m_j / h_j)

with middles m and half widths h; logistic regression is the same with m_y = 0 and h_y = 1, because log-odds have no
unit.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field, model_validator

from equipoise._util.arrays import Floats
from equipoise._util.quantiles import LIMIT, SINH_DEVIATION, ratio_coordinate, ratio_quantile, ratio_slope
from equipoise._util.text import counted, first_repeat
from equipoise.errors import MediationError
from equipoise.models.base import (
    LARGEST,
    MAX_SHOWN,
    Axis,
    Draws,
    Model,
    Readable,
    Rows,
    Support,
    check_length,
    stated,
)
from equipoise.models.coding import Coding, coding_of
from equipoise.models.columns import Column, Feature, NumberFeature, RegressionColumn, is_range
from equipoise.models.layout import BASE_WEIGHT, GRID, UNIT, ScaledColumn, ceil_sqrt
from equipoise.models.section import Positive, Section

MAX_FEATURES = 250  # keeps every statistic below 2¹⁵ entries, as `guarantee.LATTICE_GAP` requires
TYPICAL_DEVIATION = 0.25  # default of a column's standard deviation, in half-widths of its bounds
LEVEL_DEVIATION = 0.4  # of a 0/1 term: the value for a share of one fifth or four fifths
LARGEST_DEVIATION = 1.0  # of a column scaled to [−1, 1]
SMALLEST_BALL = 0.25  # smaller radii would hide nearly all of a number
BALL_HOLDS = 0.975  # share of typical rows within a suggested ball
WORTH_A_BALL = 0.8  # suggest a ball only if noise falls below this share
MOVED_DEVIATION = 0.75  # of a column whose values are mostly moved to ±1
SMALLEST_DEVIATION = 1e-12  # keeps logarithms finite
CELLS_AT_ONCE = 4_000_000  # rows × draws held in memory
PRIORS = ("prior", "data_prior")
LEVELS = (
    "A level's effect against the reference is believed to be as large as that of two and a half standard deviations "
    "of a number, and nothing much is believed of how frequent levels are."
)
WIDE = 3  # caution if a reach is wider than this many typical ranges

Spread = Annotated[float, Field(strict=True, ge=0.05, le=3, allow_inf_nan=False)]  # of a logarithm

FEATURES_COMMENT = """\
# `typical` is where about 95 % of a column's values lie, from common knowledge and NEVER from the data. Noise is
# scaled by it, and values beyond it are moved to its ends (reach = [low, high] states another range for that).
# `bounds`, which may be left out, are the values that can be right.
# Other columns than numbers, and what a missing value counts as:
#   { name = "smoker", kind = "binary", labels = ["never", "ever"] }
#   { name = "region", kind = "category", levels = ["north", "south"], other = true, missing = "indicator" }
#   { name = "pain", kind = "ordinal", levels = ["none", "some", "much"] }
#   { name = "creatinine", bounds = [0.2, 20], transform = "log", missing = "value", fill = 0.9 }
"""
NORM_COMMENT = """\
# Optional: the largest Euclidean norm of a row's numbers once each spans [-1, 1]. Rows beyond it are
# pulled in. A value well below sqrt(number of numbers) lowers the noise.
# norm_bound = 1.2
"""

FEATURES_PRIOR = """\
[model.data_prior]
# "shared": all parties' features come from one distribution; "per-party": each has its own.
scope = "shared"
concentration = 2.0      # LKJ prior of the features' correlations
sd_spread = 1.0          # features' standard deviations are typical within a factor of e^1, about 3, ...
stated_spread = 0.5      # ... and of e^0.5, about 1.6, where a typical range is stated
mean_spread = 2.0        # features' means are within 2 typical deviations of the middle
"""


class StandardisedFeatures(Section):
    """Features ~ N(μ, diag(s) Ω diag(s)), Ω ~ LKJ(concentration), log s ~ N(log typical, sd_spread²) with s < 1.

    The typical standard deviation is an eighth of the width of the bounds, which is no more than a guess. If the column
    has a `typical` range, it is a quarter of that range's width, and the spread is `stated_spread`. A feature's mean is
    N(middle, (mean_spread · typical deviation)²), the middle being that of the bounds or of the typical range. With
    `scope = "per-party"` every party's features have a distribution of their own; weights then have the same prior,
    but what is learnt of a column's scale says nothing about its weight.
    """

    kind: Literal["standardised"] = "standardised"
    scope: Literal["shared", "per-party"] = "shared"
    concentration: Positive = 2.0
    sd_spread: Spread = 1.0
    stated_spread: Spread = 0.5
    mean_spread: Positive = 2.0


class Regression(Model):
    """A model of a target given features."""

    features: Annotated[tuple[Feature, ...], Field(min_length=1, max_length=MAX_FEATURES)]
    norm_bound: Positive | None = None

    # Subclasses declare this field.
    if TYPE_CHECKING:

        @property
        def data_prior(self) -> Section:
            """The beliefs about the features' distribution before any data."""

    @model_validator(mode="before")
    @classmethod
    def _name_priors(cls, document: Any) -> Any:
        """Fill in the kind of the priors: standardised unless agreed otherwise, both of the same kind."""
        if not isinstance(document, dict):
            return document
        prior, data_prior = document.get("prior", {}), document.get("data_prior", {})
        if isinstance(prior, dict):
            prior = {"kind": "standardised", **prior}
        if isinstance(data_prior, dict):
            kind = prior["kind"] if isinstance(prior, dict) else getattr(prior, "kind", "standardised")
            data_prior = {"kind": kind, **data_prior}
        return {**document, "prior": prior, "data_prior": data_prior}

    @model_validator(mode="after")
    def _check_norm_bound(self) -> Self:
        radius, count = self.norm_bound, len(self.coding.numbers)
        if radius is not None and not SMALLEST_BALL <= radius < math.sqrt(count):
            raise ValueError(
                f"norm_bound = {radius:g} must be at least {SMALLEST_BALL:g} and below sqrt({count}) = "
                f"{math.sqrt(count):.4g}, in units where every one of the {counted(count, 'number')} spans [-1, 1]; "
                "outside that range it hides what is to be learnt or does nothing: change it, or leave it out"
            )
        return self

    @model_validator(mode="after")
    def _check_coding(self) -> Self:
        coding = self.coding
        if len(coding.terms) > MAX_FEATURES:
            raise ValueError(
                f"the features have {len(coding.terms)} columns once coded; at most {MAX_FEATURES} are allowed"
            )
        # The agreement refuses repeated column names itself.
        twice = first_repeat([feature.name for feature in self.features])
        if twice is None and (repeated := first_repeat([term.name for term in coding.terms])):
            raise ValueError(f"two columns are called {repeated!r} once coded; rename one")
        if coding.only_numbers:
            return self
        levelled = next(term.feature for term in coding.terms if term.is_level)
        if self.prior.kind == "conjugate":  # type: ignore[attr-defined]
            raise ValueError(
                f"the conjugate prior is for features that are all numbers, and {levelled!r} has levels; use "
                'prior.kind = "standardised"'
            )
        return self

    @cached_property
    def coding(self) -> Coding:
        """The coding of features as columns with weights."""
        return coding_of(self.features)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (*self.features, self.target)

    @property
    def number_names(self) -> tuple[str, ...]:
        return tuple(self.coding.terms[index].name for index in self.coding.numbers)

    def joint_domains(self) -> dict[str, list[Any]]:
        coding = self.coding
        features = ", ".join(coding.terms[index].feature for index in coding.numbers)
        return {f"norm of ({features})": [] if self.norm_bound is None else [self.norm_bound]}

    @property
    def samplers(self) -> tuple[str, ...]:
        return ("moments", "naive", "prior")

    @property
    def is_conjugate(self) -> bool:
        return "gibbs" in self.samplers

    @property
    def gibbs_refusal(self) -> str:
        if self.kind != "linear":
            return super().gibbs_refusal
        return (
            'method "gibbs" needs the conjugate prior, and this agreement has the standardised one; use "moments", '
            'or agree on prior.kind = "conjugate"'
        )

    # Parameters.

    @property
    def parameters(self) -> dict[str, Support]:
        return {"weights": Support((len(self.coding.terms) + 1,), -LARGEST, LARGEST)}

    def slopes(self, weights: Floats, target_width: float) -> tuple[dict[str, Floats], Floats]:
        """Weights by name in own units, and what they leave for the intercept besides the target's middle."""
        intercept = target_width * weights[:, -1]
        named = {}
        for term, scaled in zip(self.coding.terms, weights.T, strict=False):
            slope = scaled * (target_width / term.scale)
            named[f"weight[{term.name}]"] = slope
            intercept = intercept - slope * term.middle
        return named, intercept

    def said_of(self, name: str) -> str:
        words = {f"weight[{term.name}]": term.effect if term.is_level else term.name for term in self.coding.terms}
        return words.get(name, name)

    def row_name(self, name: str) -> str:
        labels = {parameter.name: parameter.label for axis in self.axes()[1:] for parameter in axis.parameters}
        return {f"weight[{term.name}]": term.step for term in self.coding.terms}.get(name, labels.get(name, name))

    def coordinate_names(self) -> list[str]:
        return [*(f"the weight of {term.name}" for term in self.coding.terms), "the bias"]

    def typical(self, column: RegressionColumn | None, scaled: ScaledColumn | None) -> tuple[float, float, float]:
        """Return beliefs about a column in scaled units: its middle, its deviation, the spread of its logarithm.

        Unless agreed, its reach holds 95 % of its values, or else the middle half of its bounds does.
        """
        data = self.data_prior
        assert isinstance(data, StandardisedFeatures)
        stated = None if column is None else column.typical or column.reach
        if column is None or stated is None or scaled is None:
            return 0.0, TYPICAL_DEVIATION, data.sd_spread
        low, high = ((scaled.transformed(end) - scaled.middle) / scaled.half_width for end in stated)
        spread = data.sd_spread if column.typical is None else data.stated_spread
        deviation = min(max((high - low) / 4, SMALLEST_DEVIATION), MOVED_DEVIATION)
        return float(np.clip((low + high) / 2, -1, 1)), deviation, spread

    def typical_features(self) -> list[tuple[float, float, float]]:
        """Return the beliefs about each numeric feature, under a standardised prior."""
        stated = {feature.name: feature for feature in self.features if isinstance(feature, NumberFeature)}
        terms = [self.coding.terms[index] for index in self.coding.numbers]
        return [
            self.typical(stated.get(term.feature), term.column if isinstance(term.column, ScaledColumn) else None)
            for term in terms
        ]

    def deviation_coordinates(self, deviations: Floats) -> Floats:
        """Map standard deviations of numbers, in scaled units, to coordinates in which the prior is N(0, 1)."""
        below = self._deviation_probability(np.maximum(deviations, SMALLEST_DEVIATION))
        return np.clip(scipy.special.ndtri(below), -LIMIT, LIMIT)

    def _deviation_probability(self, deviations: Floats) -> Floats:
        """Return the prior probability that each number's standard deviation is below a given one."""
        _, typical, spread = np.transpose(self.typical_features())
        edge = np.log(LARGEST_DEVIATION / typical) / spread
        inside = np.minimum(np.log(deviations / typical) / spread, edge)
        return np.asarray(scipy.special.ndtr(inside) / scipy.special.ndtr(edge))

    @cached_property
    def typical_terms(self) -> list[tuple[float, float, float]]:
        """The beliefs of `typical_features` for every term; all levels of a block are believed equally frequent.

        A level's deviation is taken as known: its logarithm has no spread.
        """
        coding = self.coding
        beliefs = [(0.0, LEVEL_DEVIATION, 0.0)] * len(coding.terms)
        for index, belief in zip(coding.numbers, self.typical_features(), strict=True):
            beliefs[index] = belief
        for block in coding.blocks:
            for index in block:
                beliefs[index] = (1 / (len(block) + 1), LEVEL_DEVIATION, 0.0)
        return beliefs

    def standardised_weights(
        self, coordinates: Floats, effect: float, unit: Floats | float, target: tuple[float, float]
    ) -> Floats:
        """Return weights, the bias last, at coordinates [draws, terms + 1] of a standardised prior.

        Features are integrated out. An effect is in units of `unit` [draws]; `target` is the middle and spread of the
        belief about the target's mean, or about the log odds, for features at their means.
        """
        weights = np.empty((len(coordinates), len(self.typical_terms)))
        for alike, typical, spread in self._alike_terms:
            weights[:, alike] = ratio_quantile(coordinates[:, alike], typical, spread, LARGEST_DEVIATION)
        weights *= (unit * (effect / SINH_DEVIATION) * np.ones(len(weights)))[:, None]
        middle, deviation = self._bias_given(weights, target)
        return np.column_stack([weights, middle + deviation * coordinates[:, -1]])

    def standardised_coordinates(
        self, weights: Floats, effect: float, unit: Floats | float, target: tuple[float, float]
    ) -> Floats:
        """Return the coordinates of weights [draws, terms + 1]: the inverse of `standardised_weights`."""
        slopes = weights[:, :-1]
        ratios = slopes / (unit * (effect / SINH_DEVIATION) * np.ones(len(weights)))[:, None]
        coordinates = np.empty_like(weights)
        for alike, typical, spread in self._alike_terms:
            coordinates[:, alike] = ratio_coordinate(ratios[:, alike], typical, spread, LARGEST_DEVIATION)
        middle, deviation = self._bias_given(slopes, target)
        coordinates[:, -1] = (weights[:, -1] - middle) / deviation
        return coordinates

    def standardised_pull_back(
        self, coordinates: Floats, slopes: Floats, effect: float, unit: Floats, target: tuple[float, float]
    ) -> tuple[Floats, Floats]:
        """Return derivatives with respect to coordinates and to the unit, given those to weights [draws, terms + 1]."""
        scale = unit * (effect / SINH_DEVIATION)
        ratios, moved = np.empty_like(slopes[:, :-1]), np.empty_like(slopes[:, :-1])
        for alike, typical, spread in self._alike_terms:
            ratios[:, alike] = ratio_quantile(coordinates[:, alike], typical, spread, LARGEST_DEVIATION)
            moved[:, alike] = ratio_slope(coordinates[:, alike], typical, spread, LARGEST_DEVIATION)
        weights = ratios * scale[:, None]
        _, deviation = self._bias_given(weights, target)
        centres, of_means = self._means_of_terms
        of_bias, level = slopes[:, -1], coordinates[:, -1]
        # The bias moves with the other weights: its middle does, and how far it may be from there.
        through = slopes[:, :-1] - of_bias[:, None] * centres
        through += (of_bias * level / deviation)[:, None] * weights * of_means**2
        by_coordinates = np.column_stack([through * moved * scale[:, None], of_bias * deviation])
        return by_coordinates, np.sum(through * weights, axis=1) / unit

    def standardised_log_volume(
        self, coordinates: Floats, effect: float, unit: Floats, target: tuple[float, float]
    ) -> Floats:
        """Return the log determinant of the derivatives of weights with respect to coordinates [draws, terms + 1].

        A weight depends on its own coordinate alone and the bias on all, so that the Jacobian is triangular and the
        determinant is the product of its diagonal.
        """
        scale = unit * (effect / SINH_DEVIATION)
        slopes = np.empty((len(coordinates), len(self.typical_terms)))
        ratios = np.empty_like(slopes)
        for alike, typical, spread in self._alike_terms:
            ratios[:, alike] = ratio_quantile(coordinates[:, alike], typical, spread, LARGEST_DEVIATION)
            slopes[:, alike] = ratio_slope(coordinates[:, alike], typical, spread, LARGEST_DEVIATION)
        _, deviation = self._bias_given(ratios * scale[:, None], target)
        return np.asarray(np.sum(np.log(slopes * scale[:, None]), axis=1) + np.log(deviation))

    @cached_property
    def _means_of_terms(self) -> tuple[Floats, Floats]:
        """The centres of the beliefs about each term's mean, and their spreads."""
        assert isinstance(self.data_prior, StandardisedFeatures)
        centres, deviations, spreads = (np.array(part) for part in zip(*self.typical_terms, strict=True))
        return centres, np.where(spreads > 0, self.data_prior.mean_spread * deviations, 0.0)

    @cached_property
    def _alike_terms(self) -> list[tuple[NDArray[np.intp], float, float]]:
        """The indices of terms about which beliefs are the same, with their deviation and its spread."""
        _, deviations, spreads = (np.array(part) for part in zip(*self.typical_terms, strict=True))
        kinds = dict.fromkeys(zip(deviations.tolist(), spreads.tolist(), strict=True))
        return [
            (np.flatnonzero((deviations == deviation) & (spreads == spread)), deviation, spread)
            for deviation, spread in kinds
        ]

    def _bias_given(self, slopes: Floats, target: tuple[float, float]) -> tuple[Floats, Floats]:
        """Return mean and deviation of the bias given the other weights [draws, terms], features integrated out."""
        centres, of_means = self._means_of_terms
        return target[0] - slopes @ centres, np.sqrt(target[1] ** 2 + slopes**2 @ of_means**2)

    @abstractmethod
    def weight_coordinates(self, weights: Floats, residual: Floats | None) -> Floats:
        """Return all coordinates, given weights [draws, terms + 1] and the residual deviation's coordinate [draws]."""

    @abstractmethod
    def pull_back(self, coordinates: Floats, slopes: Floats, of_variance: Floats) -> Floats:
        """Return slopes by coordinates, given those by weights [draws, terms + 1] and by the variance [draws]."""

    @abstractmethod
    def log_volume(self, coordinates: Floats) -> Floats:
        """Return the log determinant of the derivatives of weights by their coordinates, under a standardised prior."""

    # Predictions.

    def scaled_features(self, table: Floats) -> Floats:
        """Return terms [rows, terms] as a release takes them, with a last column of ones for the bias.

        A number beyond its reach counts as the nearest end, which is ±1 here, and rows beyond an agreed ball are pulled
        onto it: the regression is on clipped numbers, so that it is the same in releases, in predictions and at home.
        Features of agreed values are given as indices of them, −1 for other values; NaN is a missing one.
        """
        cells = {feature.name: values for feature, values in zip(self.features, table.T, strict=True)}
        scaled = []
        for term in self.coding.terms:
            column, values = term.column, cells[term.feature]
            missing = np.isnan(values)
            if np.any(np.isinf(values)) or (np.any(missing) and not column.takes_missing):
                raise MediationError(
                    f"the test column {term.feature!r} has values that are not finite numbers; leave them out"
                )
            scaled.append(np.clip(column.coded(values), -1.0, 1.0))
        terms = np.column_stack([*scaled, np.ones(len(table))])
        pull_onto_ball(terms, self.coding.numbers, self.norm_bound)
        return terms

    @abstractmethod
    def simulate_given(self, draws: Draws, predicted: Floats, rng: np.random.Generator) -> NDArray[Any]:
        """Simulate observations for linear predictors [draws, rows]."""

    def simulate(self, draws: Draws, features: Floats | None, size: int, rng: np.random.Generator) -> NDArray[Any]:  # noqa: ARG002
        assert features is not None
        return self.simulate_given(draws, draws["weights"] @ self.scaled_features(features).T, rng)

    @abstractmethod
    def imagine_targets(self, truth: Draws, predicted: Floats, rng: np.random.Generator) -> tuple[Floats, float]:
        """Simulate targets from `truth` for given predictors, as `log_probability` takes them, and their unit."""

    def imagine(self, truth: Draws, features: Floats, rng: np.random.Generator) -> Rows:
        """Simulate targets from `truth`, which holds a single draw, for rows of scaled features."""
        return Rows(features, *self.imagine_targets(truth, features @ truth["weights"][0], rng), self)

    # Words.

    @property
    def purpose(self) -> str:
        names = [feature.name for feature in self.features]
        on = ", ".join(names) if len(names) <= MAX_SHOWN else f"{len(names)} features"
        return f"{self.kind} regression of {self.target.name} on {on}"

    def beliefs(self) -> tuple[str, ...]:
        radius, data = self.norm_bound, self.data_prior
        ball = f"Rows whose numbers, each scaled to [-1, 1], have a norm above {radius or 0:g} are pulled onto it."
        norm = () if radius is None else (ball,)
        if not isinstance(data, StandardisedFeatures):
            return *norm, *super().beliefs(), f"Beliefs about the features: {stated(data)}."
        terms = [self.coding.terms[index] for index in self.coding.numbers]
        typical = [
            f"{term.name} {term.scale * deviation:.3g} around {term.middle + term.scale * middle:.4g}"
            for term, (middle, deviation, _) in zip(terms, self.typical_features(), strict=True)
        ]
        numbers = (
            "Before any data, features' standard deviations and means are believed to be about "
            f"{_shown(typical)}; two times out of three the deviation is right "
            f"within a factor of {factor(data.sd_spread)}, or {factor(data.stated_spread)} where a typical range is "
            f"stated, and the mean within {data.mean_spread:g} deviations."
        )
        return (
            *norm,
            self.belief_about_effects(),
            *([numbers] if typical else []),
            *([] if self.coding.only_numbers else [LEVELS]),
            "All parties' features are believed to come from one distribution."
            if data.scope == "shared"
            else "Every party's features are believed to come from a distribution of its own.",
        )

    def cautions(self) -> tuple[str, ...]:
        """Return cautions on features that look like labels, and on reaches far wider than expected values."""
        numbers = [column for column in self.features if isinstance(column, NumberFeature) and column.transform is None]
        labels = [
            column.name for column in numbers if float(column.bounds[0]).is_integer() and _width(column.bounds) == 1
        ]
        scaled = [*numbers, self.target] if isinstance(self.target, RegressionColumn) else numbers
        times = {
            column.name: _width(column.scaled_range) / _width(column.typical) for column in scaled if column.typical
        }
        wide = [f"{name} ({ratio:.3g} times)" for name, ratio in times.items() if ratio > WIDE]
        unstated = [column.name for column in scaled if column.typical is None and column.reach is None]
        sentences = []
        if labels:
            sentences.append(
                f"The bounds of {_shown(labels)} are one apart. If such a column has two values only, say so "
                f'(kind = "binary", labels = [0, 1]): {self.two_values}'
            )
        if wide:
            sentences.append(
                f"What scales the noise is much wider than the typical range of {_shown(wide)}: the noise of means is "
                "as many times as large as it need be, that of squares and products the square of it. Agree on a "
                "reach of about the typical range, or write format = 3, where that is the default."
            )
        if unstated and isinstance(self.data_prior, StandardisedFeatures):
            sentences.append(
                f"The bounds of {_shown(unstated)} scale the noise. If most values fill a part of them only, agree on "
                "a typical range, beyond which values are moved to its ends: with one of a fifth of the width the "
                "noise of means is a fifth, that of squares a twenty-fifth."
            )
        coding = self.coding
        suggested = None
        if self.norm_bound is None and not unstated:
            suggested = useful_ball(len(coding.numbers), coding.directions, len(coding.blocks))
        if suggested is not None:
            radius, share = suggested
            sentences.append(
                f"norm_bound = {radius:g} would lower the noise of sums and products to {share:.0%}, though raise that "
                "of squares: few rows are extreme in all numbers at once. If they are typical and independent, 97.5 % "
                "are not changed by it."
            )
        return tuple(sentences)

    @property
    @abstractmethod
    def two_values(self) -> str:
        """A warning about a feature that has only two values, as the end of a sentence."""

    @abstractmethod
    def belief_about_effects(self) -> str:
        """Return a sentence on a standardised prior's beliefs about the parameters."""

    @property
    @abstractmethod
    def effect_unit(self) -> str:
        """The unit of an effect."""

    def axes(self) -> list[Axis]:
        """Return effects of moving a feature over its agreed range, in one unit for all features."""
        effects = tuple(Readable(term.effect, f"weight[{term.name}]", term.width) for term in self.coding.terms)
        return [
            Axis(f"effect in {self.effect_unit}", effects, zero=True),
            Axis(f"in {self.effect_unit}", (Readable(self._intercept, "intercept"),)),
        ]

    @property
    def _intercept(self) -> str:
        at = "0 or reference" if not self.coding.only_numbers else "0"
        return f"intercept (all features {at})"

    @property
    def _moves(self) -> str:
        """The change whose effect is shown."""
        levels = "" if self.coding.only_numbers else ", or is at a level instead of the reference"
        return f"when a feature moves over its whole agreed range{levels}, all else equal"

    # Format 1 has conjugate priors only, whose `kind` it does not say, and no typical ranges.

    @classmethod
    def read_first_format(cls, document: dict[str, Any]) -> dict[str, Any]:
        model = dict(document)
        for key in PRIORS:
            said = model.get(key, {})
            if isinstance(said, dict):
                if "kind" in said:
                    raise ValueError(f"model.{key} has `kind`, which format 1 does not know; write format = 3")
                model[key] = {"kind": "conjugate", **said}
        for column in _columns_of(model):
            for name in [option for option in ("typical", "reach") if option in column]:
                raise ValueError(
                    f"the column {column.get('name')!r} has `{name}`, which format 1 does not know; write format = 3 "
                    "(whose priors differ), or remove it"
                )
        return model

    @classmethod
    def state_reaches(cls, document: dict[str, Any]) -> dict[str, Any]:
        def stated(column: Any) -> Any:
            has_typical = isinstance(column, dict) and is_range(column.get("typical"))
            return {**column, "reach": column["typical"]} if has_typical and column.get("reach") is None else column

        features = document.get("features")
        if isinstance(features, list | tuple):
            document = {**document, "features": [stated(column) for column in features]}
        return {**document, "target": stated(document["target"])} if "target" in document else document

    @classmethod
    def write_first_format(cls, document: dict[str, Any]) -> None:
        for key in PRIORS:
            document.get(key, {}).pop("kind", None)
        for column in _columns_of(document):
            for name in ("typical", "reach"):
                column.pop(name, None)

    def check_first_format(self) -> None:
        if isinstance(self.data_prior, StandardisedFeatures):
            raise ValueError("format 1 has conjugate priors only; use format 2")


class Ball(NamedTuple):
    """An agreed ℓ₂ ball of the numbers: squared radius in grid steps, and the sensitivity it proves.

    `largest_square` is the largest squared norm of all features of a row, levels included.
    """

    squared_radius: int
    sensitivity: int
    largest_square: Fraction


def norm_ball(norm_bound: float, directions: int, blocks: int) -> Ball:
    r"""Return the sensitivity of both regressions when ‖x‖₂² ≤ r besides |x_j| ≤ 1, all entries weighted alike.

    Both layouts' docstrings end, with a = 1, at ‖g − g′‖² ≤ ½(2+s)² + ½(2+s′)² + ½ Σ(u_j − u′_j)², where u_j = x_j² is
    in [0, 1] and s = Σu_j ≤ r. There (u − u′)² ≤ |u − u′| = u + u′ − 2 min(u, u′), and Σ min(u, u′) is at least 0 and
    at least s + s′ − w, so the last sum is at most min(s + s′, 2w − s − s′). The bound then grows with s and s′ (its
    slope is at least 2 − ½), and is largest at s = s′ = r:

        **Δ² = (2 + r)² + min(r, w − r).**

    Tight when r and 2r ≤ w are whole: x and x′ have r ones each in different places, and y′ = −y. Without the box the
    last term would be r²; here every feature spans [−1, 1], so the box always holds.

    **Levels.** The ball is of numbers alone: a level that is scaled down would be no level. With q the squared bound of
    their norm, B blocks of levels and G marked gaps, a row has s ≤ r = q + B + G, and w is the number of numbers and of
    blocks but gaps. What is above then holds for u_j of numbers, blocks and numbers with their gaps:

    * a block's u is 0 or 1, and ½Σ(u_j − u′_j)² has ½(u − u′)² ≥ 0 for it. Its squares and the products within it are
      not released, so what stands there has the coefficient −½, and is no more.
    * of a number with a mark m of its gap, x m = 0 and u = x² + m. What stands there is ½(x² − x′²)² − ½(m − m′)². With
      p = x² − x′² and d = m − m′ it is less than ½(u − u′)² = ½(p + d)² by d (p + d), which is 0 for d = 0, 1 − x′² for
      d = 1 (where x = 0) and 1 − x² for d = −1: never negative.

    Where r ≥ w the box alone bounds s, and r is w.
    """
    q = Fraction(norm_bound) ** 2
    r = min(q + blocks, Fraction(directions))
    squared_steps = ((2 + r) ** 2 + min(r, directions - r)) * (BASE_WEIGHT * UNIT) ** 2
    return Ball(math.floor(q * GRID**2), ceil_sqrt(math.ceil(squared_steps)), r)


def pull_onto_ball(terms: Floats, numbers: Sequence[int], norm_bound: float | None) -> None:
    """Scale the numbers of rows beyond an agreed ball down, in place."""
    if norm_bound is not None:
        norms = np.linalg.norm(terms[:, list(numbers)], axis=1, keepdims=True)
        terms[:, list(numbers)] *= norm_bound / np.maximum(norms, norm_bound)


def useful_ball(numbers: int, directions: int, blocks: int) -> tuple[float, float] | None:
    """Return a radius that holds 97.5 % of typical rows, and the ratio of the products' noise; None if it hardly helps.

    A number whose typical range is its reach has a standard deviation of ½, so the squared norm is χ²/4 if numbers are
    independent. `directions` and `blocks` are those of a coding, marks of gaps among the blocks.
    """
    if numbers < 2:
        return None
    radius = math.ceil(10 * math.sqrt(float(scipy.special.chdtri(numbers, 1 - BALL_HOLDS)) / 4)) / 10
    if radius >= math.sqrt(numbers):
        return None
    share = norm_ball(radius, directions, blocks).sensitivity / ((directions + 2) * BASE_WEIGHT * UNIT)
    return (radius, share) if share < WORTH_A_BALL else None


def in_parts(features: Floats, draws: int) -> Iterator[Floats]:
    """Yield a few rows at a time, so that rows × draws fit in memory."""
    step = max(1, CELLS_AT_ONCE // draws)
    for start in range(0, len(features), step):
        yield features[start : start + step]


def typical_deviation(column: RegressionColumn) -> float:
    """Return the standard deviation that a standardised prior expects of a column, in the column's own units."""
    stated = column.typical or column.reach
    lower, upper = stated or column.bounds
    return (upper - lower) / (4 if stated else 8)


def _width(ends: tuple[float, float]) -> float:
    return ends[1] - ends[0]


def factor(spread: float) -> str:
    """Return the factor that corresponds to a spread of a logarithm."""
    return f"{math.exp(spread):.2g}"


def _shown(columns: list[str]) -> str:
    more = len(columns) - MAX_SHOWN
    return ", ".join(columns[:MAX_SHOWN]) + (f" and {counted(more, 'other')}" if more > 0 else "")


def _columns_of(model: dict[str, Any]) -> list[dict[str, Any]]:
    """Return those columns of a regression's document that have the form of a column."""
    features = model.get("features")
    columns = [*features, model.get("target")] if isinstance(features, list | tuple) else [model.get("target")]
    return [column for column in columns if isinstance(column, dict)]


def check_prior_kinds(prior: str, data_prior: str, columns: tuple[Column, ...]) -> None:
    """Refuse priors that do not belong together, and typical ranges that would mean nothing."""
    if prior != data_prior:
        raise ValueError(
            f'data_prior.kind = "{data_prior}" does not go with prior.kind = "{prior}"; leave data_prior.kind out'
        )
    stated = [
        column.name
        for column in columns
        if isinstance(column, RegressionColumn) and column.typical is not None and column.reach is None
    ]
    if stated and prior != "standardised":
        raise ValueError(
            f"the column {stated[0]!r} has a typical range, which the conjugate prior has no use for; remove "
            '`typical`, or use prior.kind = "standardised"'
        )


def check_square(key: str, value: float | list[float] | list[list[float]] | None, width: int) -> None:
    """Accept a number, a vector or a symmetric positive definite matrix of the right size."""
    if not isinstance(value, list):
        return
    rows = [row for row in value if isinstance(row, list)]
    if not rows:
        check_length(key, [number for number in value if not isinstance(number, list)], width)
        return
    if len(value) != width or any(len(row) != width for row in rows):
        raise ValueError(f"{key} must be a {width} × {width} matrix")
    matrix = np.array(rows)
    if not np.array_equal(matrix, matrix.T) or np.linalg.eigvalsh(matrix)[0] <= 0:
        raise ValueError(f"{key} must be symmetric and positive definite")
