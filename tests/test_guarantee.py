"""Readings of a guarantee agree with each other, with the literature and with an independent accountant."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from equipoise.errors import GuaranteeError
from equipoise.models.guarantee import (
    Guarantee,
    approx_dp,
    delta_of,
    epsilon_of,
    guess_of,
    guess_percent,
    guessing,
    zcdp_of,
)

zcdps = st.floats(1e-6, 20)
deltas = st.floats(1e-10, 0.1)


def test_figures_of_the_mathematics() -> None:
    """(2, 0.1)-RDP at δ = 1e-6 is 1.37 by the exact profile; the general zCDP conversion would give 1.47."""
    assert Guarantee(order=2, epsilon=0.1).epsilon_at(1e-6) == pytest.approx(1.3676, abs=5e-4)


@pytest.mark.parametrize(("epsilon", "zcdp"), [(0.1, 0.01), (1.0, 0.05), (1.0, 0.5), (3.0, 1.0), (0.01, 1e-4)])
def test_profile_is_the_hockey_stick_divergence(epsilon: float, zcdp: float) -> None:
    mu = math.sqrt(2 * zcdp)
    crossing = epsilon / mu + mu / 2
    integral = quad(lambda x: norm.pdf(x, mu) - math.exp(epsilon) * norm.pdf(x), crossing, crossing + 12)[0]
    assert delta_of(epsilon, zcdp) == pytest.approx(integral, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("zcdp", "delta"), [(0.05, 1e-6), (0.5, 1e-5), (0.005, 1e-9), (2.0, 1e-6)])
def test_epsilon_agrees_with_dp_accounting(zcdp: float, delta: float) -> None:
    """Explicit sensitivity: their REPLACE_ONE accountant would double it (docs/maths.md §7)."""
    distribution = pld.from_gaussian_mechanism(
        1 / math.sqrt(2 * zcdp), sensitivity=1.0, value_discretization_interval=1e-4
    )
    theirs = distribution.get_epsilon_for_delta(delta)
    assert epsilon_of(zcdp, delta) == pytest.approx(theirs, abs=2e-3)


@given(zcdp=zcdps)
def test_the_best_guess_is_half_the_total_variation_above_a_coins(zcdp: float) -> None:
    """δ(0) is the total variation; of continuous noise it is 2Φ(μ/2) − 1."""
    assert guess_of(zcdp) == pytest.approx(norm.cdf(math.sqrt(2 * zcdp) / 2), abs=1e-12)
    assert guess_of(zcdp) == pytest.approx(0.5 + delta_of(0.0, zcdp) / 2, abs=1e-15)
    assert guess_of(0.0) == 0.5
    assert guess_of(1e9) == 1.0
    assert guess_of(zcdp) < guess_of(1.1 * zcdp) or guess_of(zcdp) == 1


@pytest.mark.statistical
@pytest.mark.parametrize("zcdp", [0.025, 0.125, 0.5, 2.0])
def test_no_guess_on_discrete_noise_is_better(zcdp: float) -> None:
    """The likelihood-ratio rule, which is the best there is, on neighbours as far apart as sensitivity allows.

    Simulated with a scale of 300 steps, where the gap to continuous noise is 1e-6, and summed exactly with 12.
    """
    draws, scale = 400_000, 300.0
    shift = scale * math.sqrt(2 * zcdp)
    noise = np.rint(scale * np.random.default_rng(0).normal(size=(2, draws)))
    right = np.mean([np.mean(noise[0] < shift / 2), np.mean(noise[1] + shift > shift / 2)])
    assert right == pytest.approx(guess_of(zcdp), abs=5 * 0.5 / math.sqrt(2 * draws) + 0.002)
    # Exactly: the discrete Gaussian itself, at shifts of whole steps, no further apart than the guarantee says.
    places = np.arange(-400, 500)
    mass = np.exp(-(places**2) / (2 * 12.0**2))
    mass /= mass.sum()
    whole = math.floor(12.0 * math.sqrt(2 * zcdp))
    variation = 0.5 * np.abs(mass - np.roll(mass, whole)).sum()
    assert 0.5 + variation / 2 <= guess_of(zcdp) + 0.07 / 12.0**2


def test_what_people_read() -> None:
    """(ε, δ) and a sentence; Rényi ε = 1 alone would read as strong privacy."""
    weak, strong, none = Guarantee(2, 1.0), Guarantee(2, 0.25), Guarantee(2, 100.0)
    assert approx_dp(weak) == "(4.89, 1e-6)-DP"
    assert guess_percent(strong.zcdp) == "59.9 %"
    said = guessing(strong.zcdp)
    assert "By tossing a coin they are right 50 % of the time; with your release, at most 59.9 % of the time." in said
    assert "nearly always: your release hides single rows badly" in guessing(none.zcdp)
    assert guess_percent(0.0) == "50.0 %"


@pytest.mark.parametrize("order", [2.0, 10.0])
def test_renyi_agrees_with_dp_accounting(order: float) -> None:
    accountant = dp_accounting.rdp.RdpAccountant([order])
    accountant.compose(dp_accounting.GaussianDpEvent(noise_multiplier=3.0))
    zcdp = 1 / (2 * 3.0**2)
    assert Guarantee.from_zcdp(zcdp, order=order).epsilon == pytest.approx(accountant._rdp[0])


@pytest.mark.statistical
@given(zcdp=zcdps, delta=deltas)
def test_three_readings_are_one_guarantee(zcdp: float, delta: float) -> None:
    epsilon = epsilon_of(zcdp, delta)
    if epsilon > 0:
        assert zcdp_of(epsilon, delta) == pytest.approx(zcdp, rel=1e-6)


@given(zcdp=zcdps, factor=st.floats(1.01, 10), delta=deltas)
def test_more_zcdp_is_less_private(zcdp: float, factor: float, delta: float) -> None:
    assert epsilon_of(zcdp * factor, delta) >= epsilon_of(zcdp, delta)


@given(zcdp=zcdps, delta=deltas, factor=st.floats(1.5, 9))
def test_smaller_delta_is_larger_epsilon(zcdp: float, delta: float, factor: float) -> None:
    assert epsilon_of(zcdp, delta / factor) >= epsilon_of(zcdp, delta)


@pytest.mark.statistical
@given(epsilon=st.floats(0.01, 30), delta=deltas, order=st.floats(1.1, 64))
@example(epsilon=12.375, delta=1e-10, order=22.6875)  # where the lattice gap is about δ, and ε jumps
@example(epsilon=12.375, delta=1e-10, order=2.0)
def test_approx_guarantee_is_met_and_not_wasteful(epsilon: float, delta: float, order: float) -> None:
    guarantee = Guarantee.from_approx(epsilon, delta, order=order)
    assert guarantee.epsilon_at(delta) <= epsilon
    assert epsilon_of(guarantee.zcdp * (1 + 1e-6), delta) > epsilon  # hardly less noise would not do


def test_nothing_spent_is_epsilon_zero() -> None:
    assert epsilon_of(0.0) == 0.0


@pytest.mark.parametrize("zcdp", [30.0, 1e3, 1e6])
def test_hopeless_privacy_is_still_bounded(zcdp: float) -> None:
    """Where the lattice gap exceeds δ the general zCDP conversion takes over, and it is above ρ."""
    assert zcdp < epsilon_of(zcdp) < zcdp + 2 * math.sqrt(zcdp * 14) + 1


@pytest.mark.parametrize(
    ("order", "epsilon"),
    [(1, 1), (0.5, 1), (2, 0), (2, -1), (2, math.nan), (2, math.inf), (math.inf, 1), (math.nan, 1)],
)
def test_not_a_guarantee(order: float, epsilon: float) -> None:
    with pytest.raises(GuaranteeError, match="must be a"):
        Guarantee(order=order, epsilon=epsilon)


@pytest.mark.parametrize("delta", [0, 1, -1e-6, 2, math.nan])
def test_delta_out_of_range(delta: float) -> None:
    with pytest.raises(GuaranteeError, match="delta"):
        epsilon_of(0.1, delta)


@pytest.mark.parametrize("zcdp", [0, -1, math.nan, math.inf])
def test_zcdp_out_of_range(zcdp: float) -> None:
    with pytest.raises(GuaranteeError, match="zCDP"):
        Guarantee.from_zcdp(zcdp, order=2)


def test_uncertifiable_delta_says_so() -> None:
    with pytest.raises(GuaranteeError, match="larger delta"):
        zcdp_of(1e-17, 1e-300)
