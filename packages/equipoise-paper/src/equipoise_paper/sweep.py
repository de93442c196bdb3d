"""Sweeps of one party's ε, all else equal: its value, contribution and reward, and the losses of its models.

A sweep samples two batches of posteriors: first all coalitions and the curve r(κ) of all parties' tempered posterior;
then the rewards, at the κ that the curve gives for each target. Coalitions without the party do not depend on its ε and
are sampled once.
"""

import csv
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equipoise.agreement import Agreement
from equipoise.estimate import Estimate
from equipoise.inference.scenario import Scenario
from equipoise.mediation.seeds import derived_seed
from equipoise.protocol.submission import Submission
from equipoise.reward.targets import TargetPolicy, Targets, mask_of, targets_from_values
from equipoise.reward.tempering import FIRST_LOOK, Curve, Point
from equipoise.valuation.shapley import ShapleyValues
from equipoise_paper.effort import Effort, Tick
from equipoise_paper.posteriors import Asked, Found, Measure, find
from equipoise_paper.releases import Sender, submissions
from equipoise_paper.settings import EPSILONS, NOISE_SEED, PARTIES, RHO, Setting
from equipoise_paper.verdict import mean_of_runs

LEVELS = (0.004, 0.02, 0.1, 0.5, 2.5, 12.5)
# The varied party's ε, or None if the coalition excludes that party; the coalition; the run.
Key = tuple[float | None, tuple[str, ...], int]
COALITIONS = [
    tuple(members) for size in range(1, len(PARTIES) + 1) for members in itertools.combinations(PARTIES, size)
]


@dataclass(frozen=True)
class Run:
    """The numbers of one settlement, at one ε of the varied party."""

    epsilon: float
    run: int
    values: dict[tuple[str, ...], Estimate]
    shapley: dict[str, Estimate]
    target: float
    kappa: float
    reward: Estimate
    loss_alone: float
    loss_reward: float
    loss_team: float
    rhat: float  # the worst of all posteriors it rests on

    @property
    def team(self) -> Estimate:
        """The value of all parties together."""
        return self.values[PARTIES]

    def row(self) -> dict[str, float | int]:
        """Return the numbers of one run, by column of a table."""
        numbers: dict[str, float | int] = {"epsilon": self.epsilon, "run": self.run}
        named = {f"v_{''.join(members)}": value for members, value in self.values.items()}
        named |= {f"phi_{party}": value for party, value in self.shapley.items()}
        named |= {"r": self.reward}
        for name, estimate in named.items():
            numbers |= {name: estimate.value, f"{name}_error": estimate.error}
        losses = {"mnlp_alone": self.loss_alone, "mnlp_reward": self.loss_reward, "mnlp_team": self.loss_team}
        return numbers | {"target": self.target, "kappa": self.kappa} | losses | {"rhat": self.rhat}


def read_runs(path: Path) -> list[Run]:
    """Read runs from the table that their rows were written to."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = [{name: float(cell) for name, cell in row.items()} for row in csv.DictReader(file)]

    def estimate(row: dict[str, float], name: str) -> Estimate:
        return Estimate(row[name], row[f"{name}_error"])

    return [
        Run(
            row["epsilon"],
            int(row["run"]),
            {members: estimate(row, f"v_{''.join(members)}") for members in COALITIONS},
            {party: estimate(row, f"phi_{party}") for party in PARTIES},
            row["target"],
            row["kappa"],
            estimate(row, "r"),
            row["mnlp_alone"],
            row["mnlp_reward"],
            row["mnlp_team"],
            row["rhat"],
        )
        for row in rows
    ]


@dataclass(frozen=True)
class Variation:
    """A variation: the party whose ε varies, its levels, and the fixed ε of the others."""

    party: str = "2"
    others: float | None = None  # the paper's defaults unless given
    levels: Sequence[float] = LEVELS
    naive: bool = False

    def epsilons(self, level: float) -> dict[str, float]:
        """Return every party's ε at one level."""
        rest = EPSILONS if self.others is None else dict.fromkeys(PARTIES, self.others)
        return {**rest, self.party: level}


USUAL = Variation()


def vary_epsilon(
    setting: Setting, effort: Effort, variation: Variation = USUAL, *, tick: Tick = lambda _what: None
) -> list[Run]:
    """Settle at every ε of one party, in several runs that differ only in the sampler's random numbers."""
    sampled = _Sampling(setting, effort, variation)
    tick(f"{setting.name}: coalitions, and everybody tempered")
    values, curves = sampled.first()
    decided = {
        (level, run): _decided(values, variation.party, level, run)
        for level in variation.levels
        for run in range(effort.runs)
    }
    wanted = {
        (level, run): curves[level].kappa_of(target) for (level, run), (_, target, best) in decided.items() if not best
    }
    tick(f"{setting.name}: rewards")
    rewards = sampled.at(wanted)
    return [
        _run(level, run, values, variation.party, shapley, target, wanted.get((level, run)), rewards.get((level, run)))
        for (level, run), (shapley, target, _) in decided.items()
    ]


class _Sampling:
    """The batches of posteriors of one sweep, sampled level by level."""

    def __init__(self, setting: Setting, effort: Effort, variation: Variation) -> None:
        self.setting, self.effort, self.variation = setting, effort, variation
        levels = list(variation.levels)
        self.groups = [[level] for level in levels]
        self.measure: Measure = Measure(setting.test_rows)

    def first(self) -> tuple[dict[Key, Found], dict[float, Curve]]:
        """Return the values of all coalitions at all levels in all runs, and r(κ) of all parties at every level."""
        party = self.variation.party
        wanted: list[tuple[Key, float, float]] = []
        for level in self.variation.levels:
            for members, run in itertools.product(COALITIONS, range(self.effort.runs)):
                if party in members or level == self.variation.levels[0]:
                    wanted.append(((level if party in members else None, members, run), level, 1.0))
            wanted += [((level, PARTIES, -1 - index), level, kappa) for index, kappa in enumerate(FIRST_LOOK)]
        posteriors = self._sampled(wanted)
        curves = {}
        for level in self.variation.levels:
            runs = [posteriors[level, PARTIES, run].value for run in range(self.effort.runs)]
            (whole,) = mean_of_runs([runs])
            points = [
                Point(kappa, posteriors[level, PARTIES, -1 - index].value) for index, kappa in enumerate(FIRST_LOOK)
            ]
            curves[level] = Curve(whole, points)
        return posteriors, curves

    def at(self, kappas: Mapping[tuple[float, int], float]) -> dict[tuple[float, int], Found]:
        """Sample all parties' posterior, tempered to the κ of each level and run."""
        wanted: list[tuple[Key, float, float]] = [
            ((level, PARTIES, 1_000 + run), level, kappa) for (level, run), kappa in kappas.items()
        ]
        posteriors = self._sampled(wanted)
        return {(level, run): posteriors[level, PARTIES, 1_000 + run] for level, run in kappas}

    def _sampled(self, wanted: Sequence[tuple[Key, float, float]]) -> dict[Key, Found]:
        """Sample a posterior for each (key, level, κ), and return their measures by key."""
        posteriors: dict[Key, Found] = {}
        for group in self.groups:
            here = [(key, level, kappa) for key, level, kappa in wanted if level in group]
            if not here:
                continue
            agreement, sent = self._sent(group)
            asked = [
                Asked(
                    Scenario([self._name(member, level) for member in key[1]], kappa),
                    derived_seed(0, self.setting.name, str(key[0]), list(key[1]), key[2]),
                )
                for key, level, kappa in here
            ]
            sampling = self.effort.sampling(self.setting)
            answers = find(agreement, sent, asked, sampling, self.measure, naive=self.variation.naive)
            posteriors |= {key: answer for (key, _, _), answer in zip(here, answers, strict=True)}
        return posteriors

    def _sent(self, group: Sequence[float]) -> tuple[Agreement, list[Submission]]:
        party = self.variation.party
        epsilons = self.variation.epsilons(group[0])
        senders = [Sender(other, epsilons[other], other) for other in PARTIES if other != party]
        senders += [Sender(party, level, self._name(party, level)) for level in group]
        return submissions(self.setting, senders, NOISE_SEED)

    def _name(self, member: str, level: float) -> str:
        return f"{member}-at-{level:g}" if member == self.variation.party else member


def _decided(
    values: Mapping[Key, Found], party: str, level: float, run: int
) -> tuple[dict[str, Estimate], float, bool]:
    """Return Shapley values, the party's target, and True if the target is the value of all parties together."""
    known = {members: _value(values, party, level, members, run).value for members in COALITIONS}
    shapley, targets = shared_out(known, RHO)
    index = PARTIES.index(party)
    named = {name: shapley[number] for number, name in enumerate(PARTIES)}
    return named, targets[index].value, int(np.argmax(shapley.values)) == index


def _value(values: Mapping[Key, Found], party: str, level: float, members: tuple[str, ...], run: int) -> Found:
    return values[level if party in members else None, members, run]


def _run(
    level: float,
    run: int,
    values: Mapping[Key, Found],
    party: str,
    shapley: dict[str, Estimate],
    target: float,
    kappa: float | None,
    reward: Found | None,
) -> Run:
    """Collect the numbers of a run; without `reward`, the party gets all parties' posterior itself."""
    known = {members: _value(values, party, level, members, run) for members in COALITIONS}
    got = known[PARTIES] if reward is None else reward
    return Run(
        level,
        run,
        {members: posterior.value for members, posterior in known.items()},
        shapley,
        target,
        1.0 if kappa is None else kappa,
        got.value,
        known[(party,)].loss,
        got.loss,
        known[PARTIES].loss,
        max(posterior.rhat for posterior in (*known.values(), got)),
    )


def shared_out(values: Mapping[tuple[str, ...], Estimate], rho: float) -> tuple[ShapleyValues, Targets]:
    """Return Shapley values, and targets by ρ-Shapley fairness, in the order of the parties."""
    by_mask = [Estimate(0.0, 0.0)] * 2 ** len(PARTIES)
    for members in COALITIONS:
        by_mask[mask_of(members, PARTIES)] = values[members]
    # Like the paper, accept targets that make a party worse off than alone.
    return targets_from_values(PARTIES, [PARTIES], by_mask, TargetPolicy(rho, "shares"))
