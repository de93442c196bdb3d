"""A party varies its ε: what it is worth, brings and gets hangs together, and numbers survive on disk."""

from pathlib import Path

import pytest

from equipoise.estimate import Estimate
from equipoise_paper.outcome import Outcome
from equipoise_paper.settings import EPSILONS, PARTIES, RHO
from equipoise_paper.sweep import COALITIONS, Run, Variation, read_runs, shared_out
from equipoise_paper.tradeoffs import averaged, levels_of, trade_off


def test_there_is_a_run_for_every_level(runs: list[Run]) -> None:
    assert [(run.epsilon, run.run) for run in runs] == [(0.1, 0), (12.5, 0)]
    assert levels_of(runs) == [0.1, 12.5]
    for run in runs:
        assert list(run.values) == COALITIONS


def test_shapley_values_share_out_what_everybody_is_worth(runs: list[Run]) -> None:
    for run in runs:
        assert sum(one.value for one in run.shapley.values()) == pytest.approx(run.team.value)


def test_rewards_are_what_they_should_be(runs: list[Run]) -> None:
    for run in runs:
        most = max(one.value for one in run.shapley.values())
        expected = run.team.value * (run.shapley["2"].value / most) ** RHO
        assert run.target == pytest.approx(expected)
        assert run.reward.value == pytest.approx(run.target, abs=4 * run.reward.error + 0.1)


def test_only_who_brings_most_gets_everything(runs: list[Run]) -> None:
    private, open_handed = runs
    assert private.shapley["2"].value < private.shapley["3"].value
    assert 0 < private.kappa < 1
    assert private.reward.value < private.team.value
    assert open_handed.shapley["2"].value > open_handed.shapley["3"].value
    assert open_handed.kappa == 1
    assert open_handed.reward == open_handed.team
    assert open_handed.loss_reward == open_handed.loss_team


def test_less_privacy_is_worth_more(runs: list[Run]) -> None:
    private, open_handed = runs
    assert open_handed.values["2",].value > private.values["2",].value + 1
    assert open_handed.loss_alone < private.loss_alone


def test_coalitions_without_the_party_are_the_same_at_all_levels(runs: list[Run]) -> None:
    for members in COALITIONS:
        same = runs[0].values[members] == runs[1].values[members]
        assert same == ("2" not in members)


def test_runs_are_read_as_they_were_written(runs: list[Run], tmp_path: Path) -> None:
    Outcome.of_runs("sweep", [run.row() for run in runs], ("epsilon",), [], []).save(tmp_path)
    for before, after in zip(runs, read_runs(tmp_path / "sweep-runs.csv"), strict=True):
        assert after.row() == pytest.approx(before.row(), rel=1e-5)
        assert after.values.keys() == before.values.keys()
        assert after.shapley.keys() == before.shapley.keys()


def test_everything_claimed_of_a_sweep_is_drawn_and_judged(runs: list[Run], tmp_path: Path) -> None:
    found = trade_off("two-levels", runs, tmp_path)
    assert len(found.pictures) == 6
    assert all(path.is_file() for path in found.pictures)
    words = {one.claim: one.word for one in found.verdicts}
    assert words["v2 grows with ε2"] == words["φ2 grows with ε2"] == words["r2 grows with ε2"] == "holds"
    assert len(words) == 12
    assert len(trade_off("without", runs, tmp_path, shapley=False).verdicts) == 9
    assert [one.value for one in averaged(runs, lambda run: run.target)] == [run.target for run in runs]


def test_others_keep_their_epsilon_unless_said_otherwise() -> None:
    assert Variation().epsilons(3.0) == {**EPSILONS, "2": 3.0}
    assert Variation(party="1", others=2.0).epsilons(3.0) == {"1": 3.0, "2": 2.0, "3": 2.0}
    assert list(Variation().epsilons(3.0)) == list(PARTIES)


def test_values_are_shared_out_by_coalition() -> None:
    """Nobody adds to what party 3 brings, but parties 1 and 2 could do half of it together."""
    values = {members: Estimate(2.0 if "3" in members else 0.0, 0.0) for members in COALITIONS}
    values["1", "2"] = Estimate(1.0, 0.0)
    shapley, targets = shared_out(values, 0.5)
    assert shapley.values.tolist() == pytest.approx([1 / 6, 1 / 6, 5 / 3])
    assert targets.values.tolist() == pytest.approx([2 * 0.1**0.5, 2 * 0.1**0.5, 2])
