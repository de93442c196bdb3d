"""Scenarios of many parties: small coalitions look at few slots, and see the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from equipoise.inference import collapsed, engine
from equipoise.inference.engine import Problem, Settings
from equipoise.inference.models.linear import LinearRegression, linear_prior
from equipoise.inference.observations import MANY_SLOTS, Observations, Scenarios, by_size, observe
from equipoise.inference.runtime import double_precision

pytestmark = pytest.mark.engine

SLOTS = 9


def scenarios_of(sizes: list[int], slots: int = SLOTS) -> Scenarios:
    rng = np.random.default_rng(0)
    member = np.zeros((len(sizes), slots))
    for place, size in enumerate(sizes):
        member[place, rng.choice(slots, size, replace=False)] = 1
    tau = rng.uniform(size=member.shape) * member
    noise = rng.normal(size=(*member.shape, 9))
    return Scenarios(jnp.asarray(member), jnp.linspace(0.3, 1.0, len(sizes)), jnp.asarray(tau), jnp.asarray(noise))


@double_precision
def problem() -> Problem:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(SLOTS, 50, 3))
    products = np.einsum("pri,prj->pij", x, x)[:, *np.triu_indices(3)]
    statistic = np.concatenate([x.sum(axis=1), products], axis=1)
    variance = np.ones_like(statistic)
    variance[:, [3, 6, 8]] = 0.6  # squares
    variance *= rng.uniform(1, 4, size=(SLOTS, 1))
    prior = linear_prior(
        shape=3.0,
        scale=1.0,
        weight_mean=np.zeros(3),
        weight_precision=np.eye(3),
        feature_mean=np.zeros(2),
        mean_strength=1.0,
        scatter=np.eye(2),
        degrees_of_freedom=6.0,
    )
    observations = Observations(*map(jnp.asarray, (statistic, np.full(SLOTS, 50.0), variance, variance, 0 * variance)))
    return Problem(LinearRegression(2, SLOTS, shared=True), prior, observations)


def test_scenarios_are_sorted_by_size_and_none_is_lost() -> None:
    sizes = [1, 9, 4, 2, 5, 7, 3, 1]
    found = by_size(scenarios_of(sizes))
    assert sorted(place for places, _ in found for place in places.tolist()) == list(range(len(sizes)))
    for places, part in found:
        looked_at = part.member.shape[1] if part.chosen is None else part.chosen.shape[1]
        for place, row in zip(places, range(len(places)), strict=True):
            assert sizes[place] <= looked_at <= max(2 * sizes[place], 2)
            inside = part.member[row] if part.chosen is None else part.member[row][part.chosen[row]]
            assert int(inside.sum()) == sizes[place]  # every member is among them


def test_few_parties_have_one_program() -> None:
    ((places, part),) = by_size(scenarios_of([1, 2], MANY_SLOTS - 1))
    assert part.chosen is None
    assert places.tolist() == [0, 1]


@double_precision
def test_a_scenario_sees_the_same_through_fewer_slots() -> None:
    model, prior, observations = problem().model, problem().prior, problem().observations
    position = 0.3 * jnp.arange(model.dimension) / model.dimension
    scenarios = scenarios_of([1, 2, 4, 5, 7])

    def density(scenario: Scenarios) -> float:
        evidence = model.prepare(observe(observations, scenario, "power"))
        return float(collapsed.log_density(model, prior, evidence, position))

    for places, part in by_size(scenarios):
        for row, place in enumerate(places):
            narrow = jax.tree.map(lambda one, row=row: one[row], part)
            assert narrow.chosen is not None
            whole = jax.tree.map(lambda one, place=place: one[place], scenarios)
            assert density(narrow) == pytest.approx(density(whole), rel=1e-10)


@pytest.mark.slow
def test_a_batch_of_many_sizes_comes_back_in_order() -> None:
    scenarios = scenarios_of([9, 1, 5])
    keys = jax.random.split(jax.random.key(0), 3)
    settings = Settings(draws=640)
    together = engine.run(keys, problem(), scenarios, settings)
    for place, one in enumerate(together):
        alone = jax.tree.map(lambda part, place=place: part[place : place + 1], scenarios)
        by_itself = engine.run(keys[place : place + 1], problem(), alone, settings)[0]
        np.testing.assert_array_equal(one.positions, by_itself.positions)
