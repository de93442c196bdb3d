"""Rounds of given tables by Laplace's approximation, as advice has it: seconds where a settlement takes a minute.

Every posterior is taken to be normal where the prior is N(0, I): of all coalitions, of the others' evidence, of own
rows. Values, targets and the κ of rewards follow as in a settlement, without errors of estimates. Used by
`demo_luck.py` and `rho.py`; noise comes from a seed, so never for real rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from equipoise.agreement import Agreement
from equipoise.inference.pooling import ReleasedSums
from equipoise.mediation.advice import expected
from equipoise.mediation.advice.at_home import _product
from equipoise.mediation.advice.engines import engine_of
from equipoise.mediation.advice.imagined import ImaginedRound, Truth
from equipoise.mediation.advice.quality import _kappa
from equipoise.models import layout_of
from equipoise.models.base import Rows
from equipoise.models.guarantee import Guarantee
from equipoise.party.statistics import exact_statistic
from equipoise.reward.evidence import Normal
from equipoise.reward.scoring import losses_on, scaled_rows
from equipoise.reward.slice_sampling import touching
from equipoise.reward.targets import PRECISION, SharingRule, TargetInputs, TargetPolicy, set_targets

DRAWS = 512
HALF = "max / 2"  # half of the largest: nothing that can be agreed, for comparison

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class Outcome:
    """One party in one round at one ρ: values in nats, losses on test rows, κ of the reward."""

    party: str
    rho: float | str
    used: float
    alone: float
    shapley: float
    target: float
    whole: float
    kappa: float
    losses: dict[str, float]

    @property
    def gain_at_home(self) -> float:
        """By how much reward and own rows predict better than own rows."""
        return self.losses["own rows"] - self.losses["both"]

    @property
    def share_of_gain(self) -> float:
        """How much of what it could gain over its release alone it gets."""
        return (self.target - self.alone) / max(self.whole - self.alone, 1e-9)


class _Tables(Truth):
    """Given tables, in place of rows that are imagined."""

    def draw_rows(self, number: int, rng: np.random.Generator) -> Rows:
        raise NotImplementedError

    def add_up(self, number: int, rng: np.random.Generator) -> np.ndarray:
        raise NotImplementedError


def rows_of(agreement: Agreement, table: Columns) -> Rows:
    """A table's rows, scaled."""
    *features, target = [column.name for column in agreement.columns]
    return scaled_rows(agreement, {name: table[name] for name in features}, table[target])


def own_posterior(agreement: Agreement, table: Columns) -> Normal:
    """Fit a table without noise, its numbers moved to the agreed ranges as `eq.combine` does."""
    model, rows = agreement.model, rows_of(agreement, table)
    assert rows.features is not None
    moved = replace(rows, features=np.clip(rows.features, -1, 1), target=np.clip(rows.target, -1, 1))
    likelihood = model.likelihood_of(moved)
    prior = Normal.prior(len(model.coordinate_names()))

    def log_density(points: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            found = prior.log_density(points) + likelihood(model.at_coordinates(points))
        return np.where(np.isfinite(found), found, -np.inf)

    return touching(log_density, prior)


def _released(
    agreement: Agreement, tables: Mapping[str, Columns], epsilons: Mapping[str, float], rng: np.random.Generator
) -> ReleasedSums:
    layout, unit = layout_of(agreement), Guarantee(agreement.privacy.order, 1.0)
    step = np.asarray(layout.noise_deviations(unit)) / layout.noise_steps(unit)
    exact = [exact_statistic(layout, tables[name]) for name in agreement.party_names]
    levels = np.array([epsilons[name] for name in agreement.party_names])
    guarantees = [Guarantee(agreement.privacy.order, float(level)) for level in levels]
    deviations = np.array([layout.noise_deviations(one) for one in guarantees])
    sums = np.array([np.array(one.values, float) * step for one in exact])
    released = sums + deviations * rng.normal(size=sums.shape)
    rows = np.array([float(one.count) for one in exact])
    return ReleasedSums(released, rows, deviations**2, np.sqrt(levels)[:, None] * deviations)


def play(
    agreement: Agreement,
    tables: Mapping[str, Columns],
    epsilons: Mapping[str, float],
    test: Rows,
    owns: Mapping[str, Normal],
    seed: int,
    rhos: Sequence[float | str] = ("max",),
) -> list[Outcome]:
    """One round with the noise of a seed, settled by the agreed rule at every ρ."""
    engine = engine_of(agreement)
    names, rng = agreement.party_names, np.random.default_rng(seed)
    number = len(names)
    sums = _released(agreement, tables, epsilons, rng)
    one = ImaginedRound(sums, np.zeros_like(sums.statistic), _Tables({}), test)
    plan = expected.plan(number, rng)
    tasks = [expected.Task(engine, one, plan, expected.Choices(k, np.zeros(1))) for k in range(number)]
    found = [expected.by_approximation(task) for task in tasks]
    values, known = found[0][0][0], [normals[0] for _, normals in found]
    shapley, alone, whole = np.maximum(values[1 + number :], 0), values[1 : 1 + number], values[0]
    nothing = np.zeros((2 * number + 1, 2 * number + 1))
    stakes = TargetInputs(shapley, alone, values[:1], np.zeros(number, np.intp), nothing)
    noise = rng.normal(size=(DRAWS, engine.dimension))

    def loss_of_team(mean: np.ndarray, covariance: np.ndarray) -> float:
        return loss_at_home(Normal.of(mean, covariance))

    def loss_at_home(normal: Normal) -> float:
        points = normal.mean + noise @ normal.root.T
        return float(losses_on(test, agreement.model.at_coordinates(points)).mean())

    own_losses = {name: loss_at_home(owns[name]) for name in names}
    alone_losses = [loss_of_team(*expected.pull_of(normals.alone).posterior()) for normals in known]
    outcomes = []
    for rho in rhos:
        targets = set_targets(stakes, _terms(rho, stakes, agreement.reward.rule))
        for place, name in enumerate(names):
            falls_back, normal = bool(targets.falls_back[place]), known[place].others
            assert normal is not None
            everybody, others = expected.pull_of(known[place].everybody), expected.pull_of(normal)
            kappa = 0.0 if falls_back else _kappa(everybody.tempered, float(targets.values[place]))
            evidence = Normal.narrowed(*others.tempered(kappa).posterior())
            losses = {
                "own rows": own_losses[name],
                "alone": alone_losses[place],
                "reward": alone_losses[place] if falls_back else loss_of_team(*everybody.tempered(kappa).posterior()),
                "both": loss_at_home(_product(owns[name], evidence)),
            }
            own, brought, target = float(alone[place]), float(shapley[place]), float(targets.values[place])
            outcomes.append(Outcome(name, rho, targets.rho, own, brought, target, float(whole), kappa, losses))
    return outcomes


def _terms(rho: float | str, stakes: TargetInputs, rule: SharingRule) -> TargetPolicy:
    largest = TargetPolicy("max", "alone", PRECISION, 2 * PRECISION, rule=rule)
    if rho == "max":
        return largest
    return replace(largest, rho=set_targets(stakes, largest).rho / 2 if rho == HALF else float(rho))
