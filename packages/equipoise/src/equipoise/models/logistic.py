"""Logistic regression on degree-2 polynomial approximate statistics: sums of y, y x_j, x_j and x_j x_k, y = ±1."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field, model_validator

from equipoise._util.arrays import Floats
from equipoise._util.quantiles import truncated_square, unstretched_square
from equipoise.models.base import Draws, Likelihood, Rows, Template, averaged
from equipoise.models.columns import LabelColumn
from equipoise.models.layout import BASE_WEIGHT, CodedColumn, Layout
from equipoise.models.regression import (
    FEATURES_COMMENT,
    FEATURES_PRIOR,
    NORM_COMMENT,
    Regression,
    StandardisedFeatures,
    check_prior_kinds,
    factor,
    in_parts,
    norm_ball,
)
from equipoise.models.section import Positive, Section

# Two thirds of the effects are within this many standard deviations.
_USUAL = math.sinh(1) / math.sqrt((math.e**2 - 1) / 2)


class StandardisedLogOdds(Section):
    """Logistic regression: the effect of a feature is what one standard deviation of it adds to the log odds.

    Effects have mean 0, standard deviation `effect` and heavy tails, as in linear regression. The log odds where all
    features are at their means are N(0, bias_spread²).
    """

    kind: Literal["standardised"] = "standardised"
    effect: Positive = 1.25
    bias_spread: Positive = 2.0


class TruncatedNorm(Section):
    """Logistic regression: |θ|² is χ² truncated at `max_squared_norm`, the direction is uniform; paper App. H.1.

    θ holds the coefficients divided by `weight_scale` and the bias divided by `bias_scale`, so that a slope over the
    whole range of a feature is believed to be about twice `weight_scale`. `degrees_of_freedom` defaults to the number
    of features, as in the paper.
    """

    kind: Literal["conjugate"] = "conjugate"
    degrees_of_freedom: Positive | None = None
    max_squared_norm: Positive = 25.0
    weight_scale: Positive = 2.5
    bias_scale: Positive = 1.0


class ScaledCorrelation(Section):
    """Features ~ N(μ, diag(ι) Ω diag(ι)), Ω ~ LKJ(concentration), ι ~ N(sd_mean, sd_spread²) on [0, sd_max].

    μ ~ N(0, mean_spread²) for each feature, because a feature's mean is rarely the middle of its agreed bounds. The
    paper's features are centred beforehand; `mean_spread = 0` fixes μ = 0 as it does.
    """

    kind: Literal["conjugate"] = "conjugate"
    scope: Literal["shared", "per-party"] = "shared"
    mean_spread: Annotated[float, Field(strict=True, ge=0, le=10, allow_inf_nan=False)] = 0.5
    concentration: Positive = 2.0
    sd_mean: Positive = 0.5
    sd_spread: Positive = 0.5
    sd_max: Positive = 1.0


class ShapedFeatures(StandardisedFeatures):
    """As `StandardisedFeatures`, and numbers need not be normal.

    Two moments of the features are released; E[y x] depends on all of them. Where effects are strong it may therefore
    differ from what it is for normal numbers by `shape_spread` standard deviations of them in any direction, and by a
    factor of 1 + (1.5 ± 3) · shape_spread, since columns within bounds tend to be flatter. With 0 numbers are taken to
    be normal within every combination of levels.
    """

    added_later: ClassVar[frozenset[str]] = frozenset({"shape_spread"})

    shape_spread: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)] = 0.04


class LogisticModel(Regression):
    """Bayesian logistic regression on degree-2 polynomial approximate statistics."""

    estimator_type = "classifier"
    score_name = "accuracy"
    odds_ratios = True
    errors_are_shares = True
    template = Template(
        "Readmission across hospitals",
        f"""\
[model]
kind = "logistic"
{FEATURES_COMMENT}features = [
  {{ name = "age", typical = [25, 85], bounds = [18, 100] }},
  {{ name = "bmi", typical = [18, 40], bounds = [15, 60] }},
  {{ name = "glucose", typical = [65, 200], bounds = [40, 300] }},
]
# The two values of the target exactly as the tables have them: [negative, positive].
target = {{ name = "readmitted", labels = ["no", "yes"] }}
{NORM_COMMENT}
# Beliefs before any data; these are the defaults. kind = "conjugate" is the paper's prior, for columns that fill
# their bounds.
[model.prior]
kind = "standardised"
effect = 1.25            # change of the log odds for one standard deviation of a feature
bias_spread = 2.0        # log odds where all features are at their means

{FEATURES_PRIOR}""",
    )

    kind: Literal["logistic"]
    target: LabelColumn
    prior: Annotated[StandardisedLogOdds | TruncatedNorm, Field(discriminator="kind")]
    data_prior: Annotated[ShapedFeatures | ScaledCorrelation, Field(discriminator="kind")]

    @model_validator(mode="after")
    def _check_prior_kinds(self) -> Self:
        check_prior_kinds(self.prior.kind, self.data_prior.kind, self.features)
        return self

    def _layout(self) -> Layout:
        r"""Entries Σx_j, Σy, Σx_j x_k (j ≤ k), Σx_j y, with |x_j| ≤ 1, y ∈ {−1, 1} and optionally ‖x‖₂ ≤ R.

        Let x_j² be multiplied by a, P = |x|², Q = |x′|², c = x·x′, u_j = x_j². The products contribute

            D = ½(P² + Q²) − c² + (a² − ½) Σ(u_j − u′_j)².

        If y′ = −y, the other entries contribute 4 + |x + x′|² + |x − x′|² = 4 + 2(P + Q); if y′ = y they contribute
        2|x − x′|² = 2(P + Q) − 4c, and −4c − c² ≤ 4. In both cases

            ‖g − g′‖² ≤ ½(P + 2)² + ½(Q + 2)² + (a² − ½) Σ(u_j − u′_j)².

        **Box.** Convex in (u, u′) ∈ [0, 1]^{2w}, so largest at a vertex. With p coordinates 1 in x only and q in x′
        only it is at most (w+2)² − (p+q)(w+2) + ½(p²+q²) + (a² − ½)(p+q) ≤ (w+2)² whenever a² ≤ (w+5)/2. So **Δ = w + 2
        with a = √((w+5)/2)**. Tight for a exactly so: x = (1 … 1), x′ = 0, y′ = −y (with a rational just below, and w
        even, orthogonal sign vectors with y′ = −y reach it exactly).

        **Ball** (a = 1). The bound above, with P = s and Q = s′, is the one that `norm_ball` maximises.

        Σy² is the row count and is left out. Where features have levels, w is the number of numbers and of blocks
        (`Coding.sensitivity`); the ball is of numbers alone.
        """
        coding = self.coding
        target = CodedColumn(self.target.name, self.target.labels, (-1, 1))
        square_weight = math.isqrt(BASE_WEIGHT**2 * (coding.directions + 5) // 2)
        sensitivity = coding.sensitivity(square_weight)
        squared_radius = None
        if self.norm_bound is not None:
            ball = norm_ball(self.norm_bound, coding.directions, len(coding.blocks))
            squared_radius, sensitivity = ball.squared_radius, ball.sensitivity
            square_weight = BASE_WEIGHT

        columns = (*(term.column for term in coding.terms), target)
        entries = coding.entries(self.target.name, square_weight, 0)
        return Layout(columns, entries, sensitivity, squared_radius, ball_columns=coding.numbers)

    def own_units(self, draws: Draws) -> dict[str, Floats]:
        weights, intercept = self.slopes(draws["weights"], 1.0)
        return {**weights, "intercept": intercept}

    def _deviation_probability(self, deviations: Floats) -> Floats:
        data = self.data_prior
        if not isinstance(data, ScaledCorrelation):
            return super()._deviation_probability(deviations)
        ends = (0.0, np.minimum(deviations, data.sd_max), data.sd_max)
        least, inside, most = (scipy.special.ndtr((end - data.sd_mean) / data.sd_spread) for end in ends)
        return np.asarray((inside - least) / (most - least))

    def at_coordinates(self, coordinates: Floats) -> dict[str, Floats]:
        prior = self.prior
        if isinstance(prior, StandardisedLogOdds):
            target = 0.0, prior.bias_spread
            return {"weights": self.standardised_weights(coordinates, prior.effect, 1.0, target)}
        squares = np.maximum(np.sum(coordinates**2, axis=1), 1e-30)
        stretched = truncated_square(squares / 2, len(self.features) + 1, self._degrees, prior.max_squared_norm)
        return {"weights": self._scales * coordinates * np.sqrt(2 * stretched / squares)[:, None]}

    def weight_coordinates(self, weights: Floats, residual: Floats | None) -> Floats:  # noqa: ARG002
        prior = self.prior
        if isinstance(prior, StandardisedLogOdds):
            return self.standardised_coordinates(weights, prior.effect, 1.0, (0.0, prior.bias_spread))
        directions = weights / self._scales
        squares = np.maximum(np.sum(directions**2, axis=1), 1e-30)
        stretched = unstretched_square(squares / 2, len(self.features) + 1, self._degrees, prior.max_squared_norm)
        return np.asarray(directions * np.sqrt(2 * stretched / squares)[:, None])

    def pull_back(self, coordinates: Floats, slopes: Floats, of_variance: Floats) -> Floats:  # noqa: ARG002
        prior = self.prior
        if isinstance(prior, StandardisedLogOdds):
            target = 0.0, prior.bias_spread
            return self.standardised_pull_back(coordinates, slopes, prior.effect, np.ones(len(slopes)), target)[0]
        # How much a direction is stretched is taken to stay; it changes slowly with the norm.
        directions = self.at_coordinates(coordinates)["weights"] / self._scales
        squares = np.maximum(np.sum(coordinates**2, axis=1), 1e-30)
        stretch = np.sqrt(np.sum(directions**2, axis=1) / squares)
        return np.asarray(slopes * self._scales * stretch[:, None])

    def log_volume(self, coordinates: Floats) -> Floats:
        prior = self.prior
        assert isinstance(prior, StandardisedLogOdds)
        unit = np.ones(len(coordinates))
        return self.standardised_log_volume(coordinates, prior.effect, unit, (0.0, prior.bias_spread))

    @property
    def _degrees(self) -> float:
        """The degrees of freedom of the truncated norm."""
        assert isinstance(self.prior, TruncatedNorm)
        degrees = self.prior.degrees_of_freedom
        return len(self.features) if degrees is None else degrees

    @property
    def _scales(self) -> Floats:
        """The scales of the coefficients and of the bias under the truncated norm."""
        assert isinstance(self.prior, TruncatedNorm)
        return np.array([self.prior.weight_scale] * len(self.features) + [self.prior.bias_scale])

    def likelihood_of(self, rows: Rows) -> Likelihood:
        assert rows.features is not None
        signed, times = np.unique(rows.features * rows.target[:, None], axis=0, return_counts=True)

        def at(draws: Draws) -> Floats:
            totals, start = np.zeros(len(draws["weights"])), 0
            for part in in_parts(signed, len(totals)):
                totals += times[start : start + len(part)] @ scipy.special.log_expit(part @ draws["weights"].T)
                start += len(part)
            return totals

        return at

    def widened_prior(self, width: float) -> dict[str, Any]:
        prior = self.prior
        if isinstance(prior, StandardisedLogOdds):
            return {"effect": width * prior.effect}
        return {"weight_scale": width * prior.weight_scale, "bias_scale": width * prior.bias_scale}

    def prior_draws(self, number: int, rng: np.random.Generator) -> Draws | None:
        prior = self.prior
        if not isinstance(prior, TruncatedNorm):
            return None
        squares = scipy.special.chdtri(
            self._degrees, rng.uniform(scipy.special.chdtrc(self._degrees, prior.max_squared_norm), 1.0, number)
        )
        directions = rng.normal(size=(number, len(self._scales)))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        return {"weights": np.sqrt(squares)[:, None] * directions * self._scales}

    def class_labels(self) -> NDArray[Any]:
        return np.unique(np.array(self.target.labels))

    def positive_probabilities(self, draws: Draws, table: Floats) -> Iterator[Floats]:
        """Yield the probability of the positive label at every draw [some rows, draws], a few rows at a time."""
        weights = draws["weights"]
        for part in in_parts(self.scaled_features(table), len(weights)):
            yield np.asarray(scipy.special.expit(part @ weights.T))

    def simulate_given(self, draws: Draws, predicted: Floats, rng: np.random.Generator) -> NDArray[Any]:  # noqa: ARG002
        positive = rng.uniform(size=predicted.shape) < scipy.special.expit(predicted)
        return np.asarray(np.take(self.target.labels, positive.astype(int)))

    def imagine_targets(
        self,
        truth: Draws,  # noqa: ARG002
        predicted: Floats,
        rng: np.random.Generator,
    ) -> tuple[Floats, float]:
        positive = rng.uniform(size=len(predicted)) < 1 / (1 + np.exp(-predicted))
        return np.where(positive, 1.0, -1.0), 1.0

    def check_targets(self, answers: NDArray[Any]) -> tuple[Floats, float]:
        positions, unit = super().check_targets(answers)
        return 2 * positions - 1, unit

    def log_probability(self, draws: Draws, features: Floats | None, target: Floats) -> Floats:
        assert features is not None
        return averaged(scipy.special.log_expit(target[:, None] * (features @ draws["weights"].T)))

    @property
    def error_name(self) -> str:
        return f"Predictions of {self.target.name} that are wrong"

    def expected_error(self, draws: Draws, truth: Draws, features: Floats | None) -> float:
        """Return the share of rows whose more probable label is not the true one."""
        assert features is not None
        probable, positive = self._positive(draws, features) > 0.5, self._positive(truth, features)
        return float(np.where(probable, 1 - positive, positive).mean())

    def measured_error(self, draws: Draws, rows: Rows) -> float:
        assert rows.features is not None
        return float(np.mean((self._positive(draws, rows.features) > 0.5) != (rows.target > 0)))

    def _positive(self, draws: Draws, features: Floats) -> Floats:
        """Return the probability of the positive label for scaled features, averaged over draws."""
        return np.asarray(scipy.special.expit(features @ draws["weights"].T).mean(axis=1))

    def beliefs(self) -> tuple[str, ...]:
        if not self.coding.numbers:
            return super().beliefs()
        data = self.data_prior
        if isinstance(data, ShapedFeatures) and data.shape_spread:
            shape = (
                "Numbers need not be normally distributed, transformed as agreed and given the levels of other "
                "features, but are believed to be near it: intervals of strong effects are wider for that, and more "
                "rows narrow them only so far. A column that is far from it is safer as a category of ranges."
            )
        else:
            shape = (
                "Numbers are taken to be normally distributed, transformed as agreed and given the levels of other "
                "features. Where one is not, its log odds can be off by a third, and more rows do not help: such a "
                "column is safer as a category of ranges, coded before the release."
            )
        return *super().beliefs(), shape

    @property
    def two_values(self) -> str:
        return (
            "numbers are taken to be normal, and the log odds of one that is not can come out several times too "
            "large, with intervals that do not say so."
        )

    def belief_about_effects(self) -> str:
        prior = self.prior
        assert isinstance(prior, StandardisedLogOdds)
        return (
            f"Before any data, one standard deviation more of a feature is believed to multiply the odds of "
            f"{self.target.name} by up to {factor(_USUAL * prior.effect)}, or divide them, two times out of three; "
            f"the odds where all features are at their means are between 1 to {factor(prior.bias_spread)} and "
            f"{factor(prior.bias_spread)} to 1."
        )

    @property
    def effect_unit(self) -> str:
        return "log-odds"

    def reading(self) -> tuple[str, ...]:
        return (
            f"Effects are the change of the log-odds of {self.target.name} = {self.target.labels[1]} {self._moves}; an "
            "effect whose line crosses 0 may be none.",
        )


MODEL = LogisticModel
