"""What a round will cost: posteriors counted as the round counts them, and an estimate that says what it assumes."""

import time
from pathlib import Path
from unittest import mock

import pytest
from equipoise.inference.cost import LEAPS, Speed, seconds_of
from equipoise.inference.engine import Settings, planned_rounds
from equipoise.inference.hmc import round_length

import rounds
from equipoise.mediation import cost
from equipoise.mediation.cost import Cost, estimate_cost, planned_posteriors
from equipoise.mediation.journal import FileJournal
from equipoise.mediation.settings import EXACT_UP_TO, Mechanism, SettlementSettings, default_budget
from equipoise.reward.targets import every_coalition
from equipoise.reward.tempering import FIRST_LOOK
from equipoise.valuation.sampling import smallest_budget

PLENTY = Speed(gradient=0.001, diagnosing=0.1, compiling=0.5)


def estimated(parties: int, journal: Path | None = None, **settings: object) -> Cost:
    """The estimate of a machine of known speed, on two cores, which values a posterior in no time."""
    agreed = rounds.agreement("gaussian", parties)
    with (
        mock.patch.object(cost, "measure", return_value=PLENTY),
        mock.patch.object(cost, "processes_for", lambda number: 2 if number >= 18 else 1),
        mock.patch.object(cost, "_valuing_seconds", return_value=0.0),
    ):
        return estimate_cost(agreed, SettlementSettings.of(None, settings), journal=journal)


def planned(parties: int, mechanism: Mechanism = "tempering", **settings: object) -> tuple[int, int]:
    return planned_posteriors(parties, SettlementSettings.of(None, settings), mechanism)


def test_coalitions_are_those_that_will_be_valued() -> None:
    for parties in (1, 2, 5):
        names = [f"p{place}" for place in range(parties)]
        assert planned(parties)[0] == len(every_coalition(names)) - 1
    many = EXACT_UP_TO + 8
    assert planned(many)[0] == default_budget(many)
    assert planned(many, budget=500)[0] == 500
    assert smallest_budget(10) < planned(10)[0] < planned(10, coalitions="all")[0] == 1_023


def test_rewards_take_a_curve_a_verification_each_and_the_others_evidence() -> None:
    assert planned(1)[1] == 0  # one party gets all
    assert planned(4)[1] >= len(FIRST_LOOK) + 3 + 4
    assert planned(4, "noise")[1] > planned(4)[1]


def test_seconds_follow_from_gradients_draws_and_cores() -> None:
    settings = Settings(draws=4_000)
    one = LEAPS * planned_rounds(settings) * round_length(settings.chains) * 0.001 + 0.1
    assert PLENTY.posterior(settings) == pytest.approx(one)
    found = estimated(3)
    assert found.processes == 2
    assert found.posterior == pytest.approx(one)
    fewest = (found.coalitions + found.rewards) * one / 2
    assert fewest < found.seconds - found.compiling < 2 * fewest
    assert found.least < found.seconds < found.most
    longer = estimated(3, draws=40_000)
    assert longer.seconds - longer.compiling > 2 * (found.seconds - found.compiling)
    assert estimated(2).processes == 1
    assert "about" in found.words
    assert "7 coalitions" in found.words


def test_waiting_for_other_processes_is_no_cost() -> None:
    """A busy machine made the same question take 21 minutes or 6 hours in version 0.14."""
    assert seconds_of(lambda: time.sleep(0.3)) < 0.1
    begun = time.process_time()
    assert seconds_of(lambda: [index**2 for index in range(200_000)]) <= time.process_time() - begun


def test_what_an_earlier_run_left_is_taken_off(tmp_path: Path) -> None:
    whole = estimated(3)
    with FileJournal(tmp_path / "journal.jsonl", "inputs") as journal:
        for place in range(5):
            journal.put({"place": place}, 1)
    rest = estimated(3, tmp_path / "journal.jsonl")
    assert rest.kept == 5
    assert whole.compiling < rest.seconds < whole.seconds
    assert "5 are kept" in rest.words
    for nonsense in ("nonsense", "[" * 100_000, "[]", ""):
        (tmp_path / "journal.jsonl").write_text(f"{nonsense}\n")
        assert estimated(3, tmp_path / "journal.jsonl").kept == 0


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_regressions_are_measured_by_a_posterior(kind: str) -> None:
    found = estimate_cost(rounds.agreement(kind, 3))
    assert found.compiling == 0
    assert 0.005 < found.posterior < 20
    assert found.seconds > found.coalitions * found.posterior / found.processes


@pytest.mark.engine
@pytest.mark.group("gaussian")
def test_this_machine_is_measured() -> None:
    found = estimate_cost(rounds.agreement("bernoulli", 2), SettlementSettings(draws=400))
    assert 0 < found.posterior < 60
    assert found.seconds > found.compiling > 0
    assert found.to_json()["least_seconds"] == found.least
