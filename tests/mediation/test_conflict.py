"""A posterior far from the prior is remarked on; one that the prior expects is not."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

import builders
import equipoise as eq
import rounds
from equipoise.inference.diagnostics import independent
from equipoise.inference.infer import infer
from equipoise.inference.posterior import Posterior
from equipoise.inference.scenario import Scenario
from equipoise.mediation.advice.population import draw_population
from equipoise.mediation.plausibility import prior_conflicts
from equipoise.models.regression import Regression

pytestmark = [pytest.mark.engine, pytest.mark.group("standardised")]


def second_format(kind: str, parties: int = 1) -> eq.Agreement:
    return eq.Agreement.parse(rounds.agreement_text(kind, parties).replace("format = 1", "format = 2"))


def posterior(agreed: eq.Agreement, coordinates: Any) -> Posterior:
    """Take draws at given coordinates."""
    draws = agreed.model.at_coordinates(coordinates)
    return Posterior(draws, independent(len(coordinates), 1), Scenario(), "prior", "power", 0, 0, 1, coordinates)


@pytest.mark.parametrize("agreed", [*builders.ALL_MODELS.values(), second_format("linear"), second_format("logistic")])
def test_every_parameter_has_a_name(agreed: eq.Agreement) -> None:
    """Nothing is said of the prior's own draws; every own parameter that is moved by 5 is named."""
    names = agreed.model.coordinate_names()
    coordinates = np.random.default_rng(0).normal(size=(200, len(names)))
    assert prior_conflicts(agreed, [], posterior(agreed, coordinates)) == []
    found = prior_conflicts(agreed, [], posterior(agreed, 0.1 * coordinates + 5.0))
    assert len(found) == len(names)
    assert {remark.kind for remark in found} == {"prior conflict"}
    assert "5.0 standard deviations of the prior above its middle" in found[0].message


@pytest.mark.parametrize("agreed", [builders.linear(), builders.logistic(), second_format("linear")])
def test_coordinates_of_deviations_are_standard_normal_under_the_prior(agreed: eq.Agreement) -> None:
    assert isinstance(agreed.model, Regression)
    rng = np.random.default_rng(1)
    populations = [draw_population(agreed.model, rng)[1] for _ in range(2_000)]
    if agreed.model.prior.kind == "conjugate":  # type: ignore[attr-defined]
        coordinates = agreed.model.deviation_coordinates(np.stack([one.deviation for one in populations]))
    else:  # there deviations go with weights: their own distribution is log-normal below 1
        deviations = np.exp(np.log(0.25) + rng.normal(size=(6_000, 1)))
        coordinates = agreed.model.deviation_coordinates(deviations[deviations[:, 0] < 1])
    for coordinate in coordinates.T:
        assert stats.kstest(coordinate, "norm").pvalue > 1e-3


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
        said[number] = [one.message for one in prior_conflicts(agreed, [sent], infer(agreed, [sent], draws=1_000))]
    assert any("the standard deviation of x" in message and "tighter bounds" in message for message in said[1])
    assert said[2] == []
