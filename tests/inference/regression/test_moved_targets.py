"""Targets that a release moved to the ends of their reach: closed forms, and intervals that cover with many rows."""

from contextlib import nullcontext
from unittest import mock

import numpy as np
import pytest

from equipoise.agreement import Agreement
from equipoise.inference.pooling import Releases
from equipoise.inference.regression import moved_targets, problem
from equipoise.inference.regression.moved_targets import change_by_moving, change_of_normal_rows, limited_moments
from equipoise.inference.regression.population import Population
from equipoise.inference.regression.posterior import sample_posterior
from regressions import Floats, model_of, sums_of

WEIGHTS = np.array([0.5, -0.4, 0.3, 0.1])
DEVIATION = 0.3


@pytest.mark.parametrize(
    ("mean", "variance", "ends"),
    [
        (0.3, 0.4, (True, True)),
        (-0.8, 0.2, (True, False)),
        (0.5, 2.0, (False, True)),
        (2.0, 0.3, (True, True)),
        (0.1, 0.5, (False, False)),
    ],
)
def test_moments_of_a_limited_normal_are_those_of_many_draws(
    mean: float, variance: float, ends: tuple[bool, bool]
) -> None:
    target = mean + np.sqrt(variance) * np.random.default_rng(0).normal(size=1_000_000)
    moved = np.clip(target, -1 if ends[0] else None, 1 if ends[1] else None) if any(ends) else target
    drawn = (np.mean(moved == target), moved.mean(), np.mean(moved**2))
    found = limited_moments(np.array([mean]), variance, ends)
    assert [float(one[0]) for one in found] == pytest.approx(drawn, abs=5e-3)


def moved_sums(rows: Floats, target: Floats) -> Floats:
    """Compute the change of E[y u] and E[y²] if targets are moved."""
    moved = np.clip(target, -1, 1)
    return np.append(rows.T @ (moved - target), np.sum(moved**2 - target**2)) / len(rows)


def test_the_change_of_normal_rows_is_that_of_many() -> None:
    rng = np.random.default_rng(1)
    root = np.array([[0.4, 0.0, 0.0], [0.2, 0.3, 0.0], [-0.1, 0.1, 0.35]])
    rows = np.column_stack([rng.normal(size=(1_000_000, 3)) @ root.T + [0.1, 0.0, -0.2], np.ones(1_000_000)])
    expected = moved_sums(rows, rows @ WEIGHTS + 0.5 * rng.normal(size=len(rows)))
    found = change_of_normal_rows(rows.T @ rows / len(rows), WEIGHTS, 0.25, (True, True))
    np.testing.assert_allclose(found, expected, atol=2e-3)
    one_end = change_of_normal_rows(rows.T @ rows / len(rows), WEIGHTS, 0.25, (True, False))
    assert np.abs(one_end - expected).max() > 0.005  # a wrong range would be noticed


def test_the_change_of_simulated_rows_is_that_of_many_with_a_rare_level() -> None:
    """Rows of a rare level with a large effect lose far more than others, which no second moment tells."""
    rng = np.random.default_rng(2)
    terms = np.column_stack([np.clip(0.5 * rng.normal(size=1_000_000), -1, 1), rng.uniform(size=1_000_000) < 0.05])
    rows = np.column_stack([terms, np.ones(len(terms))]).astype(float)
    weights = np.array([0.3, 1.0, -0.05])
    expected = moved_sums(rows, rows @ weights + 0.35 * rng.normal(size=len(rows)))
    some = rows[:20_000]
    population = Population(some, np.full(len(some), 1 / len(some)), np.zeros((len(some), 0)))
    found = change_by_moving(population, weights, 0.35**2, (True, True))
    np.testing.assert_allclose(found, expected, atol=2e-3)
    normal = change_of_normal_rows(rows.T @ rows / len(rows), weights, 0.35**2, (True, True))
    assert abs(normal[1] - expected[1]) > 3e-3  # Stein's lemma is wrong here


NUMBERS = ", ".join(f'{{ name = "{name}", typical = [-1, 1] }}' for name in "abc")


def agreed(target: str, features: str = NUMBERS, more: str = "") -> Agreement:
    return Agreement.parse(
        f'format = 3\n[model]\nkind = "linear"\nfeatures = [{features}]\ntarget = {{ name = "y", {target} }}\n{more}'
        '[privacy]\nmax_epsilon = 4.0\n[[parties]]\nname = "north"\n[[parties]]\nname = "south"\n'
    )


def draw(tails: str, number: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Rows whose targets have a deviation of about a half, with normal tails or none beyond the reach."""
    terms = np.column_stack([np.clip(0.5 * rng.normal(size=(number, 3)), -1, 1), np.ones(number)])
    noise = rng.normal(size=number)
    target = terms @ WEIGHTS + DEVIATION * noise
    if tails == "none":  # draw anew what would lie beyond
        while (beyond := np.abs(target) > 1).any():
            target[beyond] = terms[beyond] @ WEIGHTS + DEVIATION * rng.normal(size=int(beyond.sum()))
    return terms, target


def covered(tails: str, rounds: range) -> float:
    """Measure the share of slopes in 90 % intervals, of 30,000 rows with little noise.

    The truth is what targets follow, or without tails the fit to them.
    """
    model = model_of(agreed("typical = [-1, 1]"))
    inside = []
    for number in rounds:
        rng = np.random.default_rng(number)
        terms, values = draw(tails, 30_000, rng)
        truth = np.linalg.lstsq(terms, values)[0] if tails == "none" else WEIGHTS
        sums = sums_of(model, terms, np.clip(values, -1, 1))
        noisy = sums + 10 * rng.normal(size=len(sums))
        releases = Releases(noisy[None], np.array([30_000.0]), np.array([100.0]), np.ones(len(sums)))
        found = sample_posterior(model, releases, rng, 640)
        low, high = np.quantile(model.parameters(found.coordinates).weights, [0.05, 0.95], axis=0)
        inside.append((low <= truth) & (truth <= high))
    return float(np.mean(np.array(inside)[:, :3]))


@pytest.mark.parametrize("tails", ["normal", "none"])
def test_intervals_cover_with_many_rows_whatever_the_tails(tails: str) -> None:
    """Each case lies one standard deviation from what is expected, so that all rounds may cover."""
    assert covered(tails, range(24)) >= 0.85


def test_a_model_that_takes_moved_targets_for_all_there_is_does_not_cover() -> None:
    share, spread = (mock.patch.object(moved_targets, name, 0.0) for name in ("EXPECTED_SHARE", "SPREAD_OF_SHARE"))
    with share, spread:
        assert covered("normal", range(100, 108)) < 0.6  # other rounds: posteriors of the same ones are remembered


LEVEL = '{ name = "a", typical = [-1, 1] }, { name = "rare", kind = "binary", labels = ["no", "yes"] }'


def errors_with_a_rare_level(first: int, *, simulated: bool = True) -> float:
    """Largest error of the effect of a rare level, in posterior standard deviations, mean over rounds."""
    model, truth, errors = model_of(agreed("typical = [-1, 1]", LEVEL)), np.array([0.3, 1.0, -0.05]), []
    for number in range(first, first + 6):
        rng = np.random.default_rng(number)
        a = np.clip(0.5 * rng.normal(size=30_000), -1, 1)
        terms = np.column_stack([a, rng.uniform(size=30_000) < 0.05, np.ones(30_000)]).astype(float)
        target = np.clip(terms @ truth + 0.35 * rng.normal(size=30_000), -1, 1)
        sums = sums_of(model, terms, target)
        noisy = (sums + 10 * rng.normal(size=len(sums)))[None]
        releases = Releases(noisy, np.array([30_000.0]), np.array([100.0]), np.ones(len(sums)))
        without = mock.patch.object(problem, "_population", return_value=None)
        with nullcontext() if simulated else without:
            weights = model.parameters(sample_posterior(model, releases, rng, 640).coordinates).weights
        errors.append((weights.mean(axis=0) - truth)[1] / weights[:, 1].std())
    return float(np.abs(np.mean(errors)))


def test_a_rare_level_with_a_large_effect_is_covered_by_simulated_rows() -> None:
    assert errors_with_a_rare_level(0) < 1.6  # one standard deviation is what is meant
    assert errors_with_a_rare_level(50, simulated=False) > 3


@pytest.mark.parametrize("parties", [1, 8])
def test_parties_with_features_of_their_own_share_what_is_hidden(parties: int) -> None:
    model = model_of(agreed("typical = [-1, 1]", more='[model.data_prior]\nscope = "per-party"\n'))
    rng = np.random.default_rng(3)
    sums = []
    for _ in range(parties):
        terms, values = draw("normal", 30_000, rng)
        sums.append(sums_of(model, terms, np.clip(values, -1, 1)))
    rows, noise = np.full(parties, 30_000.0), np.full(parties, 100.0)
    noisy = np.array(sums) + 10 * rng.normal(size=(parties, len(sums[0])))
    found = sample_posterior(model, Releases(noisy, rows, noise, np.ones(len(sums[0]))), rng, 640)
    weights = model.parameters(found.coordinates).weights
    assert np.all(np.abs(weights.mean(axis=0) - WEIGHTS)[:3] < 1.7 * weights.std(axis=0)[:3])
    assert weights[:, 0].std() / WEIGHTS[0] > 0.01  # however many parties there are


def test_where_bounds_say_that_nothing_lies_beyond_nothing_is_allowed_for() -> None:
    ends = {
        "typical = [-1, 1]": (True, True),
        "typical = [-1, 1], bounds = [-1, 5]": (False, True),
        "typical = [-0.9, 1], reach = [-1, 1], bounds = [-1, 5]": (False, True),
        "typical = [-0.9, 0.9], reach = [-1, 1], bounds = [-1, 1]": (False, False),
        "typical = [-1, 1], bounds = [-2, 5], reach = [-2, 5]": (False, False),
        "typical = [-1, 1], bounds = [-2, 5]": (True, True),
        "bounds = [-1, 1]": (False, False),
        "reach = [-1, 1]": (True, True),
    }
    assert {text: model_of(agreed(text)).moved_ends for text in ends} == ends
