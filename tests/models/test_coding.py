"""Columns of every kind: their coding, the sensitivity of coded rows, and what cannot be agreed to."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import coded
import equipoise as eq
from equipoise.errors import AgreementError, TableError
from equipoise.models.layout import UNIT, Layout
from equipoise.models.regression import Regression
from equipoise.party.inspection import problems_of
from equipoise.party.ledger import domains_of
from equipoise.party.statistics import exact_statistic
from equipoise.reward.prediction import feature_matrix

BINARY = '{ name = "b", kind = "binary", labels = ["no", "yes"] }'
CATEGORY = '{ name = "c", kind = "category", levels = ["x", "y", "z"], other = true, missing = "indicator" }'
NUMBER = '{ name = "n", bounds = [-1, 1] }'
GAPS = '{ name = "g", bounds = [-1, 1], missing = "indicator" }'
MIXTURES = {
    "binary": [BINARY],
    "category": [CATEGORY],
    "number and binary": [NUMBER, BINARY],
    "number and category": [NUMBER, CATEGORY],
    "gaps": [GAPS],
    "gaps, number and binary": [GAPS, NUMBER, BINARY],
    "two with gaps": [GAPS, GAPS.replace('"g"', '"h"'), BINARY],
}


def model_of(kind: Any, features: str = coded.FEATURES) -> Regression:
    model = coded.agreement(kind, features).model
    assert isinstance(model, Regression)
    return model


def test_statistics_are_those_of_rows_coded_by_hand() -> None:
    agreement = coded.agreement("linear")
    table, _ = coded.rows("linear", 3_000, np.random.default_rng(0))
    layout = agreement.model.layout
    exact = exact_statistic(layout, table)
    found = np.array(exact.values) / layout.steps_per_unit
    gap = table.creatinine.isna().to_numpy()
    log = np.log(table.creatinine.clip(0.1, 20))
    by_hand = [
        table.age / 50 - 1,
        table.smoker == "yes",
        np.where(gap, 0, (log - np.log(2) / 2) / (np.log(200) / 2)),
        gap,
        table.region == "south",
        table.region == "west",
        ~table.region.isin(["north", "south", "west"]),
        table.pain.map({"none": 0, "some": 1, "much": 3}) / 1.5 - 1,
        table.outcome.clip(-8, 8) / 8,
        np.ones(len(table)),
    ]
    columns = np.column_stack([np.asarray(column, float) for column in by_hand])
    products = [columns[:, one.first] @ columns[:, -1 if one.second is None else one.second] for one in layout.entries]
    np.testing.assert_allclose(found, products, atol=3_000 * 2**-16)
    assert [one.name for one in layout.entries if one.first == one.second] == [
        "age × age",
        "log(creatinine) × log(creatinine)",
        "pain × pain",
        "outcome × outcome",
    ]  # fmt: skip  (squares of levels are levels, and are not sent)
    assert "region=south × region=west" not in [one.name for one in layout.entries]
    assert "log(creatinine) × creatinine missing" not in [one.name for one in layout.entries]


def test_whatever_holds_the_table_it_is_coded_alike(tmp_path: Any) -> None:
    agreement = coded.agreement("logistic")
    table, _ = coded.rows("logistic", 500, np.random.default_rng(0))
    expected = exact_statistic(agreement.model.layout, table).values
    table.to_csv(tmp_path / "rows.csv", index=False)
    table.to_parquet(tmp_path / "rows.parquet")
    for source in (tmp_path / "rows.csv", tmp_path / "rows.parquet", table.astype({"region": "category"})):
        assert exact_statistic(agreement.model.layout, source).values == expected


@pytest.mark.parametrize("features", MIXTURES.values(), ids=MIXTURES)
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_no_two_rows_are_further_apart_than_the_sensitivity(kind: Any, features: list[str]) -> None:
    """All pairs of rows whose numbers are at the ends or the middle: the bound is convex in between."""
    model = model_of(kind, ", ".join(features))
    rows = coded_rows(model)
    statistics = np.stack([weighted(model.layout, row) for row in rows])
    furthest = max(float(np.linalg.norm(statistics - one, axis=1).max()) for one in statistics)
    proved = model.layout.sensitivity / UNIT
    assert furthest <= proved * (1 + 1e-12)
    assert furthest > 0.85 * proved  # and not by far


@pytest.mark.parametrize(
    ("transform", "bounds"),
    [("log", [2.0, 2.0000000000000004]), ("logit", [0.9999999999999962, 0.9999999999999963]), ("log", [0.1, 20.0])],
)
def test_a_marked_gap_is_0_however_the_transform_rounds(transform: str, bounds: list[float]) -> None:
    """A value in the middle would map to an end here, beside an indicator of 1: a quarter beyond the sensitivity."""
    features = [
        f'{{ name = "{name}", bounds = {bounds}, transform = "{transform}", missing = "indicator" }}'
        for name in ("g", "h")
    ]
    layout = model_of("linear", ", ".join(features)).layout
    cells = [*bounds, float("nan")]
    found = [
        exact_statistic(layout, {"g": [g], "h": [h], "outcome": [outcome]}, threads=1).values
        for g, h, outcome in itertools.product(cells, cells, (-8.0, 8.0))
    ]
    furthest = max(sum((a - b) ** 2 for a, b in zip(*pair, strict=True)) for pair in itertools.combinations(found, 2))
    assert 0.98 * layout.sensitivity**2 < furthest <= layout.sensitivity**2


def coded_rows(model: Regression) -> list[np.ndarray[Any, Any]]:
    """Rows of terms that the coding can make, numbers being at −1, 0 or 1, with every target at its ends or 0."""
    coding = model.coding
    found = []
    for chosen in itertools.product(*((None, *block) for block in coding.blocks)):
        levels = np.isin(np.arange(len(coding.terms)), [place for place in chosen if place is not None]).astype(float)
        gaps = {number for number, indicator in coding.gaps if levels[indicator]}
        present = np.array([number not in gaps for number in coding.numbers], float)
        for numbers in itertools.product((-1.0, 0.0, 1.0), repeat=len(coding.numbers)):
            row = levels.copy()
            row[list(coding.numbers)] = present * numbers
            targets = (-1.0, 1.0) if model.kind == "logistic" else (-1.0, 0.0, 1.0)
            found += [np.array([*row, target]) for target in targets]
    return found


def weighted(layout: Layout, row: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.array(
        [one.weight * row[one.first] * (1.0 if one.second is None else row[one.second]) for one in layout.entries]
    )


def test_blocks_cost_one_direction_each() -> None:
    numbers = [f'{{ name = "n{k}", bounds = [0, 1] }}' for k in range(6)]
    categories = [f'{{ name = "c{k}", kind = "category", levels = ["a", "b", "c", "d"] }}' for k in range(3)]
    assert model_of("linear", ", ".join(numbers + categories)).layout.sensitivity == 11 * 8 * UNIT


def test_weights_in_own_units_predict_as_scaled_ones_do() -> None:
    model = model_of("linear")
    rng = np.random.default_rng(0)
    draws = {"weights": rng.normal(size=(1, 9)), "variance": np.ones(1)}
    own = {name: float(values[0]) for name, values in model.own_units(draws).items()}
    row = np.array([[61.0, 1.0, 1.7, -1.0, 2.0]])  # a smoker from abroad with much pain
    expected = (
        own["intercept"]
        + 61 * own["weight[age]"]
        + own["weight[smoker=yes]"]
        + np.log(1.7) * own["weight[log(creatinine)]"]
        + own["weight[region=(other)]"]
        + 3 * own["weight[pain]"]
    )
    assert model.expected_target(draws, row)[0] == pytest.approx(expected)
    row[0, 2] = np.nan
    expected += own["weight[creatinine missing]"] + np.log(np.sqrt(2) / 1.7) * own["weight[log(creatinine)]"]
    assert model.expected_target(draws, row)[0] == pytest.approx(expected)
    assert own.keys() == set(model.readable_names)


@pytest.mark.parametrize(
    ("features", "says"),
    [
        ('{ name = "b", kind = "binary", labels = ["no", "no"] }', "'no' is listed twice"),
        ('{ name = "b", kind = "colour" }', "number, binary, category, ordinal"),
        ('{ name = "c", kind = "category", levels = ["a", "b"], reference = "z" }', "'z' is not one of the levels"),
        ('{ name = "n", bounds = [0, 1], transform = "log" }', "needs a lower bound above 0"),
        ('{ name = "n", bounds = [0, 1], transform = "logit" }', "needs bounds within 0 and 1"),
        ('{ name = "n", bounds = [0, 1], missing = "value" }', "needs `fill`"),
        ('{ name = "n", bounds = [0, 1], fill = 0.5 }', 'used with missing = "value" only'),
        ('{ name = "n", bounds = [0, 1], missing = "value", fill = 7.0 }', "fill = 7 is outside the bounds"),
        ('{ name = "o", kind = "ordinal", levels = ["a", "b"], scores = [1, 1] }', "must rise"),
        ('{ name = "o", kind = "ordinal", levels = ["a", "b"], scores = [1] }', "give one for each"),
        ('{ name = "o", kind = "ordinal", levels = ["a", "b"], scores = [0.0, 5e-324] }', "cannot be mapped"),
        ('{ name = "o", kind = "ordinal", levels = ["a", "b"], scores = [-1e308, 1e308] }', "cannot be mapped"),
        ('{ name = "n", bounds = [1e16, 1.0000000000000002e16], transform = "log" }', "leaves nothing between"),
    ],
)  # fmt: skip
def test_what_cannot_be_agreed_to_is_said(features: str, says: str) -> None:
    with pytest.raises(AgreementError, match=says):
        coded.agreement("linear", features)


def _text(features: str) -> str:
    return (
        f'format = 2\n[model]\nkind = "linear"\nfeatures = [{features}]\ntarget = {coded.TARGETS["linear"]}\n'
        '[privacy]\nmax_epsilon = 1.0\n[[parties]]\nname = "p"\n'
    )


def test_the_papers_prior_is_for_numbers() -> None:
    text = _text(BINARY).replace("[privacy]", '[model.prior]\nkind = "conjugate"\n[privacy]')
    with pytest.raises(
        AgreementError, match="conjugate prior is for features that are all numbers, and 'b' has levels"
    ):
        eq.Agreement.parse(text)


def test_agreements_without_new_keys_keep_their_identity() -> None:
    plain = coded.agreement("linear", NUMBER)
    assert (
        plain.identity
        == coded.agreement("linear", NUMBER.replace("}", ', kind = "number", missing = "refuse" }')).identity
    )
    assert plain.model.model_dump()["features"] == ({"name": "n", "bounds": (-1.0, 1.0), "typical": None},)
    assert plain.identity != coded.agreement("linear", GAPS.replace('"g"', '"n"')).identity


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"smoker": "maybe"}, "column 'smoker', row 3: 'maybe' is not one of the agreed labels"),
        ({"smoker": None}, "column 'smoker', row 3: the value is missing"),
        ({"region": None}, "column 'region', row 3: the value is missing"),
        ({"age": None}, "column 'age', row 3: the value is missing"),
        ({"creatinine": np.inf}, "column 'creatinine', row 3: the value is infinite"),
        ({"pain": "lots"}, "column 'pain', row 3: 'lots' is not"),
    ],
)
def test_cells_that_are_not_agreed_are_refused(change: dict[str, Any], says: str) -> None:
    table, _ = coded.rows("linear", 20, np.random.default_rng(0))
    for name, value in change.items():
        table[name] = table[name].astype(object if isinstance(value, str) or value is None else float)
        table.loc[2, name] = value
    if change.get("age", 0) is None:
        table["age"] = table["age"].astype("Float64")
    with pytest.raises(TableError, match=says):
        exact_statistic(coded.agreement("linear").model.layout, table)


def test_a_ledger_remembers_the_coding_and_plain_columns_as_before() -> None:
    domains = domains_of(coded.agreement("linear"))
    assert domains["age"] == [0.0, 100.0]
    assert domains["smoker"] == ["no", "yes"]
    assert domains["creatinine"] == [0.1, 20.0, "transform = log", "missing = indicator"]
    assert domains["region"] == ["north", "south", "west", "other = True"]
    assert domains["pain"] == ["none", "some", "much", "scores = (0.0, 1.0, 3.0)"]


DATES = '{ name = "admitted", since = "2020-01-01", bounds = [0, 3660], missing = "indicator" }'


def test_dates_are_days_since_whatever_holds_them(tmp_path: Any) -> None:
    layout = coded.agreement("linear", DATES).model.layout
    texts = ["2020-01-01", "2025-01-05", None, "2041-12-31"]
    table = pd.DataFrame({"admitted": texts, "outcome": [1.0, 2.0, 3.0, 4.0]})
    table.to_csv(tmp_path / "rows.csv", index=False)
    stamps = pd.to_datetime(table["admitted"])
    found = exact_statistic(layout, table).values
    for source in (
        tmp_path / "rows.csv",
        table.assign(admitted=stamps),
        pa.table({"admitted": pa.array(texts).cast(pa.date32()), "outcome": [1.0, 2.0, 3.0, 4.0]}),
    ):
        assert exact_statistic(layout, source).values == found
    days, missing = (np.array(found) / layout.steps_per_unit)[:2]
    assert days == pytest.approx(-1 + (1831 / 1830 - 1) + 1, abs=1e-4)  # the last is clipped, the missing one is 0
    assert missing == 1
    assert problems_of(layout, table)[0].problem == "beyond the agreed range"

    model = model_of("linear", DATES)
    draws = {"weights": np.array([[1.0, 0.5, 0.0]]), "variance": np.ones(1)}
    rows = feature_matrix(coded.agreement("linear", DATES), {"admitted": ["2025-01-05", None]})
    np.testing.assert_allclose(model.expected_target(draws, rows), [8 * (1831 / 1830 - 1), 4.0])


def test_what_is_no_date_is_refused() -> None:
    layout = coded.agreement("linear", DATES).model.layout
    table = {"admitted": ["2020-01-01", "soon"], "outcome": [1.0, 2.0]}
    with pytest.raises(TableError, match="column 'admitted', row 2: 'soon' is no date"):
        exact_statistic(layout, table)
    (problem,) = problems_of(layout, table)
    assert (problem.problem, problem.count, problem.first_row, problem.refused) == ("not a date", 1, 2, True)
    with pytest.raises(TableError, match="holds double values where dates are agreed"):
        exact_statistic(layout, {**table, "admitted": [1.0, 2.0]})
    with pytest.raises(AgreementError, match="since = 'Monday' is no date"):
        coded.agreement("linear", DATES.replace("2020-01-01", "Monday"))


@pytest.mark.parametrize(
    "features",
    [
        '{ name = "log(x)", bounds = [0, 1] }, { name = "x", bounds = [1, 2], transform = "log" }',
        '{ name = "a", kind = "category", levels = ["b", "(other)"], other = true }',
    ],
)
def test_two_weights_never_have_one_name(features: str) -> None:
    with pytest.raises(AgreementError, match="once coded; rename one"):
        coded.agreement("linear", features)
