"""ρ-Shapley targets: the formula, the bound of rationality, and errors."""

import numpy as np
import pytest

from equipoise.estimate import Estimate
from equipoise.reward.targets import rationality_bound, set_targets, stability_bound
from equipoise.valuation.shapley import exact_shapley, members

# Values of the coalitions of three parties, by bits: nobody, 1, 2, 12, 3, 13, 23, 123
GAME = np.array([0.0, 3.0, 3.5, 4.5, 5.0, 5.6, 5.8, 5.9])
ALONE = [Estimate(float(value), 0.0) for value in GAME[[1, 2, 4]]]


def exactly(*values: float) -> list[Estimate]:
    return [Estimate(value, 0.0) for value in values]


def test_the_best_contributor_gets_everything_and_the_rest_by_the_formula() -> None:
    shapley = exact_shapley(GAME)
    targets = set_targets(shapley, ALONE, 0.3)
    phi = shapley.values
    np.testing.assert_allclose(targets.values, 5.9 * (phi / phi.max()) ** 0.3)
    assert targets.values[2] == 5.9
    assert targets.rho == 0.3


def test_the_largest_rational_exponent_makes_somebody_indifferent() -> None:
    shapley = exact_shapley(GAME)
    targets = set_targets(shapley, ALONE, "max")
    assert targets.rational
    assert 0 < targets.rho < 1
    assert np.min(targets.values - GAME[[1, 2, 4]]) == pytest.approx(0, abs=1e-12)
    harder = set_targets(shapley, ALONE, targets.rho + 0.01)
    assert not harder.rational
    assert np.min(harder.values - GAME[[1, 2, 4]]) < 0
    assert set_targets(shapley, ALONE, targets.rho - 0.01).rational


def test_smaller_exponents_are_kinder() -> None:
    shapley = exact_shapley(GAME)
    kind, hard = (set_targets(shapley, ALONE, rho).values for rho in (0.2, 0.9))
    assert np.all(kind >= hard)


def test_equal_parties_get_everything() -> None:
    shapley = exact_shapley([0.0, 1.0, 1.0, 1.5])
    assert set_targets(shapley, exactly(1.0, 1.0), "max").values.tolist() == [1.5, 1.5]
    assert rationality_bound(shapley.values, exactly(1.0, 1.0), Estimate(1.5, 0.0)) == 1


def test_a_useless_party_gets_nothing() -> None:
    targets = set_targets(exact_shapley([0.0, 1.0, 0.0, 1.0]), exactly(1.0, 0.0), "max")
    assert targets.values.tolist() == [1.0, 0.0]
    assert targets.errors.tolist() == [0.0, 0.0]


def test_when_a_party_is_better_off_alone_no_exponent_will_do() -> None:
    game = [0.0, 2.0, 0.5, 1.8]  # the second party harms the first
    shapley = exact_shapley(game)
    with pytest.raises(ValueError, match="party 0 is worth 2 alone and all together 1.8"):
        set_targets(shapley, exactly(2.0, 0.5), "max")
    assert not set_targets(shapley, exactly(2.0, 0.5), 0.5).rational


@pytest.mark.statistical
def test_errors_are_those_of_repeated_noise() -> None:
    rng = np.random.default_rng(0)
    errors = np.array([0.0, 0.03, 0.05, 0.02, 0.04, 0.03, 0.02, 0.05])
    found = set_targets(exact_shapley(GAME, errors), ALONE, 0.3)
    repeated = np.stack(
        [set_targets(exact_shapley(GAME + errors * rng.normal(size=8)), ALONE, 0.3).values for _ in range(10_000)]
    )
    np.testing.assert_allclose(repeated.std(axis=0), found.errors, rtol=0.05)


@pytest.mark.parametrize("rho", [0.0, -1.0, 1.5])
def test_an_impossible_exponent_is_refused(rho: float) -> None:
    with pytest.raises(ValueError, match="rho"):
        set_targets(exact_shapley(GAME), ALONE, rho)


def test_nothing_to_share_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to share"):
        set_targets(exact_shapley([0.0, 0.0, 0.0, 0.0]), exactly(0.0, 0.0), "max")


def test_the_best_contributor_may_be_worth_more_alone_by_luck() -> None:
    phi, grand = np.array([3.0, 1.0]), Estimate(4.0, 0.1)
    assert rationality_bound(phi, [Estimate(4.1, 0.1), Estimate(0.5, 0.1)], grand) == 1.0
    assert rationality_bound(phi, [Estimate(4.5, 0.1), Estimate(0.5, 0.1)], grand) is None
    assert rationality_bound(phi, [Estimate(3.0, 0.1), Estimate(4.1, 0.1)], grand) is None


def test_a_stable_exponent_leaves_no_coalition_a_reason_to_go() -> None:
    """Checked against every coalition: at the bound its best member has just what the coalition is worth."""
    phi = exact_shapley(GAME).values
    coalitions = {frozenset(members(mask, 3)): Estimate(float(GAME[mask]), 0.0) for mask in range(1, 8)}
    bound = stability_bound(phi, coalitions, Estimate(5.9, 0.0))
    assert bound is not None
    assert 0 < bound < 1

    def margins(rho: float) -> list[float]:
        rewards = 5.9 * (phi / phi.max()) ** rho
        return [max(rewards[list(team)]) - worth.value for team, worth in coalitions.items()]

    assert min(margins(bound)) == pytest.approx(0, abs=1e-9)
    assert min(margins(1.1 * bound)) < 0
    alone = [coalitions[frozenset([party])] for party in range(3)]
    rational = rationality_bound(phi, alone, Estimate(5.9, 0.0))
    assert rational is not None
    assert bound <= rational  # a party alone is a coalition too
