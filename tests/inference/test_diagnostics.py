"""Diagnostics against ArviZ, and what they say about bad chains."""

import warnings

import numpy as np
import pytest
from scipy import stats

from equipoise.inference import diagnostics
from equipoise.inference.diagnostics import BFMI_LIMIT, diagnose, independent, settled

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import arviz


def autoregressive(seed: int, chains: int, length: int, memory: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(chains, length + 200))
    walk = np.zeros_like(noise)
    for t in range(1, noise.shape[1]):
        walk[:, t] = memory * walk[:, t - 1] + noise[:, t]
    return walk[:, 200:]


@pytest.mark.parametrize("memory", [-0.4, 0.0, 0.5, 0.95])
def test_agrees_with_arviz(memory: float) -> None:
    draws = np.stack([autoregressive(seed, 8, 300, memory) for seed in (1, 2)], axis=-1)
    draws[:, :, 1] = np.exp(draws[:, :, 1] / 3)  # a skewed coordinate
    for k in range(2):
        one = draws[:, :, k]
        assert diagnostics.rhat(draws)[k] == pytest.approx(float(arviz.rhat(one)), rel=1e-4)  # ties
        assert diagnostics.ess_bulk(draws)[k] == pytest.approx(float(arviz.ess(one)), rel=0.02)
        assert diagnostics.ess_tail(draws)[k] == pytest.approx(float(arviz.ess(one, method="tail")), rel=0.03)


def test_bfmi_agrees_with_arviz() -> None:
    energy = np.cumsum(autoregressive(3, 4, 400, 0.9), axis=1) * 0.1 + autoregressive(4, 4, 400, 0.0)
    np.testing.assert_allclose(diagnostics.bfmi(energy[:, None]), arviz.bfmi(energy), rtol=0.02)


def test_good_chains_are_relied_on() -> None:
    report, keep = diagnose(autoregressive(5, 16, 250, 0.2)[..., None])
    assert report.converged, report.problems
    assert list(keep) == list(range(16))
    assert "NOT" not in str(report)


def test_a_shifted_chain_is_noticed() -> None:
    draws = autoregressive(6, 8, 250, 0.2)
    draws[3] += 3
    report, _ = diagnose(draws[..., None])
    assert any("R-hat" in problem for problem in report.problems)
    assert "NOT converged" in str(report)


def test_chains_of_low_bfmi_are_dropped_and_reported() -> None:
    draws = autoregressive(7, 8, 300, 0.1)[..., None]
    energy = np.random.default_rng(8).normal(size=(8, 300))
    energy[2] = np.cumsum(energy[2])
    report, keep = diagnose(draws, energy=energy)
    assert report.dropped_chains == (2,)
    assert 2 not in keep
    assert report.bfmi is not None
    assert report.bfmi[2] < BFMI_LIMIT
    assert report.draws == 7 * 300
    assert report.converged


def test_a_chain_that_never_moved_is_dropped() -> None:
    draws = autoregressive(9, 8, 300, 0.1)[..., None]
    draws[5] = 0.1
    report, keep = diagnose(draws)
    assert report.dropped_chains == (5,)
    assert len(keep) == 7


def test_when_no_chain_is_good_nothing_is_relied_on() -> None:
    draws = autoregressive(10, 4, 300, 0.1)[..., None]
    energy = np.cumsum(np.random.default_rng(11).normal(size=(4, 300)), axis=1)
    report, keep = diagnose(draws, energy=energy)
    assert len(keep) == 4
    assert not report.converged
    assert any("BFMI" in problem for problem in report.problems)


def test_a_superchain_that_is_left_alone_is_not_relied_on() -> None:
    draws = autoregressive(10, 8, 300, 0.1)[..., None]
    energy = np.cumsum(np.random.default_rng(11).normal(size=(8, 300)), axis=1)
    energy[:2] = np.random.default_rng(12).normal(size=(2, 300))
    report, keep = diagnose(draws, energy=energy, superchains=4)
    np.testing.assert_array_equal(keep, [0, 1])
    assert not report.converged
    assert "R-hat is nan" in report.problems[0]


def test_divergences_and_few_draws_are_problems() -> None:
    draws = autoregressive(12, 4, 50, 0.0)[..., None]
    divergent = np.zeros((4, 50), bool)
    divergent[0, :30] = True
    report, _ = diagnose(draws, divergent=divergent)
    assert any("diverged" in problem for problem in report.problems)
    assert any("effective sample size" in problem for problem in report.problems)


def test_independent_draws_need_no_chains() -> None:
    assert independent(1_000, 3).converged
    assert not independent(100, 3).converged


def normal_scores(values: np.ndarray) -> np.ndarray:
    ranks = stats.rankdata(values.reshape(-1))
    return np.asarray(stats.norm.ppf((ranks - 0.375) / (len(ranks) + 0.25))).reshape(values.shape)


def test_nested_rhat_is_the_published_one_with_halves() -> None:
    draws = autoregressive(20, 12, 30, 0.6)
    found = []
    for values in (draws, np.abs(draws - np.median(draws))):
        groups = normal_scores(values).reshape(3, 4, 30)  # three superchains of four chains
        within = [
            np.mean([np.var(chain, ddof=1) for chain in group]) + np.var([chain.mean() for chain in group], ddof=1)
            for group in groups
        ]
        between = np.var([group.mean() for group in groups], ddof=1)
        drift = np.var([groups[:, :, :15].mean(), groups[:, :, 15:].mean()], ddof=1)  # ours, as in split R-hat
        found.append(np.sqrt(1 + max(between, drift) / np.mean(within)))
    assert diagnostics.nested_rhat(draws[..., None], 3)[0] == pytest.approx(max(found))


def test_many_short_chains_pass_by_superchains_and_not_by_themselves() -> None:
    draws = autoregressive(21, 64, 40, 0.4)[..., None]
    assert diagnostics.rhat(draws)[0] > 1.02
    report, keep = diagnose(draws, superchains=8)
    assert report.converged, report.problems
    assert len(keep) == 64


def test_superchains_that_remember_where_they_began_are_noticed() -> None:
    rng = np.random.default_rng(22)
    memory = 0.97 ** np.arange(40)  # of a start two deviations away
    starts = np.repeat(2 * rng.normal(size=8), 8)
    draws = (rng.normal(size=(64, 40)) + starts[:, None] * memory)[..., None]
    report, _ = diagnose(draws, superchains=8)
    assert any("R-hat" in problem for problem in report.problems)


def test_a_drift_of_all_superchains_is_noticed() -> None:
    draws = np.random.default_rng(23).normal(size=(64, 40)) + 0.95 ** np.arange(40)
    report, _ = diagnose(draws[..., None], superchains=8)
    assert any("R-hat" in problem for problem in report.problems)


def test_superchains_are_dropped_as_a_whole() -> None:
    rng = np.random.default_rng(24)
    energy = rng.normal(size=(64, 120))
    energy[8:16] = np.cumsum(rng.normal(size=(8, 120)), axis=1)
    draws = rng.normal(size=(64, 120, 1))
    draws[33] = 0.5  # never moved
    report, keep = diagnose(draws, energy=energy, superchains=8)
    assert report.dropped_chains == (*range(8, 16), *range(32, 40))
    assert len(keep) == 48
    _, keep = diagnose(draws[:, :20], superchains=8)
    assert len(keep) == 64  # so short a chain may have had bad luck, and its place is as likely as it is


@pytest.mark.parametrize(("chains", "superchains"), [(4, 4), (16, 16), (32, 8), (60, 60), (64, 8), (256, 8)])
def test_many_chains_are_compared_by_eight_superchains(chains: int, superchains: int) -> None:
    assert diagnostics.superchains_of(chains) == superchains


@pytest.mark.parametrize("fault", ["none", "a superchain elsewhere", "a drift of all", "not a number"])
def test_warm_up_has_settled_when_rounds_and_superchains_are_alike(fault: str) -> None:
    before, after = np.random.default_rng(0).normal(size=(2, 64, 10, 30))
    if fault == "a superchain elsewhere":
        after[:8, :, 3] += 2.0
    elif fault == "a drift of all":
        after[:, :, 3] += 0.5
    elif fault == "not a number":
        after[5, 2, 3] = np.nan
    assert settled(before, after, 8) == (fault == "none")


@pytest.mark.parametrize("superchains", [None, 8])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_draws_that_are_no_numbers_never_pass(bad: float, superchains: int | None) -> None:
    """One of thousands, and in one coordinate: it has a rank, and would hardly move any summary of ranks."""
    draws = np.stack([autoregressive(seed, 64, 100, 0.2) for seed in (1, 2)], axis=-1)
    assert diagnose(draws, superchains=8)[0].converged
    draws[5, 7, 1] = bad
    report, _ = diagnose(draws, superchains=superchains)
    assert np.isnan(report.rhat[1])
    assert not report.converged
