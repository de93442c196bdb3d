"""Targets that a release moved to the ends of their reach: closed forms, and intervals that cover with many rows."""

from unittest import mock

import numpy as np
import pytest

from equipoise.agreement import Agreement
from equipoise.inference.pooling import Releases
from equipoise.inference.regression import moved_targets
from equipoise.inference.regression.moved_targets import change_by_moving, limited_moments
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
    assert limited_moments(mean, variance, ends) == pytest.approx(drawn, abs=5e-3)


def test_the_change_is_that_of_many_rows_with_normal_features() -> None:
    rng = np.random.default_rng(1)
    root = np.array([[0.4, 0.0, 0.0], [0.2, 0.3, 0.0], [-0.1, 0.1, 0.35]])
    rows = np.column_stack([rng.normal(size=(1_000_000, 3)) @ root.T + [0.1, 0.0, -0.2], np.ones(1_000_000)])
    target = rows @ WEIGHTS + 0.5 * rng.normal(size=len(rows))
    moved = np.clip(target, -1, 0.8)
    expected = np.append(rows.T @ (moved - target), np.sum(moved**2 - target**2)) / len(rows)
    # The range is [−1, 1] in the likelihood, so that its upper end is tried by itself.
    both = change_by_moving(rows.T @ rows / len(rows), WEIGHTS, 0.25, (True, True))
    lower = change_by_moving(rows.T @ rows / len(rows), WEIGHTS, 0.25, (True, False))
    at_both = np.clip(target, -1, 1)
    of_both = np.append(rows.T @ (at_both - target), np.sum(at_both**2 - target**2)) / len(rows)
    at_lower = np.maximum(target, -1)
    of_lower = np.append(rows.T @ (at_lower - target), np.sum(at_lower**2 - target**2)) / len(rows)
    np.testing.assert_allclose(both, of_both, atol=2e-3)
    np.testing.assert_allclose(lower, of_lower, atol=2e-3)
    assert np.abs(expected - of_both).max() > 0.005  # a range that is wrong would be noticed


def agreed(target: str) -> Agreement:
    features = ", ".join(f'{{ name = "{name}", typical = [-1, 1] }}' for name in "abc")
    return Agreement.parse(
        f'format = 3\n[model]\nkind = "linear"\nfeatures = [{features}]\ntarget = {{ name = "y", {target} }}\n'
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


def test_where_bounds_say_that_nothing_lies_beyond_nothing_is_allowed_for() -> None:
    ends = [
        model_of(agreed(text)).moved_ends
        for text in (
            "typical = [-1, 1]",
            "typical = [-1, 1], bounds = [-1, 1]",
            "typical = [-1, 1], bounds = [-1, 5]",
            "typical = [-1, 1], bounds = [-2, 5]",
            "typical = [-1, 1], bounds = [-2, 5], reach = [-2, 5]",
        )
    ]
    assert ends == [(True, True), (True, True), (False, True), (True, True), (True, True)]
