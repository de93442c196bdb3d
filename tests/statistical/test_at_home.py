"""Intervals of models at home hold the truth as often as they say, over rows and noise.

Rows are made by NumPy from a truth in the columns' own units, released with real noise, and the others' evidence is
inferred from the releases as a settlement has it: nothing is shared with what combines them.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import equipoise as eq
from equipoise.estimate import Estimate
from equipoise.party.release import release
from equipoise.reward.model import Reward

pytestmark = [pytest.mark.slow, pytest.mark.engine]

REPLICATIONS = 40
TRUTH = {"linear": (4.0, 1.2, -0.8, 0.5), "logistic": (-0.5, 0.9, -0.6)}  # intercept, slopes, residual deviation
TARGETS = {"linear": '{ name = "y", bounds = [-4, 12] }', "logistic": '{ name = "y", labels = ["no", "yes"] }'}


def agreement(kind: str) -> eq.Agreement:
    features = '{ name = "a", bounds = [-4, 4] }, { name = "b", bounds = [-4, 4] }'
    members = "".join(f'[[parties]]\nname = "{name}"\n' for name in ("own", "one", "two"))
    return eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "{kind}"\nfeatures = [{features}]\ntarget = {TARGETS[kind]}\n'
        f"[privacy]\norder = 2\nmax_epsilon = 64.0\n{members}"
    )


def rows(kind: str, number: int, rng: np.random.Generator) -> dict[str, Any]:
    a, b = rng.normal(0.5, 1.0, number), rng.normal(-0.3, 1.2, number)
    intercept, first, second, *spread = TRUTH[kind]
    predictor = intercept + first * a + second * b
    if kind == "linear":
        return {"a": a, "b": b, "y": predictor + spread[0] * rng.normal(size=number)}
    return {"a": a, "b": b, "y": np.where(rng.uniform(size=number) < 1 / (1 + np.exp(-predictor)), "yes", "no")}


# Each kind once, whole and tempered; `tests/client/test_combine.py` has exact answers for linear regression.
# With 1,000 draws of linear evidence few lie near the own rows. Intervals must cover all the same.
@pytest.mark.filterwarnings("ignore:The effective number:UserWarning")
@pytest.mark.parametrize(
    ("kind", "kappa"), [pytest.param("linear", 1.0, marks=pytest.mark.exhaustive), ("logistic", 1.0), ("linear", 0.3)]
)
def test_intervals_at_home_cover(kind: str, kappa: float, tmp_path: Path) -> None:
    """90 % intervals of weights and intercept; with tempered evidence they may only hold it more often."""
    agreed, covered = agreement(kind), []
    for replication in range(REPLICATIONS):
        rng = np.random.default_rng([7, replication])
        sent = [
            release(agreed, rows(kind, 400, rng), party=party, epsilon=2.0, ledger=tmp_path / f"{replication}.{party}")
            for party in ("one", "two")
        ]
        others = eq.infer(agreed, sent, kappa=kappa, draws=1_000, seed=replication, progress=False)
        assert others.coordinates is not None
        posterior = replace(others, scenario=eq.Scenario(("own", "one", "two"), kappa))
        evidence = others.coordinates.reshape(others.chains, -1, others.coordinates.shape[1])
        reward = Reward("own", agreed, posterior, Estimate(1.0, 0.1), others=evidence)
        model = eq.combine(reward, rows(kind, 60, rng), draws=1_000, seed=replication)
        found = agreed.model.own_units(model.posterior.draws)
        for name, true in zip(("intercept", "weight[a]", "weight[b]"), TRUTH[kind], strict=False):
            low, high = np.quantile(found[name], [0.05, 0.95])
            covered.append(low <= true <= high)
    share = float(np.mean(covered))
    error = np.sqrt(0.9 * 0.1 / REPLICATIONS)  # as if the three of a replication were one
    assert share > 0.9 - 2.5 * error
    if kappa == 1:
        assert share < 0.9 + 2.5 * error
