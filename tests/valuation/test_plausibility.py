"""Plausibility: honest parties pass, odd ones are remarked upon."""

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import stats

import equipoise as eq
import rounds
from equipoise.inference.infer import infer
from equipoise.inference.predictive import rows_of_posterior
from equipoise.inference.problem import model_of
from equipoise.party.release import release
from equipoise.valuation.plausibility import (
    SUSPICIOUS,
    impossible_magnitudes,
    near_duplicates,
    predictive_probability,
    unlikely_party,
)


@pytest.mark.engine
@pytest.mark.group("rounds")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "linear" else pytest.mark.slow) for kind in sorted(rounds.MODELS)]
)
def test_moments_of_a_row_are_those_of_the_table(kind: str, tmp_path: Path) -> None:
    """With little noise, the posterior's rows have the means of the rows that were released."""
    agreed = rounds.agreement(kind)
    sent = rounds.submissions(agreed, tmp_path, (100.0,), rows=3_000)
    posterior = infer(agreed, sent, draws=1_000)
    mean, covariance = rows_of_posterior(*model_of(agreed), posterior, 0, np.arange(0, len(posterior), 20))
    released = np.array(sent[0].values(agreed)) / sent[0].count
    spread = np.sqrt(np.diagonal(covariance.mean(axis=0)) / 3_000)
    np.testing.assert_allclose(mean.mean(axis=0), released, atol=float(6 * spread.max() + 0.01))
    assert np.linalg.eigvalsh(covariance.mean(axis=0)).min() > -1e-9


@pytest.mark.engine
@pytest.mark.group("rounds")
@pytest.mark.slow
def test_honest_parties_have_ordinary_p_values(tmp_path: Path) -> None:
    """Over repeated rounds they are spread out; a posterior-predictive p-value is a little too central at worst."""
    agreed = rounds.agreement("gaussian")
    found = []
    for seed in range(30):
        sent = rounds.submissions(agreed, tmp_path / str(seed), (4.0, 2.0, 2.0), seed=10 * seed)
        others = infer(agreed, sent[:2], draws=1_000)
        found.append(predictive_probability(agreed, others, sent[2]))
    assert stats.kstest(found, "uniform").pvalue > 0.001
    assert min(found) > SUSPICIOUS


@pytest.mark.engine
@pytest.mark.group("rounds")
@pytest.mark.parametrize("kind", rounds.models("linear", "logistic", "gaussian", "poisson"))
def test_a_party_with_other_units_is_noticed(kind: str, tmp_path: Path) -> None:
    agreed = rounds.agreement(kind)
    sent = rounds.submissions(agreed, tmp_path, (4.0, 4.0), rows=600)
    table = rounds.table(kind, 600, 7)
    if kind == "logistic":
        table["y"] = ["no" if label == "yes" else "yes" for label in table["y"]]
    else:
        table["y"] = table["y"] * 0.3 if kind != "poisson" else table["y"] * 3
    with mock.patch("equipoise.party.release.perturb", rounds.seeded(3)):
        odd = release(agreed, table, party="west", epsilon=4.0, ledger=tmp_path / "west.ledger")
    probability = predictive_probability(agreed, infer(agreed, sent, draws=1_000), odd)
    assert probability < SUSPICIOUS
    remark = unlikely_party("west", probability)
    assert remark is not None
    assert "west" in remark.message
    assert unlikely_party("west", 0.5) is None


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
    options: dict[str, Any] = {"draws": 1_200, "precision": 0.2, "processes": 1}
    settlement = eq.mediate(agreed, [*sent, odd], rho=0.2, **options)
    assert "unlike the others" in {remark.kind for remark in settlement.remarks}
    # Such a party can be worth more alone than together with the others; the refusal says what may be behind it.
    with pytest.raises(eq.MediationError, match=r"west is worth .* alone .* hard to reconcile"):
        eq.mediate(agreed, [*sent, odd], rho="max", **options)
