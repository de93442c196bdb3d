"""Sampled Shapley values: against exact ones, with errors that are true, within a budget that is kept."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from equipoise.estimate import Estimate
from equipoise.valuation.sampling import Coalition, sampled_shapley, smallest_budget
from equipoise.valuation.shapley import exact_shapley

Floats = NDArray[np.float64]


class SurpriseGame:
    """Bayesian surprise of a normal posterior, ½(log|P| + tr P⁻¹ + |m_C|² − d) with P = I + the parties' informations.

    `proxy` knows the informations but not the data: it leaves out |m_C|².
    """

    def __init__(self, parties: int, seed: int, *, error: float = 0.0) -> None:
        rng = np.random.default_rng(seed)
        self.parties, self.dimension, self.error = parties, 4, error
        rows = rng.integers(3, 200, parties)
        self.information = []
        self.pull = []
        truth = rng.normal(size=self.dimension)
        for count in rows:
            x = rng.normal(size=(count, self.dimension))
            noise = rng.uniform(1, 20)
            self.information.append(x.T @ x / noise)
            self.pull.append(x.T @ (x @ truth + np.sqrt(noise) * rng.normal(size=count)) / noise)
        self.asked: list[Coalition] = []
        self._rng = np.random.default_rng(seed + 1)

    def value(self, coalition: Sequence[int], *, with_data: bool = True) -> float:
        precision = np.eye(self.dimension) + sum((self.information[i] for i in coalition), np.zeros((4, 4)))
        pull = sum((self.pull[i] for i in coalition), np.zeros(4))
        mean = np.linalg.solve(precision, pull)
        found = np.linalg.slogdet(precision)[1] + np.trace(np.linalg.inv(precision)) - self.dimension
        return float(0.5 * (found + (mean @ mean if with_data else 0.0)))

    def proxy(self, inside: NDArray[np.bool_]) -> Floats:
        return np.array([self.value(np.flatnonzero(row).tolist(), with_data=False) for row in inside])

    def evaluate(self, coalitions: Sequence[Coalition]) -> list[Estimate]:
        self.asked += coalitions
        noise = self.error * self._rng.normal(size=len(coalitions))
        return [Estimate(self.value(sorted(c)) + n, self.error) for c, n in zip(coalitions, noise, strict=True)]

    def exact(self) -> Floats:
        every = [self.value([i for i in range(self.parties) if mask >> i & 1]) for mask in range(2**self.parties)]
        return exact_shapley(every).values


def relative_error(found: Floats, truth: Floats) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


@pytest.mark.statistical
@pytest.mark.slow
def test_twelve_parties_and_two_hundred_evaluations() -> None:
    """Relative error below 0.06, where marginal contributions along permutations leave several times as much."""
    ours, by_permutations = [], []
    for seed in range(5):
        game = SurpriseGame(12, seed)
        truth = game.exact()
        found = sampled_shapley(12, game.evaluate, 200, proxy=game.proxy, seed=seed)
        assert found.evaluations <= 200
        ours.append(relative_error(found.shapley.values, truth))
        by_permutations.append(relative_error(permutation_sampling(game, 200, seed), truth))
    assert max(ours) < 0.06
    assert np.mean(by_permutations) > 4 * np.mean(ours)


def permutation_sampling(game: SurpriseGame, budget: int, seed: int) -> Floats:
    """The textbook estimator: marginal contributions along random orders until the distinct evaluations are spent."""
    rng = np.random.default_rng(seed)
    total, orders = np.zeros(game.parties), 0
    seen: set[Coalition] = set()
    while len(seen) < budget:
        before: Coalition = frozenset()
        for party in rng.permutation(game.parties):
            after = before | {int(party)}
            seen.add(after)
            total[party] += game.value(sorted(after)) - game.value(sorted(before))
            before = after
        orders += 1
    return total / orders


@pytest.mark.statistical
@pytest.mark.slow
def test_without_a_proxy_it_is_unbiased_and_its_errors_are_true() -> None:
    game = SurpriseGame(7, 3, error=0.05)
    truth = game.exact()
    found = [sampled_shapley(7, game.evaluate, 60, seed=seed).shapley for seed in range(200)]
    values = np.stack([one.values for one in found])
    errors = np.stack([one.errors for one in found])
    spread = values.std(axis=0)
    assert np.all(np.abs(values.mean(axis=0) - truth) < 4 * spread / np.sqrt(200))
    ratio = np.sqrt(np.mean(errors**2, axis=0)) / spread
    assert np.all((ratio > 0.7) & (ratio < 1.6)), ratio


def test_all_coalitions_give_the_exact_values() -> None:
    game = SurpriseGame(5, 4)
    found = sampled_shapley(5, game.evaluate, 1_000)
    assert found.evaluations == 2**5 - 1
    np.testing.assert_allclose(found.shapley.values, game.exact())
    np.testing.assert_allclose(found.shapley.errors, 0, atol=1e-12)


def test_when_all_are_evaluated_only_their_errors_remain() -> None:
    game = SurpriseGame(6, 4, error=0.1)
    found = sampled_shapley(6, game.evaluate, 1_000).shapley
    every = np.full(64, 0.1)
    every[0] = 0.0
    np.testing.assert_allclose(found.errors, exact_shapley(np.arange(64.0), every).errors)


@pytest.mark.parametrize("parties", [4, 5, 9, 30])
def test_no_coalition_is_evaluated_twice_and_the_budget_is_kept(parties: int) -> None:
    game = SurpriseGame(parties, 5)
    budget = smallest_budget(parties)
    found = sampled_shapley(parties, game.evaluate, budget)
    assert len(set(game.asked)) == len(game.asked) == found.evaluations <= budget
    assert frozenset() not in game.asked
    assert np.all(np.isfinite(found.shapley.values))


def test_efficiency_holds_within_the_errors() -> None:
    game = SurpriseGame(9, 6)
    shapley = sampled_shapley(9, game.evaluate, 120, proxy=game.proxy).shapley
    error = np.sqrt(np.ones(9) @ shapley.covariance @ np.ones(9))
    assert abs(shapley.values.sum() - shapley.grand.value) < 5 * error + 1e-9


def test_a_useless_proxy_does_no_harm() -> None:
    game = SurpriseGame(8, 7)
    truth = game.exact()
    nonsense = np.random.default_rng(0).normal(size=2**8)

    def proxy(inside: NDArray[np.bool_]) -> Floats:
        return nonsense[inside @ 2 ** np.arange(8)]

    plain, misled = (
        np.mean(
            [
                relative_error(sampled_shapley(8, game.evaluate, 80, proxy=p, seed=s).shapley.values, truth)
                for s in range(20)
            ]
        )
        for p in (None, proxy)
    )
    assert misled < 1.3 * plain


def test_bad_budgets_are_refused() -> None:
    game = SurpriseGame(8, 8)
    with pytest.raises(ValueError, match="budget of 10 evaluations"):
        sampled_shapley(8, game.evaluate, 10)
    with pytest.raises(ValueError, match="evaluate them all"):
        sampled_shapley(3, game.evaluate, 100)
