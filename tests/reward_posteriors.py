"""Rewards whose posterior is known, made in no time: draws from conjugate or made-up distributions."""

from typing import Any

import numpy as np

from equipoise.agreement import Agreement
from equipoise.estimate import Estimate
from equipoise.inference.diagnostics import independent
from equipoise.inference.posterior import Posterior
from equipoise.inference.scenario import Scenario
from equipoise.reward.model import Reward

TAIL = '[privacy]\norder = 2\nmax_epsilon = 1.0\n[[parties]]\nname = "north"\n[[parties]]\nname = "south"\n'
FEATURES = 'features = [{ name = "age", bounds = [20, 100] }, { name = "bmi", bounds = [15, 45] }]'
TARGETS = {
    "linear": f'{FEATURES}\ntarget = {{ name = "progression", bounds = [0, 400] }}',
    "logistic": f'{FEATURES}\ntarget = {{ name = "ill", labels = ["no", "yes"] }}',
    "bernoulli": 'target = { name = "ill", labels = ["no", "yes"] }',
    "categorical": 'target = { name = "ward", categories = ["A", "B", "C"] }',
    "poisson": 'target = { name = "visits", bounds = [0, 20] }',
    "exponential": 'target = { name = "days", bounds = [0, 50] }',
    "gaussian": 'target = { name = "height", bounds = [140, 200] }',
}


def agreement(kind: str, labels: str | None = None) -> Agreement:
    """An agreement in units that are not the scaled ones; `labels` in place of no and yes, as in TOML."""
    target = TARGETS[kind].replace('["no", "yes"]', labels or '["no", "yes"]')
    return Agreement.parse(f'format = 1\n[model]\nkind = "{kind}"\n{target}\n{TAIL}')


def reward(agreed: Agreement, draws: dict[str, Any], chains: int = 2) -> Reward:
    """A reward of north with these draws."""
    number = len(next(iter(draws.values())))
    arrays = {name: np.asarray(values, float) for name, values in draws.items()}
    posterior = Posterior(arrays, independent(number, 3), Scenario(("north",)), "exact", "power", 0, 0, chains)
    return Reward("north", agreed, posterior, Estimate(3.0, 0.1))


def some_reward(kind: str, labels: str | None = None, number: int = 2_000) -> Reward:
    """A reward of any kind with a little doubt about everything."""
    rng = np.random.default_rng(0)
    draws: dict[str, dict[str, Any]] = {
        "linear": {
            "weights": [0.8, -0.3, 0.1] + 0.05 * rng.normal(size=(number, 3)),
            "variance": 0.04 * rng.uniform(0.8, 1.2, number),
        },
        "logistic": {"weights": [3.0, -2.0, 0.3] + 0.2 * rng.normal(size=(number, 3))},
        "bernoulli": {"probability": rng.beta(30, 70, number)},
        "categorical": {"probabilities": rng.dirichlet([60, 30, 10], number)},
        "poisson": {"rate": rng.gamma(400, 1 / 100, number)},
        "exponential": {"rate": rng.gamma(100, 1 / 1_000, number)},
        "gaussian": {"mean": 0.1 + 0.02 * rng.normal(size=number), "variance": 0.09 * rng.uniform(0.9, 1.1, number)},
    }
    return reward(agreement(kind, labels), draws[kind])


def some_rows(rows: int = 300, seed: int = 1) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Ages and body mass indices, some beyond the agreed bounds."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.normal(60, 20, rows), rng.normal(30, 7, rows)])
