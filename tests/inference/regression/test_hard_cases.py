"""Hard cases of regression from moments: each ends with an answer that can be relied on, or says what is wrong.

Columns that do not vary or repeat each other, levels nobody has, a few rows, noise alone, and parties of all sizes.
"""

from unittest import mock

import numpy as np
import pytest

from equipoise.errors import InferenceError
from equipoise.inference.pooling import Releases
from equipoise.inference.regression.model import RegressionModel
from equipoise.inference.regression.posterior import sample_posterior
from equipoise.inference.regression.problem import build_problem
from equipoise.inference.sampling import Sample
from regressions import Floats, agree, draw_targets, model_of, sums_of

COLUMNS = """
  { name = "a", bounds = [-1, 1] }, { name = "b", bounds = [-1, 1] },
  { name = "c", kind = "category", levels = ["p", "q", "r"] },
"""
WEIGHTS = np.array([0.4, -0.2, 0.3, 0.1, 0.0])
CASES = (
    "an empty level",
    "empty levels",
    "a full level",
    "constant 0",
    "constant 0.7",
    "constant 1",
    "equal",
    "nearly equal",
    "opposite",
    "a level that is a number",
)


def draw_hard_rows(case: str, number: int, rng: np.random.Generator) -> Floats:
    """Draw terms of `COLUMNS` and a constant."""
    a: Floats = np.clip(0.3 * rng.normal(size=number), -1, 1)
    b: Floats = np.clip(0.4 * a + 0.3 * rng.normal(size=number), -1, 1)
    q = rng.uniform(size=number) < 0.3
    r = (rng.uniform(size=number) < 0.3) & ~q
    if case in {"an empty level", "empty levels", "a full level"}:
        r = np.zeros(number, bool)
    if case in {"empty levels", "a full level"}:
        q = np.full(number, case == "a full level")
    if case.startswith("constant"):
        a = float(case.split()[1]) * np.ones(number)
    if case in {"equal", "nearly equal"}:
        b = np.clip(a + (case != "equal") * 1e-4 * rng.normal(size=number), -1, 1)
    if case == "opposite":
        b = -1.0 * a
    if case == "a level that is a number":
        b = np.where(q, 1.0, -1.0)
    return np.column_stack([a, b, q, r, np.ones(number)]).astype(float)


def release(kind: str, rows: Floats, epsilon: float, rng: np.random.Generator, share: float = 1.0) -> Releases:
    """Add noise to the sums of rows, as at this ε, times a share."""
    agreed = agree(kind, COLUMNS)
    model = model_of(agreed)
    deviations = share * model.moments.ordered(agreed.layout.noise_deviations(agreed.guarantee(epsilon=epsilon)))
    targets = draw_targets(kind, rows, WEIGHTS if kind == "linear" else 4 * WEIGHTS, 0.2, rng)
    sums = sums_of(model, rows, targets) + deviations * rng.normal(size=len(deviations))
    return Releases(sums[None], np.array([float(len(rows))]), np.ones(1), deviations**2)


def sample(kind: str, releases: Releases, draws: int = 1_000, more: str = "") -> tuple[RegressionModel, Sample]:
    model = model_of(agree(kind, COLUMNS, more))
    return model, sample_posterior(model, releases, np.random.default_rng(0), draws)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["linear", pytest.param("logistic", marks=pytest.mark.slow)])
@pytest.mark.parametrize("case", CASES)
def test_rows_that_say_nothing_of_some_weights_leave_the_others(kind: str, case: str) -> None:
    """However little noise there is beside 100,000 rows: what is identified is found, the rest is as believed."""
    for number in (3, 100_000):
        for epsilon in (0.1, 4.0):
            rng = np.random.default_rng(1)
            rows = draw_hard_rows(case, number, rng)
            model, found = sample(kind, release(kind, rows, epsilon, rng))
            assert found.diagnostics.converged, (number, epsilon, found.diagnostics.problems)
            weights = model.parameters(found.coordinates).weights
            assert np.isfinite(weights).all()
            truth = WEIGHTS if kind == "linear" else 4 * WEIGHTS
            eta = weights @ rows.T[:, :200]
            distance = (eta.mean(axis=0) - rows[:200] @ truth) / eta.std(axis=0)
            assert np.abs(distance).max() < 4.5


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_noise_alone_leaves_the_prior(kind: str) -> None:
    rng = np.random.default_rng(2)
    model, found = sample(kind, release(kind, draw_hard_rows("plain", 5, rng), 1e-4, rng), 4_000)
    assert found.diagnostics.converged
    assert found.divergence is not None
    assert found.divergence.value < 0.15
    assert np.abs(found.coordinates.mean(axis=0)).max() < 0.3
    assert np.abs(found.coordinates.std(axis=0) - 1).max() < 0.2
    assert model.dimension == found.coordinates.shape[1]


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["linear", pytest.param("logistic", marks=pytest.mark.slow)])
def test_moments_that_no_rows_have(kind: str) -> None:
    """Noise makes variances negative: twenty rows whose sums of squares it takes far below zero."""
    rng = np.random.default_rng(3)
    releases = release(kind, draw_hard_rows("plain", 20, rng), 1.0, rng)
    model = model_of(agree(kind, COLUMNS))
    squares = [k for k, (i, j) in enumerate(model.moments.feature_pairs) if i == j]
    releases.statistic[0, squares] = -3 * np.sqrt(releases.shape[squares])
    found = sample_posterior(model, releases, rng, 1_000)
    assert found.diagnostics.converged
    assert np.isfinite(found.coordinates).all()


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_a_thousand_parties_of_a_thousand_sizes_are_one_observation(kind: str) -> None:
    """Their posterior is about that of one party with all rows and the same noise in all."""
    rng = np.random.default_rng(4)
    sizes = np.arange(20, 1_020)
    rows = draw_hard_rows("plain", int(sizes.sum()), rng)
    whole = release(kind, rows, 4.0, rng, share=np.sqrt(1_000))
    model = model_of(agree(kind, COLUMNS))
    targets = draw_targets(kind, rows, WEIGHTS if kind == "linear" else 4 * WEIGHTS, 0.2, rng)
    parts = zip(np.split(rows, np.cumsum(sizes)[:-1]), np.split(targets, np.cumsum(sizes)[:-1]), strict=True)
    sums = np.array([sums_of(model, *part) for part in parts])
    shape = whole.shape / 1_000
    sums += np.sqrt(shape) * rng.normal(size=sums.shape)
    _, found = sample(kind, Releases(sums, sizes.astype(float), np.ones(1_000), shape))
    _, alone = sample(kind, whole)
    assert found.diagnostics.converged
    weights, others = (model.parameters(one.coordinates).weights for one in (found, alone))
    truth = WEIGHTS if kind == "linear" else 4 * WEIGHTS
    assert np.abs((weights.mean(axis=0) - truth) / weights.std(axis=0)).max() < 4
    assert np.abs(np.log(weights.std(axis=0) / others.std(axis=0))).max() < 0.4


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize("scope", ["shared", "per-party"])
def test_tiny_parties_change_nothing_beside_a_giant(kind: str, scope: str) -> None:
    rng = np.random.default_rng(5)
    giant = release(kind, draw_hard_rows("plain", 200_000, rng), 4.0, rng)
    tiny = [release(kind, draw_hard_rows("plain", 5, rng), 4.0, rng) for _ in range(5)]
    sums = np.concatenate([giant.statistic, *(one.statistic for one in tiny)])
    rows = np.concatenate([giant.rows, *(one.rows for one in tiny)])
    together = Releases(sums, rows, np.ones(6), giant.shape)
    more = f'[model.data_prior]\nscope = "{scope}"'
    (_, alone), (_, found) = (sample(kind, one, 2_000, more) for one in (giant, together))
    assert found.diagnostics.converged
    deviations = alone.coordinates.std(axis=0)
    assert np.abs((found.coordinates.mean(axis=0) - alone.coordinates.mean(axis=0)) / deviations).max() < 0.25
    assert np.abs(found.coordinates.std(axis=0) / deviations - 1).max() < 0.15


def test_a_ridge_that_cannot_be_resolved_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of next to no noise, which no release has, and a column that is the constant."""
    rng = np.random.default_rng(6)
    releases = release("linear", draw_hard_rows("constant 1", 1_000, rng), 4.0, rng)
    fail = mock.Mock(side_effect=np.linalg.LinAlgError("Singular matrix"))
    monkeypatch.setattr("equipoise.inference.regression.problem.find_mode", fail)
    with pytest.raises(InferenceError, match="1,000 rows.*; leave a column out or merge levels"):
        sample("linear", releases)


def test_sums_that_are_no_numbers_are_refused() -> None:
    rng = np.random.default_rng(7)
    releases = release("linear", draw_hard_rows("plain", 10, rng), 4.0, rng)
    releases.statistic[0, 3] = np.nan
    with pytest.raises(InferenceError, match="not finite numbers; ask its party for another submission"):
        build_problem(model_of(agree("linear", COLUMNS)), releases)
