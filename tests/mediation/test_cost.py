"""What a round will cost: posteriors counted as the round counts them, and an estimate that says what it assumes."""

import time
from pathlib import Path
from unittest import mock

import pytest

import rounds
from equipoise.mediation import cost
from equipoise.mediation.advice.imagined import Engine
from equipoise.mediation.cost import COMPARING, MORE_DRAWS, Cost, estimate_cost, planned_posteriors
from equipoise.mediation.journal import FileJournal
from equipoise.mediation.settings import EXACT_UP_TO, Mechanism, SettlementSettings, default_budget
from equipoise.reward.targets import every_coalition
from equipoise.reward.tempering import FIRST_LOOK
from equipoise.valuation.sampling import smallest_budget

ONE = 0.8  # seconds of a posterior


def estimated(parties: int, journal: Path | None = None, cores: int = 2, **settings: object) -> Cost:
    """The estimate of a machine of known speed."""
    agreed = rounds.agreement("gaussian", parties)
    with (
        mock.patch.object(cost, "_seconds_of_posterior", return_value=ONE),
        mock.patch.object(cost, "usable_cores", return_value=cores),
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


def sampling(found: Cost, parties: int) -> float:
    """Seconds but for comparing the parties' rewards."""
    return found.seconds - COMPARING * parties


def test_seconds_follow_from_posteriors_and_cores() -> None:
    found = estimated(3)
    assert found.processes == 2
    assert found.posterior == ONE
    assert sampling(found, 3) == pytest.approx((MORE_DRAWS * found.coalitions + found.rewards) * ONE / 2)
    assert found.least < found.seconds < found.most
    alone = estimated(3, cores=1)
    assert alone.processes == 1
    assert sampling(alone, 3) == pytest.approx(2 * sampling(found, 3))
    assert estimated(3, cores=1_000).processes == found.coalitions + found.rewards
    assert "about" in found.words
    assert "7 coalitions" in found.words
    assert "2 at once" in found.words


def test_rewards_made_by_noise_wait_for_each_other() -> None:
    one, many = (estimated(4, cores=cores, mechanism="noise") for cores in (1, 8))
    assert sampling(many, 4) == pytest.approx((MORE_DRAWS * many.coalitions / 8 + many.rewards) * ONE)
    assert one.seconds - many.seconds == pytest.approx(MORE_DRAWS * many.coalitions * ONE * 7 / 8)


@pytest.mark.statistical
def test_waiting_for_other_processes_is_no_cost() -> None:
    """A busy machine made the same question take 21 minutes or 6 hours in version 0.14."""
    agreed = rounds.agreement("bernoulli", 2)

    def wait(*_: object) -> None:
        time.sleep(0.4)

    with mock.patch.object(Engine, "sample", wait):
        assert estimate_cost(agreed).posterior < 0.1

    def busy(*_: object) -> None:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass

    with mock.patch.object(Engine, "sample", busy):
        assert estimate_cost(agreed).posterior >= 0.2


def test_what_an_earlier_run_left_is_taken_off(tmp_path: Path) -> None:
    whole = estimated(3)
    with FileJournal(tmp_path / "journal.jsonl", "inputs") as journal:
        for place in range(5):
            journal.put({"place": place}, 1)
    rest = estimated(3, tmp_path / "journal.jsonl")
    assert rest.kept == 5
    left = whole.coalitions + whole.rewards - 5
    assert sampling(rest, 3) == pytest.approx(sampling(whole, 3) * left / (left + 5))
    assert "5 are kept" in rest.words
    for nonsense in ("nonsense", "[" * 100_000, "[]", ""):
        (tmp_path / "journal.jsonl").write_text(f"{nonsense}\n")
        assert estimated(3, tmp_path / "journal.jsonl").kept == 0


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["bernoulli", "gaussian", "linear", "logistic"])
def test_this_machine_is_measured(kind: str) -> None:
    found = estimate_cost(rounds.agreement(kind, 3))
    assert 0.001 < found.posterior < 20
    assert found.seconds > found.coalitions * found.posterior / found.processes
    assert found.to_json()["least_seconds"] == found.least
