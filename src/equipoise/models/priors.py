"""Prior beliefs that an agreement fixes, with defaults that suit data mapped to [−1, 1].

Regression models and the Gaussian family work in *scaled* units: every bounded column is mapped publicly from its
bounds to [−1, 1]. Their priors are stated in those units. Poisson and exponential rates keep the data's own units.

Regressions have two kinds of prior. The *standardised* one, the default since format 2, states beliefs about effects of
one standard deviation of a feature, whatever that is within its bounds. The *conjugate* one is the paper's, and all
that format 1 knows: its scales are those of columns that fill their bounds.
"""

from typing import Annotated, Literal

from pydantic import Field

from equipoise.models.section import Finite, Positive, Section

Spread = Annotated[float, Field(strict=True, ge=0.05, le=3, allow_inf_nan=False)]  # of a logarithm


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


class StandardisedLogOdds(Section):
    """Logistic regression: the effect of a feature is what one standard deviation of it adds to the log odds.

    Effects have mean 0, standard deviation `effect` and heavy tails, as in linear regression. The log odds where all
    features are at their means are N(0, bias_spread²).
    """

    kind: Literal["standardised"] = "standardised"
    effect: Positive = 1.25
    bias_spread: Positive = 2.0


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


class Beta(Section):
    """Probability of the second label ~ Beta(positive, negative), the pseudo-counts of second and first label."""

    positive: Positive = 1.0
    negative: Positive = 1.0


class Dirichlet(Section):
    """Category probabilities ~ Dirichlet; one concentration for all categories, or one for each."""

    concentration: Positive | list[Positive] = 1.0


class Gamma(Section):
    """Rate ~ Gamma(shape, rate). `rate` defaults so that the prior mean puts the data at the middle of its bounds."""

    shape: Positive = 1.0
    rate: Positive | None = None


class MeanAndVariance(Section):
    """Gaussian family: σ² ~ InvGamma(shape, scale), mean | σ² ~ N(mean, σ² / mean_strength), in scaled units."""

    shape: Positive = 3.0
    scale: Positive = 0.5
    mean: Finite = 0.0
    mean_strength: Positive = 0.25
