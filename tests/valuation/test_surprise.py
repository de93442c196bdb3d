"""Values of posteriors: known ones, by every estimator, and of every model; similarity and the alternative value."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise as eq
import rounds
from equipoise.errors import ConvergenceError, InferenceError
from equipoise.inference import diagnostics
from equipoise.inference.conjugate import dirichlet_divergence
from equipoise.inference.infer import infer
from equipoise.inference.models import conjugate_of
from equipoise.models.bernoulli import Beta
from equipoise.valuation import ESTIMATORS
from equipoise.valuation.divergence import divergence_between
from equipoise.valuation.surprise import alternative_value, similarity, surprise

pytestmark = [pytest.mark.engine, pytest.mark.group("rounds")]


def one_release(kind: str, folder: Path, epsilon: float) -> tuple[eq.Agreement, list[eq.Submission]]:
    agreed = rounds.agreement(kind)
    return agreed, rounds.submissions(agreed, folder, (epsilon,))


@pytest.mark.parametrize("kind", rounds.models())
def test_every_model_has_a_value_and_the_prior_has_none(kind: str, tmp_path: Path) -> None:
    agreed, sent = one_release(kind, tmp_path, 4.0)
    assert surprise(agreed, infer(agreed, sent, draws=2_000)).value > 0.5
    nothing = surprise(agreed, infer(agreed, sent, method="prior", draws=2_000))
    assert abs(nothing.value) < 4 * nothing.error + 0.02


@pytest.mark.slow
def test_with_little_noise_it_is_the_conjugate_divergence(tmp_path: Path) -> None:
    """Beta posterior of a share: KL in closed form, by every estimator but the classifier, which is overconfident."""
    agreed, sent = one_release("bernoulli", tmp_path, 100.0)
    posterior = infer(agreed, sent, draws=8_000)
    ones = int(sum(rounds.table("bernoulli", 300, 0)["y"]))
    prior = agreed.model.prior
    assert isinstance(prior, Beta)
    before = np.array([prior.positive, prior.negative])
    closed = dirichlet_divergence(before + np.array([ones, 300 - ones]), before)
    for estimator in ESTIMATORS:
        found = surprise(agreed, posterior, estimator=estimator)
        tolerance = 0.6 if estimator == "classifier" else 0.15
        assert found.value == pytest.approx(closed, abs=tolerance), estimator
        assert 0 <= found.error < tolerance, estimator


@pytest.mark.slow
def test_gibbs_draws_are_mapped_to_the_same_coordinates(tmp_path: Path) -> None:
    agreed, sent = one_release("linear", tmp_path, 4.0)
    by_moments = infer(agreed, sent, draws=4_000)
    assert by_moments.coordinates is not None
    again = conjugate_of(agreed.model).own_of_draws(by_moments.draws)
    assert again is not None
    np.testing.assert_allclose(again, by_moments.coordinates, atol=1e-5)
    by_gibbs = surprise(agreed, infer(agreed, sent, method="gibbs", draws=4_000), force=True)
    value = surprise(agreed, by_moments)
    assert abs(by_gibbs.value - value.value) < 5 * np.hypot(by_gibbs.error, value.error) + 0.03


def test_coordinates_keep_their_digits_in_both_tails() -> None:
    model = rounds.agreement("linear").model
    positions = np.column_stack([np.linspace(-8, 8, 33), np.tile([0.5, -2.0], (33, 1))])
    back = conjugate_of(model).own_of_draws(model.at_coordinates(positions))
    assert back is not None
    np.testing.assert_allclose(back[:, 0], positions[:, 0], atol=1e-5)
    np.testing.assert_allclose(back[:, 1:], positions[:, 1:], atol=1e-9)


def test_a_posterior_that_has_not_converged_has_no_value_unless_forced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnostics, "ESS_LIMIT", 1e6)
    agreed, sent = one_release("linear", tmp_path, 4.0)
    short = infer(agreed, sent, draws=640)
    with pytest.raises(ConvergenceError):
        surprise(agreed, short)
    assert surprise(agreed, short, force=True).error > 0


def test_bad_requests(tmp_path: Path) -> None:
    agreed, sent = one_release("poisson", tmp_path, 4.0)
    wrong: Any = "entrails"
    with pytest.raises(InferenceError, match="there is no estimator 'entrails'; choose one of knn-entropy"):
        surprise(agreed, infer(agreed, sent, method="prior", draws=500), estimator=wrong)
    with pytest.raises(InferenceError, match="cannot be valued"):
        surprise(agreed, infer(agreed, sent, method="naive", draws=500))


@pytest.mark.parametrize("dimension", [1, *(pytest.param(one, marks=pytest.mark.slow) for one in (3, 8))])
def test_divergence_between_samples_of_normals(dimension: int) -> None:
    """Unbiased within its own error, which is as large as it says."""
    rng = np.random.default_rng(dimension)
    shift = 0.4 * rng.normal(size=dimension)
    scale = rng.uniform(0.3, 0.9, dimension)
    truth = 0.5 * np.sum(scale**2 + shift**2 - 1 - 2 * np.log(scale))
    found = [
        divergence_between(shift + scale * rng.normal(size=(8, 250, dimension)), rng.normal(size=(8, 250, dimension)))
        for _ in range(12)
    ]
    values, errors = np.array([one.value for one in found]), np.array([one.error for one in found])
    assert abs(values.mean() - truth) < 4 * values.std() / np.sqrt(12) + 0.03
    assert 0.4 < values.std() / errors.mean() < 2.5


@pytest.mark.slow
def test_similarity_grows_with_kappa_and_is_best_for_the_whole(tmp_path: Path) -> None:
    agreed = rounds.agreement("linear")
    sent = rounds.submissions(agreed, tmp_path, (4.0, 1.0))
    whole = infer(agreed, sent)
    found = [similarity(agreed, infer(agreed, sent, kappa=kappa, seed=1), whole) for kappa in (0.02, 0.2, 1.0)]
    assert found[0].value < found[1].value < found[2].value
    assert abs(found[2].value) < 5 * found[2].error + 0.02  # the same distribution, other draws
    assert similarity(agreed, whole, whole).value == 0


def test_the_alternative_value_is_the_whole_for_everybody_and_nothing_for_nobody(tmp_path: Path) -> None:
    agreed = rounds.agreement("linear")
    sent = rounds.submissions(agreed, tmp_path, (4.0, 1.0))
    whole = infer(agreed, sent)
    assert alternative_value(agreed, whole, whole) == surprise(agreed, whole)
    nobody = alternative_value(agreed, infer(agreed, sent, method="prior", draws=4_000), whole)
    assert abs(nobody.value) < 5 * nobody.error + 0.3  # far from the prior the estimate is coarse
    alone = alternative_value(agreed, infer(agreed, sent, coalition=["north"]), whole)
    assert nobody.value < alone.value < surprise(agreed, whole).value + 0.1
