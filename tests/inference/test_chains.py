"""What is kept of the chains' draws, and what the engine does when chains diverge or do not agree."""

from typing import Any

import jax
import numpy as np
import pytest
from equipoise.inference.chains import Chains, Problem, Sampled, Settings
from equipoise.inference.observations import Scenarios
from jax import Array
from numpy.typing import NDArray

from equipoise.inference import diagnostics, engine
from equipoise.inference.diagnostics import Diagnostics

pytestmark = pytest.mark.engine

ROUND = 4
SETTINGS = Settings(draws=1_920, chains=16, max_thinning=8)  # three rounds


class Counting(Chains):
    """Two scenarios, two chains, draws numbered from 0 after the warm-up; diagnoses by script."""

    warm_up_rounds = 2
    round_length = staticmethod(lambda chains: ROUND)  # noqa: ARG005

    def __init__(self, script: list[list[str]]) -> None:
        self.script, self.reports, self.shortened = script, 0, []  # type: ignore[var-annotated]
        nothing = np.zeros((2, 1))
        super().__init__(
            jax.random.split(jax.random.key(0), 2),
            Problem(None, None, None),  # type: ignore[arg-type]
            Scenarios(nothing, np.ones(2), nothing),  # type: ignore[arg-type]
            SETTINGS,
        )

    def _begin(self, keys: Array) -> None:  # noqa: ARG002
        self.number = 0

    def _advance(self, keys: Array, *, adapt: bool) -> tuple[Any, Any]:  # noqa: ARG002
        if adapt:
            return None, None
        numbers = np.arange(self.number, self.number + ROUND, dtype=float)
        self.number += ROUND
        return np.broadcast_to(numbers[None, None, :, None], (2, 2, ROUND, 1)), self.number

    def _report(self, draws: Any, records: list[Any], thin: int) -> list[Sampled]:
        verdicts = self.script[min(self.reports, len(self.script) - 1)]
        self.reports += 1
        self.records = records
        return [Sampled({}, draws[index], verdict(kind, thin)) for index, kind in enumerate(verdicts)]

    def shorten_steps(self, scenarios: NDArray[np.bool_]) -> None:
        self.shortened.append(scenarios.tolist())


def verdict(kind: str, thin: int) -> Diagnostics:
    good, bad = np.array([1.0]), np.array([1.5])
    many = np.array([1e4])
    divergences = 1_000 if kind == "diverged" else 0
    return Diagnostics(1_000, bad if kind == "apart" else good, many, many, divergences=divergences, thin=thin)


def run(*script: list[str], most: int = 0) -> tuple[Counting, list[list[float]]]:
    chains = Counting(list(script))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "MOST_KEPT", most)
        results = engine._sample(chains, SETTINGS, lambda: None)
    kept = []
    for one in results:
        assert one.positions is not None
        kept.append(one.positions[0, :, 0].tolist())
    return chains, kept


def test_chains_that_agree_keep_every_draw() -> None:
    _, kept = run(["good", "good"])
    assert kept == [list(range(12))] * 2


def test_chains_that_do_not_agree_go_on_and_keep_every_second_draw() -> None:
    chains, kept = run(["apart", "apart"], ["good", "good"])
    assert kept == [[float(k) for k in range(1, 28, 2)][-12:]] * 2  # three rounds were kept, one and a half remain
    assert len(chains.records) == chains.number / ROUND  # of every round


def test_small_requests_keep_every_draw_until_there_are_many() -> None:
    chains, kept = run(["apart", "apart"], ["good", "apart"], ["good", "good"], most=2 * 1_920)
    assert kept == [list(range(24)), list(range(1, 48, 2))]  # all of six rounds, then every other of twelve
    assert chains.reports == 3


def test_thinning_ends_at_its_limit() -> None:
    chains, kept = run(["apart", "apart"])
    assert chains.reports == 4  # thinned by 1, 2, 4, 8
    assert [len(one) for one in kept] == [12, 12]
    assert set(np.diff(kept[0])) == {8.0}


def test_divergence_halves_the_steps_of_those_that_diverged_and_starts_again() -> None:
    chains, kept = run(["diverged", "apart"], ["good", "good"])
    assert chains.shortened == [[True, False]]
    assert kept == [list(range(12, 24))] * 2
    assert len(chains.records) == 3  # the first run is forgotten


def test_divergence_alone_is_not_met_with_longer_chains() -> None:
    chains, _ = run(["diverged", "good"])
    assert chains.reports == 1 + engine.MAX_HALVINGS


def test_a_scenario_that_has_converged_keeps_its_draws_whatever_the_others_need() -> None:
    _, kept = run(["good", "diverged"], ["apart", "good"])
    assert kept == [list(range(12)), list(range(12, 24))]


@pytest.mark.parametrize(
    ("divergences", "thin", "diverged"), [(1, 1, False), (2, 1, True), (7, 8, False), (9, 8, True)]
)
def test_one_divergence_in_a_thousand_transitions_is_forgiven(divergences: int, thin: int, diverged: bool) -> None:
    one = np.ones(1)
    found = Diagnostics(1_000, one, 1e4 * one, 1e4 * one, divergences=divergences, thin=thin)
    assert found.diverged is diverged
    assert found.mixed
    assert found.converged is not diverged
    assert diagnostics.DIVERGENT_SHARE_LIMIT == 0.001
