"""Rewards hold the model's own parameters, whatever else inference had to draw."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import equipoise as eq
from equipoise.inference.diagnostics import Diagnostics
from equipoise.reward.model import Reward
from equipoise.reward.nuisance import own_part
from reward_posteriors import agreement, some_reward

pytestmark = pytest.mark.engine  # priors are arrays of the engine's


def as_sampled(kind: str, parties: int) -> Reward:
    """A reward of a regression on two features with all that inference draws, each party's features apart."""
    reward = some_reward(kind)
    number = len(reward.posterior)
    rng = np.random.default_rng(1)
    features = {
        "feature_mean": rng.normal(size=(number, parties, 2)),
        "feature_covariance": np.broadcast_to(np.eye(2), (number, parties, 2, 2)),
    }
    own = {"linear": 4, "logistic": 3}[kind]
    size = own + 5 * parties
    rhat, ess = np.linspace(1.0, 1.02, size), np.linspace(900.0, 300.0, size)
    found = Diagnostics(draws=number, rhat=rhat, ess_bulk=ess, ess_tail=ess + 1)
    coordinates = rng.normal(size=(number, own))
    draws = {**reward.agreement.model.at_coordinates(coordinates), **features}
    posterior = replace(reward.posterior, draws=draws, diagnostics=found, coordinates=coordinates)
    return replace(reward, posterior=posterior)


@pytest.mark.parametrize(("kind", "own"), [("linear", {"weights", "variance"}), ("logistic", {"weights"})])
def test_nothing_of_anybodys_features(kind: str, own: set[str], tmp_path: Path) -> None:
    whole = as_sampled(kind, parties=3)
    reward = replace(whole, posterior=own_part(agreement(kind), whole.posterior))
    assert set(reward.posterior.draws) == own
    assert reward.posterior.coordinates is whole.posterior.coordinates  # what its value is computed from
    # As many diagnostics as coordinates, and the worst of the others, by which the draws are still judged.
    found = reward.posterior.diagnostics
    assert len(found.rhat) == whole.posterior.coordinates.shape[1] + 1  # type: ignore[union-attr]
    assert found.problems == whole.posterior.diagnostics.problems != ()
    reward.save(tmp_path / "reward.nc")
    assert set(Reward.load(tmp_path / "reward.nc").posterior.draws) == own


def test_models_without_features_keep_everything() -> None:
    posterior = some_reward("gaussian").posterior
    posterior = replace(posterior, diagnostics=replace(posterior.diagnostics, rhat=np.ones(2)))
    kept = own_part(agreement("gaussian"), posterior)
    assert set(kept.draws) == {"mean", "variance"}
    assert kept.diagnostics.rhat is posterior.diagnostics.rhat


def test_files_that_hold_more_still_open(tmp_path: Path) -> None:
    """As versions up to 0.6 wrote them."""
    old = as_sampled("linear", parties=2)
    old.save(tmp_path / "old.nc")
    assert eq.Reward.load(tmp_path / "old.nc").digest == old.digest
