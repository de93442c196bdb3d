"""The surplus rule: the paper's conditions on random games, and estimates that contradict each other."""

import numpy as np
import pytest

from equipoise.estimate import Estimate
from equipoise.reward.targets import TargetPolicy, Targets, stability_bound, targets_from_values
from equipoise.valuation.shapley import exact_shapley, members

GAMES, PARTIES = 60, 4
RHOS = (0.1, 0.5, 1.0)


def targets_of(values: np.ndarray, rho: float | str, errors: float = 0.0, **terms: bool) -> Targets:
    names = [f"p{place}" for place in range(len(values).bit_length() - 1)]
    estimates = [Estimate(float(value), errors * (place > 0)) for place, value in enumerate(values)]
    return targets_from_values(names, [names], estimates, TargetPolicy(rho, rule="surplus", **terms))[1]  # type: ignore[arg-type]


def coverage_game(rng: np.random.Generator, parties: int = PARTIES) -> np.ndarray:
    """Value coalitions by what their members cover together: more members never have less."""
    weight, covers = rng.exponential(size=12), rng.uniform(size=(parties, 12)) < rng.uniform(0.2, 0.8, (parties, 1))
    covers[:, 0] = True  # so that every party has something alone
    return np.array([weight @ covers[list(members(mask, parties))].any(axis=0) for mask in range(2**parties)])


def games() -> list[np.ndarray]:
    rng = np.random.default_rng(4)
    return [coverage_game(rng) for _ in range(GAMES)]


@pytest.mark.parametrize("rho", RHOS)
def test_the_formula(rho: float) -> None:
    for game in games():
        phi, alone, whole = exact_shapley(game).values, game[1 << np.arange(PARTIES)], game[-1]
        expected = alone + (phi / phi.max()) ** rho * (whole - alone)
        np.testing.assert_allclose(targets_of(game, rho).values, expected, rtol=1e-9)


@pytest.mark.parametrize("rho", [*RHOS, "max"])
def test_somebody_gets_all_nobody_more_and_nobody_less_than_alone(rho: float | str) -> None:
    """P2, P3 and P4."""
    for game in games():
        found = targets_of(game, rho)
        assert found.values.max() == pytest.approx(game[-1])
        assert np.all(found.values <= game[-1] + 1e-9)
        assert np.all(found.values >= game[1 << np.arange(PARTIES)] - 1e-9)
        assert found.rational_rho == 1.0
        assert found.rho == (1.0 if rho == "max" else rho)


def test_who_brings_nothing_gets_nothing() -> None:
    """F1, of a party that has nothing alone and adds nothing."""
    found = targets_of(np.array([0.0, 1.0, 0.0, 1.0]), 0.5)
    assert found.values.tolist() == [1.0, 0.0]
    assert found.nothing.tolist() == found.falls_back.tolist() == [False, True]


@pytest.mark.parametrize("rho", RHOS)
def test_parties_that_are_alike_get_alike(rho: float) -> None:
    """F2: the last two parties cover the same."""
    rng = np.random.default_rng(5)
    for _ in range(GAMES):
        weight, covers = rng.exponential(size=12), rng.uniform(size=(PARTIES, 12)) < 0.5
        covers[-1] = covers[-2]
        game = np.array(
            [weight @ covers[list(members(mask, PARTIES))].any(axis=0) for mask in range(2**PARTIES)], float
        )
        found = targets_of(game, rho).values
        assert found[-1] == pytest.approx(found[-2])


@pytest.mark.parametrize("rho", RHOS)
def test_a_more_desirable_party_gets_more(rho: float) -> None:
    """F3: the first party covers all that the second does, and something of its own."""
    rng = np.random.default_rng(6)
    for _ in range(GAMES):
        weight, covers = rng.exponential(size=12), rng.uniform(size=(PARTIES, 12)) < 0.5
        covers[0] |= covers[1]
        covers[:, 0] = [True, False, False, False]
        game = np.array(
            [weight @ covers[list(members(mask, PARTIES))].any(axis=0) for mask in range(2**PARTIES)], float
        )
        found = targets_of(game, rho).values
        assert found[0] > found[1] or found[1] == pytest.approx(game[-1])


@pytest.mark.parametrize("rho", RHOS)
def test_a_party_that_becomes_worth_more_does_not_get_less(rho: float) -> None:
    """F4: coalitions with the first party gain, by as much each or only some of them, and others do not."""
    rng = np.random.default_rng(7)
    for game in games():
        with_first = np.arange(len(game)) % 2 == 1
        better = game + with_first * rng.choice([0.0, rng.exponential()], size=len(game))
        if better[1] > better[-1]:
            continue
        before, after = targets_of(game, rho).values[0], targets_of(better, rho).values[0]
        assert after >= before - 1e-9


def test_a_value_alone_above_that_of_all_by_an_error_counts_as_that_of_all() -> None:
    """The second best seems to know more alone than all together, by no more than errors explain."""
    found = targets_of(np.array([0.0, 2.0, 1.02, 2.1, 0.0, 2.0, 1.02, 2.1])[:4], 0.5, errors=0.05)
    assert np.all(found.values <= 2.1 + 1e-9)
    strange = targets_of(np.array([0.0, 2.0, 2.05, 2.02]), 0.5, errors=0.05)
    assert strange.values.max() <= 2.05
    assert not strange.falls_back.all()


def test_the_stability_bound_is_where_a_coalition_would_leave() -> None:
    rng = np.random.default_rng(8)
    bounds = 0
    for _ in range(GAMES):
        game = coverage_game(rng, 3)
        phi = exact_shapley(game).values
        coalitions = {frozenset(members(mask, 3)): Estimate(float(game[mask]), 0.0) for mask in range(1, 8)}
        bound = stability_bound(dict(enumerate(phi.tolist())), coalitions, Estimate(float(game[-1]), 0.0), "surplus")

        def stays(rho: float, game: np.ndarray = game, phi: np.ndarray = phi) -> bool:
            targets = targets_of(game, rho).values
            inside = [list(members(mask, 3)) for mask in range(1, 7)]
            return all(
                targets[max(one, key=lambda party: phi[party])] >= game[sum(1 << party for party in one)] - 1e-9
                for one in inside
            )

        if bound is None:  # some coalition is worth as much as all together
            assert not stays(0.01)
            continue
        assert stays(bound)
        if bound < 0.99:
            bounds += 1
            assert not stays(bound + 0.01)
    assert bounds > 5
