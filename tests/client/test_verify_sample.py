"""What `verify` refuses of a round whose coalitions were sampled: another sample, other Shapley values."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import equipoise as eq
import rounds
from equipoise.client.verify.settlement import SettledRound
from equipoise.errors import VerificationError
from equipoise.estimate import Estimate
from equipoise.party.release import release

pytestmark = [pytest.mark.engine, pytest.mark.slow]

PARTIES = 8


def settled_round(settlement: eq.Settlement) -> SettledRound:
    found = SettledRound.__new__(SettledRound)  # which would read an export
    found.settlement = settlement
    return found


@pytest.fixture(scope="module")
def settled(tmp_path_factory: pytest.TempPathFactory) -> tuple[eq.Settlement, list[eq.Submission]]:
    folder: Path = tmp_path_factory.mktemp("sampled")
    text = rounds.agreement("bernoulli").model_dump()
    text["parties"] = [{"name": f"p{place}"} for place in range(PARTIES)]
    agreed = eq.Agreement.model_validate(text)
    rng = np.random.default_rng(0)
    sent = [
        release(agreed, {"y": rng.integers(0, 2, 200)}, party=one, epsilon=2.0, ledger=folder / f"{one}.ledger")
        for one in agreed.party_names
    ]
    return eq.mediate(agreed, sent, draws=640, precision=0.3, processes=1, progress=False), sent


def test_a_sample_that_follows_from_the_seed_passes(settled: tuple[eq.Settlement, list[eq.Submission]]) -> None:
    settlement, sent = settled
    assert not settlement.exact
    settled_round(settlement).check_sample(sent)


def test_another_sample_is_refused(settled: tuple[eq.Settlement, list[eq.Submission]]) -> None:
    settlement, sent = settled
    fewer = replace(settlement, coalitions=settlement.coalitions[:-1])
    with pytest.raises(VerificationError, match="do not follow|not those that follow"):
        settled_round(fewer).check_sample(sent)
    other = replace(settlement, options=settlement.options | {"seed": settlement.options["seed"] + 1})
    with pytest.raises(VerificationError, match="not those that follow"):
        settled_round(other).check_sample(sent)


def test_other_shapley_values_are_refused(settled: tuple[eq.Settlement, list[eq.Submission]]) -> None:
    settlement, sent = settled
    one = settlement.shapley["p3"]
    made_up = {**settlement.shapley, "p3": Estimate(one.value + 0.05, one.error)}
    with pytest.raises(VerificationError, match="the Shapley value of p3"):
        settled_round(replace(settlement, shapley=made_up)).check_sample(sent)
    # Of some 0.003 nats; what other machines find may differ by 0.001.
    surer = {**settlement.shapley, "p3": Estimate(one.value, one.error / 10)}
    with pytest.raises(VerificationError, match="the Shapley value of p3"):
        settled_round(replace(settlement, shapley=surer)).check_sample(sent)
