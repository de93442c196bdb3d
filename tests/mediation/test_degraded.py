"""Degraded rewards: the party's own release whole, noise of one secret path on everybody else's."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise as eq
import rounds
from equipoise._util.canonical import sha256_hex
from equipoise.client.local_files import made_otherwise
from equipoise.estimate import Estimate
from equipoise.inference import brownian
from equipoise.inference.pooling import Releases, add_up
from equipoise.inference.released import released_sums
from equipoise.mediation.audit import audit
from equipoise.mediation.noise_secret import SECRET
from equipoise.mediation.seeds import path_of
from equipoise.report import write_report, write_reports
from equipoise.reward.targets import TargetInputs, TargetPolicy, set_targets, targets_from_values
from equipoise.valuation.divergence import divergence_between

QUICK: dict[str, Any] = {"draws": 1_200, "precision": 0.2, "processes": 1, "progress": False}

pytestmark = [pytest.mark.engine, pytest.mark.group("rounds")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("degraded")


@pytest.fixture(scope="module")
def degraded(agreed: eq.Agreement, sent: list[eq.Submission], folder: Path) -> eq.Settlement:
    return eq.mediate(agreed, sent, seed=3, mechanism="degraded", folder=folder, **QUICK)


def test_a_reward_is_the_posterior_of_its_own_release_and_of_noisier_others(
    degraded: eq.Settlement, sent: list[eq.Submission], folder: Path
) -> None:
    path = path_of((folder / SECRET).read_text(encoding="ascii").split()[0])
    held_back = [award for award in degraded.awards.values() if award.tau]
    assert held_back
    for award in held_back:
        assert award.reward is not None
        assert award.posterior.scenario.tau == {one: award.tau for one in degraded.parties if one != award.party}
        again = eq.infer(
            degraded.agreement,
            sent,
            tau=award.posterior.scenario.tau,
            noise_seed=path,
            draws=1_200,
            seed=99,
            progress=False,
        )
        assert again.coordinates is not None
        assert award.posterior.coordinates is not None
        drawn = award.posterior.coordinates.reshape(award.posterior.chains, -1, again.coordinates.shape[1])
        anew = again.coordinates.reshape(again.chains, -1, again.coordinates.shape[1])
        assert abs(divergence_between(drawn, anew).value) < 0.1
        assert made_otherwise(award.reward) == ()  # the agreement leaves it to the operator


def test_a_reward_carries_the_sum_of_the_others_releases(
    degraded: eq.Settlement, sent: list[eq.Submission], folder: Path
) -> None:
    """With the noise of the reward in it: who has the sum knows no more of a release than the reward was made of."""
    path = path_of((folder / SECRET).read_text(encoding="ascii").split()[0])
    exact, held_back = released_sums(degraded.agreement, sent), 0
    names = list(degraded.agreement.party_names)
    for award in degraded.awards.values():
        assert award.reward is not None
        if award.falls_back:
            continue
        assert award.reward.others is None
        sums = award.reward.sums
        assert sums is not None
        others = [names.index(one) for one in degraded.parties if one != award.party]
        rows, variance = exact.rows[others], exact.variance[others]
        weights = 1 / (0.03 + variance.mean(axis=1) / rows)
        factor = (weights @ rows) / (weights**2 @ rows)
        assert sums.rows == pytest.approx(factor * (weights @ rows))
        noisy = exact.statistic[others] + np.stack(
            [_path(path, sent, names[one], award.tau, exact.added[one]) for one in others]
        )
        np.testing.assert_allclose(sums.statistic, factor * (weights @ noisy))
        expected = factor**2 * (weights**2 @ (variance + award.tau * exact.added[others] ** 2))
        np.testing.assert_allclose(sums.variance, expected)
        held_back += award.tau > 0
    assert held_back


def _path(secret: str, sent: list[eq.Submission], party: str, tau: float, added: np.ndarray) -> np.ndarray:
    """The noise that a path adds to a release at τ."""
    (release,) = (one for one in sent if one.party == party)
    if not tau:
        return np.zeros_like(added)
    return added * brownian.position(secret, sha256_hex(release.to_json()), tau, len(added))


@pytest.mark.statistical
@pytest.mark.parametrize("broken", ["", "fresh noise for each recipient", "weights that depend on the noise"])
def test_of_two_sums_the_noisier_one_adds_nothing(broken: str) -> None:
    """Colluders hold sums of the same releases at τ = 1 and 4: by the first, the second is noise alone.

    What the first leaves of the second, Z(4) − Z(1), must be uncorrelated with what is in the first. It is not for a
    mediator that draws noise anew, or that weighs releases by the noise that it adds.
    """
    rng = np.random.default_rng(0)
    rows, scale, rounds = np.array([100.0, 100.0]), np.array([4.0, 0.2]), 4_000
    releases = np.sqrt(scale)[:, None] * rng.normal(size=(rounds, 2, 1))  # their own noise, and nothing else
    early, late = (np.sqrt(one) * rng.normal(size=(rounds, 2, 1)) for one in (1.0, 3.0))
    found = []
    for tau, path in ((1.0, early), (4.0, early + late)):
        added = np.sqrt(tau) * rng.normal(size=path.shape) if broken.startswith("fresh") else path
        given = scale + tau if broken.startswith("weights") else scale
        weights = 1 / (0.03 + 10 * given / rows)
        found.append(
            [
                float(add_up(Releases(one, rows, scale + tau, np.ones(1)), weights).statistic[0, 0])
                for one in releases + added
            ]
        )
    left = np.subtract(found[1], found[0])
    correlation = float(np.corrcoef(left, found[0])[0, 1])
    assert (abs(correlation) > 0.06) == bool(broken), correlation


def test_promises_are_kept_and_a_broken_one_is_found(degraded: eq.Settlement) -> None:
    assert degraded.deviations == ()
    verdicts = {one.code: one.verdict for one in degraded.audit}
    assert "fails" not in verdicts.values()
    assert verdicts["P2"] == verdicts["P3"] == verdicts["P4"] == "holds"
    party, award = next((party, award) for party, award in degraded.awards.items() if award.tau)
    more = replace(degraded, awards={**degraded.awards, party: replace(award, tau=2 * award.tau)})
    assert audit(more)["P1"].verdict == "fails"
    as_noise = replace(degraded, options={**degraded.options, "mechanism": "noise"})
    assert audit(as_noise)["P1"].verdict == "fails"  # its own release should have noise, too
    below = Estimate(award.target.value - 1, 0.01)
    early = replace(degraded.curve[0], recipient=party, tau=0.5 * award.tau, value=below)
    assert audit(replace(degraded, curve=(*degraded.curve, early)))["P5"].verdict == "fails"


def test_the_secret_is_in_no_reward_report_or_journal(degraded: eq.Settlement, folder: Path, tmp_path: Path) -> None:
    secret = (folder / SECRET).read_text(encoding="ascii").split()[0]
    assert len(secret) == 64
    write_reports(degraded, folder)
    write_report(degraded, tmp_path / "report.html")
    written = [path for path in (*folder.rglob("*"), *tmp_path.rglob("*")) if path.is_file() and path.name != SECRET]
    assert len(written) > 4
    for path in written:
        content = path.read_bytes()
        assert secret.encode() not in content
        assert path_of(secret).encode() not in content
    for award in degraded.awards.values():
        assert award.posterior.noise_seed == 0


@pytest.mark.slow
def test_settled_again_with_another_exponent_noise_is_of_the_same_path(
    degraded: eq.Settlement, agreed: eq.Agreement, sent: list[eq.Submission], folder: Path, tmp_path: Path
) -> None:
    """With other noise, who has rewards of both could average it away."""
    keys = [json.loads(line)["key"] for line in (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()[1:]]
    assert {key["noise_seed"] for key in keys if key["tau"]} == {"path"}
    secret = (folder / SECRET).read_text(encoding="ascii").split()[0]
    kinder = eq.mediate(agreed, sent, seed=3, mechanism="degraded", rho=0.2, noise_secret=secret, **QUICK)
    strict = eq.mediate(agreed, sent, seed=3, mechanism="degraded", rho=1.0, noise_secret=secret, **QUICK)
    for party in degraded.parties:
        assert kinder.awards[party].target.value >= strict.awards[party].target.value - 1e-9
        assert strict.awards[party].attained.value >= strict.awards[party].alone.value - 0.2  # the tolerance
    repeated = eq.mediate(agreed, sent, seed=3, mechanism="degraded", noise_secret=secret, **QUICK)
    assert repeated.decisions_digest == degraded.decisions_digest


def test_nobody_s_target_is_below_what_it_knows_alone() -> None:
    shapley, alone = np.array([0.2, 0.9, 0.0]), np.array([1.0, 1.5, 0.4])
    stakes = TargetInputs(shapley, alone, np.array([2.0]), np.zeros(3, dtype=np.intp), 1e-6 * np.eye(7))
    plain = set_targets(stakes, TargetPolicy(1.0, "shares"))
    whole = set_targets(stakes, TargetPolicy(1.0, "shares", own_is_whole=True))
    assert plain.values[0] < stakes.alone[0]
    assert plain.values[2] == 0
    np.testing.assert_allclose(whole.values, [1.0, 2.0, 0.4])
    assert whole.falls_back.tolist() == [True, False, True]
    assert whole.whole.tolist() == [False, True, False]


def test_the_best_gets_all_though_by_luck_its_value_alone_looks_larger() -> None:
    values = [Estimate(0.0, 0.0), Estimate(5.03, 0.05), Estimate(1.0, 0.05), Estimate(5.0, 0.05)]
    for rho in (0.5, 1.0):
        _, targets = targets_from_values(("a", "b"), [("a", "b")], values, TargetPolicy(rho, own_is_whole=True))
        assert targets.whole.tolist() == [True, False]
        assert not targets.falls_back[0]
        assert targets.values[0] == pytest.approx(5.0)


@pytest.mark.parametrize("secret", ["ab", "A" * 64, "0" * 63])
def test_a_secret_that_is_none_is_refused(agreed: eq.Agreement, sent: list[eq.Submission], secret: Any) -> None:
    with pytest.raises(eq.MediationError, match="64 hexadecimal digits"):
        eq.mediate(agreed, sent, mechanism="degraded", noise_secret=secret)


def test_a_secret_of_an_older_version_is_refused(
    agreed: eq.Agreement, sent: list[eq.Submission], tmp_path: Path
) -> None:
    """It may be in exports, or in the settlement of a round by noise in the same folder."""
    with pytest.raises(eq.MediationError, match="64 hexadecimal digits, not 32"):
        eq.mediate(agreed, sent, mechanism="degraded", noise_secret="0" * 32)
    (tmp_path / SECRET).write_text("0" * 32, encoding="ascii")
    with pytest.raises(eq.MediationError, match="64 hexadecimal digits, not 32"):
        eq.mediate(agreed, sent, mechanism="degraded", folder=tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(rounds.MODELS))
def test_every_model(kind: str, tmp_path: Path) -> None:
    agreed = rounds.agreement(kind)
    sent = rounds.submissions(agreed, tmp_path, (2.0, 1.0, 0.5))
    settled = eq.mediate(agreed, sent, mechanism="degraded", rho=0.3, noise_secret="5a" * 32, **QUICK)
    assert not settled.audit.failures
    for award in settled.awards.values():
        assert award.attained.value >= award.alone.value - 0.4 - 2 * award.attained.error  # the tolerance
        assert award.falls_back or award.within_tolerance or award.notes
