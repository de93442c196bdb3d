"""Linear regression: the statistic is the upper triangle of Σ z zᵀ, z = (1, x₁ … x_w, y), without the row count."""

import math
from typing import Annotated, Any, Literal, Self

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import Field, model_validator

from equipoise._util.arrays import Floats
from equipoise._util.quantiles import log_gamma_quantile, log_gamma_slope, log_normal_quantile, log_normal_slope
from equipoise.models.base import (
    POSITIVE,
    Axis,
    Draws,
    Likelihood,
    Readable,
    Rows,
    Support,
    Template,
    check_length,
    log_normal_density,
    root_mean_square,
)
from equipoise.models.columns import RegressionColumn
from equipoise.models.layout import BASE_WEIGHT, Layout, scaled
from equipoise.models.regression import (
    FEATURES_COMMENT,
    FEATURES_PRIOR,
    LARGEST_DEVIATION,
    NORM_COMMENT,
    Regression,
    Spread,
    StandardisedFeatures,
    check_prior_kinds,
    check_square,
    factor,
    in_parts,
    norm_ball,
    typical_deviation,
)
from equipoise.models.section import Finite, Positive, Section

BIAS_PRECISION = 0.1  # default precision of the bias
_STREAM = 0xE90


class StandardisedEffects(Section):
    """Linear regression: a feature's effect is a weight times the feature's standard deviation, whatever that is.

    In units of the residual standard deviation σ, effects have mean 0, standard deviation `effect` and heavy tails, as
    sinh of normal variables: most features explain little, some a lot. `effect` defaults to √(2/number of features):
    all together are as likely as not to explain about half of the variance. log σ ~ N(log(residual · s),
    residual_spread²) below the target's half-range, s the target's typical standard deviation: an eighth of the width
    of its bounds, or a quarter of the width of `typical`. The target's mean where all features are at theirs is within
    two such deviations of the middle, give or take.
    """

    kind: Literal["standardised"] = "standardised"
    effect: Positive | None = None
    residual: Positive = 0.6
    residual_spread: Spread = 1.0


class NormalInverseGamma(Section):
    """Linear regression: σ² ~ InvGamma(shape, scale), weights | σ² ~ N(mean, σ² · precision⁻¹); paper App. H.1.

    With targets in [−1, 1], the defaults expect a residual standard deviation of about 0.3, give or take a factor of
    two, and as much variance explained by all features together as left over: the precision of weights is the expected
    variance of a feature times their number, that of the bias 0.1. (The paper's synthetic setting, shape 5, scale 0.1
    and precision 0.025, expects next to no residual; where noise is large, posteriors then do too.) `weight_precision`
    is one number for all coefficients, one per coefficient (features in order, then the bias), or a full matrix.
    """

    kind: Literal["conjugate"] = "conjugate"
    shape: Positive = 2.0
    scale: Positive = 0.1
    weight_precision: Positive | list[Positive] | list[list[Finite]] | None = None
    weight_mean: list[Finite] | None = None


class NormalInverseWishart(Section):
    """Distribution of the features: Σ ~ W⁻¹ with expectation `covariance`, mean | Σ ~ N(mean, Σ / mean_strength).

    `scope` says whether all parties' features are believed to come from one distribution or each from its own.
    `degrees_of_freedom` defaults to the number of features + 4, the weakest belief whose covariance has a variance.
    """

    kind: Literal["conjugate"] = "conjugate"
    scope: Literal["shared", "per-party"] = "shared"
    mean: list[Finite] | None = None
    mean_strength: Positive = 1.0
    covariance: Positive | list[list[Finite]] = 0.25
    degrees_of_freedom: Positive | None = None


class LinearModel(Regression):
    """Bayesian linear regression, as far as it needs no sampler."""

    estimator_type = "regressor"
    score_name = "R²"
    template = Template(
        "Disease progression across hospitals",
        f"""\
[model]
kind = "linear"
{FEATURES_COMMENT}features = [
  {{ name = "age", typical = [25, 85], bounds = [18, 100] }},
  {{ name = "bmi", typical = [18, 40], bounds = [15, 60] }},
  {{ name = "blood_pressure", typical = [65, 120], bounds = [50, 140] }},
]
target = {{ name = "progression", typical = [20, 320], bounds = [0, 400] }}
{NORM_COMMENT}
# Beliefs before any data; these are the defaults. kind = "conjugate" is the paper's prior, for columns that fill
# their bounds.
[model.prior]
kind = "standardised"
# effect = 0.816         # change of the target for one standard deviation of a feature, in residual deviations; unless
#                          stated, all features together are as likely as not to explain half of its variance
residual = 0.6           # residual deviation, as a share of the target's typical one, ...
residual_spread = 1.0    # ... within a factor of e^1, about 3

{FEATURES_PRIOR}""",
    )

    kind: Literal["linear"]
    target: RegressionColumn
    prior: Annotated[StandardisedEffects | NormalInverseGamma, Field(discriminator="kind")]
    data_prior: Annotated[StandardisedFeatures | NormalInverseWishart, Field(discriminator="kind")]

    @model_validator(mode="after")
    def _check_prior_shapes(self) -> Self:
        check_prior_kinds(self.prior.kind, self.data_prior.kind, (*self.features, self.target))
        if not isinstance(self.prior, NormalInverseGamma) or not isinstance(self.data_prior, NormalInverseWishart):
            return self
        width = len(self.features)
        check_square("prior.weight_precision", self.prior.weight_precision, width + 1)
        check_length("prior.weight_mean", self.prior.weight_mean, width + 1)
        check_square("data_prior.covariance", self.data_prior.covariance, width)
        check_length("data_prior.mean", self.data_prior.mean, width)
        degrees = self.data_prior.degrees_of_freedom
        if degrees is not None and degrees <= width + 1:
            raise ValueError(
                f"data_prior.degrees_of_freedom = {degrees:g} must exceed the number of features + 1 = {width + 1}"
            )
        return self

    def _layout(self) -> Layout:
        r"""Entries Σx_j, Σy, Σx_j x_k (j ≤ k), Σx_j y, Σy², with |x_j| ≤ 1, |y| ≤ 1 and optionally ‖x‖₂ ≤ R.

        Let g be the statistic of one row with diagonal entries multiplied by a (x_j²) and b (y²). For two rows z, z′,

            ‖g(z) − g(z′)‖² = ½‖zzᵀ − z′z′ᵀ‖_F² + (a² − ½) Σ_j (x_j² − x′_j²)² + (b² − ½)(y² − y′²)²
            ‖zzᵀ − z′z′ᵀ‖_F² = |z|⁴ + |z′|⁴ − 2(z·z′)² ≤ |z|⁴ + |z′|⁴.

        **Box** (a = b). Put n = w + 2 and u_i = z_i² ∈ [0, 1]. The bound ½(1+Σu)² + ½(1+Σu′)² + (a² − ½) Σ(u_i − u′_i)²
        is convex in (u, u′), hence largest at a vertex. If p coordinates are 1 in z only and q in z′ only, it is at
        most n² − (p+q)n + ½(p²+q²) + (a² − ½)(p+q), since p²+q² ≤ (p+q)² and p+q ≤ n−1; that is at most n² whenever a²
        ≤ 1 + n/2. So with **a = √((w+4)/2) the sensitivity stays Δ = w + 2**, the value without weights, and the noise
        on every x_j² and y² shrinks by the factor a. (ADR 4.)
        Tight: z, z′ ∈ {±1}ⁿ with z·z′ = 0 (n even) reach Δ exactly; for n odd the gap is below 1 in Δ².

        **Ball** (a = 1). With s = |x|², v = y² the bound is ½(1+s+v)² + ½(1+s′+v′)² + ½Σ(u_j − u′_j)² + (b² − ½)(v −
        v′)², convex in (v, v′) ∈ [0, 1]². At (1, 1) it is the one that `norm_ball` maximises; at (1, 0), where s = s′ =
        r is still worst, it is no larger if b² ≤ 2 + r; at (0, 0) it is smaller. So Δ is `norm_ball`'s, with b =
        √(2+r).

        Weights are rationals just below a and b, which can only lower the left side. Where features have levels, w is
        the number of numbers and of blocks (`Coding.sensitivity`); r is what `norm_ball` says.
        """
        coding = self.coding
        columns = (*(term.column for term in coding.terms), scaled(self.target.name, self.target.scaled_range))
        square_weight = target_weight = math.isqrt(BASE_WEIGHT**2 * (coding.directions + 4) // 2)
        sensitivity = coding.sensitivity(square_weight)
        squared_radius = None
        if self.norm_bound is not None:
            ball = norm_ball(self.norm_bound, coding.directions, len(coding.blocks))
            squared_radius, sensitivity = ball.squared_radius, ball.sensitivity
            square_weight = BASE_WEIGHT
            target_weight = math.isqrt(math.floor(BASE_WEIGHT**2 * (2 + ball.largest_square)))

        entries = coding.entries(self.target.name, square_weight, target_weight)
        return Layout(columns, entries, sensitivity, squared_radius, ball_columns=coding.numbers)

    @property
    def parameters(self) -> dict[str, Support]:
        return {**super().parameters, "variance": POSITIVE}

    def own_units(self, draws: Draws) -> dict[str, Floats]:
        target = self.target_column
        weights, intercept = self.slopes(draws["weights"], target.half_width)
        deviation = target.half_width * np.sqrt(draws["variance"])
        return {**weights, "intercept": target.middle + intercept, "residual_sd": deviation}

    def coordinate_names(self) -> list[str]:
        # The conjugate prior's first coordinate is that of 1/σ², which rises as the residuals fall.
        precise = self.prior.kind == "conjugate"
        residual = "the residual precision" if precise else "the residual standard deviation"
        return [residual, *super().coordinate_names()]

    @property
    def effect(self) -> float:
        """The standard deviation of an effect in units of σ; by default all effects together explain about half."""
        assert isinstance(self.prior, StandardisedEffects)
        return math.sqrt(2 / len(self.features)) if self.prior.effect is None else self.prior.effect

    @property
    def weight_precision(self) -> Floats:
        """The precision of a conjugate prior's coefficients in units of 1/σ², agreed or default [w + 1, w + 1]."""
        prior, data, width = self.prior, self.data_prior, len(self.features)
        assert isinstance(prior, NormalInverseGamma)
        assert isinstance(data, NormalInverseWishart)
        if prior.weight_precision is not None:
            return _matrix(prior.weight_precision, width + 1)
        # Features together explain as much as they leave, in expectation.
        return np.diag([float(np.trace(self.feature_covariance))] * width + [BIAS_PRECISION])

    @property
    def feature_covariance(self) -> Floats:
        """The expected covariance of the features under a conjugate prior [w, w]."""
        assert isinstance(self.data_prior, NormalInverseWishart)
        return _matrix(self.data_prior.covariance, len(self.features))

    def _deviation_probability(self, deviations: Floats) -> Floats:
        data = self.data_prior
        if isinstance(data, StandardisedFeatures):
            return super()._deviation_probability(deviations)
        # Σ ~ W⁻¹(Ψ, ν) has Σⱼⱼ ~ InvGamma((ν − w + 1)/2, Ψⱼⱼ/2), and the expectation Ψ / (ν − w − 1).
        width = len(self.features)
        degrees = width + 4.0 if data.degrees_of_freedom is None else data.degrees_of_freedom
        scale = np.diag(self.feature_covariance) * (degrees - width - 1) / 2
        return np.asarray(scipy.special.gammaincc((degrees - width + 1) / 2, scale / deviations**2))

    def at_coordinates(self, coordinates: Floats) -> dict[str, Floats]:
        prior, unit = self.prior, self._residual_at(coordinates[:, 0])
        if isinstance(prior, StandardisedEffects):
            weights = self.standardised_weights(coordinates[:, 1:], self.effect, unit, self._target_belief)
            return {"weights": weights, "variance": unit**2}
        root = np.linalg.inv(np.linalg.cholesky(self.weight_precision))
        weights = unit[:, None] * (coordinates[:, 1:] @ root)
        return {"weights": weights + np.asarray(prior.weight_mean or 0.0), "variance": unit**2}

    def weight_coordinates(self, weights: Floats, residual: Floats | None) -> Floats:
        assert residual is not None
        prior, unit = self.prior, self._residual_at(residual)
        if isinstance(prior, StandardisedEffects):
            of_weights = self.standardised_coordinates(weights, self.effect, unit, self._target_belief)
        else:
            moved = weights - np.asarray(prior.weight_mean or 0.0)
            of_weights = moved / unit[:, None] @ np.linalg.cholesky(self.weight_precision)
        return np.column_stack([residual, of_weights])

    def pull_back(self, coordinates: Floats, slopes: Floats, of_variance: Floats) -> Floats:
        prior, unit = self.prior, self._residual_at(coordinates[:, 0])
        if isinstance(prior, StandardisedEffects):
            by_weights, of_unit = self.standardised_pull_back(
                coordinates[:, 1:], slopes, self.effect, unit, self._target_belief
            )
            by_coordinate = log_normal_slope(coordinates[:, 0], *self._residual_belief)
        else:
            root = np.linalg.inv(np.linalg.cholesky(self.weight_precision))
            by_weights = unit[:, None] * (slopes @ root.T)
            of_unit = np.sum(slopes * (coordinates[:, 1:] @ root), axis=1)
            by_coordinate = -0.5 * log_gamma_slope(coordinates[:, 0], prior.shape)
        of_unit = of_unit + 2 * unit * of_variance
        return np.column_stack([of_unit * unit * by_coordinate, by_weights])

    def log_volume(self, coordinates: Floats) -> Floats:
        unit = self._residual_at(coordinates[:, 0])
        return self.standardised_log_volume(coordinates[:, 1:], self.effect, unit, self._target_belief)

    def _residual_at(self, coordinates: Floats) -> Floats:
        """Return residual deviations at their coordinates."""
        prior = self.prior
        if isinstance(prior, StandardisedEffects):
            return np.exp(log_normal_quantile(coordinates, *self._residual_belief))
        return np.sqrt(prior.scale * np.exp(-log_gamma_quantile(coordinates, prior.shape)))

    @property
    def _residual_belief(self) -> tuple[float, float, float]:
        """The centre, spread of the logarithm and upper limit of the residual deviation, under a standardised prior."""
        assert isinstance(self.prior, StandardisedEffects)
        deviation = self.typical(self.target, self.target_column)[1]
        centre = min(self.prior.residual * deviation, LARGEST_DEVIATION)
        return centre, self.prior.residual_spread, LARGEST_DEVIATION

    @property
    def _target_belief(self) -> tuple[float, float]:
        """The centre and spread of the target's mean for features at their means, under a standardised prior."""
        assert isinstance(self.data_prior, StandardisedFeatures)
        middle, deviation, _ = self.typical(self.target, self.target_column)
        return middle, self.data_prior.mean_spread * deviation

    def likelihood_of(self, rows: Rows) -> Likelihood:
        """Return a likelihood that needs only sums of products, whatever the number of rows."""
        assert rows.features is not None
        both = np.column_stack([rows.features, rows.target])
        products, number = both.T @ both, len(both)

        def at(draws: Draws) -> Floats:
            residual = np.column_stack([-draws["weights"], np.ones(len(draws["weights"]))])
            squares = np.einsum("ni,ij,nj->n", residual, products, residual)
            return np.asarray(-0.5 * (number * np.log(2 * math.pi * draws["variance"]) + squares / draws["variance"]))

        return at

    def widened_prior(self, width: float) -> dict[str, Any]:
        if isinstance(self.prior, StandardisedEffects):
            return {"effect": width * self.effect}
        return {"weight_precision": (self.weight_precision / width**2).tolist()}

    def prior_draws(self, number: int, rng: np.random.Generator) -> Draws | None:
        prior = self.prior
        if not isinstance(prior, NormalInverseGamma):
            return None
        variance = prior.scale / rng.gamma(prior.shape, size=number)
        root = np.linalg.cholesky(np.linalg.inv(self.weight_precision))
        weights = np.sqrt(variance)[:, None] * (rng.normal(size=(number, len(root))) @ root.T)
        return {"weights": weights + np.asarray(prior.weight_mean or 0.0), "variance": variance}

    def expected_target(self, draws: Draws, table: Floats) -> Floats:
        """Return the predictive mean of the target in its own units [rows]."""
        target = self.target_column
        weights = np.asarray(draws["weights"].mean(axis=0))
        return np.asarray(target.middle + target.half_width * (self.scaled_features(table) @ weights))

    def target_interval(self, draws: Draws, table: Floats, tails: list[float]) -> Floats:
        """Return a central predictive interval of the target [rows, 2]: doubt about parameters, and residual noise.

        One observation is simulated for each draw. Its noise is the same for all rows, so that a row's interval does
        not depend on the other rows, and is spread evenly over the normal distribution, to lower the Monte Carlo error.
        """
        features, target = self.scaled_features(table), self.target_column
        weights, deviation = draws["weights"], np.sqrt(draws["variance"])
        number = len(deviation)
        places = np.random.default_rng(_STREAM).permutation(number)
        noise = deviation * scipy.special.ndtri((places + 0.5) / number)
        quantiles = [np.quantile(part @ weights.T + noise, tails, axis=1).T for part in in_parts(features, number)]
        return np.asarray(target.middle + target.half_width * np.concatenate(quantiles))

    def simulate_given(self, draws: Draws, predicted: Floats, rng: np.random.Generator) -> NDArray[Any]:
        target = self.target_column
        noise = np.sqrt(draws["variance"])[:, None] * rng.normal(size=predicted.shape)
        return np.asarray(target.middle + target.half_width * (predicted + noise))

    def imagine_targets(self, truth: Draws, predicted: Floats, rng: np.random.Generator) -> tuple[Floats, float]:
        noise = np.sqrt(truth["variance"][0]) * rng.normal(size=len(predicted))
        return predicted + noise, self.target_column.half_width

    def log_probability(self, draws: Draws, features: Floats | None, target: Floats) -> Floats:
        """Return log densities of a normal with the predictive mean and variance (paper App. H.2)."""
        assert features is not None
        predicted = features @ draws["weights"].mean(axis=0)
        return log_normal_density(target, predicted, self.predictive_variance(draws, features))

    def predictive_variance(self, draws: Draws, features: Floats | None) -> Floats:
        assert features is not None
        covariance = np.cov(draws["weights"].T, bias=True).reshape(features.shape[1], -1)
        return np.asarray(draws["variance"].mean() + np.sum((features @ covariance) * features, axis=1))

    @property
    def error_name(self) -> str:
        return f"Typical error of a predicted {self.target.name} (root mean square, in its own unit)"

    def expected_error(self, draws: Draws, truth: Draws, features: Floats | None) -> float:
        """Return the root mean square over rows and draws; targets are clipped to agreed bounds, if there are some."""
        assert features is not None
        number = len(truth["variance"])
        noise = np.random.default_rng(_STREAM).normal(size=(len(features), number))
        below, above = self.target.moved_ends
        targets = features @ truth["weights"].T + np.sqrt(truth["variance"]) * noise
        targets = np.clip(targets, -np.inf if below else -1.0, np.inf if above else 1.0)
        return self._error(targets.T, features, draws)

    def measured_error(self, draws: Draws, rows: Rows) -> float:
        assert rows.features is not None
        return self._error(rows.target, rows.features, draws)

    def _error(self, targets: Floats, features: Floats, draws: Draws) -> float:
        return self.target_column.half_width * root_mean_square(targets - features @ draws["weights"].mean(axis=0))

    @property
    def two_values(self) -> str:
        return "effects and predictions come out well, but more is released than such a column needs."

    def belief_about_effects(self) -> str:
        prior, name = self.prior, self.target.name
        assert isinstance(prior, StandardisedEffects)
        residual = prior.residual * typical_deviation(self.target)
        explained = f"all features together are believed as likely as not to explain half of the variance of {name}"
        if prior.effect is not None:
            explained = (
                f"each feature is believed to explain {prior.effect**2:.3g} times as much of the variance of {name} "
                "as is left over, on average, most of them less and some far more"
            )
        return (
            f"Before any data, {explained}, whatever the features' scales; what is left over is believed to have a "
            f"standard deviation of about {residual:.3g}, two times out of three within a factor of "
            f"{factor(prior.residual_spread)}."
        )

    @property
    def effect_unit(self) -> str:
        return f"units of {self.target.name}"

    def axes(self) -> list[Axis]:
        spread = Readable("spread of single rows (sd)", "residual_sd")
        return [*super().axes(), Axis(f"in {self.effect_unit}", (spread,))]

    def reading(self) -> tuple[str, ...]:
        return (
            f"Effects are the change of {self.target.name} {self._moves}; an effect whose line crosses 0 may be none.",
        )

    @property
    def samplers(self) -> tuple[str, ...]:
        return (*super().samplers, "gibbs") if self.prior.kind == "conjugate" else super().samplers


def _matrix(value: float | list[float] | list[list[float]], width: int) -> Floats:
    array = np.asarray(value, dtype=float)
    return array if array.ndim == 2 else np.diag(np.broadcast_to(array, width))


MODEL = LinearModel
