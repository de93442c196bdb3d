"""Sample the rounds of docs/worth.md: what coalitions are worth, rewards, and the others' evidence.

    python benchmarks/worth_posteriors.py --data FOLDER --output rewards [--tables pima] [--mechanism degraded]

Every table is dealt to three parties of unequal size (`worth_joining.py`), in several repetitions and at several ε.
Sampled are every coalition; rewards held back by seven amounts, which give the curve that a target's amount is read
from; and rewards held back by that amount, with the others' evidence beside them. The amount is κ for `tempering`, with
one curve for all parties, and τ for `degraded`, with a curve for each. Targets are the library's own, by default by the
surplus rule with ρ = 0.5. A reward that misses its target is kept, and its value stated.
`everything` is no mechanism: everybody gets all that the releases tell, which shows what fairness holds back.
"""

import argparse
import hashlib
import itertools
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise._util.cores import one_core_each, usable_cores
from equipoise.estimate import Estimate
from equipoise.inference import brownian
from equipoise.inference.pooling import Releases, add_up, weights_by_noise
from equipoise.inference.regression.posterior import sample_posterior
from equipoise.reward.targets import (
    PRECISION,
    TOLERANCE,
    SharingRule,
    TargetPolicy,
    Targets,
    every_coalition,
    targets_from_values,
)
from equipoise.reward.tempering import FIRST_LOOK, Curve, Point
from equipoise.valuation.divergence import divergence
from public_tables import TABLES
from real_tables import Study
from worth_joining import CHOSEN, deal

Floats = NDArray[np.float64]

PARTIES = ("small", "middle", "large")
COALITIONS = every_coalition(PARTIES)[1:]
MECHANISMS = ("tempering", "degraded", "everything")
TAUS = tuple(4.0**power for power in range(-1, 6))  # of a release's own noise variance


class Asked(NamedTuple):
    """A posterior to sample: of which round, whose releases are in it, their power, and noise added to the others'."""

    round: int
    members: tuple[str, ...]
    kappa: float = 1.0
    tau: float = 0.0  # of a release's own noise variance
    recipient: str = ""  # to whose release nothing is added


class Answer(NamedTuple):
    """Draws of the model's own coordinates [draws, d], their value, and if they converged."""

    draws: Floats
    value: Estimate
    converged: bool


class Sampler:
    """Sample the rounds of one table."""

    def __init__(self, study: Study, epsilons: Sequence[float], repetitions: Sequence[int]) -> None:
        self._study, self._seed = study, 1_000_000 * repetitions[0]
        self.settings = list(itertools.product(epsilons, repetitions))  # of every round
        self._releases = [self._released(*one) for one in self.settings]
        self._secrets = [hashlib.sha256(f"{study.table.name} {one}".encode()).hexdigest() for one in self.settings]

    def _released(self, epsilon: float, number: int) -> Releases:
        """Perturb what every party was dealt; the deal is the same at every ε."""
        study = self._study
        rng = np.random.default_rng([number, round(1_000 * epsilon), *map(ord, study.table.name)])
        parts = [study.rows.take(part) for part in deal(study, number).parts]
        return study.perturbed(parts, epsilon, rng)

    def __call__(self, asked: Sequence[Asked]) -> list[Answer]:
        """Sample every posterior that is asked for."""
        seeds = range(self._seed, self._seed + len(asked))
        self._seed += len(asked)
        with one_core_each(), ThreadPoolExecutor(usable_cores()) as pool:
            return list(pool.map(self._sample, asked, seeds))

    def _sample(self, asked: Asked, seed: int) -> Answer:
        releases, rng = self._releases_of(asked), np.random.default_rng(seed)
        found = sample_posterior(self._study.model, releases, rng, self._study.draws, power=asked.kappa)
        chains = found.coordinates.reshape(found.superchains, -1, found.coordinates.shape[1])
        value = divergence(chains) if found.divergence is None else found.divergence
        return Answer(found.coordinates, value, found.diagnostics.converged)

    def _releases_of(self, asked: Asked) -> Releases:
        """Take the members' releases, with noise along one Brownian path for each release of a round."""
        whole, statistics, scales = self._releases[asked.round], [], []
        places = [PARTIES.index(party) for party in asked.members]
        for place in places:
            statistic, scale = whole.statistic[place], whole.scale[place]
            if asked.tau and PARTIES[place] != asked.recipient:
                path = brownian.position(self._secrets[asked.round], PARTIES[place], asked.tau, len(statistic))
                statistic, scale = statistic + np.sqrt(whole.shape) * path, scale * (1 + asked.tau)
            statistics.append(statistic)
            scales.append(scale)
        return Releases(np.stack(statistics), whole.rows[places], np.array(scales), whole.shape)

    def sums(self, asked: Asked) -> Floats:
        """Add releases up as a reward carries them: rows, sums and variances of their noise, one after the other."""
        own = self._releases[asked.round]
        places = [PARTIES.index(party) for party in asked.members]
        weights = weights_by_noise(own.rows[places], np.outer(own.scale[places], own.shape))
        added = add_up(self._releases_of(asked), weights)
        order = np.argsort(self._study.model.moments.order)
        return np.concatenate([added.rows, added.statistic[0, order], added.scale[0] * added.shape[order]])


def reward_at(mechanism: str, number: int, party: str, amount: float) -> tuple[Asked, Asked]:
    """A party's reward, held back by κ or τ, and prior times the others' evidence as that reward carries it."""
    others = tuple(one for one in PARTIES if one != party)
    if mechanism == "tempering":
        return Asked(number, PARTIES, amount), Asked(number, others, amount)
    return tuple(Asked(number, who, tau=amount, recipient=party) for who in (PARTIES, others))  # type: ignore[return-value]


def amounts_held_back(
    mechanism: str, sampler: Sampler, targets: Sequence[Targets], whole: Sequence[Estimate]
) -> Floats:
    """κ or τ of every party in every round [rounds, parties]; of who gets its own posterior instead, NaN."""
    tempers = mechanism == "tempering"
    grid = FIRST_LOOK if tempers else TAUS
    curves = range(1 if tempers else len(PARTIES))  # one curve r(κ) serves all parties
    places = list(itertools.product(range(len(targets)), curves))
    asked = [reward_at(mechanism, number, PARTIES[party], amount)[0] for number, party in places for amount in grid]
    answers = iter(sampler(asked))
    values = {place: [next(answers).value for _ in grid] for place in places}
    found = np.full((len(targets), len(PARTIES)), np.nan)
    for number, target in enumerate(targets):
        for party in np.flatnonzero(~target.falls_back):
            known, wanted = values[number, 0 if tempers else int(party)], float(target.values[party])
            if target.whole[party]:
                found[number, party] = 1.0 if tempers else 0.0
            elif tempers:
                curve = Curve(whole[number], [Point(*pair) for pair in zip(grid, known, strict=True)])
                found[number, party] = curve.kappa_of(wanted)
            else:
                found[number, party] = _first_below(whole[number].value, [one.value for one in known], wanted)
    return found


def _first_below(whole: float, values: Sequence[float], wanted: float) -> float:
    """The least τ with the wanted value, between the first one whose value is below and the one before it."""
    steps, every = np.log([TAUS[0] / 16, *TAUS]), [whole, *values]
    place = next((place for place, value in enumerate(every) if value < wanted), None)
    if place is None or place == 0:
        return TAUS[-1] if place is None else 0.0
    share = (every[place - 1] - wanted) / (every[place - 1] - every[place])
    return float(np.exp(steps[place - 1] + share * (steps[place] - steps[place - 1])))


def settled(
    sampler: Sampler, valued: Sequence[Answer], mechanism: str, rho: float | Literal["max"], rule: SharingRule
) -> dict[str, Any]:
    """Find values, targets and rewards of all rounds, and the others' evidence in each reward."""
    rounds = range(len(sampler.settings))
    by_round = [valued[len(COALITIONS) * number :][: len(COALITIONS)] for number in rounds]
    terms = TargetPolicy(rho, "alone", PRECISION, TOLERANCE, own_is_whole=mechanism == "degraded", rule=rule)
    nobody = Estimate(0.0, 0.0)
    targets = [
        targets_from_values(PARTIES, [PARTIES], [nobody, *(one.value for one in row)], terms)[1] for row in by_round
    ]
    if mechanism == "everything":
        amounts, everybody = np.ones((len(rounds), len(PARTIES))), len(COALITIONS) - 1  # numbered by bits, from 1
        made = [
            row[one]
            for row in by_round
            for party in range(len(PARTIES))
            for one in (everybody, everybody - (1 << party))
        ]
        return _kept(sampler, by_round, targets, amounts, made)
    amounts = amounts_held_back(mechanism, sampler, targets, [row[-1].value for row in by_round])
    asked: list[Asked] = []
    for number, party in itertools.product(rounds, range(len(PARTIES))):
        own = Asked(number, (PARTIES[party],))  # for who falls back on it; nobody's evidence goes with it
        amount = float(amounts[number, party])
        asked += (own, own) if np.isnan(amount) else reward_at(mechanism, number, PARTIES[party], amount)
    return _kept(sampler, by_round, targets, amounts, sampler(asked), degraded=mechanism == "degraded")


def _kept(
    sampler: Sampler,
    by_round: Sequence[Sequence[Answer]],
    targets: Sequence[Targets],
    amounts: Floats,
    made: Sequence[Answer],
    *,
    degraded: bool = False,
) -> dict[str, Any]:
    """Collect what is written of all rounds; `made` has each party's reward, then the others' evidence in it."""

    def stacked(answers: Sequence[Answer]) -> NDArray[np.float32]:
        draws = min(len(one.draws) for one in answers)
        some = np.stack([one.draws[:draws] for one in answers]).astype(np.float32)
        return some.reshape(*amounts.shape, *some.shape[1:])

    return {
        "settings": np.array(sampler.settings),
        "reward": stacked(made[::2]),
        "others": stacked(made[1::2]),
        "sums": _sums(sampler, amounts, degraded),
        "amount": amounts,
        "values": np.array([[one.value.value for one in row] for row in by_round]),
        "errors": np.array([[one.value.error for one in row] for row in by_round]),
        "targets": np.stack([one.values for one in targets]),
        "rho": np.array([one.rho for one in targets]),
        "attained": np.array([one.value.value for one in made[::2]]).reshape(amounts.shape),
        "converged": np.array([one.converged for one in made]).reshape(*amounts.shape, 2).all(axis=2),
    }


def _sums(sampler: Sampler, amounts: Floats, degraded: bool) -> Floats:
    """Add up the others' releases for every party in every round; NaN for who gets its own posterior instead."""
    rows = []
    for (number, party), amount in np.ndenumerate(amounts):
        nobody = np.isnan(amount)
        tau = float(amount) if degraded and not nobody else 0.0
        one = sampler.sums(reward_at("degraded", number, PARTIES[party], tau)[1])
        rows.append(np.full_like(one, np.nan) if nobody else one)
    return np.stack(rows).reshape(*amounts.shape, -1)


def main() -> None:
    """Sample the rounds of all tables, and write one file for each table and mechanism."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder of the two files")
    parser.add_argument("--tables", nargs="+", choices=tuple(TABLES), default=list(CHOSEN))
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.5, 1.0, 4.0])
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first repetition, where others run beside")
    parser.add_argument("--mechanism", nargs="+", choices=MECHANISMS, default=["tempering"])
    parser.add_argument("--rule", default="surplus", choices=("surplus", "proportional"))
    parser.add_argument("--version", type=int, default=3, help="of the agreements: 2 scales noise by bounds")
    parser.add_argument("--rho", default="0.5", help="the fairness exponent: a number up to 1, or max")
    parser.add_argument("--draws", type=int, default=1_280)
    parser.add_argument("--output", type=Path, required=True, help="folder to write to")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.tables:
        start = time.perf_counter()
        sampler = Sampler(
            Study(TABLES[name], options.data, options.draws, version=options.version),
            options.epsilon,
            range(options.first, options.first + options.repetitions),
        )
        rounds = range(len(sampler.settings))
        valued = sampler([Asked(number, coalition) for number in rounds for coalition in COALITIONS])
        print(f"{name}: coalitions of {len(rounds)} rounds, {time.perf_counter() - start:.0f} s", flush=True)
        rho: float | Literal["max"] = "max" if options.rho == "max" else float(options.rho)
        for mechanism in options.mechanism:
            found = settled(sampler, valued, mechanism, rho, options.rule)
            np.savez(
                options.output / f"{name}-{mechanism}-{options.rule}-{options.rho}-{options.first}.npz",
                mechanism=mechanism,
                agreed=f"{options.rule}, ρ = {options.rho}",
                **found,
            )
            late = 1 - np.mean(found["converged"])
            miss = np.mean(np.abs(found["attained"] - found["targets"]))
            print(
                f"{name}: {mechanism}, {time.perf_counter() - start:.0f} s, {late:.0%} not converged, targets missed "
                f"by {miss:.3f} nats",
                flush=True,
            )


if __name__ == "__main__":
    main()
