"""Agreements of format 1 mean what they meant; format 2 adds standardised priors and typical ranges."""

import pytest

from equipoise.agreement import Agreement
from equipoise.agreement.explanation import explain
from equipoise.errors import AgreementError
from equipoise.models.linear import LinearModel, NormalInverseGamma, NormalInverseWishart, StandardisedEffects
from equipoise.models.logistic import (
    LogisticModel,
    ScaledCorrelation,
    ShapedFeatures,
    StandardisedLogOdds,
    TruncatedNorm,
)
from equipoise.models.regression import StandardisedFeatures

TAIL = """
[privacy]
order = 2
max_epsilon = 1.0
[reward]
mechanism = "tempering"
rho = "max"
[[parties]]
name = "north"
[[parties]]
name = "south"
[[parties]]
name = "west"
"""

# What `equipoise agreement new` of 0.6.0 wrote, without comments, and the identity it printed.
FIRST = {
    "linear": (
        """title = "Disease progression across hospitals"
[model]
kind = "linear"
features = [
  { name = "age", bounds = [18, 100] },
  { name = "bmi", bounds = [15, 60] },
  { name = "blood_pressure", bounds = [50, 140] },
]
target = { name = "progression", bounds = [0, 400] }
[model.prior]
shape = 2.0
scale = 0.1
[model.data_prior]
scope = "shared"
mean_strength = 1.0
covariance = 0.25
""",
        "c8396377718447fc83d8369f2e6d6b0ac45f67e1e209e8f7d66fd9bd7b07aea7",
    ),
    "logistic": (
        """title = "Readmission across hospitals"
[model]
kind = "logistic"
features = [
  { name = "age", bounds = [18, 100] },
  { name = "bmi", bounds = [15, 60] },
  { name = "glucose", bounds = [40, 300] },
]
target = { name = "readmitted", labels = ["no", "yes"] }
""",
        "4e4875c48d7d4e2d07a41453508c7999ee416c6d43fab42529947f2dc0c74485",
    ),
    "bernoulli": (
        """title = "Share of defaulting loans across banks"
[model]
kind = "bernoulli"
target = { name = "defaulted", labels = [0, 1] }
""",
        "7a153b92b3dbb558639c874c00a5118df64c6d607704d633d8f53440b0a20771",
    ),
    "categorical": (
        """title = "Blood groups across clinics"
[model]
kind = "categorical"
target = { name = "blood_group", categories = ["0", "A", "B", "AB"] }
""",
        "436e5ac4ad687f7fb15fb06130d212f8270e3d0e598017553faf1277f5e00f80",
    ),
    "poisson": (
        """title = "Emergency visits per day across hospitals"
[model]
kind = "poisson"
target = { name = "visits", bounds = [0, 60] }
""",
        "9224e6c0a7e25fa9a49af4894e7df828bc0729f9f08da3c9d01fc900c9b1530e",
    ),
    "exponential": (
        """title = "Days between failures across plants"
[model]
kind = "exponential"
target = { name = "days", bounds = [0, 90] }
""",
        "5249595998f243ed37dd9e6e9096f04f462574ac179452f0853ac06ab8a86e64",
    ),
    "gaussian": (
        """title = "Systolic blood pressure across practices"
[model]
kind = "gaussian"
target = { name = "pressure", bounds = [70, 220] }
""",
        "11b68b4a1c2adb61b7b346a29ded59cd52e66b52696a9ea2db84cc6611900b78",
    ),
}


def written(kind: str, *, form: int = 2) -> str:
    return f"format = {form}\n{FIRST[kind][0]}{TAIL}"


def bare(kind: str, extra: str = "", *, column: str = "", form: int = 2) -> str:
    """A regression with nothing said about its priors."""
    target = "bounds = [0, 400]" if kind == "linear" else 'labels = ["no", "yes"]'
    return (
        f'format = {form}\n[model]\nkind = "{kind}"\nfeatures = [{{ name = "age", bounds = [0, 100]{column} }}]\n'
        f'target = {{ name = "y", {target} }}\n{extra}{TAIL}'
    )


@pytest.mark.parametrize("kind", FIRST)
def test_identities_of_the_first_format_stay(kind: str) -> None:
    agreed = Agreement.parse(written(kind, form=1))
    assert agreed.identity == FIRST[kind][1]
    assert Agreement.model_validate(agreed.model_dump(mode="json")) == agreed
    assert Agreement.model_validate_json(agreed.model_dump_json()).identity == FIRST[kind][1]


def test_priors_of_the_first_format_stay() -> None:
    linear, logistic = (Agreement.parse(bare(kind, form=1)).model for kind in ("linear", "logistic"))
    assert (linear.prior, linear.data_prior) == (NormalInverseGamma(), NormalInverseWishart())  # type: ignore[attr-defined]
    assert (logistic.prior, logistic.data_prior) == (TruncatedNorm(), ScaledCorrelation())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("extra", "column", "says"),
    [
        ('prior = { kind = "conjugate" }\n', "", "model.prior has `kind`, which format 1 does not know"),
        ('data_prior = { kind = "standardised" }\n', "", "model.data_prior has `kind`"),
        ("", ", typical = [20, 80]", "'age' has `typical`, which format 1 does not know; write format = 3"),
        ("prior = { effect = 1.0 }\n", "", "'effect' is not a key of model.prior"),
    ],
)
def test_the_first_format_knows_nothing_of_the_second(extra: str, column: str, says: str) -> None:
    with pytest.raises(AgreementError, match=says):
        Agreement.parse(bare("linear", extra, column=column, form=1))


def test_the_second_format_standardises_by_default_and_keeps_the_others_by_name() -> None:
    linear, logistic = (Agreement.parse(bare(kind)).model for kind in ("linear", "logistic"))
    assert isinstance(linear, LinearModel)
    assert isinstance(logistic, LogisticModel)
    assert (linear.prior, linear.data_prior) == (StandardisedEffects(), StandardisedFeatures())
    assert (logistic.prior, logistic.data_prior) == (StandardisedLogOdds(), ShapedFeatures())
    named = 'prior = { kind = "conjugate" }\n'
    for kind in ("linear", "logistic"):
        old, new = Agreement.parse(bare(kind, form=1)), Agreement.parse(bare(kind, named))
        assert new.model == old.model
        assert new.identity != old.identity
        assert Agreement.model_validate(new.model_dump(mode="json")) == new


@pytest.mark.parametrize("kind", ["bernoulli", "categorical", "poisson", "exponential", "gaussian"])
def test_other_models_differ_by_the_number_of_the_format_alone(kind: str) -> None:
    old, new = Agreement.parse(written(kind, form=1)), Agreement.parse(written(kind))
    assert new.model == old.model
    assert new.identity != old.identity


@pytest.mark.parametrize(
    ("extra", "column", "says"),
    [
        ('prior = { kind = "lasso" }\n', "", r"model.prior.kind = 'lasso': choose one of standardised, conjugate"),
        ('prior = { kind = "conjugate" }\n', ", typical = [20, 80]", "the conjugate prior has no use for"),
        ('data_prior = { kind = "conjugate" }\n', "", 'data_prior.kind = "conjugate" does not go with'),
        ("prior = { shape = 2.0 }\n", "", "'shape' is not a key of model.prior"),
        ("", ", typical = [20, 120]", r"typical = \[20, 120\] must be a range within the bounds \[0, 100\]"),
        ("", ", typical = [80, 20]", "must be a range"),
        ("", ", typical = [20, 20.01]", "state a narrower reach"),
    ],
)
def test_mistakes_of_the_second_format(extra: str, column: str, says: str) -> None:
    with pytest.raises(AgreementError, match=says):
        Agreement.parse(bare("linear", extra, column=column))


def test_typical_ranges_are_part_of_the_agreement() -> None:
    plain, typical = (Agreement.parse(bare("logistic", column=c)) for c in ("", ", typical = [20, 80]"))
    assert plain.identity != typical.identity
    assert Agreement.model_validate(typical.model_dump(mode="json")) == typical


def test_explained_in_words() -> None:
    """What is believed, in the columns' own units."""
    linear = "\n".join(explain(Agreement.parse(bare("linear", column=", typical = [20, 60]"))).sentences)
    assert "all features together are believed as likely as not to explain half of the variance of y" in linear
    assert "a standard deviation of about 30, two times out of three within a factor of 2.7" in linear  # 0.6 · 400/8
    assert "age 10 around 40" in linear
    logistic = "\n".join(explain(Agreement.parse(bare("logistic"))).sentences)
    assert "multiply the odds of y by up to 2.3" in logistic
    assert "age 12.5 around 50" in logistic
    old = "\n".join(explain(Agreement.parse(bare("linear", form=1))).sentences)
    assert "Believed before any data, each nine times out of ten: age: 0 → 100 between" in old
    assert "NormalInverseWishart(scope = " in old
    typical = explain(Agreement.parse(bare("linear", column=", typical = [20, 60]"))).columns[0]
    assert typical == ("age", "feature", "0 to 100, others moved there; typically 20 to 60")
