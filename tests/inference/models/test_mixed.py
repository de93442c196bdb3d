"""Regressions with levels: moments against simulated rows, and effects against those that rows were made with."""

from functools import partial
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
import pandas as pd
import pytest

import coded
import equipoise as eq
from equipoise.inference.problem import model_of
from equipoise.inference.runtime import double_precision

pytestmark = pytest.mark.engine

Kind = Literal["linear", "logistic"]
ONLY_LEVELS = '{ name = "smoker", kind = "binary", labels = ["no", "yes"], missing = "indicator" }'


@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize("features", [coded.FEATURES, ONLY_LEVELS], ids=["all kinds", "levels only"])
@double_precision
def test_moments_are_those_of_simulated_rows(kind: Kind, features: str) -> None:
    agreement = coded.agreement(kind, features)
    model, (engine, prior) = agreement.model, model_of(agreement)
    prior = prior._replace(shape_spread=0.0)  # rows below are normal within a cell
    rng = np.random.default_rng(3)
    position = 0.7 * rng.normal(size=engine.dimension)
    truth = {name: np.asarray(value) for name, value in engine.parameters(prior, position).items()}
    number = 400_000
    terms, width = simulated(agreement, truth, number, rng), len(truth["weights"]) - 1
    predictor = terms @ truth["weights"][:width] + truth["weights"][width]
    if kind == "linear":
        target = predictor + np.sqrt(truth["variance"]) * rng.normal(size=number)
    else:
        target = np.where(rng.uniform(size=number) < 1 / (1 + np.exp(-predictor)), 1.0, -1.0)
    columns = np.column_stack([terms, target, np.ones(number)])
    statistic = np.stack(
        [columns[:, one.first] * columns[:, -1 if one.second is None else one.second] for one in model.layout.entries],
        axis=1,
    )
    moments = engine.row_moments(prior, position)
    error = (statistic.mean(axis=0) - moments.mean[0]) / (statistic.std(axis=0) / np.sqrt(number))
    assert np.abs(error).max() < 4.5
    spread = np.sqrt(np.diag(moments.covariance[0]))
    assert np.abs(np.cov(statistic.T) - moments.covariance[0]).max() < 0.03 * spread.max() ** 2
    assert np.linalg.eigvalsh(moments.covariance[0])[0] > -1e-12

    draws = {name: np.stack([value, value]) for name, value in truth.items()}
    again = engine.moments_of_draws(prior, draws, None, 0)
    np.testing.assert_allclose(again.mean[1], moments.mean[0], atol=1e-12)
    np.testing.assert_allclose(again.covariance[1], moments.covariance[0], atol=1e-12)


def simulated(agreement: eq.Agreement, truth: dict[str, Any], number: int, rng: np.random.Generator) -> Any:
    """Rows of terms: a cell, then numbers given the cell, then zeros where a gap is marked."""
    coding = agreement.model.coding  # type: ignore[attr-defined]
    cell = rng.choice(len(truth["cell_probability"]), size=number, p=truth["cell_probability"])
    terms = coding.levels_of_cells[cell]
    levels = terms[:, coding.level_terms]
    means = truth["feature_mean"] + levels @ truth["shift"]
    terms[:, coding.numbers] = means + rng.multivariate_normal(
        np.zeros(means.shape[1]), truth["feature_covariance"], size=number
    ) if means.shape[1] else means  # fmt: skip
    for value, indicator in coding.gaps:
        terms[terms[:, indicator] == 1, value] = 0
    return terms


@pytest.mark.parametrize("kind", ["linear", "logistic"])
@pytest.mark.parametrize("scope", ["shared", "per-party"])
@double_precision
def test_own_coordinates_are_standard_normal_under_the_prior(kind: Kind, scope: str) -> None:
    engine, prior = model_of(coded.agreement(kind, scope=scope))
    positions = np.random.default_rng(0).normal(size=(20_000, engine.dimension))
    own = np.asarray(jax.vmap(lambda position: engine.own(prior, position))(positions))
    assert own.shape == (20_000, engine.focus)
    assert np.abs(own.mean(axis=0)).max() < 0.04
    assert np.abs(np.cov(own.T) - np.eye(engine.focus)).max() < 0.06


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "logistic"])
@double_precision
def test_chains_move_in_coordinates_that_keep_volumes(kind: Kind) -> None:
    engine, prior = model_of(coded.agreement(kind))
    position = jax.numpy.asarray(np.random.default_rng(4).normal(size=engine.dimension))
    np.testing.assert_allclose(engine.unbend(prior, engine.bend(prior, position)), position, atol=1e-12)
    slopes = np.asarray(jax.jacfwd(partial(engine.bend, prior))(position))
    assert np.linalg.det(slopes) == pytest.approx(1.0)


@pytest.mark.slow
@pytest.mark.first
@pytest.mark.parametrize("kind", [pytest.param("linear", marks=pytest.mark.exhaustive), "logistic"])
def test_levels_that_no_row_has_are_sampled_as_fast_as_others(kind: Kind, tmp_path: Path) -> None:
    """Their weights are free, and chains used to follow a ridge with hundreds of steps for a draw."""
    table, truth = coded.rows(kind, 2_000, np.random.default_rng(0))
    agreement = coded.agreement(kind)  # of three, so that the test below finds its programs compiled
    sent = eq.release(
        agreement, table.assign(smoker="no", region="north"), party="p0", epsilon=4.0, ledger=tmp_path / "ledger"
    )
    posterior = eq.infer(agreement, [sent], draws=1_000)
    assert posterior.converged
    own = agreement.model.own_units(posterior.draws)
    assert own["weight[smoker=yes]"].std() > 1.0  # as before any data
    assert abs(own["weight[age]"].mean() - truth["weight[age]"]) < 3.5 * own["weight[age]"].std()


@pytest.mark.slow
def test_numbers_that_are_not_normal_are_covered(tmp_path: Path) -> None:
    """Two uniform numbers with strong effects: too large by several deviations if numbers are taken to be normal."""
    rng = np.random.default_rng(5)
    values = rng.uniform(0, 100, size=(20_000, 2))
    predictor = (values - 50) @ np.array([0.08, -0.05])
    table = pd.DataFrame(values, columns=["a", "b"])
    table["outcome"] = np.where(rng.uniform(size=len(table)) < 1 / (1 + np.exp(-predictor)), "yes", "no")
    features = '{ name = "a", bounds = [0, 100] }, { name = "b", bounds = [0, 100] }'
    distances = []
    for spread in (0.04, 0.0):
        scope = f'shared"\nshape_spread = {spread}\n#"'
        agreement = coded.agreement("logistic", features, parties=1, scope=scope)
        sent = eq.release(agreement, table, party="p0", epsilon=4.0, ledger=tmp_path / str(spread))
        own = agreement.model.own_units(eq.infer(agreement, [sent], draws=1_000).draws)
        distances.append(abs(own["weight[a]"].mean() - 0.08) / own["weight[a]"].std())
    assert distances[0] < 1.7
    assert distances[1] > 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_effects_are_those_that_rows_were_made_with(kind: Kind, tmp_path: Path) -> None:
    """A binary feature's log odds used to come out several times too large, with an interval that did not say so."""
    agreement, rng = coded.agreement(kind), np.random.default_rng(1)
    tables = [coded.rows(kind, 6_000, rng) for _ in agreement.party_names]
    sent = [
        eq.release(agreement, table, party=party, epsilon=4.0, ledger=tmp_path / party)
        for party, (table, _) in zip(agreement.party_names, tables, strict=True)
    ]
    posterior = eq.infer(agreement, sent, draws=1_000)  # their error is a thirtieth of a standard deviation
    assert posterior.converged
    own = agreement.model.own_units(posterior.draws)
    errors = {name: (own[name].mean() - value) / own[name].std() for name, value in tables[0][1].items()}
    assert max(map(abs, errors.values())) < 3.5, errors
    assert own["weight[smoker=yes]"].std() < 0.3
