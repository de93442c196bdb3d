"""What else a party could do with others at the same (ε, δ): AdaSSP on all releases, and DP-FedAvg, fine-tuned at home.

Both give coefficients, not a posterior. What is left to say for a log loss is found at home from own rows, where it
costs no privacy: a residual variance in linear regression, and for AdaSSP's logistic analogue a scale.

AdaSSP (Wang 2018) is of linear regression. Logistic regression's log likelihood is about quadratic in the same sums,
log σ(y xᵀθ) ≈ b₀ + b₁ y xᵀθ + b₂ (xᵀθ)² (PASS-GLM, Huggins et al. 2017), with its maximum at AdaSSP's solution times
−b₁/(2 b₂). That factor depends on the range of the fit (2 at 0, 3.5 on [−4, 4]); own rows choose it.

DP-FedAvg: in every round each party takes K full-batch steps from the common coefficients, every one with each row's
gradient clipped to norm C and normal noise, and the results are averaged by numbers of rows. Replacing a row moves a
sum of clipped gradients by 2C at most, so noise of deviation 2C √(RK / (2ρ)) in each of R·K steps is ρ-zCDP in all, the
very guarantee of the releases. Features are standardised by what is agreed of them, the last half of the rounds is
averaged, and R, K, C and the step are those of a grid which predict the *held-out* rows best on average over all
rounds: nobody could choose so well. Fine-tuning at home minimises the loss of own rows plus λ/2 |θ − common|², the
λ by cross-validation: λ → ∞ is the common model, λ → 0 own rows alone.

Part of what fine-tuning gains is shrinkage, which needs nobody else: `ridge` is own rows with a pull towards 0.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from equipoise.models.base import Rows
from equipoise.models.linear import LinearModel
from equipoise.reward.scoring import losses_on

Floats = NDArray[np.float64]

FOLDS = 5
PULLS = np.logspace(-2, 4, 10)  # λ
NEWTON_STEPS = 30


class Plan(NamedTuple):
    """How DP-FedAvg is run: rounds, steps of each, step size and the norm that gradients are clipped to."""

    rounds: int
    steps: int
    size: float
    clip: float


PLANS = [
    Plan(*schedule, size, clip)
    for schedule, size, clip in itertools.product(
        [(5, 1), (15, 1), (50, 1), (5, 3), (15, 3)], (0.1, 0.3, 1.0, 3.0), (0.3, 1.0, 3.0)
    )
]


class Problem:
    """A regression in units where features have deviations of about 1, by what is agreed of them."""

    def __init__(self, model: object, linear: bool) -> None:
        typical = np.array(model.typical_terms)  # type: ignore[attr-defined]
        self.linear = linear
        self._middle, self._deviation = np.append(typical[:, 0], 0.0), np.append(typical[:, 1], 1.0)
        self._target = (0.0, 1.0)
        if isinstance(model, LinearModel):
            self._target = model.typical(model.target, model.target_column)[:2]

    def standardised(self, rows: Rows) -> tuple[Floats, Floats]:
        """Features and target."""
        assert rows.features is not None
        return (rows.features - self._middle) / self._deviation, (rows.target - self._target[0]) / self._target[1]

    def weights(self, standardised: Floats) -> Floats:
        """Coefficients in the model's scaled units."""
        found = self._target[1] * standardised / self._deviation
        found[-1] += self._target[0] - found @ self._middle
        return np.asarray(found)

    def slopes(self, features: Floats, target: Floats, at: Floats) -> Floats:
        """Derivative of each row's loss by its linear predictor: of half a square, or of a negative log probability."""
        predicted = features @ at
        return predicted - target if self.linear else -target * special.expit(-target * predicted)

    def losses(self, features: Floats, target: Floats, at: Floats) -> Floats:
        """Loss of each row."""
        predicted = features @ at
        return (target - predicted) ** 2 / 2 if self.linear else -special.log_expit(target * predicted)

    def curvatures(self, features: Floats, at: Floats) -> Floats:
        """Second derivatives, as `slopes`."""
        if self.linear:
            return np.ones(len(features))
        share = special.expit(features @ at)
        return np.asarray(share * (1 - share))


def federated(
    problem: Problem, parts: Sequence[tuple[Floats, Floats]], zcdp: float, plan: Plan, rng: np.random.Generator
) -> Floats:
    """DP-FedAvg's common coefficients, standardised, from every party's features and targets."""
    deviation = 2 * plan.clip * np.sqrt(plan.rounds * plan.steps / (2 * zcdp))
    common, counts = np.zeros(parts[0][0].shape[1]), np.array([len(target) for _, target in parts])
    norms = [np.linalg.norm(features, axis=1) for features, _ in parts]
    averaged = []
    for _ in range(plan.rounds):
        locals_ = []
        for (features, target), norm in zip(parts, norms, strict=True):
            own = common
            for _ in range(plan.steps):
                slopes = problem.slopes(features, target, own)
                clipped = slopes * np.minimum(1.0, plan.clip / np.maximum(np.abs(slopes) * norm, 1e-300))
                noised = clipped @ features + deviation * rng.normal(size=len(own))
                own = own - plan.size * noised / len(target)
            locals_.append(own)
        common = np.clip(counts @ np.array(locals_) / counts.sum(), -1e3, 1e3)
        averaged.append(common)
    return np.asarray(np.mean(averaged[plan.rounds // 2 :], axis=0))


def pulled(problem: Problem, features: Floats, target: Floats, towards: Floats, pull: Floats) -> Floats:
    """Coefficients with the least loss of rows plus Σ pull/2 (θ − towards)²; Newton's method, never uphill."""

    def cost(at: Floats) -> float:
        return float(problem.losses(features, target, at).sum() + pull / 2 @ (at - towards) ** 2)

    found, now = towards, cost(towards)
    for _ in range(NEWTON_STEPS):
        gradient = problem.slopes(features, target, found) @ features + pull * (found - towards)
        curvature = (features.T * problem.curvatures(features, found)) @ features + np.diag(pull)
        step = np.linalg.solve(curvature, gradient)
        if gradient @ step < 1e-9:  # twice what is left to gain
            break
        while (then := cost(found - step)) > now:
            step = step / 2
        found, now = found - step, then
    return found


def ridge(problem: Problem, own: Rows, seed: int) -> dict[str, Floats]:
    """Own rows alone, shrunk towards 0 as much as cross-validation says; the bias is not shrunk."""
    assert own.features is not None
    nothing, shrunk = np.zeros(own.features.shape[1]), np.ones(own.features.shape[1])
    shrunk[-1] = 1e-6
    return _cross_validated(problem, own, nothing, shrunk, seed)


def fine_tuned(problem: Problem, own: Rows, common: Floats, seed: int) -> dict[str, Floats]:
    """The federated coefficients after own rows, as a model's parameters."""
    return _cross_validated(problem, own, common, np.ones(len(common)), seed)


def _cross_validated(problem: Problem, own: Rows, towards: Floats, strength: Floats, seed: int) -> dict[str, Floats]:
    """Pull the fit to own rows towards coefficients, as much as predicts rows best that were left out."""
    features, target = problem.standardised(own)
    fold = np.random.default_rng(seed).permutation(len(target)) % FOLDS
    held = np.zeros(len(PULLS))
    for place, pull in enumerate(PULLS):
        for one in range(FOLDS):
            there = fold != one
            at = pulled(problem, features[there], target[there], towards, pull * strength)
            held[place] += problem.losses(features[~there], target[~there], at).sum()
    best = int(np.argmin(held))
    weights = problem.weights(pulled(problem, features, target, towards, PULLS[best] * strength))
    variance = 2 * held[best] / len(target) * problem._target[1] ** 2
    return {"weights": weights[None], "variance": np.array([variance])}


def scaled_at_home(problem: Problem, own: Rows, weights: Floats) -> dict[str, Floats]:
    """Coefficients that need a residual variance, or a scale, from own rows, as a model's parameters."""
    assert own.features is not None
    predicted = own.features @ weights
    if problem.linear:
        return {"weights": weights[None], "variance": np.array([np.mean((own.target - predicted) ** 2)])}

    def cost(scale: float) -> float:
        return float(-special.log_expit(scale * own.target * predicted).mean())

    best = optimize.minimize_scalar(cost, bounds=(0.0, 10.0), method="bounded")
    return {"weights": best.x * weights[None]}


def best_plan(
    problem: Problem, rounds: Sequence[tuple[Sequence[Rows], Rows]], zcdp: float, seed: int
) -> tuple[Plan, list[Floats]]:
    """The plan that predicts held-out rows best, on average over rounds of (parties' rows, test), and what it gives."""
    standardised = [
        ([problem.standardised(one) for one in parts], problem.standardised(test)) for parts, test in rounds
    ]
    tried = []
    for plan in PLANS:
        found = [
            federated(problem, parts, zcdp, plan, np.random.default_rng([seed, number]))
            for number, (parts, _) in enumerate(standardised)
        ]
        losses = [problem.losses(*test, at).mean() for at, (_, test) in zip(found, standardised, strict=True)]
        tried.append((float(np.mean(losses)), plan, found))
    _, plan, found = min(tried, key=lambda one: one[0])
    return plan, found


def loss(rows: Rows, parameters: dict[str, Floats]) -> float:
    """Mean negative log probability of rows by a model's parameters."""
    return float(losses_on(rows, parameters).mean())
