"""Sections of an agreement: columns with their public bounds, models with their priors, privacy, reward, parties.

`agreement.py` puts them together. Every check here names the value and the remedy; pydantic adds the key.
"""

import math
from typing import Annotated, Any, Literal, Self, cast, get_args

from pydantic import Field, StrictInt, StrictStr, field_validator, model_validator

from equipoise.models.priors import (
    Beta,
    Dirichlet,
    Gamma,
    MeanAndVariance,
    NormalInverseGamma,
    NormalInverseWishart,
    ScaledCorrelation,
    StandardisedEffects,
    StandardisedFeatures,
    StandardisedLogOdds,
    TruncatedNorm,
)
from equipoise.models.section import Finite, Positive, PublicKey, Section

MAX_FEATURES = 250  # keeps every statistic below 2¹⁵ entries, which `guarantee.LATTICE_GAP` relies on
MAX_CATEGORIES = 2_000
MIN_TYPICAL = 0.001  # of the width of the bounds

_Sections = tuple[type[Section], ...]
ColumnName = Annotated[str, Field(min_length=1, max_length=200)]
Label = StrictInt | Annotated[StrictStr, Field(max_length=200)]
PARTY_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$"
PartyName = Annotated[str, Field(pattern=PARTY_NAME)]


class NumberColumn(Section):
    """A numeric column and its public bounds; values outside are clipped, never dropped."""

    name: ColumnName
    bounds: tuple[Finite, Finite]

    @field_validator("bounds")
    @classmethod
    def _ordered(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        lower, upper = bounds
        if not lower < upper:
            raise ValueError(f"[{lower:g}, {upper:g}] is empty; write [lower, upper] with lower < upper")
        if not math.isfinite((upper - lower) * 2.0**20) or upper - lower < 1e-300:
            raise ValueError(f"[{lower:g}, {upper:g}] cannot be mapped to [-1, 1]; choose other units")
        return bounds


class RegressionColumn(NumberColumn):
    """A numeric column of a regression; `typical` is where about 95 % of its values are believed to lie.

    It is public like the bounds and like them comes from common knowledge, never from the data. It moves beliefs, no
    noise: bounds must still hold every value that is not to be clipped.
    """

    typical: tuple[Finite, Finite] | None = None

    @model_validator(mode="after")
    def _check_typical(self) -> Self:
        if self.typical is None:
            return self
        (lower, upper), (low, high) = self.bounds, self.typical
        if not lower <= low < high <= upper:
            raise ValueError(
                f"typical = [{low:g}, {high:g}] must be a range within the bounds [{lower:g}, {upper:g}]: "
                "write [low, high] with about 95 % of the values between them"
            )
        if high - low < MIN_TYPICAL * (upper - lower):
            raise ValueError(
                f"typical = [{low:g}, {high:g}] is less than {MIN_TYPICAL:g} of the bounds [{lower:g}, {upper:g}]: "
                "noise will hide such a column; tighten its bounds"
            )
        return self


class CountColumn(NumberColumn):
    """A column of non-negative whole numbers with public bounds."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.bounds[0] < 0 or any(bound != int(bound) for bound in self.bounds):
            raise ValueError(f"bounds of a count must be whole numbers from 0 up, not {list(self.bounds)}")
        return self


class DurationColumn(NumberColumn):
    """A column of non-negative numbers with public bounds."""

    @model_validator(mode="after")
    def _not_negative(self) -> Self:
        if self.bounds[0] < 0:
            raise ValueError(f"the lower bound must be 0 or more, not {self.bounds[0]:g}")
        return self


class CategoryColumn(Section):
    """A column whose every value is one of the agreed categories, all text or all whole numbers."""

    name: ColumnName
    categories: Annotated[tuple[Label, ...], Field(min_length=2, max_length=MAX_CATEGORIES)]

    @field_validator("categories")
    @classmethod
    def _distinct(cls, categories: tuple[int | str, ...]) -> tuple[int | str, ...]:
        return _distinct_labels(categories)

    @property
    def values(self) -> tuple[int | str, ...]:
        """Every value a cell may have."""
        return self.categories


class LabelColumn(Section):
    """A column with two agreed values: `labels = [negative, positive]`."""

    name: ColumnName
    labels: tuple[Label, Label]

    @field_validator("labels")
    @classmethod
    def _distinct(cls, labels: tuple[int | str, ...]) -> tuple[int | str, ...]:
        return _distinct_labels(labels)

    @property
    def values(self) -> tuple[int | str, ...]:
        """Every value a cell may have."""
        return self.labels


class _Regression(Section):
    features: Annotated[tuple[RegressionColumn, ...], Field(min_length=1, max_length=MAX_FEATURES)]
    norm_bound: Positive | None = None

    @model_validator(mode="before")
    @classmethod
    def _name_priors(cls, document: Any) -> Any:
        """Say of which kind the priors are: the standardised ones unless agreed otherwise, both of one kind."""
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
        radius, count = self.norm_bound, len(self.features)
        if radius is not None and not 1 <= radius < math.sqrt(count):
            raise ValueError(
                f"norm_bound = {radius:g} must be at least 1 and below sqrt({count}) = {math.sqrt(count):.4g}, in "
                "units where every feature spans [-1, 1]; outside that range it costs accuracy or does nothing: "
                "tighten the features' bounds, or leave it out"
            )
        return self


class LinearModel(_Regression):
    """Bayesian linear regression."""

    kind: Literal["linear"]
    target: RegressionColumn
    prior: Annotated[StandardisedEffects | NormalInverseGamma, Field(discriminator="kind")]
    data_prior: Annotated[StandardisedFeatures | NormalInverseWishart, Field(discriminator="kind")]

    @model_validator(mode="after")
    def _check_prior_shapes(self) -> Self:
        _check_kinds(self.prior.kind, self.data_prior.kind, (*self.features, self.target))
        if not isinstance(self.prior, NormalInverseGamma) or not isinstance(self.data_prior, NormalInverseWishart):
            return self
        width = len(self.features)
        _check_square("prior.weight_precision", self.prior.weight_precision, width + 1)
        _check_length("prior.weight_mean", self.prior.weight_mean, width + 1)
        _check_square("data_prior.covariance", self.data_prior.covariance, width)
        _check_length("data_prior.mean", self.data_prior.mean, width)
        degrees = self.data_prior.degrees_of_freedom
        if degrees is not None and degrees <= width + 1:
            raise ValueError(
                f"data_prior.degrees_of_freedom = {degrees:g} must exceed the number of features + 1 = {width + 1}"
            )
        return self


class LogisticModel(_Regression):
    """Bayesian logistic regression on degree-2 polynomial approximate statistics."""

    kind: Literal["logistic"]
    target: LabelColumn
    prior: Annotated[StandardisedLogOdds | TruncatedNorm, Field(discriminator="kind")]
    data_prior: Annotated[StandardisedFeatures | ScaledCorrelation, Field(discriminator="kind")]

    @model_validator(mode="after")
    def _check_prior_kinds(self) -> Self:
        _check_kinds(self.prior.kind, self.data_prior.kind, self.features)
        return self


class BernoulliModel(Section):
    """Probability of the second of two labels."""

    kind: Literal["bernoulli"]
    target: LabelColumn
    prior: Beta = Beta()


class CategoricalModel(Section):
    """Probabilities of several categories."""

    kind: Literal["categorical"]
    target: CategoryColumn
    prior: Dirichlet = Dirichlet()

    @model_validator(mode="after")
    def _check_concentration(self) -> Self:
        if isinstance(self.prior.concentration, list):
            _check_length("prior.concentration", self.prior.concentration, len(self.target.categories))
        return self


class PoissonModel(Section):
    """Rate of a count."""

    kind: Literal["poisson"]
    target: CountColumn
    prior: Gamma = Gamma()


class ExponentialModel(Section):
    """Rate of a waiting time."""

    kind: Literal["exponential"]
    target: DurationColumn
    prior: Gamma = Gamma()


class GaussianModel(Section):
    """Mean and variance of a number."""

    kind: Literal["gaussian"]
    target: NumberColumn
    prior: MeanAndVariance = MeanAndVariance()


Model = (
    LinearModel | LogisticModel | BernoulliModel | CategoricalModel | PoissonModel | ExponentialModel | GaussianModel
)


MODEL_KINDS = tuple(str(get_args(m.model_fields["kind"].annotation)[0]) for m in cast(_Sections, get_args(Model)))


class Privacy(Section):
    """The Rényi order λ everyone's ε refers to, and the weakest privacy (largest ε) anyone may choose.

    `min_epsilon` is the strongest, if there is one: whoever sends more noise than that brings next to nothing.
    """

    added_later = frozenset({"min_epsilon"})

    order: Annotated[float, Field(strict=True, gt=1, le=1000, allow_inf_nan=False)] = 2.0
    max_epsilon: Positive
    min_epsilon: Positive | None = None

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.min_epsilon is not None and self.min_epsilon > self.max_epsilon:
            raise ValueError(
                f"min_epsilon = {self.min_epsilon:g} is above max_epsilon = {self.max_epsilon:g}; nobody could release"
            )
        return self


OperatorsChoice = Literal["mechanism", "rho", "teams"]


class RewardRule(Section):
    """How rewards follow from contributions: mechanism and fairness exponent ρ ("max": the largest rational one).

    `fallback` says what those get for whom no ρ will do: their own posterior ("alone") or their share ("shares"). The
    operator keeps to all of this and settles with everybody in one team, except for what it may choose.
    """

    added_later = frozenset({"fallback", "operator_may_choose"})

    mechanism: Literal["tempering", "noise"] = "tempering"
    rho: float | Literal["max"] = "max"
    fallback: Literal["alone", "shares"] = "alone"
    operator_may_choose: tuple[OperatorsChoice, ...] = ()

    @field_validator("operator_may_choose")
    @classmethod
    def _in_one_order(cls, names: tuple[OperatorsChoice, ...]) -> tuple[OperatorsChoice, ...]:
        if repeated := first_repeat(list(names)):
            raise ValueError(f"{repeated!r} is listed twice")
        return tuple(sorted(names))

    @field_validator("rho", mode="before")
    @classmethod
    def _in_range(cls, rho: Any) -> Any:
        if rho != "max" and (isinstance(rho, bool) or not isinstance(rho, int | float) or not 0 < rho <= 1):
            raise ValueError(f'{rho!r} is not a fairness exponent; write a number above 0 and up to 1, or "max"')
        return rho


class Party(Section):
    """One member: a short name, and optionally the Ed25519 public key its submissions must be signed with."""

    name: PartyName
    public_key: PublicKey | None = None


def first_repeat(names: list[str]) -> str | None:
    """The first name that was seen before, if any."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _distinct_labels(labels: tuple[int | str, ...]) -> tuple[int | str, ...]:
    if len({type(label) for label in labels}) > 1:
        raise ValueError(f"{list(labels)} mixes text and numbers; write all values in one way, as the table has them")
    if any(isinstance(label, int) and abs(label) > 2**53 for label in labels):
        raise ValueError("whole-number labels must lie within ±2^53; use text for longer codes")
    if repeated := first_repeat([str(label) for label in labels]):
        raise ValueError(f"the value {repeated!r} is listed twice")
    return labels


def _check_kinds(prior: str, data_prior: str, columns: tuple[RegressionColumn, ...]) -> None:
    """Refuse priors that do not belong together, and typical ranges that would mean nothing."""
    if prior != data_prior:
        raise ValueError(
            f'data_prior.kind = "{data_prior}" does not go with prior.kind = "{prior}"; leave data_prior.kind out'
        )
    stated = [column.name for column in columns if column.typical is not None]
    if stated and prior != "standardised":
        raise ValueError(
            f"the column {stated[0]!r} has a typical range, which the conjugate prior has no use for; remove "
            '`typical`, or use prior.kind = "standardised"'
        )


def _check_length(key: str, values: list[float] | None, length: int) -> None:
    if values is not None and len(values) != length:
        raise ValueError(f"{key} has {len(values)} numbers; this model needs {length}")


def _check_square(key: str, value: float | list[float] | list[list[float]] | None, width: int) -> None:
    """Accept a number, a vector or a symmetric positive definite matrix of the right size."""
    if not isinstance(value, list):
        return
    rows = [row for row in value if isinstance(row, list)]
    if not rows:
        _check_length(key, [number for number in value if not isinstance(number, list)], width)
        return
    if len(value) != width or any(len(row) != width for row in rows):
        raise ValueError(f"{key} must be a {width} × {width} matrix")
    import numpy as np  # only agreements with matrix priors need it

    matrix = np.array(rows)
    if not np.array_equal(matrix, matrix.T) or np.linalg.eigvalsh(matrix)[0] <= 0:
        raise ValueError(f"{key} must be symmetric and positive definite")
