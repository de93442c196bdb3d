"""The sum of the others' releases: its distribution, what it is at home, and which files are refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise as eq
import reward_posteriors
from at_home import NormalInverseGamma, in_own_units, rows_of, with_others
from equipoise.client.home.model import CLEARLY_DIFFERENT, remark_on_heterogeneity
from equipoise.inference.pooling import Releases, add_up
from equipoise.models.regression import Regression
from equipoise.reward import others as others_module
from equipoise.reward.model import Reward
from equipoise.reward.others import CORRELATION, ExactEvidence, deviation_at
from equipoise.reward.sums import OthersSums

pytestmark = pytest.mark.statistical


def sums_of(features: np.ndarray, target: np.ndarray, noise: float = 1e-3) -> OthersSums:
    """The sum of one release of rows in scaled units, with next to no noise unless asked for."""
    agreed = reward_posteriors.agreement("linear")
    whole = np.column_stack([features, target])
    column = {0: 0, 1: 1, None: 2, 2: 3}  # of the layout, among the features, the constant and the target
    places = [(column[entry.first], column[entry.second]) for entry in agreed.layout.entries]
    exact = np.array([whole[:, i] @ whole[:, j] for i, j in places])
    rng = np.random.default_rng(len(target))
    return OthersSums(float(len(target)), exact + noise * rng.normal(size=len(exact)), np.full(len(exact), noise**2))


def reward_with(sums: OthersSums) -> Reward:
    """A reward of north whose others' evidence is a sum."""
    plain = with_others("linear", None)
    return Reward("north", plain.agreement, plain.posterior, plain.value, sums=sums)


def test_a_weighted_sum_is_distributed_as_a_release_of_fewer_rows() -> None:
    """By its mean and covariance, for any mean μ and covariance V of a row."""
    rng = np.random.default_rng(0)
    rows, scale, weights = np.array([50.0, 700.0, 3_000.0]), np.array([4.0, 1.0, 9.0]), np.array([0.3, 2.0, 1.1])
    shape, mean = rng.uniform(0.5, 2, 5), rng.normal(size=5)
    root = rng.normal(size=(5, 5))
    covariance = root @ root.T
    added = add_up(Releases(np.outer(rows, mean), rows, scale, shape), weights)
    number, factor = added.rows[0], added.statistic[0] / (weights @ rows * mean)
    np.testing.assert_allclose(factor, factor[0])
    np.testing.assert_allclose(added.statistic[0], number * mean)
    spread = factor[0] ** 2 * (weights**2 @ rows * covariance + np.diag(weights**2 @ scale * shape))
    np.testing.assert_allclose(spread, number * covariance + np.diag(added.scale[0] * added.shape))
    assert number < rows.sum()
    assert add_up(Releases(np.outer(rows, mean), rows, scale, shape), np.ones(3)).rows[0] == pytest.approx(3_750)


@pytest.mark.parametrize(("own", "others"), [(3, 400), (60, 300), (400, 30), (20_000, 400)])
def test_exact_sums_and_rows_make_the_posterior_of_both(own: int, others: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others who do not differ: the conjugate posterior of all rows, also where own rows lie in the others' tail."""
    monkeypatch.setattr(others_module, "USUAL_DEVIATION", 1e-9)
    mine, theirs = rows_of(own, 1), rows_of(others, 2)
    model = eq.combine(reward_with(sums_of(*theirs)), in_own_units(*mine))
    exact = NormalInverseGamma(model.agreement, *map(np.concatenate, zip(mine, theirs, strict=True)))
    weights = model.posterior.draws["weights"]
    assert model.misfit is None
    assert model.effective is None
    np.testing.assert_allclose((weights.mean(axis=0) - exact.mean) / exact.deviations, 0, atol=0.25)
    np.testing.assert_allclose(weights.std(axis=0) / exact.deviations, 1, atol=0.12)


def test_a_deviation_is_integrated_out() -> None:
    """Against 200,000 others, drawn around own weights: the covariance that their expected sums have."""
    agreed = reward_posteriors.agreement("linear").model
    assert isinstance(agreed, Regression)
    evidence = ExactEvidence(agreed, sums_of(*rows_of(500, 3)))
    likelihood, rng = evidence._likelihood, np.random.default_rng(4)
    own, deviation = np.array([0.1, 0.4, -0.2, 0.1]), np.array([0.02, 0.05, 0.05, 0.05])
    model = evidence._model
    drawn = own + deviation * rng.normal(size=(200_000, 4))
    expected = np.cov(likelihood.at_most_moved(model.parameters(drawn)).T)
    coordinate = np.log(deviation / others_module.USUAL_DEVIATION) / others_module.SPREAD_OF_DEVIATION
    np.testing.assert_allclose(deviation_at(coordinate), deviation)
    away = np.stack(
        [
            0.5 * np.subtract(*likelihood.at_most_moved(model.parameters(np.stack([own + step, own - step]))))
            for step in deviation[:, None] * np.eye(4)
        ]
    )
    np.testing.assert_allclose(away.T @ away, expected, atol=0.03 * np.abs(expected).max())
    # And the density is that of the covariance which the deviation widens.
    mean, covariance = (one[0] for one in likelihood.moments_at(model.parameters(own[None])))
    residual, wider = likelihood.observation.observed - mean, covariance + away.T @ away
    by_hand = -0.5 * residual @ np.linalg.solve(wider, residual) - 0.5 * np.linalg.slogdet(wider)[1]
    rest = (coordinate[0] - CORRELATION * coordinate[1]) / np.sqrt(1 - CORRELATION**2)
    point = np.append(own, [rest, coordinate[1]])
    assert evidence.log_density(point[None])[0] == pytest.approx(by_hand - 0.5 * point @ point, rel=1e-6)


def test_others_who_differ_are_told_and_count_for_little() -> None:
    mine, theirs = rows_of(200, 5), rows_of(2_000, 6)
    reward = reward_with(sums_of(theirs[0], -theirs[1]))
    with pytest.warns(UserWarning, match="others differ from your rows"):
        model = eq.combine(reward, in_own_units(*mine))
    exact = NormalInverseGamma(model.agreement, *mine)
    weights = model.posterior.draws["weights"]
    assert model.heterogeneity is not None
    assert model.heterogeneity[0] > CLEARLY_DIFFERENT
    np.testing.assert_allclose((weights.mean(axis=0) - exact.mean) / exact.deviations, 0, atol=0.4)
    alike = eq.combine(reward_with(sums_of(*theirs)), in_own_units(*mine))
    assert alike.heterogeneity is not None
    assert not remark_on_heterogeneity(alike.heterogeneity)


@pytest.mark.parametrize("noise", [10.0, 30.0])
def test_made_up_targets_leave_the_own_weights_alone(noise: float) -> None:
    """Half of the others' targets: with independent deviations of weights and variance they moved weights by 1.5 sd."""
    mine, theirs = rows_of(100, 9, spread=0.3), rows_of(2_000, 10, spread=0.3)
    targets = np.append(np.random.default_rng(11).uniform(-1, 1, 1_000), theirs[1][1_000:])
    with pytest.warns(UserWarning, match="others differ from your rows"):
        model = eq.combine(reward_with(sums_of(theirs[0], targets, noise)), in_own_units(*mine))
    alone = eq.combine(reward_with(sums_of(*rows_of(1, 12), noise=1e3)), in_own_units(*mine))
    found, expected = (each.posterior.draws["weights"] for each in (model, alone))
    np.testing.assert_allclose((found.mean(axis=0) - expected.mean(axis=0)) / expected.std(axis=0), 0, atol=1)


def test_sums_are_saved_and_opened(tmp_path: Path) -> None:
    reward = reward_with(sums_of(*rows_of(300, 7)))
    reward.save(tmp_path / "reward.nc")
    again = eq.Reward.load(tmp_path / "reward.nc")
    assert again == reward
    assert again.sums is not None
    assert reward.sums is not None
    np.testing.assert_array_equal(again.sums.statistic, reward.sums.statistic)
    assert reward_with(OthersSums(again.sums.rows + 1, *(again.sums.statistic, again.sums.variance))) != reward
    model = eq.combine(again, in_own_units(*rows_of(20, 8)), draws=1_600)
    model.save(tmp_path / "model.nc")
    opened = eq.HomeModel.load(tmp_path / "model.nc")
    assert opened == model
    assert opened.heterogeneity == model.heterogeneity


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"statistic": np.zeros(3)}, "shapes"),
        ({"rows": -1.0}, "no rows"),
        ({"rows": float("nan")}, "no rows"),
        ({"rows": 1e300}, "no rows"),
        ({"variance": np.zeros(9)}, "no rows"),
        ({"variance": np.full(9, np.inf)}, "no rows"),
        ({"statistic": np.full(9, np.nan)}, "larger than"),
        ({"statistic": np.full(9, 1e6)}, "larger than"),
    ],
)
def test_sums_that_no_releases_have_are_refused(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    plain = sums_of(*rows_of(300, 9))
    whole: dict[str, Any] = {"rows": plain.rows, "statistic": plain.statistic, "variance": plain.variance} | changed
    reward_with(OthersSums(**whole)).save(tmp_path / "reward.nc")
    with pytest.raises(eq.MediationError, match=said):
        eq.Reward.load(tmp_path / "reward.nc")


def test_sums_where_no_mediator_hands_them_over_are_refused(tmp_path: Path) -> None:
    sums = sums_of(*rows_of(300, 9))
    plain = reward_with(sums)
    twice = with_others("linear", 0.1 * np.random.default_rng(0).normal(size=(4, 50, 4)))
    tempered = with_others("linear", None, kappa=0.3)
    for reward, said in ((twice, "twice"), (tempered, "though it is tempered")):
        Reward("north", reward.agreement, reward.posterior, reward.value, others=reward.others, sums=sums).save(
            tmp_path / "reward.nc"
        )
        with pytest.raises(eq.MediationError, match=said):
            eq.Reward.load(tmp_path / "reward.nc")
    family = with_others("bernoulli", None)
    Reward("north", family.agreement, family.posterior, family.value, sums=sums).save(tmp_path / "reward.nc")
    with pytest.raises(eq.MediationError, match="this kind of model"):
        eq.Reward.load(tmp_path / "reward.nc")
    impossible = np.array(plain.sums.statistic)  # type: ignore[union-attr]
    impossible[3] = 1.0  # Σ age², beside a Σ age × bmi that only larger ones have
    impossible[4] = 100.0
    reward_with(OthersSums(300.0, impossible, sums.variance)).save(tmp_path / "reward.nc")
    with pytest.raises(eq.MediationError, match="those of no rows"):
        eq.Reward.load(tmp_path / "reward.nc")
