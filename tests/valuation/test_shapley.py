"""Exact Shapley values against games whose answer is known, brute force, and repeated noise."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from equipoise.estimate import Estimate
from equipoise.valuation.shapley import (
    ShapleyValues,
    exact_shapley,
    members,
    weights,
)


def game(parties: int, worth: Callable[[tuple[int, ...]], float]) -> list[float]:
    return [worth(members(coalition, parties)) for coalition in range(2**parties)]


def by_permutations(parties: int, worth: Callable[[tuple[int, ...]], float]) -> np.ndarray:
    total = np.zeros(parties)
    for order in itertools.permutations(range(parties)):
        for position, party in enumerate(order):
            before = tuple(sorted(order[:position]))
            total[party] += worth(tuple(sorted((*before, party)))) - worth(before)
    return total / math.factorial(parties)


def test_additive_game() -> None:
    own = [3.0, 0.0, 1.5, 2.0]
    np.testing.assert_allclose(exact_shapley(game(4, lambda c: sum(own[i] for i in c))).values, own)


def test_airport_game() -> None:
    """Each stretch of the runway is shared by those who need it."""
    lengths = [1.0, 4.0, 9.0, 10.0]
    shares = np.cumsum(np.diff([0.0, *lengths]) / np.arange(4, 0, -1))
    found = exact_shapley(game(4, lambda c: max((lengths[i] for i in c), default=0.0)))
    np.testing.assert_allclose(found.values, shares)


def test_glove_game() -> None:
    """One left glove, two right ones: the left one has two thirds."""
    found = exact_shapley(game(3, lambda c: float(0 in c and len(c) > 1)))
    np.testing.assert_allclose(found.values, [2 / 3, 1 / 6, 1 / 6])


def test_weighted_voting() -> None:
    """Quota 51 of (50, 49, 1): the smallest voter is as powerful as the second."""
    votes = [50, 49, 1]
    found = exact_shapley(game(3, lambda c: float(sum(votes[i] for i in c) >= 51)))
    np.testing.assert_allclose(found.values, [2 / 3, 1 / 6, 1 / 6])


@pytest.mark.parametrize("parties", [1, 2, 5, 6])
def test_any_game_equals_the_average_over_permutations(parties: int) -> None:
    table = np.random.default_rng(parties).uniform(0, 1, 2**parties) + np.array(
        [c.bit_count() for c in range(2**parties)]
    )
    table[0] = 0

    def worth(coalition: tuple[int, ...]) -> float:
        return float(table[sum(2**party for party in coalition)])

    found = exact_shapley(table)
    np.testing.assert_allclose(found.values, by_permutations(parties, worth))
    np.testing.assert_allclose(found.values.sum(), table[-1])


@pytest.mark.statistical
def test_errors_are_those_of_repeated_noise() -> None:
    rng = np.random.default_rng(0)
    truth = np.array([c.bit_count() ** 0.5 for c in range(16)])
    errors = rng.uniform(0.01, 0.1, 16)
    found = exact_shapley(truth, errors)
    repeated = np.stack([exact_shapley(truth + errors * rng.normal(size=16)).values for _ in range(20_000)])
    np.testing.assert_allclose(np.cov(repeated.T), found.covariance, rtol=0.05, atol=2e-5)
    np.testing.assert_allclose(repeated.std(axis=0), found.errors, rtol=0.03)


def test_rankings_use_the_dependence_of_errors() -> None:
    covariance = np.array([[1.0, 0.99], [0.99, 1.0]])
    values = ShapleyValues(np.array([2.0, 1.0]), covariance, Estimate(3.0, 0.0), np.zeros(2))
    assert values.probability_above(0, 1) > 0.999
    assert values[0].probability_above(values[1]) < 0.8
    assert values.probability_above(0, 1) + values.probability_above(1, 0) == pytest.approx(1)


def test_harm_is_said_as_it_is() -> None:
    """A party that costs others more than it is worth has a negative value, and nobody else's is moved for it."""
    found = exact_shapley([0.0, 1.0, 0.1, 0.2], [0.0, 0.1, 0.1, 0.1])
    np.testing.assert_allclose(found.values, [0.55, -0.35])
    np.testing.assert_allclose(found.values.sum(), 0.2)


def test_a_wrong_number_of_values_is_refused() -> None:
    with pytest.raises(ValueError, match="3 coalition values"):
        exact_shapley([0.0, 1.0, 2.0])


@pytest.mark.parametrize("parties", [1, 2, 5, 8])
def test_another_library_finds_the_same(parties: int) -> None:
    """shapiq's exact computer, on random games."""
    import shapiq

    values = np.random.default_rng(parties).normal(size=2**parties) + 10 * parties
    values[0] = 0.0

    def game(coalitions: np.ndarray) -> np.ndarray:
        return np.asarray(values[coalitions.astype(int) @ (1 << np.arange(parties))])

    theirs = shapiq.ExactComputer(n_players=parties, game=game)("SV")
    np.testing.assert_allclose(weights(parties) @ values, theirs.get_n_order_values(1), rtol=1e-10)
