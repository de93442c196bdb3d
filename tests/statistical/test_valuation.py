"""V2 and V3 of the paper: in expectation, one more party and weaker privacy raise a coalition's value. All models.

Rounds are simulated from the model itself: parameters from the prior, statistics from their normal distribution, noise.
Both properties are theorems about means over rounds, and compare scenarios that share everything but the party or the
noise that was added.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rounds
from equipoise.inference import collapsed, engine
from equipoise.inference.diagnostics import independent
from equipoise.inference.engine import Problem, Settings
from equipoise.inference.observations import Observations, Scenarios
from equipoise.inference.posterior import Posterior
from equipoise.inference.problem import model_of
from equipoise.inference.scenario import Scenario
from equipoise.mediation.plausibility import rows_of_posterior
from equipoise.models import layout_of
from equipoise.valuation.divergence import divergence

pytestmark = [pytest.mark.slow, pytest.mark.engine]

ROUNDS = 40
COUNT = 200
EPSILON = 2.0
TAU = 9 / EPSILON  # ε falls to a tenth
SURE = 2.5  # standard errors of a mean difference

# The first party alone; with the second; with the second, but the first party's guarantee strengthened.
ALONE, BOTH, STRENGTHENED = range(3)
SCENARIOS = Scenarios(
    jnp.array([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]]), jnp.ones(3), jnp.array([[0.0, 0.0], [0.0, 0.0], [TAU, 0.0]])
)


def simulate(kind: str, seed: int) -> Problem:
    agreed = rounds.agreement(kind, 2)
    model, prior = model_of(agreed)
    position = jax.random.normal(jax.random.key(seed), (1, 1, model.dimension))
    parameters = {name: np.asarray(part[0]) for name, part in collapsed.parameters(model, prior, position).items()}
    truth = Posterior(
        parameters,
        independent(1, model.dimension),
        Scenario(),
        "prior",
        "power",
        seed,
        0,
        1,
        np.asarray(position[0, :, : model.focus]),
    )
    layout = layout_of(agreed)
    deviation = np.array(layout.noise_deviations(agreed.guarantee(epsilon=EPSILON)))
    rng = np.random.default_rng(seed)
    statistics = []
    for party in range(2):
        mean, covariance = rows_of_posterior(model, prior, truth, party, np.array([0]))
        exact = rng.multivariate_normal(COUNT * mean[0], COUNT * covariance[0], check_valid="ignore", method="eigh")
        statistics.append(exact + deviation * rng.normal(size=len(layout)))
    variance = np.tile(deviation**2, (2, 1))
    observations = Observations(
        jnp.asarray(np.stack(statistics)),
        jnp.full(2, float(COUNT)),
        jnp.asarray(variance),
        jnp.asarray(np.sqrt(EPSILON * variance)),
        jnp.asarray(rng.normal(size=variance.shape)),
    )
    return Problem(model, prior, observations)


def values(kind: str, seed: int) -> list[float]:
    problem = simulate(kind, seed)
    keys = jax.random.split(jax.random.key(seed), 3)
    settings = Settings(draws=1_280, max_thinning=2)
    found = engine.run(keys, problem, SCENARIOS, settings)
    focus = problem.model.focus
    return [divergence(positions(one)[..., :focus]).value for one in found]


def positions(sampled: Any) -> np.ndarray:
    assert sampled.positions is not None
    return sampled.positions


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind in rounds.QUICKEST else pytest.mark.exhaustive)
        for kind in sorted(rounds.MODELS)
    ],
)
def test_expected_values_rise_with_parties_and_with_weaker_privacy(kind: str) -> None:
    found = np.array([values(kind, seed) for seed in range(ROUNDS)])
    for name, difference in (
        ("one more party", found[:, BOTH] - found[:, ALONE]),
        ("weaker privacy", found[:, BOTH] - found[:, STRENGTHENED]),
    ):
        error = difference.std() / np.sqrt(ROUNDS)
        assert difference.mean() > SURE * error, (name, difference.mean(), error)
