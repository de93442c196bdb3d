"""Scenarios in groups, as an accelerator has them: pretended on a CPU, where the draws are the same."""

import threading
from functools import partial
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equipoise.inference.chains import Problem
from equipoise.inference.observations import Observations, Scenarios

from equipoise.inference import chains, engine, programs
from equipoise.inference.models.bernoulli import Bernoulli, bernoulli_prior
from equipoise.inference.runtime import double_precision

pytestmark = pytest.mark.engine


@double_precision
def small_problem() -> Problem:
    """Three parties of a hundred rows each."""
    ones = jnp.ones((3, 1))
    observations = Observations(jnp.array([[30.0], [50.0], [20.0]]), 100 * ones[:, 0], 4 * ones, 2 * ones, 0 * ones)
    return Problem(Bernoulli(3), bernoulli_prior(2.0, 3.0), observations)


@pytest.fixture
def accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (chains, engine):
        monkeypatch.setattr(module, "on_accelerator", lambda: True)


@pytest.mark.usefixtures("accelerator")
def test_groups_have_few_sizes() -> None:
    sizes = [engine.group_size(number, 128, (12, 77)) for number in (1, 2, 8, 9, 64, 65, 5_000)]
    assert sizes == [8, 8, 8, 64, 64, 64, 64]


@pytest.mark.usefixtures("accelerator")
def test_groups_of_wide_models_are_small() -> None:
    assert engine.group_size(64, 128, (100, 77)) == 64
    assert engine.group_size(64, 128, (3, 527)) == 64
    assert engine.group_size(64, 128, (3, 1_377)) == 1
    assert engine.group_size(64, 128, (100, 20_000)) == 1


def test_a_group_is_one_scenario_on_a_cpu() -> None:
    assert engine.group_size(5_000, 64, (3, 14)) == 1


@pytest.mark.usefixtures("accelerator")
def test_warm_up_is_short_where_rounds_are_long() -> None:
    many, few = engine.Settings(chains=128), engine.Settings(chains=64)
    assert [chains.warm_up_rounds(many, width) for width in (77, 1_377, 5_252)] == [4, 6, 8]
    assert [chains.warm_up_rounds(few, width) for width in (77, 1_377)] == [8, 13]
    assert chains.warm_up_rounds(engine.Settings(chains=128, sampler="gibbs"), 77) == 2
    assert chains.warm_up_rounds(engine.Settings(chains=128, warm_up=3), 77) == 3


def test_tasks_are_at_work_while_their_forerunners_are_used() -> None:
    second = threading.Event()

    def first() -> int:
        assert second.wait(10)  # begins only if both are under way
        return 1

    def then() -> int:
        second.set()
        return 2

    stop = threading.Event()
    assert list(engine._ahead([first, then, lambda: 3, lambda: 4], 2, stop)) == [1, 2, 3, 4]


def test_what_a_task_raises_is_raised() -> None:
    def broken() -> int:
        raise ValueError("broken")

    stop = threading.Event()
    found = engine._ahead([lambda: 1, broken], 2, stop)
    assert next(found) == 1
    with pytest.raises(ValueError, match="broken"):
        next(found)
    assert stop.is_set()


def test_who_leaves_ends_what_is_at_work() -> None:
    stop, begun = threading.Event(), list[int]()

    def task(number: int) -> int:
        begun.append(number)
        assert number == 0 or stop.wait(10)
        return number

    found = engine._ahead([partial(task, number) for number in range(6)], 2, stop)
    assert next(found) == 0
    found.close()
    assert set(begun) <= {0, 1, 2}


@pytest.mark.slow
@pytest.mark.usefixtures("accelerator")
def test_a_few_scenarios_of_a_batch_compile_nothing_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many, whose noise is not stated; then two of them for more draws, whose noise is."""
    monkeypatch.setattr(programs, "on_accelerator", lambda: True)
    monkeypatch.setattr(programs, "_ahead", {})
    monkeypatch.setattr(engine, "GROUPS", (2, 4))
    monkeypatch.setattr(engine, "IN_FLIGHT", 1)  # two programs at once may wait for each other on a CPU
    problem = small_problem()
    slots, entries = problem.observations.statistic.shape
    member = jnp.ones((4, slots))
    many = Scenarios(member, jnp.linspace(0.1, 1.0, 4), 0 * member)
    keys = jax.random.split(jax.random.key(3), 4)
    run = partial(engine.run, settings=engine.Settings(draws=320, chains=32, warm_up=3, max_thinning=1))
    run(keys, problem, many)
    compiled = set(programs._ahead)
    assert len(compiled) == 4  # of four scenarios and of two, to begin and to go on
    few = jax.tree.map(lambda part: part[:2], many)._replace(noise=jnp.zeros((2, slots, entries)))
    with mock.patch.object(programs, "_compile", side_effect=AssertionError("compiled again")):
        assert len(run(keys[:2], problem, few)) == 2
    assert set(programs._ahead) == compiled


@pytest.mark.slow
def test_draws_do_not_depend_on_the_group(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = small_problem()
    slots = problem.model.slots
    kappa = jnp.linspace(0.1, 1.0, 10)
    scenarios = Scenarios(jnp.ones((10, slots)), kappa, jnp.zeros((10, slots)))
    keys = jax.random.split(jax.random.key(3), 10)
    settings = engine.Settings(draws=320, chains=32, warm_up=3, max_thinning=1)
    ticks: list[float] = []
    run = partial(engine.run, keys, problem, scenarios, settings)
    alone = run()
    monkeypatch.setattr(engine, "on_accelerator", lambda: True)
    monkeypatch.setattr(engine, "GROUPS", (4,))
    monkeypatch.setattr(engine, "IN_FLIGHT", 1)  # two programs at once may wait for each other on a CPU
    for one, other in zip(alone, run(ticks.append), strict=True):
        assert one.positions is not None
        assert other.positions is not None
        np.testing.assert_allclose(other.positions[:, :2], one.positions[:, :2], rtol=1e-6, atol=1e-6)
    assert sum(ticks) >= 10 * engine.planned_rounds(settings)
