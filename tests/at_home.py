"""What tests of models at home share: rewards with evidence beside them, rows, and posteriors in closed form."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

import equipoise as eq
import reward_posteriors
from equipoise.estimate import Estimate
from equipoise.inference.scenario import Scenario
from equipoise.reward.model import Reward

TRUTH, SPREAD = np.array([0.4, -0.2, 0.1]), 0.1  # with hardly a target outside the agreed bounds


def with_others(kind: str, others: np.ndarray | None, kappa: float = 1.0) -> Reward:
    """A reward of north that has the others' evidence beside it; its own draws do not matter here."""
    plain = reward_posteriors.some_reward(kind)
    scenario = Scenario(("north", "south"), kappa)
    return Reward(
        "north", plain.agreement, replace(plain.posterior, scenario=scenario), Estimate(3.0, 0.1), others=others
    )


def rows_of(number: int, seed: int, spread: float = SPREAD) -> tuple[np.ndarray, np.ndarray]:
    """Features in scaled units with a last column of ones, and scaled targets."""
    rng = np.random.default_rng(seed)
    features = np.column_stack([rng.uniform(-1, 1, (number, 2)), np.ones(number)])
    return features, features @ TRUTH + spread * rng.normal(size=number)


def in_own_units(features: np.ndarray, target: np.ndarray) -> dict[str, Any]:
    """As the table of a hospital has them: see the bounds of the agreement."""
    return {"age": 60 + 40 * features[:, 0], "bmi": 30 + 15 * features[:, 1], "progression": 200 + 200 * target}


class NormalInverseGamma:
    """The posterior of a linear regression in closed form, from the agreed conjugate prior and exact rows."""

    def __init__(self, agreed: eq.Agreement, features: np.ndarray, target: np.ndarray) -> None:
        prior: Any = agreed.model.prior
        self.prior_root = np.linalg.cholesky(agreed.model.weight_precision)  # type: ignore[attr-defined]
        self.shape0, self.scale0 = prior.shape, prior.scale
        self.precision = self.prior_root @ self.prior_root.T + features.T @ features
        self.mean = np.linalg.solve(self.precision, features.T @ target)
        self.shape = prior.shape + len(target) / 2
        self.scale = prior.scale + 0.5 * (target @ target - self.mean @ self.precision @ self.mean)

    @property
    def deviations(self) -> np.ndarray:
        return np.asarray(np.sqrt(np.diag(np.linalg.inv(self.precision)) * self.scale / (self.shape - 1)))

    def coordinates(self, number: int, seed: int) -> np.ndarray:
        """Independent draws, where the prior is N(0, I): by the definition of the prior, not by the package."""
        rng = np.random.default_rng(seed)
        variance = self.scale / rng.gamma(self.shape, size=number)
        root = np.linalg.inv(np.linalg.cholesky(self.precision)).T
        weights = self.mean + np.sqrt(variance)[:, None] * (rng.normal(size=(number, 3)) @ root.T)
        first = special.ndtri(special.gammainc(self.shape0, self.scale0 / variance))
        return np.column_stack([first, weights / np.sqrt(variance)[:, None] @ self.prior_root])
