"""ρ-Shapley targets: the formula, who counts, the margin of ρ = "max", the fallback, and errors."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from equipoise.estimate import Estimate
from equipoise.reward.targets import (
    TargetInputs,
    TargetPolicy,
    Targets,
    set_targets,
    stability_bound,
    targets_from_shapley,
    targets_from_values,
)
from equipoise.valuation.shapley import exact_shapley, members

# Values of the coalitions of three parties, by bits: nobody, 1, 2, 12, 3, 13, 23, 123
GAME = np.array([0.0, 3.0, 3.5, 4.5, 5.0, 5.6, 5.8, 5.9])
ALONE = GAME[[1, 2, 4]]
HARM = [0.0, 2.0, 0.5, 1.8]  # the second party harms the first


def targets_of(
    values: Sequence[float] | np.ndarray, rho: Any, errors: float | Sequence[float] | np.ndarray = 0.0, **terms: Any
) -> Targets:
    number = len(values).bit_length() - 1
    names = [f"p{place}" for place in range(number)]
    spread = np.broadcast_to(errors, len(values)) * (np.arange(len(values)) > 0)
    estimates = [Estimate(float(value), float(error)) for value, error in zip(values, spread, strict=True)]
    return targets_from_values(names, [names], estimates, TargetPolicy(rho, **terms))[1]


def test_the_best_contributor_gets_everything_and_the_rest_by_the_formula() -> None:
    phi = exact_shapley(GAME).values
    targets = targets_of(GAME, 0.3)
    np.testing.assert_allclose(targets.values, 5.9 * (phi / phi.max()) ** 0.3)
    assert targets.values[2] == 5.9
    assert targets.rho == 0.3
    assert not targets.nothing.any()


def test_the_largest_rational_exponent_makes_somebody_indifferent_if_all_is_known() -> None:
    targets = targets_of(GAME, "max")
    assert 0 < targets.rho < 1
    assert targets.rho == targets.rational_rho
    assert np.min(targets.values - ALONE) == pytest.approx(0, abs=1e-12)
    assert np.min(targets_of(GAME, targets.rho + 0.01).values - ALONE) < 0


def test_a_margin_is_kept_for_errors_and_tolerance() -> None:
    """Nobody's target is within two errors and the tolerance of its value alone, unless there is less to be had."""
    targets = targets_of(GAME, "max", errors=0.02, precision=0.03, tolerance=0.06)
    margin = 0.06 + 2 * np.hypot(0.02, 0.03)
    assert np.min(targets.values - ALONE) == pytest.approx(margin, abs=1e-9)
    assert targets.rho < (targets.rational_rho or 0)
    assert targets.close.tolist() == [False, False, False]
    assert targets_of(GAME, targets.rational_rho, errors=0.02, precision=0.03, tolerance=0.06).close.any()
    little = targets_of([0.0, 1.95, 1.9, 2.05], "max", errors=0.002, precision=0.05, tolerance=0.1)
    assert little.values[1] == pytest.approx(1.975)  # half of 0.15, where the margin would be 0.2


def test_who_counts_does_not_turn_on_a_coarse_precision() -> None:
    """An operator who asks for 5 nats could have everybody but the best counted as bringing nothing."""
    coarse = targets_of(GAME, "max", errors=0.02, precision=5.0, tolerance=10.0)
    usual = targets_of(GAME, "max", errors=0.02, precision=0.05, tolerance=0.1)
    assert not coarse.nothing.any()
    np.testing.assert_array_equal(coarse.values, usual.values)


def test_smaller_exponents_are_kinder() -> None:
    kind, hard = (targets_of(GAME, rho).values for rho in (0.2, 0.9))
    assert np.all(kind >= hard)


def test_equal_parties_get_everything() -> None:
    targets = targets_of([0.0, 1.0, 1.0, 1.5], "max")
    assert targets.values.tolist() == [1.5, 1.5]
    assert targets.rational_rho == 1


def test_a_useless_party_gets_nothing() -> None:
    targets = targets_of([0.0, 1.0, 0.0, 1.0], "max")
    assert targets.values.tolist() == [1.0, 0.0]
    assert targets.errors.tolist() == [0.0, 0.0]
    assert targets.nothing.tolist() == [False, True]


@pytest.mark.parametrize("luck", [-0.02, -0.001, 0.001, 0.02])
@pytest.mark.parametrize("rho", [0.05, 0.2, 1.0, "max"])
def test_luck_of_a_useless_party_moves_nobody(luck: float, rho: Any) -> None:
    """Its Shapley value is a few thousandths either way; at a small ρ that was a third of everything, or a refusal."""
    without = targets_of([0.0, 1.1, 1.6, 2.5], rho, errors=0.02, precision=0.05, tolerance=0.1)
    game = [0.0, 1.1, 1.6, 2.5, luck / 2, 1.1 + luck, 1.6, 2.5 + luck / 2]
    found = targets_of(game, rho, errors=0.02, precision=0.05, tolerance=0.1)
    assert found.nothing.tolist() == [False, False, True]
    assert found.values[2] == 0
    assert not found.falls_back.any()
    assert np.all(np.abs(found.values[:2] - without.values) <= 2 * np.hypot(found.errors[:2], without.errors))


@pytest.mark.parametrize("rho", [0.3, "max"])
def test_harm_moves_nobody_else_and_falls_back_to_its_own_posterior(rho: Any) -> None:
    """Paper's repair would move everybody's share; who is worth something alone keeps that."""
    game = [0.0, 2.0, 1.5, 3.0, 0.4, 1.0, 0.5, 2.0]  # the third costs everybody about 1
    found = targets_of(game, rho, errors=0.02)
    assert found.nothing.tolist() == [False, False, True]
    assert found.falls_back.tolist()[2]
    assert found.values[2] == 0.4
    shares = targets_of(game, rho, errors=0.02, fallback="shares")
    assert shares.values[2] == 0
    assert not shares.falls_back.any()
    assert found.rational_rho is None


def test_who_knows_more_alone_than_all_together_keeps_it_and_the_rest_share() -> None:
    targets = targets_of(HARM, "max", errors=0.01)
    assert targets.falls_back.tolist() == [True, False]
    assert targets.values.tolist() == [2.0, 1.8]  # somebody still gets all
    assert targets_of(HARM, 0.5, errors=0.01, fallback="shares").values[0] == pytest.approx(1.8)


def test_the_best_contributor_may_be_worth_more_alone_by_luck() -> None:
    targets = targets_of([0.0, 4.1, 0.9, 4.0], "max", errors=0.1)
    assert not targets.falls_back.any()
    assert targets.values[0] == 4.0


def test_where_nobody_brings_anything_all_get_what_there_is() -> None:
    targets = targets_of([0.0, 0.002, -0.003, 0.001], "max", errors=0.01)
    assert targets.nothing.all()
    assert targets.values.tolist() == [0.001, 0.001]
    targets = targets_of([0.0] * 4, 0.5)
    assert targets.values.tolist() == [0.0, 0.0]


def test_teams_share_what_each_is_worth() -> None:
    names = ["p0", "p1", "p2"]
    values = [Estimate(float(value), 0.0) for value in GAME]
    shapley, targets = targets_from_values(names, [["p0", "p1"], ["p2"]], values, TargetPolicy(0.5))
    phi = shapley.values
    np.testing.assert_allclose(targets.values, [4.5 * (phi[0] / phi[1]) ** 0.5, 4.5, 5.0])


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.3, "max"])
def test_errors_are_those_of_repeated_noise(rho: Any) -> None:
    """The exponent, which depends on the values too, included."""
    rng = np.random.default_rng(0)
    errors = np.array([0.0, 0.03, 0.05, 0.02, 0.04, 0.03, 0.02, 0.05])
    terms: dict[str, Any] = {"errors": errors, "precision": 0.05, "tolerance": 0.1}
    found = targets_of(GAME, rho, **terms)
    repeated = np.stack([targets_of(GAME + errors * rng.normal(size=8), rho, **terms).values for _ in range(300)])
    np.testing.assert_allclose(repeated.std(axis=0), found.errors, rtol=0.2)  # ± 4 % by the number of repetitions


@pytest.mark.statistical
def test_errors_near_nothing_are_not_those_of_slopes() -> None:
    """φ at three and a half errors from 0, ρ = 0.2: slopes at the estimate would be off."""
    game, errors = [0.0, 2.0, 0.1, 2.1], [0.0, 0.035, 0.04, 0.0]
    found = targets_of(game, 0.2, errors=errors)
    assert not found.nothing.any()
    rng = np.random.default_rng(1)
    own, other = 0.04 * rng.normal(size=400_000), 0.035 * rng.normal(size=400_000)
    small, large = 0.1 + (own - other) / 2, 2.0 + (other - own) / 2
    truth = (2.1 * np.clip(small / large, 0, 1) ** 0.2).std()
    assert found.errors[1] == pytest.approx(truth, rel=0.1)


@pytest.mark.parametrize("rho", [0.0, -1.0, 1.5])
def test_an_impossible_exponent_is_refused(rho: float) -> None:
    with pytest.raises(ValueError, match="rho"):
        TargetPolicy(rho)


def test_a_sampled_game_is_decided_alike() -> None:
    """From Shapley values and their covariance instead of all values."""
    names = ["p0", "p1", "p2"]
    errors = np.full(8, 0.02) * (np.arange(8) > 0)
    values = [Estimate(float(value), float(error)) for value, error in zip(GAME, errors, strict=True)]
    terms = TargetPolicy("max", precision=0.05, tolerance=0.1)
    shapley, whole = targets_from_values(names, [names], values, terms)
    again = targets_from_shapley(
        names, [names], shapley, [values[1 << place] for place in range(3)], [values[-1]], terms
    )
    np.testing.assert_allclose(again.values, whole.values)
    assert again.rho == whole.rho


def test_a_stable_exponent_leaves_no_coalition_a_reason_to_go() -> None:
    """Checked against every coalition: at the bound its best member has just what the coalition is worth."""
    phi = exact_shapley(GAME).values
    coalitions = {frozenset(members(mask, 3)): Estimate(float(GAME[mask]), 0.0) for mask in range(1, 8)}
    bound = stability_bound(dict(enumerate(phi.tolist())), coalitions, Estimate(5.9, 0.0))
    assert bound is not None
    assert 0 < bound < 1

    def margins(rho: float) -> list[float]:
        rewards = 5.9 * (phi / phi.max()) ** rho
        return [max(rewards[list(team)]) - worth.value for team, worth in coalitions.items()]

    assert min(margins(bound)) == pytest.approx(0, abs=1e-9)
    assert min(margins(1.1 * bound)) < 0
    rational = targets_of(GAME, "max").rational_rho
    assert rational is not None
    assert bound <= rational  # a party alone is a coalition too


def test_two_who_know_more_alone_leave_all_to_the_rest() -> None:
    """The best of those who stay gets the whole posterior."""
    found = targets_of([0.0, 2.25, 2.5, 1.72, 0.84, 2.95, 0.93, 2.0], 0.8, errors=0.01)
    assert found.falls_back.tolist() == [True, True, False]
    assert found.values.tolist() == [2.25, 2.5, 2.0]
    assert found.whole.tolist() == [False, False, True]


def test_who_brings_nothing_gets_no_whole_where_that_is_worth_nothing() -> None:
    found = targets_of([0.0, 1.2, 0.0, 0.6, 2.0, 0.3, 1.9, -0.01], 0.5, errors=0.02, fallback="shares")
    assert np.all(found.values >= 0)
    assert not (found.whole & found.nothing).any()


@pytest.mark.statistical
@pytest.mark.slow
def test_errors_include_who_cannot_gain() -> None:
    """The second party's gain is about two errors: in half of all rounds it falls back, and ρ is another."""
    game, rng = np.array([0.0, 4.0, 4.915, 4.8, 2.0, 5.6, 4.2, 5.0]), np.random.default_rng(0)
    found = targets_of(game, "max", errors=0.03, precision=0.05, tolerance=0.1)
    spread = 0.03 * (np.arange(8) > 0)
    again = [
        targets_of(game + spread * rng.normal(size=8), "max", errors=0.03, precision=0.05, tolerance=0.1).values[2]
        for _ in range(300)
    ]
    assert found.errors[2] == pytest.approx(np.std(again), rel=0.25)


@pytest.mark.parametrize("number", [3, 600])
def test_slopes_are_derivatives(number: int) -> None:
    """Of v (φ / max φ)^ρ, whether they are told by simulated errors or, of many parties, by differences."""
    rng, rho = np.random.default_rng(0), 0.3
    shapley = np.sort(rng.uniform(1.0, 2.0, number))
    shapley[-1] = 3.0
    errors = np.full(2 * number + 1, 0.01)
    one = np.zeros(number, int)
    stakes = TargetInputs(shapley, np.full(number, 0.1), np.array([40.0]), one, np.diag(errors**2))
    ratio = shapley / shapley[-1]
    expected = np.zeros((number, 2 * number + 1))
    expected[:, :number] = np.diag(40.0 * rho * ratio**rho / shapley)
    expected[:, number - 1] -= 40.0 * rho * ratio**rho / shapley[-1]
    expected[:, -1] = ratio**rho
    found = set_targets(stakes, TargetPolicy(rho)).slopes
    np.testing.assert_allclose(found, expected, atol=0.02 * expected.max())
