"""Logistic regression's likelihood by block elimination against the dense one that it replaces."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from engine_setup import jit
from equipoise.inference.logistic_likelihood import LabelledEvidence
from equipoise.inference.models.logistic import (
    BLOCKS_FROM,
    LogisticRegression,
    logistic_prior,
)
from equipoise.inference.observations import Observations, Observed, Scenarios, observe

pytestmark = pytest.mark.engine
ROWS = jnp.array([400.0, 900.0, 100.0])


def conjugate(width: int, shared: bool, centred: bool) -> tuple[LogisticRegression, Any]:
    prior = logistic_prior(
        width=width,
        degrees_of_freedom=float(width),
        max_squared_norm=12.0,
        weight_scale=2.5,
        bias_scale=1.0,
        mean_spread=0.5,
        concentration=2.0,
        sd_mean=0.5,
        sd_spread=0.5,
        sd_max=1.0,
    )
    return LogisticRegression(width, len(ROWS), shared, centred), prior


def views(model: LogisticRegression, mean: Array) -> Iterator[Observed]:
    """Much and little noise, none but a speck as exact statistics have, and one party that is out."""
    width = model.width
    rng = np.random.default_rng(width)
    first, second = np.triu_indices(width + 1)
    squares = np.concatenate([np.zeros(width + 1, bool), (first == second)[:-1]])
    shape = (len(ROWS), model.entries)
    usual = np.broadcast_to((width + 2) ** 2 / np.where(squares, (width + 5) / 2, 1.0), shape)
    speck = np.broadcast_to(1e-9 * ROWS[:, None], shape)
    for variance in (usual, 1e6 * usual, 1e-5 * usual, speck):
        statistic = ROWS[:, None] * mean + rng.normal(size=shape) * np.sqrt(ROWS[:, None] + variance)
        observations = Observations(statistic, ROWS, jnp.asarray(variance), jnp.ones(shape), jnp.ones(shape))
        scenario = Scenarios(jnp.array([1.0, 0.0, 1.0]), jnp.asarray(0.6), jnp.array([0.3, 0.0, 0.0]))
        scenario = scenario if variance is usual else scenario._replace(tau=jnp.zeros(3))
        yield observe(observations, scenario, "scaled")


def narrow_and_wide(*cases: Any) -> pytest.MarkDecorator:
    """The first case always, others in the slow tier."""
    return pytest.mark.parametrize(
        "case", [cases[0], *(pytest.param(one, marks=pytest.mark.slow) for one in cases[1:])]
    )


@narrow_and_wide(
    (2, True, False),
    (1, True, False),
    (4, True, True),
    (4, False, False),
    (8, True, False),
)
def test_value_gradient_and_information_equal_the_dense_ones(case: tuple[Any, ...]) -> None:
    model, prior = conjugate(*case)
    position = jnp.asarray(np.random.default_rng(7).normal(size=model.dimension))

    @jit
    def at(evidence: Any) -> tuple[Array, Array, Array]:
        def total(position: Array) -> tuple[Array, Array]:
            values = model.log_likelihood(prior, evidence, position)
            return values @ jnp.array([1.0, 0.7, 0.3]), values

        gradient, values = jax.grad(total, has_aux=True)(position)
        return values, gradient, model.information(prior, evidence, position)

    mean = jit(lambda at: model.row_moments(prior, at).mean)(position)
    for observed in views(model, mean):
        blocks, dense = at(model.by_blocks(observed)), at(observed)
        for found, expected in zip(blocks, dense, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * float(jnp.max(jnp.abs(expected))))


def test_factored_moments_are_the_dense_ones() -> None:
    """Entry by entry: Cov(y vₐ, v vᵀ) from the parts that block elimination takes."""
    width = 3
    model, prior = conjugate(width, shared=True, centred=False)
    position = jnp.asarray(np.random.default_rng(8).normal(size=model.dimension))
    rows, moments = jit(lambda at: (model.labelled_rows(prior, at), model.row_moments(prior, at)))(position)
    row = jax.tree.map(lambda part: np.asarray(part[0]), rows)
    outer = row.covariance[:, :, None] * row.direction
    crossed = outer + outer.transpose(0, 2, 1) + np.einsum("ar,rij->aij", row.coefficients, row.matrices)

    names = [*range(width), width + 1]  # of (x, 1, y)
    places = [(i, width) for i in names] + [(i, j) for k, i in enumerate(names) for j in names[k:]][:-1]
    label = width + 1
    for k, (i, j) in enumerate(places):
        mean = row.label_mean[min(i, j)] if label in (i, j) else row.second_moment[i, j]
        assert float(moments.mean[0, k]) == pytest.approx(mean, rel=1e-12)
        for other, (a, b) in enumerate(places):
            if label in (i, j) and label in (a, b):
                expected = row.label_covariance[min(i, j), min(a, b)]
            elif label in (i, j):
                expected = crossed[min(i, j), a, b]
            else:
                continue
            assert float(moments.covariance[0, k, other]) == pytest.approx(expected, rel=1e-10, abs=1e-12)


def test_wide_regressions_are_solved_by_blocks() -> None:
    for width, kind in ((BLOCKS_FROM - 1, Observed), (BLOCKS_FROM, LabelledEvidence)):
        model = LogisticRegression(width, 1, shared=True)
        nothing = jnp.zeros((1, model.entries))
        assert isinstance(model.prepare(Observed(nothing, ROWS[:1], ROWS[:1], nothing, ROWS[:1])), kind)
