"""Rounds that 0.6 refused or shared out by luck: a party of pure noise, and one that knows more alone than with all."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import equipoise as eq
import rounds
from equipoise.mediation.audit import audit
from equipoise.party.release import release
from equipoise.reward.targets import TargetPolicy, targets_from_values
from mediation.conftest import QUICK

pytestmark = [pytest.mark.engine, pytest.mark.group("rounds")]


def released(agreed: eq.Agreement, tables: list[Any], epsilons: list[float], folder: Path) -> list[eq.Submission]:
    folder.mkdir(exist_ok=True)
    with mock.patch("equipoise.party.release.perturb", rounds.seeded(0)):
        return [
            release(agreed, {"y": table}, party=party, epsilon=epsilon, ledger=folder / f"{party}.ledger")
            for party, table, epsilon in zip(agreed.party_names, tables, epsilons, strict=True)
        ]


@pytest.mark.parametrize(
    ("seed", "rho", "mechanism"),
    [
        (4, 0.2, "tempering"),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in ((0, "max", "tempering"), (2, 0.2, "noise"), (3, 1.0, "noise"))
        ),
    ],
)
def test_a_party_of_pure_noise(seed: int, rho: Any, mechanism: Any, tmp_path: Path) -> None:
    """Bernoulli, 200 and 400 rows at ε = 0.5, and noise: half of such rounds were refused."""
    agreed = rounds.agreement("bernoulli")
    rng = np.random.default_rng(seed)
    tables = [rng.integers(0, 10, rows) // 7 for rows in (200, 400, 300)]
    # At ε = 1e-6 such a release is worth 0.01 nats by itself, which some rounds can tell from nothing.
    sent = released(agreed, tables, [0.5, 0.5, 1e-8], tmp_path)
    options = {**QUICK, "precision": 0.05}
    settlement = eq.mediate(agreed, sent, seed=seed, rho=rho, mechanism=mechanism, folder=tmp_path / "out", **options)
    assert settlement.nothing == ("west",)
    award = settlement.awards["west"]
    assert abs(award.attained.value) < 0.1
    assert award.falls_back or (award.kappa, award.tau, award.target.value) == (0.0, 0.0, 0.0)
    least = award.alone.value if award.falls_back else 0.0
    assert settlement.targets_at(0.0)["west"] == settlement.targets_at(1.0)["west"] == least
    names = ("north", "south")
    values = [settlement.value(*(name for i, name in enumerate(names) if mask >> i & 1)) for mask in range(4)]
    without = targets_from_values(names, [names], values, TargetPolicy(rho, "alone", 0.05, 0.1))[1]
    for place, name in enumerate(names):
        difference = settlement.awards[name].target - without[place]
        assert abs(difference.z_score) < 3
    found = settlement.audit
    assert {one.code for one in found.failures} <= ({"P4"} if rho == 1.0 else set())  # which is more than is rational
    assert "may add nothing to any coalition" in found["F1"].reason
    assert eq.Settlement.load(tmp_path / "out") == settlement


def test_who_knows_more_alone_than_all_together_gets_its_own_posterior(tmp_path: Path) -> None:
    """All zeros here, all ones there: pooled, the posterior is wider than either. 0.6 refused to settle."""
    agreed = rounds.agreement("bernoulli", parties=2)
    sent = released(agreed, [np.zeros(200, int), np.ones(300, int)], [50.0, 50.0], tmp_path)
    settlement = eq.mediate(agreed, sent, folder=tmp_path / "out", **QUICK)
    assert [award.falls_back for award in settlement.awards.values()] == [True, True]
    for party, award in settlement.awards.items():
        assert award.target == award.alone == settlement.value(party)
        assert award.posterior.scenario.coalition == (party,)
        assert set(award.epsilons) == {party}
    found = settlement.audit
    assert {one.code for one in found.failures} == {"P2"}  # nobody wants what all know together
    assert "would be worth less with it than alone" in found["P2"].reason
    assert "its own posterior, as agreed" in found["P4"].reason
    loaded = eq.Settlement.load(tmp_path / "out")
    assert loaded == settlement
    # A mediator cannot say so of somebody who is entitled to a share, nor keep the fallback from who is not.
    shared = audit(_with(settlement, "north", falls_back=False))
    assert shared["P3"].verdict == "fails"
    strict = rounds.agreement("bernoulli", parties=2, reward='fallback = "shares"\nrho = 0.5')
    again = released(strict, [np.zeros(200, int), np.ones(300, int)], [50.0, 50.0], tmp_path / "strict")
    kept = eq.mediate(strict, again, **QUICK)
    assert not any(award.falls_back for award in kept.awards.values())
    assert kept.audit["P4"].verdict == "fails"


def _with(settlement: eq.Settlement, party: str, **changes: Any) -> eq.Settlement:
    return replace(settlement, awards=settlement.awards | {party: replace(settlement.awards[party], **changes)})
