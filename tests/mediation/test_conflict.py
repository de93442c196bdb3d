"""A posterior far from the prior is remarked on; one that the prior expects is not."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import builders
import equipoise as eq
import rounds
from equipoise.inference import collapsed
from equipoise.inference.diagnostics import independent
from equipoise.inference.infer import infer
from equipoise.inference.posterior import Posterior
from equipoise.inference.problem import model_of
from equipoise.inference.scenario import Scenario
from equipoise.mediation.plausibility import prior_conflicts

pytestmark = [pytest.mark.engine, pytest.mark.group("standardised")]


def second_format(kind: str, parties: int = 1) -> eq.Agreement:
    return eq.Agreement.parse(rounds.agreement_text(kind, parties).replace("format = 1", "format = 2"))


def posterior(agreed: eq.Agreement, positions: Any, *, coordinates: bool = True) -> Posterior:
    """Draws at given positions."""
    model, prior = model_of(agreed)
    draws = {name: np.asarray(part)[0] for name, part in collapsed.parameters(model, prior, positions).items()}
    own = collapsed.own_coordinates(model, prior, positions)[0] if coordinates else None
    number = positions.shape[1]
    return Posterior(draws, independent(number, 1), Scenario(), "collapsed", "power", 0, 0, 1, own)


@pytest.mark.parametrize("agreed", [*builders.ALL_MODELS.values(), second_format("linear"), second_format("logistic")])
def test_every_parameter_has_a_name(agreed: eq.Agreement) -> None:
    """Nothing is said of the prior's own draws; every own parameter that is moved by 5 is named."""
    model, _ = model_of(agreed)
    positions = np.random.default_rng(0).normal(size=(1, 200, model.dimension))
    assert prior_conflicts(agreed, posterior(agreed, positions)) == []
    if model.plain:
        shift = np.zeros(model.dimension)
        shift[: model.focus] = 5.0
        found = prior_conflicts(agreed, posterior(agreed, 0.1 * positions + shift))
        assert len(found) >= model.focus
        assert {remark.kind for remark in found} == {"prior conflict"}
        assert "5.0 standard deviations of the prior above its middle" in found[0].message


@pytest.mark.parametrize("agreed", [builders.linear(), builders.logistic(), second_format("linear")])
def test_coordinates_of_deviations_are_standard_normal_under_the_prior(agreed: eq.Agreement) -> None:
    model, prior = model_of(agreed)
    positions = np.random.default_rng(1).normal(size=(1, 4_000, model.dimension))
    draws = posterior(agreed, positions).draws
    deviations = np.sqrt(np.diagonal(draws["feature_covariance"], axis1=-2, axis2=-1))
    for coordinate in model.deviation_coordinates(prior, deviations).T:
        assert stats.kstest(coordinate, "norm").pvalue > 1e-3


@pytest.mark.slow
def test_a_narrow_column_conflicts_with_the_conjugate_prior_alone(tmp_path: Any) -> None:
    """Features that fill a hundredth of their bounds: the old prior says so, and the new one copes."""
    rng = np.random.default_rng(2)
    x = 0.04 * rng.normal(size=4_000)
    columns = {"x": x, "y": 0.5 + 10 * x + 0.3 * rng.normal(size=4_000)}
    said = {}
    for number in (1, 2):
        agreed = eq.Agreement.parse(rounds.agreement_text("linear", 1).replace("format = 1", f"format = {number}"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("equipoise.party.release.perturb", rounds.seeded(0))
            sent = eq.release(agreed, columns, party="north", epsilon=50.0, ledger=tmp_path / f"{number}.ledger")
        said[number] = [one.message for one in prior_conflicts(agreed, infer(agreed, [sent], draws=1_000))]
    assert any("the standard deviation of x" in message and "tighter bounds" in message for message in said[1])
    assert said[2] == []
