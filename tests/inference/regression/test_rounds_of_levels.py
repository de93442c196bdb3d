"""Effects that rows were made with are found again, whatever the kinds of columns."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from unittest import mock

import numpy as np
import pandas as pd
import pytest

import coded
import equipoise as eq
import rounds

Kind = Literal["linear", "logistic"]


@pytest.fixture(autouse=True)
def repeatable_noise() -> Iterator[None]:
    with mock.patch("equipoise.party.release.perturb", rounds.seeded(0)):
        yield


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_the_weight_of_a_level_that_no_row_has_stays_free(kind: Kind, tmp_path: Path) -> None:
    table, truth = coded.rows(kind, 2_000, np.random.default_rng(0))
    agreement = coded.agreement(kind)
    sent = eq.release(
        agreement, table.assign(smoker="no", region="north"), party="p0", epsilon=4.0, ledger=tmp_path / "ledger"
    )
    posterior = eq.infer(agreement, [sent], draws=1_000)
    assert posterior.converged
    own = agreement.model.own_units(posterior.draws)
    assert own["weight[smoker=yes]"].std() > 1.0  # as before any data
    assert abs(own["weight[age]"].mean() - truth["weight[age]"]) < 3.5 * own["weight[age]"].std()


def test_numbers_that_are_not_normal_are_covered(tmp_path: Path) -> None:
    """Two uniform numbers with strong effects, of which numbers taken to be normal would be too sure."""
    rng = np.random.default_rng(5)
    values = rng.uniform(0, 100, size=(20_000, 2))
    predictor = (values - 50) @ np.array([0.08, -0.05])
    table = pd.DataFrame(values, columns=["a", "b"])
    table["outcome"] = np.where(rng.uniform(size=len(table)) < 1 / (1 + np.exp(-predictor)), "yes", "no")
    features = '{ name = "a", bounds = [0, 100] }, { name = "b", bounds = [0, 100] }'
    agreement = coded.agreement("logistic", features, parties=1)
    sent = eq.release(agreement, table, party="p0", epsilon=4.0, ledger=tmp_path / "ledger")
    own = agreement.model.own_units(eq.infer(agreement, [sent], draws=1_000).draws)
    for name, value in (("weight[a]", 0.08), ("weight[b]", -0.05)):
        assert abs(own[name].mean() - value) < 2.5 * own[name].std()


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_effects_are_those_that_rows_were_made_with(kind: Kind, tmp_path: Path) -> None:
    """A binary feature's log odds once came out several times too large, with an interval that did not say so."""
    agreement, rng = coded.agreement(kind), np.random.default_rng(1)
    tables = [coded.rows(kind, 6_000, rng) for _ in agreement.party_names]
    sent = [
        eq.release(agreement, table, party=party, epsilon=4.0, ledger=tmp_path / party)
        for party, (table, _) in zip(agreement.party_names, tables, strict=True)
    ]
    posterior = eq.infer(agreement, sent, draws=1_000)
    assert posterior.converged
    own = agreement.model.own_units(posterior.draws)
    errors = {name: (own[name].mean() - value) / own[name].std() for name, value in tables[0][1].items()}
    assert max(map(abs, errors.values())) < 3.5, errors
    assert own["weight[smoker=yes]"].std() < 0.3
