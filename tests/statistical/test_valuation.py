"""V2 and V3 of the paper: in expectation, one more party and weaker privacy raise a coalition's value. All models.

Rounds are simulated from the model itself: parameters from the prior, statistics from their normal distribution, noise.
Both properties are theorems about means over rounds, and compare scenarios that share everything but the party or the
noise that was added.
"""

import numpy as np
import pytest

import rounds
from equipoise._util.arrays import Floats
from equipoise.mediation.advice.engines import engine_of
from equipoise.mediation.advice.imagined import Assumed, Coalition, imagine

pytestmark = [pytest.mark.slow, pytest.mark.engine]

ROUNDS = 40
COUNT = 200
EPSILON = 2.0
TAU = 9 / EPSILON  # ε falls to a tenth
NONE = (0.0, 0.0)
SURE = 2.5  # standard errors of a mean difference

# The first party alone; with the second; with the second, but the first party's guarantee strengthened.
ALONE, BOTH, STRENGTHENED = range(3)
COALITIONS = [
    Coalition(np.array(member), np.array(tau))
    for member, tau in (((1.0, 0.0), NONE), ((1.0, 1.0), NONE), ((1.0, 1.0), (TAU, 0.0)))
]


def values(kind: str) -> Floats:
    """Value three coalitions of each of several imagined rounds [rounds, coalitions]."""
    engine = engine_of(rounds.agreement(kind, 2))
    imagined = imagine(engine, [Assumed(COUNT, EPSILON)] * 2, ROUNDS, np.random.default_rng(0))
    return np.array([engine.sample(one, COALITIONS, seed) for seed, one in enumerate(imagined)])


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=() if kind in rounds.QUICKEST else pytest.mark.exhaustive)
        for kind in sorted(rounds.MODELS)
    ],
)
def test_expected_values_rise_with_parties_and_with_weaker_privacy(kind: str) -> None:
    found = values(kind)
    for name, difference in (
        ("one more party", found[:, BOTH] - found[:, ALONE]),
        ("weaker privacy", found[:, BOTH] - found[:, STRENGTHENED]),
    ):
        error = difference.std() / np.sqrt(ROUNDS)
        assert difference.mean() > SURE * error, (name, difference.mean(), error)
