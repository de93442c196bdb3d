"""What a settlement puts beside each reward for its party to use at home: the others' evidence, held back alike."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import equipoise as eq
from equipoise.estimate import Estimate
from equipoise.mediation.requests import Request
from equipoise.mediation.rewards import requests_for_others
from equipoise.valuation.divergence import divergence_between

NOTHING = Estimate(1.0, 0.1)


def test_the_others_are_asked_for_as_the_reward_is() -> None:
    whole = Request(("north", "south", "west"), 100, 1)
    made = {
        "north": (whole, NOTHING, ()),
        "south": (replace(whole, kappa=0.4), NOTHING, ()),
        "west": (replace(whole, tau=2.0, noise_seed="a" * 32), NOTHING, ()),
        "east": (replace(whole, kappa=0.0), NOTHING, ()),  # who is to get nothing
        "far": (Request(("far",), 100, 1), NOTHING, ()),  # who falls back
    }
    found = requests_for_others(3, 50, made)
    assert set(found) == {"north", "south", "west"}
    assert (found["north"].coalition, found["north"].kappa, found["north"].draws) == (("south", "west"), 1.0, 50)
    assert (found["south"].coalition, found["south"].kappa) == (("north", "west"), 0.4)
    assert (found["west"].coalition, found["west"].tau, found["west"].noise_seed) == (("north", "south"), 2.0, "a" * 32)
    assert len({one.seed for one in found.values()}) == 3


def test_rewards_of_a_settlement_carry_it(settled: eq.Settlement, sent: list[eq.Submission], out: Path) -> None:
    """The draws are those of the others' posterior at the reward's κ, and lie in the files, too."""
    for party, award in settled.awards.items():
        assert award.reward is not None
        drawn = award.reward.others
        if award.kappa == 1:  # nothing is held back, and the sum of the others' releases tells more than draws do
            assert drawn is None
            assert award.reward.sums is not None
            continue
        assert drawn is not None
        others = [name for name in settled.parties if name != party]
        again = eq.infer(settled.agreement, sent, coalition=others, kappa=award.kappa, draws=1_200, progress=False)
        assert again.coordinates is not None
        expected = again.coordinates.reshape(again.chains, -1, drawn.shape[2])
        assert abs(divergence_between(drawn, expected).value) < 0.1
    loaded = eq.Settlement.load(out)
    for party, award in loaded.awards.items():
        assert award.reward == settled.awards[party].reward


def test_a_settled_reward_is_combined_with_own_rows(settled: eq.Settlement) -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=200)
    table = {"x": x, "y": 0.5 + 0.8 * x + 0.5 * rng.normal(size=200)}
    reward = settled.awards["west"].reward
    assert reward is not None
    model = eq.combine(reward, table, other_rows=True)
    assert model.fits
    assert model.value.value > reward.value.value
    assert model.coef_[0] == pytest.approx(0.8, abs=0.15)
