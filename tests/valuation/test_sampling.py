"""Sampled Shapley values: against exact ones, with errors that are true, within a budget that is kept."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from equipoise.estimate import Estimate
from equipoise.valuation.sampling import Coalition, ProxyGame, Sample, estimate, sampled_shapley, smallest_budget
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
    found = [sampled_shapley(7, game.evaluate, smallest_budget(7), seed=seed).shapley for seed in range(200)]
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
    # Errors cancel in the sum, up to rounding, which may leave a variance just below 0.
    error = np.sqrt(max(0.0, float(np.ones(9) @ shapley.covariance @ np.ones(9))))
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


def shapley_by_definition(values: Floats, parties: int) -> Floats:
    """Sums over coalitions with factorials, from the textbook; nothing of the package."""
    found, factorial = np.zeros(parties), math.factorial
    for mask, value in enumerate(values):
        size = mask.bit_count()
        for party in range(parties):
            if mask >> party & 1:
                found[party] += value * factorial(size - 1) * factorial(parties - size) / factorial(parties)
            else:
                found[party] -= value * factorial(size) * factorial(parties - size - 1) / factorial(parties)
    return found


VOTE = "a weighted vote"  # all or nothing: few pairs may miss what is rare, and errors are stated too small


def hostile_games(parties: int) -> dict[str, tuple[Floats, Floats]]:
    """Values of all coalitions and of a proxy, by what is hard about the game."""
    rng = np.random.default_rng(5)
    inside = (np.arange(2**parties)[:, None] >> np.arange(parties) & 1).astype(float)

    def surprise(information: Floats) -> Floats:
        return np.asarray(2 * np.log1p(inside @ information))

    alike, skewed = rng.uniform(1, 3, parties), rng.lognormal(0, 2, parties)
    useless, dominated = alike.copy(), np.full(parties, 0.05)
    useless[0], dominated[1] = 0.0, 500.0
    share = inside @ alike / alike.sum()
    return {
        "smooth": (surprise(alike) + 0.3 * np.sin(inside @ rng.normal(size=parties)), surprise(alike)),
        "skewed": (surprise(skewed) + 0.1 * np.sqrt(inside @ skewed / skewed.sum()), surprise(skewed)),
        "a useless party": (surprise(useless), surprise(useless * rng.uniform(0.5, 2, parties))),
        "one dominates": (surprise(dominated) + 0.2 * inside[:, 1] * inside[:, 2], surprise(dominated)),
        "a threshold": (5.0 * (inside.sum(axis=1) > parties / 2), surprise(alike)),
        "superadditive": (8 * share**3, surprise(alike)),
        VOTE: (3.0 * (share > 0.5), surprise(alike)),
    }


@pytest.mark.statistical
@pytest.mark.parametrize("name", sorted(hostile_games(8)))
def test_errors_are_true_in_hostile_games(name: str) -> None:
    """z-scores against the definition, at the smallest budget, errors of values included."""
    values, cheap = hostile_games(8)[name]
    truth, powers, error = shapley_by_definition(values, 8), 2 ** np.arange(8), 0.05
    scores = []
    for seed in range(60):
        rng = np.random.default_rng(1_000 + seed)

        def evaluate(coalitions: Sequence[Coalition], rng: np.random.Generator = rng) -> list[Estimate]:
            masks = [sum(1 << party for party in coalition) for coalition in coalitions]
            return [Estimate(float(values[mask] + error * rng.normal()), error) for mask in masks]

        found = sampled_shapley(
            8, evaluate, smallest_budget(8), proxy=lambda inside: cheap[inside @ powers], seed=seed
        ).shapley
        scores.append((found.values - truth) / found.errors)
    spread = np.sqrt(np.mean(np.square(scores)))
    assert 0.8 < spread < (1.6 if name == VOTE else 1.25), spread
    assert np.mean(np.abs(scores) > 3) < (0.1 if name == VOTE else 0.03)


def test_a_sample_grows_by_pairs_of_all_sizes() -> None:
    sample = Sample(11, seed=1)
    sample.grow(71)
    first = sample.inside.copy()
    sample.grow(141)
    np.testing.assert_array_equal(sample.inside[: len(first)], first)
    pairs = sample.inside[sample.fixed :]
    assert len(sample) == len(sample.inside) - 1 == 141
    assert np.all(pairs[::2] == ~pairs[1::2])
    assert len(np.unique(sample.inside, axis=0)) == len(sample.inside)
    counts = np.bincount(pairs[::2].sum(axis=1), minlength=6)[2:]
    assert np.all(counts >= 10)
    assert np.all(np.diff(counts) <= 1)  # no more of the middle sizes, which weigh less
    sample.grow(10_000)
    assert sample.complete
    assert len(sample) == 2**11 - 1


@pytest.mark.parametrize("pairs", [40, 60, 64])
def test_errors_are_no_smaller_where_an_additive_game_fits_all_pairs(pairs: int) -> None:
    parties, rounds = 60, 4
    errors, stated = [], []
    for seed in range(rounds):
        rng = np.random.default_rng(seed)
        brought = rng.normal(size=parties)

        def evaluate(
            coalitions: Sequence[Coalition], rng: np.random.Generator = rng, brought: Floats = brought
        ) -> list[Estimate]:
            sizes = np.array([len(one) for one in coalitions])
            extra = np.where((sizes > 1) & (sizes < parties - 1), rng.normal(size=len(sizes)), 0.0)
            return [
                Estimate(float(brought[list(one)].sum() + more), 0.0)
                for one, more in zip(coalitions, extra, strict=True)
            ]

        sample = Sample(parties, seed=seed)
        sample.grow(2 * parties + 1 + 2 * pairs)
        found = estimate(
            sample,
            evaluate([frozenset(np.flatnonzero(row).tolist()) for row in sample.inside[1:]]),
            ProxyGame(parties, None, seed=0),
        ).shapley
        errors.append(found.values - brought)
        stated.append(found.errors)
    ratio = np.mean(np.square(errors)) / np.mean(np.square(stated))
    assert 0.3 < ratio < 1.5
