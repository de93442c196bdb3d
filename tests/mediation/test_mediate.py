"""A round from submissions to a settlement: what it says, that it can be repeated, resumed, saved and loaded."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise as eq
import rounds
from equipoise.errors import ConvergenceError, InferenceError, MediationError, SubmissionError, TableError
from equipoise.inference import batch, diagnostics
from equipoise.mediation import appraisal, mediator
from equipoise.mediation.mediator import JOURNAL, mediate
from equipoise.mediation.noise_secret import SECRET, noise_secret_of
from equipoise.mediation.requests import Evaluation
from equipoise.mediation.seeds import derived_noise
from equipoise.mediation.settings import SettlementSettings
from equipoise.mediation.task import task_of
from equipoise.reward import noising
from equipoise.valuation.shapley import exact_shapley
from mediation.conftest import QUICK

IDENTITY = "ab" * 32

pytestmark = [pytest.mark.engine, pytest.mark.group("rounds")]


def test_everything_follows_from_the_values(settled: eq.Settlement) -> None:
    names = settled.parties
    values = [
        settled.value(*(name for place, name in enumerate(names) if mask >> place & 1)).value for mask in range(8)
    ]
    phi = exact_shapley(values).values
    np.testing.assert_allclose([settled.shapley[name].value for name in names], phi, rtol=1e-12)
    targets = values[-1] * (phi / phi.max()) ** settled.rho
    np.testing.assert_allclose([settled.awards[name].target.value for name in names], targets, rtol=1e-12)


def test_weaker_privacy_earns_more(settled: eq.Settlement) -> None:
    """The parties have as many rows each; their guarantees differ by factors of four."""
    targets = [settled.awards[name].target.value for name in ("north", "south", "west")]
    assert targets == sorted(targets, reverse=True)
    assert settled.probability_above("north", "west") > 0.999


def test_the_precision_asked_for_is_reached(settled: eq.Settlement) -> None:
    assert settled.precision <= settled.options["precision"] == QUICK["precision"]
    for award in settled.awards.values():
        assert award.within_tolerance
        assert abs(award.attained.value - award.target.value) <= settled.options["tolerance"]


def test_what_a_run_leaves_is_for_its_owner_alone(settled: eq.Settlement, out: Path) -> None:
    """Rewards, values and the journal; of these a lock holds nothing."""
    files = [path for path in out.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert len(files) == len(settled.parties) + 2
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    # Each party has a folder of its own; to be let into it, it must be able to pass through the others.
    for party in settled.parties:
        assert [path.name for path in (out / "for" / party).iterdir()] == ["reward.nc"]
        assert (out / "for" / party).stat().st_mode & 0o777 == 0o700
    assert (out / "for").stat().st_mode & 0o066 == 0


def test_folders_of_older_versions_still_open(settled: eq.Settlement, tmp_path: Path) -> None:
    """Up to 0.6 all rewards were in one folder."""
    settled.save(tmp_path)
    (tmp_path / "rewards").mkdir()
    for party in settled.parties:
        (tmp_path / "for" / party / "reward.nc").rename(tmp_path / "rewards" / f"{party}.nc")
    loaded = eq.Settlement.load(tmp_path)
    assert loaded == settled
    assert loaded.awards["west"].reward == settled.awards["west"].reward is not None


def test_rewards_hold_the_models_own_parameters(settled: eq.Settlement, out: Path) -> None:
    """Also of the party that gets the whole posterior; the features' means and covariances stay with the mediator."""
    loaded = eq.Settlement.load(out)
    for party, award in settled.awards.items():
        for held in (award.posterior, loaded.awards[party].posterior):
            assert set(held.draws) == {"weights", "variance"}
            assert held.coordinates is not None
            assert len(held.diagnostics.rhat) == held.coordinates.shape[1]
    assert loaded.audit["P3"].verdict == "holds"


def test_the_best_contributor_gets_the_whole_posterior(settled: eq.Settlement) -> None:
    best = max(settled.awards.values(), key=lambda award: award.target.value)
    assert best.party == "north"
    assert best.kappa == 1
    assert (best.similarity.value, best.similarity.error) == (0, 0)
    assert best.attained == settled.value(*settled.parties)
    assert best.posterior.scenario.coalition == settled.parties
    for award in settled.awards.values():
        if award is not best:
            assert 0 < award.kappa < 1
            assert award.posterior.scenario.kappa == award.kappa
            assert award.similarity.value < 0


def test_a_settlement_loads_back_equal(settled: eq.Settlement, out: Path) -> None:
    loaded = eq.Settlement.load(out)
    assert loaded == settled
    assert loaded.decisions == settled.decisions
    assert loaded.audit == settled.audit
    document = json.loads((out / "settlement.json").read_text())
    assert document["audit"]["findings"][0]["verdict"] == "holds"


def test_a_reward_stands_alone(settled: eq.Settlement, out: Path, agreed: eq.Agreement) -> None:
    reward = eq.Reward.load(out / "for" / "south" / "reward.nc")
    award = settled.awards["south"]
    assert reward == award.reward
    assert reward.party == "south"
    assert reward.agreement.identity == agreed.identity
    assert reward.value == award.attained
    again = eq.surprise(reward.agreement, reward.posterior)
    assert abs(again.value - award.attained.value) < 4 * np.hypot(again.error, award.attained.error) + 0.03
    data: Any = reward.to_inferencedata()
    assert data.posterior["weights"].shape[0] == reward.posterior.chains
    assert reward.posterior.converged


class InterruptedRunError(Exception):
    pass


def test_threads_change_nothing(
    agreed: eq.Agreement, sent: list[eq.Submission], settled: eq.Settlement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Posteriors are sampled, and awards made, in threads."""
    for module in (batch, mediator):
        monkeypatch.setattr(module, "usable_cores", lambda: 4)
    again = mediate(agreed, sent, seed=3, **{**QUICK, "processes": None})
    assert again.decisions == settled.decisions
    assert {party: award.digest for party, award in again.awards.items()} == {
        party: award.digest for party, award in settled.awards.items()
    }


def test_values_that_were_found_before_a_crash_are_kept(
    agreed: eq.Agreement, sent: list[eq.Submission], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where four posteriors are sampled at once."""
    value, seen = appraisal.Evaluator._value, list[int]()

    def fails_once(self: appraisal.Evaluator, *arguments: Any) -> Evaluation:
        seen.append(1)
        if len(seen) == 3:
            raise InterruptedRunError
        return value(self, *arguments)

    monkeypatch.setattr(batch, "usable_cores", lambda: 4)
    monkeypatch.setattr(appraisal.Evaluator, "_value", fails_once)
    with pytest.raises(InterruptedRunError):
        mediate(agreed, sent, folder=tmp_path, **{**QUICK, "processes": None})
    assert len((tmp_path / JOURNAL).read_bytes().splitlines()) == len(seen)  # a line for the inputs, none for the third


def test_a_killed_run_goes_on_without_recomputing(
    agreed: eq.Agreement,
    sent: list[eq.Submission],
    settled: eq.Settlement,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Stopped after every few values, then finished: nothing is computed twice, and the same inputs and seed, in
    whatever order and however interrupted, give the same decisions."""
    whole = mediate(agreed, sent[::-1], seed=5, **QUICK)
    assert whole.decisions != settled.decisions  # which another seed gave
    values = appraisal.Evaluator._value
    counts: list[int] = []
    left = 0

    def count(self: appraisal.Evaluator, *arguments: Any) -> Evaluation:
        nonlocal left
        if left == 0:
            raise InterruptedRunError
        left -= 1
        counts.append(1)
        return values(self, *arguments)

    monkeypatch.setattr(appraisal.Evaluator, "_value", count)
    settlement = None
    for _ in range(30):
        left = 4
        try:
            settlement = mediate(agreed, sent, seed=5, folder=tmp_path, **QUICK)
            break
        except InterruptedRunError:
            continue
    assert settlement == whole
    assert settlement.decisions == whole.decisions
    lines = (tmp_path / JOURNAL).read_text().splitlines()
    assert len(lines) == 1 + len(counts)
    assert len(set(lines)) == len(lines)


def test_a_run_with_other_inputs_is_not_resumed(
    agreed: eq.Agreement, sent: list[eq.Submission], settled: eq.Settlement, out: Path
) -> None:
    before = (out / JOURNAL).read_bytes()
    with pytest.raises(MediationError, match="belongs to other inputs"):
        mediate(agreed, sent, seed=4, folder=out, **QUICK)
    with pytest.raises(MediationError, match="belongs to other inputs"):
        mediate(agreed, sent[:2], seed=3, folder=out, partial=True, **QUICK)
    assert (out / JOURNAL).read_bytes() == before


def test_teams_share_what_each_is_worth(agreed: eq.Agreement, sent: list[eq.Submission]) -> None:
    """Within each team somebody gets its posterior, and similarity is to that."""
    settlement = mediate(agreed, sent, teams=[["west", "north"], ["south"]], seed=1, **QUICK)
    assert settlement.teams == (("north", "west"), ("south",))
    assert settlement.awards["north"].target == settlement.value("north", "west")
    assert settlement.awards["south"].target == settlement.value("south")
    assert settlement.awards["west"].kappa < 1
    assert settlement.awards["west"].posterior.scenario.coalition == ("north", "west")
    phi = settlement.shapley
    share = phi["west"].value / phi["north"].value
    expected = settlement.value("north", "west").value * share**settlement.rho
    assert settlement.awards["west"].target.value == pytest.approx(expected)
    assert settlement.audit["P2"].verdict == "holds"
    assert not settlement.audit.failures


def test_rewards_by_added_noise(
    agreed: eq.Agreement, sent: list[eq.Submission], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = set()
    sample: Any = vars(appraisal)["infer_batch"]

    def noting(*arguments: Any, **options: Any) -> Any:
        labels.add(options["label"])
        return sample(*arguments, **options)

    monkeypatch.setattr(appraisal, "infer_batch", noting)
    settlement = mediate(
        agreed, sent, mechanism="noise", seed=2, noise_secret="5a" * 16, folder=tmp_path / "out", **QUICK
    )
    assert settlement.awards["north"].tau == 0
    for party in ("south", "west"):
        award = settlement.awards[party]
        assert award.tau > 0
        assert award.kappa == 1
        assert award.within_tolerance
        # τ is of a grid that the agreement gives: nothing of anybody's ε can be read off its digits.
        place = noising.FINEST * np.log2(award.tau * agreed.privacy.max_epsilon / noising.FIRST)
        assert place == pytest.approx(round(place), abs=1e-6)
        assert award.posterior.scenario.tau == dict.fromkeys(settlement.parties, award.tau)
        # Not what the added noise alone would give: the party is told values that were computed without it.
        assert award.epsilons == {name: one.epsilon for name, one in settlement.contributions.items()}
        reward = eq.Reward.load(tmp_path / "out" / "for" / party / "reward.nc")
        assert reward.posterior.noise_seed == 0  # or its owner could take the noise away again
    lines = (tmp_path / "out" / JOURNAL).read_text().splitlines()[1:]
    seeds = {json.loads(line)["key"]["noise_seed"] for line in lines} - {0}
    settings: dict[str, Any] = {name: QUICK[name] for name in ("draws", "precision")}
    task = task_of(agreed, sent, mechanism="noise", seed=2, noise_secret="5a" * 16, **settings)
    secret = task.noise_of_this_round
    assert secret is not None
    assert seeds == {derived_noise(secret, "noise", party) for party in ("south", "west")}
    harder = task_of(agreed, sent, mechanism="noise", seed=2, noise_secret="5a" * 16, rho=0.9, **settings)
    assert harder.noise_of_this_round != secret  # or who got rewards of both could take the noise away
    assert not any(secret in (tmp_path / "out" / "settlement.json").read_text() for secret in ("5a" * 16, *seeds))
    # Parties that watch a service at work see these words.
    assert "adding noise" in labels
    assert not [label for label in labels if any(party in label for party in settlement.parties)]
    assert settlement.audit["P1"].verdict == "holds"
    assert settlement.audit["P5"].verdict == "cannot tell"


def test_added_noise_does_not_follow_from_the_seed(tmp_path: Path) -> None:
    first, second = (noise_secret_of("noise", None, None, IDENTITY) for _ in range(2))
    assert first != second
    kept = noise_secret_of("noise", None, tmp_path, IDENTITY)
    assert noise_secret_of("noise", None, tmp_path, IDENTITY) == kept  # a run that goes on
    assert (tmp_path / SECRET).stat().st_mode & 0o077 == 0
    assert noise_secret_of("tempering", None, tmp_path, IDENTITY) is None
    with pytest.raises(MediationError, match="must be 64 hexadecimal digits"):
        SettlementSettings.of(None, {"noise_secret": "1234"})
    with pytest.raises(MediationError, match="leave it out"):
        noise_secret_of("tempering", "5a" * 16, None, IDENTITY)


@pytest.mark.slow
def test_by_the_papers_sampler_and_rule(
    agreed: eq.Agreement, sent: list[eq.Submission], settled: eq.Settlement
) -> None:
    """Gibbs sampling with the scaled rule and the paper's estimator; its chains mix slowly, so it is forced."""
    options = {**QUICK, "draws": 2_000, "precision": 0.3}
    settlement = mediate(agreed, sent, method="gibbs", estimator="knn", force=True, **options)
    assert settlement.awards["west"].posterior.method == "gibbs"
    assert settlement.awards["west"].posterior.rule == "scaled"
    assert settlement.awards["west"].kappa < 1
    for party in settlement.parties:
        assert settlement.awards[party].target.value == pytest.approx(settled.awards[party].target.value, abs=1.0)


def test_one_party_gets_its_own_posterior(agreed: eq.Agreement, sent: list[eq.Submission]) -> None:
    settlement = mediate(agreed, sent[:1], partial=True, **QUICK)
    assert settlement.awards["north"].kappa == 1
    assert settlement.awards["north"].target == settlement.value("north") == settlement.shapley["north"]
    assert settlement.absent == ("south", "west")


def test_nobody_is_left_out_by_accident(agreed: eq.Agreement, sent: list[eq.Submission], tmp_path: Path) -> None:
    with pytest.raises(MediationError, match=r"south has not submitted; wait, or .*--partial \(partial=True\)"):
        mediate(agreed, [sent[2], sent[0]], folder=tmp_path / "out", **QUICK)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_how_well_rewards_predict(agreed: eq.Agreement, sent: list[eq.Submission]) -> None:
    rows = rounds.table("linear", 2_000, 99)
    settlement = mediate(agreed, sent, test=(rows["x"][:, None], rows["y"]), seed=1, **QUICK)
    utilities = [settlement.awards[party].losses["reward"].value for party in settlement.parties]
    truth = 0.5 * np.log(2 * np.pi * 0.25) + 0.5
    for utility in utilities:
        assert utility is not None
        assert truth - 0.1 < utility < truth + 1.0


@pytest.mark.slow
def test_a_game_that_is_sampled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its shape, by the quick sampler; `test_more_parties_than_can_be_enumerated` has its numbers."""
    agreed = rounds.agreement("linear", 6)
    sent = rounds.submissions(agreed, tmp_path, (40.0, 30.0, 30.0, 20.0, 20.0, 10.0))
    options = {**QUICK, "draws": 400, "precision": 1.0}
    sampled = mediate(agreed, sent, rho=0.5, coalitions="sampled", budget=61, method="naive", **options)
    assert not sampled.exact
    assert len(sampled.coalitions) <= 61
    assert sampled.options["coalitions"] == "sampled"
    shared_out = sum(one.value for one in sampled.shapley.values())
    assert shared_out == pytest.approx(sampled.value(*sampled.parties).value, abs=0.05)


@pytest.mark.slow
def test_more_parties_than_can_be_enumerated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    agreed = rounds.agreement("gaussian", 6)
    sent = rounds.submissions(agreed, tmp_path, (4.0, 2.0, 2.0, 1.0, 1.0, 0.5))
    exact = mediate(agreed, sent, rho=0.5, **QUICK)
    sampled = mediate(agreed, sent, rho=0.5, coalitions="sampled", budget=61, **QUICK)
    assert not sampled.exact
    assert len(sampled.coalitions) <= 61
    for party in exact.parties:
        difference = sampled.shapley[party].value - exact.shapley[party].value
        spread = np.hypot(sampled.shapley[party].error, exact.shapley[party].error)
        assert abs(difference) < 5 * spread + 0.02
    assert not sampled.audit.failures
    missing = next(one.members for one in exact.coalitions if frozenset(one.members) not in sampled.values)
    with pytest.raises(MediationError, match="was not valued"):
        sampled.value(*missing)


def test_a_posterior_that_has_not_converged_is_refused_unless_forced(
    agreed: eq.Agreement, sent: list[eq.Submission], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnostics, "ESS_LIMIT", 1e6)
    few = {**QUICK, "draws": 40}
    with pytest.raises(ConvergenceError, match="force=True"):
        mediate(agreed, sent[:2], folder=tmp_path, partial=True, **few)
    lines = (tmp_path / JOURNAL).read_text().splitlines()
    assert len(lines) == 1 + 3 * 3  # with 40, 160 and 640 draws; nothing that was finished is lost
    assert mediate(agreed, sent[:1], partial=True, force=True, **few).coalitions[0].problems


@pytest.mark.slow
def test_a_posterior_that_needs_more_draws_gets_them(agreed: eq.Agreement, sent: list[eq.Submission]) -> None:
    """An effective size of 400 cannot come of 160 draws."""
    settlement = mediate(agreed, sent, **{**QUICK, "draws": 160})
    assert all(not one.problems for one in settlement.coalitions)
    for award in settlement.awards.values():
        assert award.posterior.converged
        assert len(award.posterior) > 400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho": 0}, "rho = 0 is not a fairness exponent"),
        ({"rho": 1.5}, "rho = 1.5 is not"),
        ({"mechanism": "prayer"}, "no reward mechanism 'prayer'"),
        ({"precision": 0.0}, "precision = 0.0 is not a number of nats"),
        ({"tolerance": -1}, "tolerance = -1 is not"),
        ({"budget": 100}, "a budget is for coalitions that are sampled"),
        ({"coalitions": "some"}, "no way to choose coalitions 'some'"),
        ({"coalitions": "sampled"}, "3 parties have 7 coalitions"),
        ({"teams": [["north"], ["south"]]}, "must name each of north, south, west exactly once"),
        ({"teams": [["north", "south", "west"], []]}, "exactly once"),
        ({"teams": [["north", "north"], ["south", "west"]]}, "exactly once"),
        ({"teams": ["north", "south", "west"]}, "lists of party names"),
        ({"teams": [["north", "south"], ["west", "mars"]]}, "'mars' is in a team"),
        ({"test": ([[1.0, 2.0]], [1.0])}, "rows to predict have the shape"),
        ({"test": ([[1.0]], [1.0, 2.0])}, "one target each"),
        ({"test": ([[np.nan]], [1.0])}, "row 1: the value is missing"),
    ],
)
def test_bad_options_are_refused_before_anything_is_sampled(
    agreed: eq.Agreement, sent: list[eq.Submission], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises((MediationError, TableError), match=message):
        mediate(agreed, sent, folder=tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "options", [{"estimator": "tea leaves"}, {"method": "magic"}, {"draws": 0}, {"chains": 2}, {"seed": -1}]
)
def test_the_engines_own_options_are_checked_too(
    agreed: eq.Agreement, sent: list[eq.Submission], options: dict[str, Any]
) -> None:
    with pytest.raises(InferenceError):
        mediate(agreed, sent, **options)


def test_submissions_are_checked(agreed: eq.Agreement, sent: Sequence[eq.Submission]) -> None:
    with pytest.raises(MediationError, match="no submissions"):
        mediate(agreed, [])
    with pytest.raises(SubmissionError, match="twice"):
        mediate(agreed, [sent[0], sent[0]])
    with pytest.raises(SubmissionError, match="altered"):
        mediate(agreed, [sent[0].model_copy(update={"count": 301})])


def test_files_that_are_no_settlement(tmp_path: Path) -> None:
    with pytest.raises(MediationError, match="cannot be read as a settlement"):
        eq.Settlement.load(tmp_path)
    (tmp_path / "settlement.json").write_text("{}")
    with pytest.raises(MediationError, match="cannot be read as a settlement"):
        eq.Settlement.load(tmp_path)
    (tmp_path / "x.nc").write_bytes(b"not netCDF")
    with pytest.raises(MediationError, match="cannot be read as a reward"):
        eq.Reward.load(tmp_path / "x.nc")
