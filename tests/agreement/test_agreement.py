"""An agreement means one thing, and says what is wrong with it."""

from pathlib import Path

import pytest

from builders import ALL_MODELS, agreement, linear
from equipoise.agreement import Agreement
from equipoise.agreement.explanation import explain
from equipoise.agreement.templates import example_agreement
from equipoise.errors import AgreementError, GuaranteeError
from equipoise.models import KINDS, layout_of

TEXT = """
format = 1
[model]
kind = "linear"
features = [{ name = "age", bounds = [18, 100] }, { name = "bmi", bounds = [15, 60] }]
target = { name = "y", bounds = [0, 400] }
[privacy]
max_epsilon = 1
[[parties]]
name = "north"
[[parties]]
name = "south"
"""

SAME = """
# the same agreement, written by someone else
parties = [{ name = "south" }, { name = "north" }]
format = 1
privacy = { order = 2.0, max_epsilon = 1.0 }
reward = { rho = "max", mechanism = "tempering" }
[model]
target = { bounds = [0.0, 4e2], name = "y" }
kind = "linear"
features = [{ name = "age", bounds = [18.0, 100] }, { name = "bmi", bounds = [15, 60] }]
"""


def test_identity_is_meaning_not_spelling() -> None:
    assert Agreement.parse(TEXT).identity == Agreement.parse(SAME).identity


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[18, 100]", "[18, 101]"),
        ('"age"', '"Age"'),
        ("max_epsilon = 1", "max_epsilon = 2"),
        ("max_epsilon = 1", "max_epsilon = 1\norder = 3"),
        ('"south"', '"west"'),
        ("format = 1", 'format = 1\ntitle = "x"'),
        ('kind = "linear"', 'kind = "linear"\nprior = { shape = 6.0 }'),
        (
            '{ name = "age", bounds = [18, 100] }, { name = "bmi", bounds = [15, 60] }',
            '{ name = "bmi", bounds = [15, 60] }, { name = "age", bounds = [18, 100] }',
        ),
    ],
)
def test_any_change_of_meaning_changes_the_identity(old: str, new: str) -> None:
    assert old in TEXT
    assert Agreement.parse(TEXT).identity != Agreement.parse(TEXT.replace(old, new)).identity


def test_identity_is_stable() -> None:
    """A fixed value: changing the canonical form breaks every agreement in use and needs a new format number."""
    assert Agreement.parse(TEXT).identity == "298e7b4c8c1e019647b0edecb989b25a2094e7e348a89ad495103d93b77e2f42"


def test_keys_that_were_added_later_change_no_identity_until_they_are_used() -> None:
    unused = Agreement.parse(TEXT.replace("format = 1", "format = 1\n[reward]\noperator_may_choose = []"))
    assert unused.identity == Agreement.parse(TEXT).identity
    assert "operator_may_choose" not in unused.model_dump()["reward"]
    first, second = (
        Agreement.parse(TEXT.replace("format = 1", f"format = 1\n[reward]\noperator_may_choose = {names}"))
        for names in ('["rho", "teams"]', '["teams", "rho"]')
    )
    assert first.identity == second.identity != unused.identity
    assert "The operator may choose otherwise: rho, teams." in " ".join(explain(first).sentences)
    assert Agreement.model_validate(first.model_dump(mode="json")) == first


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"linear"', '"lin"', r"model.kind = 'lin': choose one of linear, logistic"),
        ('kind = "linear"', "", "model needs `kind`"),
        ("[18, 100]", "[100, 18]", r"model.features\[0\].bounds: \[100, 18\] is empty; write \[lower, upper\]"),
        ("[18, 100]", "[18, 18]", "is empty"),
        ("[18, 100]", "[18, inf]", "finite"),
        ("[18, 100]", "[18, nan]", "finite"),
        ("[18, 100]", "[-1.7e308, 1.7e308]", "cannot be mapped"),
        ("[18, 100]", "[18]", r"bounds\[1\] is missing"),
        ("[18, 100]", "[18, 50, 100]", "bounds has 3 values; at most 2"),
        ("format = 1", "format = true", "format = True: must be a valid integer"),
        ("max_epsilon = 1", 'max_epsilon = 1\norder = "2"', "privacy.order = '2': must be a valid number"),
        ("[18, 100]", "[18, " + "9" * 5000 + "]", "not an agreement in TOML"),
        ("[18, 100]", "[0x" + "f" * 5000 + ", 1]", "a very long number"),
        ("format = 1", "format = 1\na = " + "[" * 2000, "not an agreement in TOML"),
        ("[18, 100]", '["18", "100"]', "valid number"),
        ("[18, 100]", "[false, true]", "valid number"),
        ('"bmi"', '"age"', "'age' is named twice"),
        ('"bmi"', '"y"', "'y' is named twice"),
        ("max_epsilon", "max_eps", "'max_eps' is not a key of privacy .did you mean 'max_epsilon'"),
        ("max_epsilon = 1", "max_epsilon = 0", "privacy.max_epsilon = 0: must be greater than 0"),
        ("max_epsilon = 1", "max_epsilon = 1\norder = 1", "privacy.order"),
        ("[privacy]\nmax_epsilon = 1\n", "", "privacy is missing; add it"),
        ('"north"', '"no/rth"', "use 1 to 64 letters"),
        ('"north"', '"SOUTH"', "two parties are called 'south'"),
        ("format = 1", "format = 9", "format = 9"),
        ("format = 1", "format = 1\n[reward]\nrho = 1.5", 'reward.rho: 1.5 is not a fairness exponent.*"max"'),
        ("format = 1", 'format = 1\n[reward]\nrho = "most"', "reward.rho"),
        ("format = 1", 'format = 1\n[reward]\noperator_may_choose = ["prior"]', "operator_may_choose.*'rho'"),
        ("format = 1", 'format = 1\n[reward]\noperator_may_choose = ["rho", "rho"]', "'rho' is listed twice"),
        ("format = 1", 'format = 1\n[reward]\nmechanism = "gift"', "reward.mechanism"),
        ('kind = "linear"', 'kind = "linear"\nnorm_bound = 0.2', "norm_bound = 0.2 must be at least 0.25"),
        ('kind = "linear"', 'kind = "linear"\nnorm_bound = 2', "below sqrt"),
        ('kind = "linear"', 'kind = "linear"\nprior = { shape = -1.0 }', "model.prior.shape = -1.0"),
        ('kind = "linear"', 'kind = "linear"\nprior = { shap = 1.0 }', "did you mean 'shape'"),
        ('kind = "linear"', 'kind = "linear"\nprior = { weight_precision = [1.0] }', "needs 3"),
        ('kind = "linear"', 'kind = "linear"\nprior = { weight_precision = [[1.0]] }', "3 × 3 matrix"),
        (
            'kind = "linear"',
            'kind = "linear"\ndata_prior = { covariance = [[1.0, 2.0], [2.0, 1.0]] }',
            "positive definite",
        ),
        ('kind = "linear"', 'kind = "linear"\ndata_prior = { degrees_of_freedom = 2 }', "must exceed"),
        ('name = "north"', 'name = "north"\npublic_key = "abc"', "64 lowercase hexadecimal digits"),
        ("format = 1", "format = ", "not an agreement in TOML"),
    ],
)
def test_mistakes_name_key_value_and_remedy(old: str, new: str, says: str) -> None:
    assert old in TEXT
    with pytest.raises(AgreementError, match=says):
        Agreement.parse(TEXT.replace(old, new))


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ('kind = "bernoulli"\ntarget = { name = "y", labels = [0, 0] }', "listed twice"),
        ('kind = "bernoulli"\ntarget = { name = "y", labels = [0, "1"] }', "mixes text and numbers"),
        (
            'kind = "bernoulli"\ntarget = { name = "y", labels = [false, true] }',
            r"labels\[0\] = False: must be a valid integer or must be a valid string",
        ),
        (
            'kind = "bernoulli"\ntarget = { name = "y", labels = [0, 1, 2] }',
            "labels has 3 values; at most 2 are allowed",
        ),
        (
            'kind = "bernoulli"\ntarget = { name = "y", bounds = [0, 1] }',
            "'bounds' is not a key of model.target; remove",
        ),
        ('kind = "categorical"\ntarget = { name = "y", categories = ["a"] }', "has only 1 values; at least 2"),
        ('kind = "categorical"\ntarget = { name = "y", categories = ["a", "b", "a"] }', "'a' is listed twice"),
        ('kind = "poisson"\ntarget = { name = "y", bounds = [0, 2.5] }', "whole numbers"),
        ('kind = "poisson"\ntarget = { name = "y", bounds = [-1, 3] }', "whole numbers"),
        ('kind = "exponential"\ntarget = { name = "y", bounds = [-1, 3] }', "0 or more"),
        (
            'kind = "categorical"\ntarget = { name = "y", categories = ["a", "b"] }\nprior = { concentration = [1.0] }',
            "needs 2",
        ),
    ],
)
def test_mistakes_of_each_model(model: str, says: str) -> None:
    with pytest.raises(AgreementError, match=says):
        agreement(model)


LINE = 'kind = "linear"\ntarget = { name = "y", bounds = [0, 10] }'


@pytest.mark.parametrize(
    "text",
    [
        *("=1+1", "+A1", "-2+3", "@SUM(A1)", "\\t=1", "＝1", "-5 to 0", "=cmd|' /C calc'!A0"),
        *(" =1+1", "\\n=1", "\\uFEFF=1", "a;=1+1", "a; =1+1", "a\\t@SUM(A1)", "a\\r\\n-2+3", "a,b;＝1", "a;-1"),
    ],
)
def test_names_and_labels_that_a_spreadsheet_would_run_are_refused(text: str) -> None:
    """They stand in files of predictions, which people open in spreadsheets; whoever wrote the agreement chose them."""
    for model in (
        f'kind = "bernoulli"\ntarget = {{ name = "{text}", labels = [0, 1] }}',
        f'kind = "bernoulli"\ntarget = {{ name = "y", labels = ["no", "{text}"] }}',
        f'kind = "categorical"\ntarget = {{ name = "y", categories = ["a", "{text}"] }}',
        f'{LINE}\nfeatures = [{{ name = "x", kind = "category", levels = ["a", "{text}"] }}]',
        f'{LINE}\nfeatures = [{{ name = "{text}", bounds = [0, 1] }}]',
    ):
        with pytest.raises(AgreementError, match="begins like a formula"):
            agreement(model)


def test_numbers_and_signs_are_no_formulas() -> None:
    plain = ('["-", "+"]', "[-1, 1]", '["-1.5", "+2"]', '["A+", "B-"]', '[" -1", " 1"]')
    ranges = ('["(-5, -1)", "[0, +5]"]', '["0, -1", "1 - 2"]', '["a; b", "c=d; e-f"]', '["some\\nmore", "less"]')
    for labels in (*plain, *ranges):
        agreement(f'kind = "bernoulli"\ntarget = {{ name = "y", labels = {labels} }}')


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(AgreementError) as caught:
        Agreement.parse(TEXT.replace("[18, 100]", "[100, 18]").replace("max_epsilon = 1", "max_epsilon = -1"))
    assert "features[0]" in str(caught.value)
    assert "max_epsilon" in str(caught.value)


def test_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(AgreementError, match="equipoise agreement new"):
        Agreement.load(tmp_path / "nowhere.toml")


def test_duplicate_public_keys_are_refused() -> None:
    key = "ab" * 32
    text = TEXT.replace('"north"', f'"north"\npublic_key = "{key}"').replace(
        '"south"', f'"south"\npublic_key = "{key}"'
    )
    with pytest.raises(AgreementError, match="share the public key"):
        Agreement.parse(text)


@pytest.mark.parametrize("kind", KINDS)
def test_examples_are_valid_and_explained(kind: str) -> None:
    example = Agreement.parse(example_agreement(kind, ("anna", "bert")))
    assert example.model.kind == kind
    assert example.party_names == ("anna", "bert")
    text = "\n".join(explain(example).sentences)
    assert example.model.target.name in text
    assert "anna, bert" in text


def test_examples_show_the_documented_defaults() -> None:
    """A line of an example that restates a default must not change the meaning."""
    for kind in KINDS:
        example = Agreement.parse(example_agreement(kind))
        model = example.model.model_dump()
        bare = type(example.model).model_validate({k: v for k, v in model.items() if k not in ("prior", "data_prior")})
        assert bare == example.model, kind


@pytest.mark.parametrize("name", ALL_MODELS)
def test_explained_noise_is_the_noise(name: str) -> None:
    agreed = ALL_MODELS[name]
    row = explain(agreed, (0.5,)).noise[0]
    layout = layout_of(agreed)
    assert row.deviation == max(layout.noise_deviations(agreed.guarantee(epsilon=0.5)))
    assert row.zcdp == 0.25
    assert row.deviation / row.rows_needed <= 0.05
    squares = [
        d
        for d, e in zip(layout.noise_deviations(agreed.guarantee(epsilon=0.5)), layout.entries, strict=True)
        if e.first == e.second and e.weight > min(x.weight for x in layout.entries)
    ]
    assert row.square_deviation == (max(squares) if squares else None)


def test_guarantee_must_be_stated_once_and_below_the_cap() -> None:
    agreed = linear(max_epsilon=1.0)
    assert agreed.guarantee(zcdp=0.25) == agreed.guarantee(epsilon=0.5)
    assert agreed.guarantee(approx=(2.0, 1e-6)).epsilon_at(1e-6) == pytest.approx(2.0)
    with pytest.raises(AgreementError, match="exactly one way.*got none"):
        agreed.guarantee()
    with pytest.raises(AgreementError, match="got epsilon and zcdp"):
        agreed.guarantee(epsilon=0.1, zcdp=0.1)
    with pytest.raises(AgreementError, match="above the agreed maximum 1"):
        agreed.guarantee(epsilon=1.5)
    with pytest.raises(AgreementError, match="above the agreed maximum"):
        agreed.guarantee(approx=(50.0, 1e-6))
    with pytest.raises(GuaranteeError, match="positive"):
        agreed.guarantee(epsilon=0)


def test_unknown_party() -> None:
    with pytest.raises(AgreementError, match="'east' is not a party.*north, south"):
        linear().party("east")


def test_byte_order_mark_of_windows_editors(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert Agreement.load(path).identity == Agreement.parse(TEXT).identity


def test_one_mistake_is_one_line() -> None:
    with pytest.raises(AgreementError) as caught:
        Agreement.parse(TEXT.replace('"north"', '"no/rth"').replace('"south"', '"so/uth"'))
    assert len(str(caught.value).splitlines()) == 3


def test_keys_of_later_versions_leave_identities_as_they_were() -> None:
    """Releases name the identity; that of an agreement written for 0.6.0 is as 0.6.0 computed it."""
    text = example_agreement("bernoulli").replace("format = 3", "format = 1").replace('"degraded"\n', '"tempering"\n')
    text = text.replace('rule = "surplus"\n', "").replace("rho = 0.5", 'rho = "max"')
    written = Agreement.parse(text.replace("max_rows = 100_000", ""))
    assert written.identity == "7a153b92b3dbb558639c874c00a5118df64c6d607704d633d8f53440b0a20771"
    said = Agreement.parse(TEXT + '\n[reward]\nfallback = "alone"\n')
    assert said.identity == Agreement.parse(TEXT).identity
    for other in (
        TEXT + '\n[reward]\nfallback = "shares"\n',
        TEXT.replace("max_epsilon = 1", "max_epsilon = 1\nmin_epsilon = 0.1"),
        TEXT.replace("max_epsilon = 1", "max_epsilon = 1\nmax_rows = 1000"),
    ):
        assert Agreement.parse(other).identity != said.identity


def test_the_smallest_epsilon_that_is_agreed() -> None:
    agreed = Agreement.parse(TEXT.replace("max_epsilon = 1", "max_epsilon = 1\nmin_epsilon = 0.1"))
    assert agreed.guarantee(epsilon=0.1).epsilon == 0.1
    assert agreed.guarantee(zcdp=agreed.guarantee(epsilon=0.1).zcdp).epsilon == 0.1  # however it is stated
    with pytest.raises(AgreementError, match="epsilon = 1e-06 at order 2 is below the agreed minimum 0.1"):
        agreed.guarantee(epsilon=1e-6)
    with pytest.raises(AgreementError, match=r"min_epsilon = 2 is above max_epsilon = 1; nobody could release"):
        Agreement.parse(TEXT.replace("max_epsilon = 1", "max_epsilon = 1\nmin_epsilon = 2"))


UNWISE = """
format = 2
[model]
kind = "{kind}"
features = [{{ name = "smoker", bounds = [0, 1] }}, {{ name = "grade", bounds = [2, 3] }},
  {{ name = "share", bounds = [0.5, 1.5] }},
  {{ name = "crp", bounds = [0, 5000], typical = [1, 20] }}, {{ name = "age", bounds = [18, 100], typical = [20, 90] }}]
target = {target}
[privacy]
max_epsilon = {epsilon}
[[parties]]
name = "north"
"""
TARGETS = {"linear": '{ name = "y", bounds = [0, 400] }', "logistic": '{ name = "y", labels = [0, 1] }'}


@pytest.mark.parametrize("kind", TARGETS)
def test_what_is_legal_and_unwise_is_named(kind: str) -> None:
    one = Agreement.parse(UNWISE.format(kind=kind, target=TARGETS[kind], epsilon=4.0))
    labels, wide, unstated = explain(one).cautions
    assert "The bounds of smoker, grade are one apart" in labels
    assert ("several times too large" in labels) == (kind == "logistic")
    assert "crp (263 times)" in wide
    assert "age" not in wide
    assert f"The bounds of smoker, grade, share{', y' * (kind == 'linear')} scale the noise." in unstated
    noisy = Agreement.parse(UNWISE.format(kind=kind, target=TARGETS[kind], epsilon=0.001))
    (*_, noise) = explain(noisy).cautions
    needed = explain(noisy, (0.001,)).noise[0].rows_needed
    assert f"needs {needed:,} rows" in noise
    assert "Each of the 5 features is about 14% of the noise" in noise


@pytest.mark.parametrize("kind", KINDS)
def test_examples_are_wise(kind: str) -> None:
    assert explain(Agreement.parse(example_agreement(kind))).cautions == ()
