"""The best attacks on rewards, where they are known exactly, and broken mechanisms that they must undo."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from equipoise.reward.evidence import Normal
from statistical.reward_attacks import BROKEN, MECHANISMS, Attack, Gain, Laboratory, attack
from statistical.reward_reports import Told, measure

pytestmark = pytest.mark.statistical

EXACTLY = 0.01  # nats, to which numbers in reports are rounded
LIMIT = 0.1  # nats; what the best attack may gain
ALONE = ("one recipient", "one recipient, with own rows", "two settlements", "two settlements, with own rows")


def worst(found: dict[str, Gain]) -> float:
    """The most that is gained: by one over the reward as given, by colluders over what they may tell each other."""
    return max(gain.given if case in ALONE else gain.allowed for case, gain in found.items())


@pytest.mark.parametrize(("seed", "dimensions", "parties"), [(0, 3, 5), (1, 1, 3), (2, 6, 3)])
def test_nobody_gains_on_degraded_rewards(seed: int, dimensions: int, parties: int) -> None:
    found = attack(MECHANISMS["degraded"], seed=seed, dimensions=dimensions, parties=parties)
    assert worst(found) < 1e-6
    assert all(abs(found[case].given) < 1e-6 and abs(found[case].loss) < 1e-6 for case in ALONE)
    assert found["every pair"].given > LIMIT  # what colluders' own releases are worth, which nothing can prevent


@pytest.mark.parametrize("name", BROKEN)
def test_broken_mechanisms_are_undone(name: str) -> None:
    assert worst(attack(BROKEN[name])) > LIMIT


def test_tempering_is_undone_by_one_recipient_and_noise_by_two() -> None:
    tempered, noised = attack(MECHANISMS["tempering"]), attack(MECHANISMS["noise"])
    assert tempered["one recipient"].given == pytest.approx(0.572, abs=0.001)  # as in docs/attacks.md
    assert tempered["one recipient, with own rows"].given == pytest.approx(0.400, abs=0.001)
    assert noised["one recipient, with own rows"].given < 1e-6
    assert noised["one recipient"].given == pytest.approx(0.502, abs=0.001)  # its own release, with no noise
    assert noised["every pair"].allowed == pytest.approx(0.146, abs=0.001)
    assert noised["two settlements"].allowed == pytest.approx(0.144, abs=0.001)


def test_who_divides_by_kappa_has_the_whole_posterior() -> None:
    lab = Laboratory()
    attempt = Attack(lab, MECHANISMS["tempering"], [0.3, 0.4, 0.5, 0.6])
    reward = attempt.first[0]
    sharpened = [
        (natural * (1 + reward.amount), precision * (1 + reward.amount)) for natural, precision in reward.parts
    ]
    whole = lab.score(reward.belief(dict(enumerate(sharpened))))
    assert whole == pytest.approx(lab.score(lab.best(lab.releases)))
    assert whole - lab.score(reward.belief()) == pytest.approx(attempt.gain([0]).given)


@pytest.mark.parametrize("factor", [1.25, 1.5, 2.0, 4.0])
def test_who_counts_the_others_of_a_degraded_reward_more_loses(factor: float) -> None:
    lab = Laboratory()
    for reward in Attack(lab, MECHANISMS["degraded"], [0.3, 0.4, 0.5, 0.6]).first:
        others = {j: (factor * one, factor * two) for j, (one, two) in enumerate(reward.parts) if j != reward.recipient}
        assert lab.score(reward.belief(others)) < lab.score(reward.belief())


def test_the_laboratory_itself() -> None:
    """Scores and conditional distributions, against draws of everything."""
    lab = Laboratory(dimensions=2, parties=3)
    reward = Attack(lab, MECHANISMS["degraded"], [0.3, 0.5, 0.7]).first[0]
    belief, best = reward.belief(), lab.best([lab.releases[0], *reward.held])
    np.testing.assert_allclose(best.mean, belief.mean, atol=1e-9)
    np.testing.assert_allclose(best.covariance, belief.covariance, atol=1e-9)
    normals = np.random.default_rng(0).normal(size=(lab.theta.shape[1], 20_000))
    missed = lab.theta @ normals - belief.mean @ normals
    scores = -0.5 * np.einsum("in,ij,jn->n", missed, np.linalg.inv(belief.covariance), missed)
    scores -= 0.5 * np.linalg.slogdet(2 * np.pi * belief.covariance)[1]
    assert scores.mean() == pytest.approx(lab.score(belief), abs=0.03)


def test_reports_of_degraded_rewards_leave_out_what_would_take_noise_away() -> None:
    """The team's value, or the curve with less noise, would tell more than may be; the search for τ tells little."""
    told = {
        "whole": Told(whole=EXACTLY),
        "curve": Told(curve=EXACTLY),
        "search": Told(search=True),  # what is left, where the exponent is not told
    }
    found = {name: float(np.mean(values)) for name, values in measure(told, rounds=60, number=2_000).items()}
    assert found["withheld"] > 0.7
    assert min(found["whole"], found["curve"]) > LIMIT
    assert abs(found["search"]) < 0.5 * LIMIT


@pytest.mark.slow
@pytest.mark.engine
def test_attacks_on_real_settlements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tempered rewards give the team's posterior away; degraded ones hold the party's own release whole already."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from mechanisms import PARTIES, ROWS, Truth, agreement
    from reward_attacks import WHOLE, recipients

    truth = Truth("bernoulli", 0)
    tables = dict(zip(PARTIES, map(truth.table, ROWS), strict=True))
    found = list(recipients(agreement("bernoulli"), tables, ("tempering", "degraded")))
    assert {one.mechanism for one in found} == {"tempering", "degraded"}
    for one in found:
        if one.mechanism == "tempering":
            assert divergence(one.made[WHOLE], one.made["divided by κ"]) < 0.1
        else:
            assert divergence(one.made["as given"], one.made["own release whole"]) < 0.1


@pytest.mark.engine
def test_truths_of_the_attacked_shares_are_draws_of_the_agreed_prior(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prior is uniform; truths between 0.1 and 0.9 would fail."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from mechanisms import agreement
    from reward_attacks import PriorTruth

    agreed = agreement("bernoulli")
    truths = [PriorTruth(agreed, number) for number in range(200)]
    shares = np.array([truth.share for truth in truths])
    assert stats.kstest(shares, stats.uniform.cdf).pvalue > 0.001
    assert shares.min() < 0.1
    assert shares.max() > 0.9
    cells = truths[0].table(20_000)["y"]
    assert np.mean(cells) == pytest.approx(truths[0].share, abs=0.02)


def divergence(first: Normal, second: Normal) -> float:
    """KL(first ‖ second), in nats."""
    inverse = np.linalg.inv(second.covariance)
    missed = second.mean - first.mean
    logs = np.linalg.slogdet(second.covariance)[1] - np.linalg.slogdet(first.covariance)[1]
    return float(0.5 * (np.trace(inverse @ first.covariance) + missed @ inverse @ missed - len(missed) + logs))
