"""Plausibility: honest parties pass, odd ones are remarked upon."""

import re
from pathlib import Path
from typing import Any, Literal
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import coded
import equipoise as eq
import rounds
from equipoise.inference.infer import infer
from equipoise.inference.released_features import row_covariance_of
from equipoise.mediation.plausibility import (
    SUSPICIOUS,
    impossible_magnitudes,
    near_duplicates,
    same_population_probability,
    unlike_the_others,
)
from equipoise.party.release import release


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_the_covariance_of_a_row_is_that_of_the_table(kind: str, tmp_path: Path) -> None:
    """With little noise, variances of a row's products are about those that rows of the table have."""
    agreed = rounds.agreement(kind)
    sent = rounds.submissions(agreed, tmp_path, (100.0,), rows=3_000)
    covariance = row_covariance_of(agreed, sent)
    table = rounds.table(kind, 3_000, 0)
    x, y = table["x"] / 2, table["y"] / 3 if kind == "linear" else np.where(np.asarray(table["y"]) == "yes", 1.0, -1.0)
    products = [x, y, x * x, x * y, y * y][: len(covariance)]
    np.testing.assert_allclose(covariance, np.cov(products), atol=0.06)


SKEWED = """format = 1
[model]
kind = "linear"
features = [
  { name = "rare", bounds = [0, 1] }, { name = "common", bounds = [0, 1] }, { name = "both", bounds = [0, 1] },
  { name = "cost", bounds = [0, 10] },
]
target = { name = "y", bounds = [0, 10] }
[privacy]
order = 2
max_epsilon = 100.0
[[parties]]
name = "north"
[[parties]]
name = "south"
[[parties]]
name = "west"
"""


def skewed_thirds(
    agreed: eq.Agreement, folder: Path, seed: int, epsilon: float, rows: int = 900
) -> list[eq.Submission]:
    """Random thirds of one table with columns of zeros and ones, one rare and two that go together, and heavy tails."""
    rng = np.random.default_rng(seed)
    common = rng.uniform(size=rows) < 0.3
    table = {
        "rare": (rng.uniform(size=rows) < 0.04).astype(float),
        "common": common.astype(float),
        "both": (common & (rng.uniform(size=rows) < 0.8)).astype(float),
        "cost": np.minimum(rng.lognormal(-1.0, 1.2, rows), 10.0),
    }
    table["y"] = np.clip(1 + 2 * table["rare"] + table["common"] + rng.exponential(1.0, rows), 0, 10)
    order = rng.permutation(rows).reshape(3, -1)
    folder.mkdir(parents=True)
    with mock.patch("equipoise.party.release.perturb", rounds.seeded(seed)):
        return [
            release(
                agreed,
                {name: values[chosen] for name, values in table.items()},
                party=party,
                epsilon=epsilon,
                ledger=folder / f"{party}.ledger",
            )
            for party, chosen in zip(agreed.party_names, order, strict=True)
        ]


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [100.0, 1.0])
def test_honest_parties_are_not_accused_whatever_their_columns(epsilon: float, tmp_path: Path) -> None:
    """Thirds of one table: no p-value is small more often than it says."""
    agreed = eq.Agreement.parse(SKEWED)
    found: list[float | None] = []
    for seed in range(40):
        sent = skewed_thirds(agreed, tmp_path / str(seed), seed, epsilon)
        assert unlike_the_others(agreed, sent) == []
        found += [same_population_probability(agreed, [two for two in sent if two is not one], one) for one in sent]
    values = np.array(found, float)
    for level in (0.3, 0.1, 0.01):
        assert np.mean(values < level) <= level
    assert values.min() > SUSPICIOUS


@pytest.mark.statistical
def test_of_columns_of_zeros_and_ones_an_odd_one_is_noticed_and_nobody_else(tmp_path: Path) -> None:
    """West has its labels the other way round, another share of the common one, or costs in another currency."""
    agreed = eq.Agreement.parse(SKEWED)
    for seed in range(5):
        sent = skewed_thirds(agreed, tmp_path / str(seed), seed, 4.0)
        rng = np.random.default_rng(100 + seed)
        honest = {
            "rare": (rng.uniform(size=300) < 0.04).astype(float),
            "common": (rng.uniform(size=300) < 0.3).astype(float),
            "both": np.zeros(300),
            "cost": np.minimum(rng.lognormal(-1.0, 1.2, 300), 10.0),
            "y": np.clip(1 + rng.exponential(1.3, 300), 0, 10),
        }
        honest["both"] = honest["common"] * (rng.uniform(size=300) < 0.8)
        wrong = {
            "labels": honest | {"common": 1 - honest["common"]},
            "population": honest | {"rare": (rng.uniform(size=300) < 0.5).astype(float)},
            "unit": honest | {"cost": np.minimum(8 * honest["cost"], 10.0)},
        }
        for name, table in wrong.items():
            with mock.patch("equipoise.party.release.perturb", rounds.seeded(seed)):
                odd = release(agreed, table, party="west", epsilon=4.0, ledger=tmp_path / f"{name}-{seed}.ledger")
            remarks = unlike_the_others(agreed, [*sent[:2], odd])
            assert [remark.parties for remark in remarks] == [("west",)], name
            assert remarks[0].probability is not None
            assert remarks[0].probability < SUSPICIOUS
            told = re.search(r"\); (.*) differs most, .* in scaled units", remarks[0].message)
            assert told is not None
            assert {"labels": "common", "population": "rare", "unit": "cost"}[name] in told[1]
            assert ("per-party" in remarks[0].message) == (" y" not in told[1])  # the target is not whom they have


@pytest.mark.parametrize("kind", sorted(rounds.MODELS))
def test_a_party_with_other_units_is_noticed(kind: str, tmp_path: Path) -> None:
    agreed = rounds.agreement(kind)
    sent = rounds.submissions(agreed, tmp_path, (4.0, 4.0), rows=600)
    table = rounds.table(kind, 600, 7)
    if kind == "logistic":
        table["y"] = ["no" if label == "yes" else "yes" for label in table["y"]]
    elif kind == "bernoulli":
        table["y"] = 1 - table["y"]
    elif kind == "categorical":
        table["y"] = ["c" if label == "a" else label for label in table["y"]]
    else:
        table["y"] = table["y"] * (0.3 if kind in ("linear", "gaussian") else 3)
    with mock.patch("equipoise.party.release.perturb", rounds.seeded(3)):
        honest = release(agreed, rounds.table(kind, 600, 7), party="west", epsilon=4.0, ledger=tmp_path / "h.ledger")
        ledger = tmp_path / "west.ledger"
        odd = release(agreed, table, party="west", epsilon=4.0, ledger=ledger, allow_clipping=True)
    assert unlike_the_others(agreed, [*sent, honest]) == []
    (remark,) = unlike_the_others(agreed, [*sent, odd])
    assert remark.parties == ("west",)
    assert "west" in remark.message
    assert len(unlike_the_others(agreed, [sent[0], odd])) == 2  # of two, nobody can tell which


def test_parties_whose_features_may_differ_are_not_compared(tmp_path: Path) -> None:
    text = rounds.agreement_text("linear").replace("[privacy]", '[model.data_prior]\nscope = "per-party"\n[privacy]')
    agreed = eq.Agreement.parse(text)
    sent = rounds.submissions(agreed, tmp_path, (4.0, 4.0))
    assert same_population_probability(agreed, sent[:1], sent[1]) is None
    assert unlike_the_others(agreed, sent) == []


@pytest.mark.engine
@pytest.mark.group("rounds")
def test_copies_are_noticed_and_independent_rows_are_not(tmp_path: Path) -> None:
    agreed = rounds.agreement("linear")
    sent = rounds.submissions(agreed, tmp_path, (20.0, 20.0), rows=2_000)
    posterior = infer(agreed, sent, draws=1_000)
    assert near_duplicates(agreed, sent, posterior) == []
    table = rounds.table("linear", 2_000, 0)
    with mock.patch("equipoise.party.release.perturb", rounds.seeded(5)):
        copy = release(agreed, table, party="west", epsilon=20.0, ledger=tmp_path / "copy.ledger")
    (remark,) = near_duplicates(agreed, [*sent, copy], posterior)
    assert remark.parties == ("north", "west")
    assert "2,000 rows each" in remark.message


def test_sums_that_no_rows_can_have(tmp_path: Path) -> None:
    agreed = rounds.agreement("linear")
    sent = rounds.submissions(agreed, tmp_path, (4.0, 4.0))
    assert impossible_magnitudes(agreed, sent) == []
    large = sent[0].model_copy(update={"statistic": (sent[0].statistic[0] * 100, *sent[0].statistic[1:])})
    negative = sent[1].model_copy(update={"statistic": (*sent[1].statistic[:-1], -abs(sent[1].statistic[-1]) * 3)})
    found = impossible_magnitudes(agreed, [large, negative])
    assert {remark.parties for remark in found} == {("north",), ("south",)}
    assert "must lie between" in found[0].message


@pytest.mark.engine
@pytest.mark.group("rounds")
@pytest.mark.slow
def test_remarks_reach_the_settlement(tmp_path: Path) -> None:
    agreed = rounds.agreement("gaussian")
    sent = rounds.submissions(agreed, tmp_path, (4.0, 4.0), rows=600)
    table = {"y": rounds.table("gaussian", 600, 7)["y"] - 2.5}
    with mock.patch("equipoise.party.release.perturb", rounds.seeded(2)):
        odd = release(agreed, table, party="west", epsilon=4.0, ledger=tmp_path / "west.ledger")
    options: dict[str, Any] = {"seed": 0, "draws": 1_200, "precision": 0.2, "processes": 1}
    settlement = eq.mediate(agreed, [*sent, odd], rho=0.2, **options)
    assert "unlike the others" in {remark.kind for remark in settlement.remarks}
    # Worth more alone than together with the others, it gets its own posterior, and the remark says why that may be.
    settlement = eq.mediate(agreed, [*sent, odd], rho="max", **options)
    assert settlement.awards["west"].falls_back
    assert settlement.awards["west"].attained.value > settlement.value(*settlement.parties).value
    assert "unlike the others" in {remark.kind for remark in settlement.remarks}


def coded_thirds(
    agreed: eq.Agreement, tables: list[pd.DataFrame], folder: Path, seed: int, epsilon: float
) -> list[eq.Submission]:
    with mock.patch("equipoise.party.release.perturb", rounds.seeded(seed)):
        return [
            release(agreed, table, party=party, epsilon=epsilon, ledger=folder / f"{seed}-{party}", allow_clipping=True)
            for party, table in zip(agreed.party_names, tables, strict=True)
        ]


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_of_mixed_tables_honest_parties_are_not_accused(kind: Literal["linear", "logistic"], tmp_path: Path) -> None:
    """Random thirds of one table with levels, gaps, an ordinal around 0 and a transform."""
    features = coded.FEATURES.replace(", scores = [0, 1, 3]", "")  # whose codes are -1, 0 and 1
    agreed = coded.agreement(kind, features)
    accused = 0
    for seed in range(50):
        table, _ = coded.rows(kind, 900, np.random.default_rng(seed))
        thirds = [table.iloc[k::3].reset_index(drop=True) for k in range(3)]
        accused += bool(unlike_the_others(agreed, coded_thirds(agreed, thirds, tmp_path, seed, 64.0)))
    assert accused <= 1


@pytest.mark.statistical
@pytest.mark.parametrize("wrong", ["labels", "levels", "unit", "population"])
def test_of_mixed_tables_an_odd_party_is_noticed(wrong: str, tmp_path: Path) -> None:
    agreed = coded.agreement("logistic")
    for seed in range(3):
        tables = [coded.rows("logistic", 1_500, np.random.default_rng([seed, k]))[0] for k in range(3)]
        odd = tables[2]
        if wrong == "labels":
            odd["outcome"] = odd["outcome"].map({"yes": "no", "no": "yes"})
        elif wrong == "levels":
            odd["smoker"] = odd["smoker"].map({"yes": "no", "no": "yes"})
        elif wrong == "unit":
            odd["creatinine"] *= 8.8
        else:
            odd["region"] = np.where(np.arange(1_500) % 2, odd["region"], "abroad")
        remarks = unlike_the_others(agreed, coded_thirds(agreed, tables, tmp_path, seed, 2.0))
        assert [remark.parties for remark in remarks] == [("p2",)]
