"""A whole round from tables in one call."""

import numpy as np
import pytest

import equipoise as eq
from equipoise.simulate import _around, _drafted


def table(rows: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    age = rng.normal(50, 10, rows)
    return {"age": age, "dose": rng.uniform(0, 1, rows), "days": 3 + 0.1 * age + rng.normal(size=rows)}


TABLES = {"north": table(200, 1), "south": table(300, 2)}


def test_an_agreement_is_drafted_from_the_columns() -> None:
    agreed = _drafted(TABLES, "days", 2.0)
    assert [column.name for column in agreed.columns] == ["age", "dose", "days"]
    assert agreed.model.kind == "linear"
    assert agreed.party_names == ("north", "south")
    labelled = {party: {**one, "ill": np.where(one["days"] > 8, "yes", "no")} for party, one in TABLES.items()}
    assert _drafted(labelled, "ill", 2.0).model.kind == "logistic"


@pytest.mark.parametrize("values", [[0.0, 1.0], [3.2, 97.4], [-5e-4, 2e-4], [7.0, 7.0], [1e6, 4e6]])
def test_bounds_hold_all_values(values: list[float]) -> None:
    low, high = _around(np.array(values))
    assert low <= min(values) <= max(values) <= high
    assert low < high


def test_what_cannot_be_simulated_is_refused() -> None:
    with pytest.raises(eq.AgreementError, match="no tables"):
        eq.simulate_round({}, target="days")
    with pytest.raises(eq.AgreementError, match="name the target"):
        eq.simulate_round(TABLES)
    with pytest.raises(eq.AgreementError, match="no column 'day'; the columns are age, dose, days"):
        eq.simulate_round(TABLES, target="day")
    gaps = {"north": {**TABLES["north"], "age": np.where(TABLES["north"]["age"] > 60, np.nan, 1.0)}}
    for target, name in (("days", "age"), ("age", "age")):
        with pytest.raises(eq.AgreementError, match=f'the column {name!r} has missing .* missing = "indicator"'):
            eq.simulate_round(gaps, target=target)
    for labels in (["no"], ["no", "yes", "perhaps"]):
        strange = {"north": {"age": np.arange(3.0), "ill": np.array([labels[k % len(labels)] for k in range(3)])}}
        with pytest.raises(eq.AgreementError, match="the target 'ill' has [13] labels?, 'no'"):
            eq.simulate_round(strange, target="ill")


@pytest.mark.engine
@pytest.mark.slow
def test_a_whole_round() -> None:
    tables = {party: {name: one[name] for name in ("age", "days")} for party, one in TABLES.items()}
    settlement = eq.simulate_round(
        tables,
        target="days",
        epsilon={"north": 4.0, "south": 1.0},
        test=table(50, 3),
        processes=1,
        progress=False,
        draws=600,
        precision=0.5,
    )
    assert settlement.contributions["north"].epsilon == 4.0
    for award in settlement.awards.values():
        assert award.losses["reward"].value < award.losses["prior"].value
        assert award.reward is not None
        assert award.reward.coef_[0] == pytest.approx(0.1, abs=0.08)
