"""Sample what `worth_joining.py export` wrote: what coalitions are worth, rewards, and the others' evidence.

    PYTHONPATH=src python benchmarks/worth_posteriors.py FOLDER --output FOLDER [--tables pima] [--mechanism degraded]

Needs JAX, NumPy and SciPy alone, so that it runs on a bare machine with an accelerator. All rounds of a table go side
by side: every coalition; rewards held back by seven amounts, which give the curve that a target's amount is read from;
and rewards held back by that amount, with the others' evidence beside them. The amount is κ for `tempering`, one curve
for all, and τ for `degraded`, a curve for each party. Targets are the library's own, by default with the largest ρ that
leaves nobody below alone. A reward is not tried again where it misses its target; what it is worth is kept.
`everything` is no mechanism: everybody gets all that the releases tell, which shows what fairness holds back.
"""

import argparse
import hashlib
import itertools
import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from side_by_side import opened, positions_side_by_side

from equipoise.estimate import Estimate
from equipoise.inference import brownian, collapsed
from equipoise.inference.diagnostics import rhat
from equipoise.inference.observations import Observations, Scenarios
from equipoise.inference.runtime import double_precision, on_accelerator, use_compilation_cache
from equipoise.reward.targets import PRECISION, TOLERANCE, Targets, Terms, decide, every_coalition
from equipoise.reward.tempering import FIRST_LOOK, Curve, Point
from equipoise.valuation.divergence import divergence

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
    """Draws of the model's own coordinates [chains, draws, d], their value, and the largest R̂."""

    draws: Floats
    value: Estimate
    rhat: float


class Sampler:
    """The rounds of one table, and how they are sampled."""

    def __init__(self, file: Path, chains: int, rounds: int) -> None:
        with np.load(file) as given:
            parts = [given[name] for name in ("statistic", "rows", "variance")]
            self.settings: Floats = given["settings"]  # ε and number of every round
            self.model, self.prior = opened(given, len(PARTIES))
        arrays = (*parts, np.sqrt(parts[2]), np.zeros_like(parts[0]))
        self._observations = Observations(*(jnp.asarray(part) for part in arrays))
        self._secrets = [hashlib.sha256(f"{file.stem} {one}".encode()).hexdigest() for one in self.settings]
        self._chains, self._rounds = chains, rounds
        # One shape, so that nothing is compiled twice; on a CPU, quick ones need not wait for slow ones.
        self._at_once = len(COALITIONS) * len(self.settings) if on_accelerator() else 1
        self._seed = 0

    def __call__(self, asked: Sequence[Asked]) -> list[Answer]:
        """Sample every posterior that is asked for."""
        found: list[Answer] = []
        for first in range(0, len(asked), self._at_once):
            chosen = asked[first : first + self._at_once]
            places = np.resize(np.arange(len(chosen)), self._at_once).tolist()  # a short batch repeats itself
            rounds = np.array([chosen[place].round for place in places])
            observations: Observations = jax.tree.map(lambda part, rounds=rounds: part[rounds], self._observations)
            self._seed += 1
            positions, _ = positions_side_by_side(
                self.model,
                self.prior,
                observations,
                self._scenarios([chosen[place] for place in places]),
                self._chains,
                self._rounds,
                self._seed,
            )
            positions = positions[: len(chosen)]
            flat = positions.reshape(-1, *positions.shape[2:])
            own = collapsed.own_coordinates(self.model, self.prior, flat).reshape(*positions.shape[:3], -1)
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                found += pool.map(_answer, own)
        return found

    def _scenarios(self, asked: Sequence[Asked]) -> Scenarios:
        """Posteriors as the engine is asked for them; noise is of one path for each release of a round."""
        member = np.array([[party in one.members for party in PARTIES] for one in asked], float)
        tau = np.array([[one.tau * (party != one.recipient) for party in PARTIES] for one in asked])
        noise = np.zeros((*tau.shape, self._observations.statistic.shape[2]))
        for place, slot in zip(*np.nonzero(tau), strict=True):
            amount, secret = float(tau[place, slot]), self._secrets[asked[place].round]
            noise[place, slot] = brownian.position(secret, PARTIES[slot], amount, noise.shape[2]) / math.sqrt(amount)
        kappa = np.array([one.kappa for one in asked])
        return Scenarios(*(jnp.asarray(part) for part in (member, kappa, tau, noise)))


def _answer(draws: Floats) -> Answer:
    return Answer(draws, divergence(draws), float(rhat(draws).max()))


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
    sampler: Sampler, valued: Sequence[Answer], mechanism: str, rho: Any, kept: Sequence[int]
) -> dict[str, Any]:
    """Values, targets and rewards of all rounds, `kept` draws of each reward and of the others' evidence."""
    rounds = range(len(sampler.settings))
    by_round = [valued[len(COALITIONS) * number :][: len(COALITIONS)] for number in rounds]
    terms = Terms(rho, "alone", PRECISION, TOLERANCE, own_is_whole=mechanism == "degraded")
    nobody = Estimate(0.0, 0.0)
    targets = [decide(PARTIES, [PARTIES], [nobody, *(one.value for one in row)], terms)[1] for row in by_round]
    if mechanism == "everything":
        amounts, everybody = np.ones((len(rounds), len(PARTIES))), len(COALITIONS) - 1  # numbered by bits, from 1
        made = [
            row[one]
            for row in by_round
            for party in range(len(PARTIES))
            for one in (everybody, everybody - (1 << party))
        ]
        return _kept(sampler, by_round, targets, amounts, made, kept)
    amounts = amounts_held_back(mechanism, sampler, targets, [row[-1].value for row in by_round])
    asked: list[Asked] = []
    for number, party in itertools.product(rounds, range(len(PARTIES))):
        own = Asked(number, (PARTIES[party],))  # for who falls back on it; nobody's evidence goes with it
        amount = float(amounts[number, party])
        asked += (own, own) if np.isnan(amount) else reward_at(mechanism, number, PARTIES[party], amount)
    return _kept(sampler, by_round, targets, amounts, sampler(asked), kept)


def _kept(
    sampler: Sampler,
    by_round: Sequence[Sequence[Answer]],
    targets: Sequence[Targets],
    amounts: Floats,
    made: Sequence[Answer],
    kept: Sequence[int],
) -> dict[str, Any]:
    """What is written of all rounds; `made` has each party's reward, then the others' evidence in it."""

    def thinned(answers: Sequence[Answer], draws: int) -> NDArray[np.float32]:
        chains, length, _ = answers[0].draws.shape
        some = np.stack([one.draws[:, :: max(1, chains * length // draws)] for one in answers])
        return some.astype(np.float32).reshape(*amounts.shape, *some.shape[1:])

    return {
        "settings": sampler.settings,
        "reward": thinned(made[::2], kept[0]),
        "others": thinned(made[1::2], kept[1]),
        "amount": amounts,
        "values": np.array([[one.value.value for one in row] for row in by_round]),
        "errors": np.array([[one.value.error for one in row] for row in by_round]),
        "targets": np.stack([one.values for one in targets]),
        "rho": np.array([one.rho for one in targets]),
        "attained": np.array([one.value.value for one in made[::2]]).reshape(amounts.shape),
        "rhat": np.array([one.rhat for one in made]).reshape(*amounts.shape, 2).max(axis=2),
    }


@double_precision
def main() -> None:
    """Sample all tables of a folder, and write one file for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", nargs="+", help="all of the folder unless said")
    parser.add_argument("--mechanism", nargs="+", choices=MECHANISMS, default=["tempering"])
    parser.add_argument("--rho", default="max", help="the fairness exponent: a number up to 1, or max")
    parser.add_argument("--chains", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2, help="of 40 draws a chain")
    parser.add_argument("--kept", type=int, nargs=2, default=(320, 1_280), help="draws of rewards, and of evidence")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    use_compilation_cache()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.tables or sorted(path.stem for path in options.folder.glob("*.npz")):
        start = time.perf_counter()
        sampler = Sampler(options.folder / f"{name}.npz", options.chains, options.rounds)
        rounds = range(len(sampler.settings))
        valued = sampler([Asked(number, coalition) for number in rounds for coalition in COALITIONS])
        print(f"{name}: coalitions of {len(rounds)} rounds, {time.perf_counter() - start:.0f} s", flush=True)
        rho = options.rho if options.rho == "max" else float(options.rho)
        for mechanism in options.mechanism:
            found = settled(sampler, valued, mechanism, rho, options.kept)
            np.savez(options.output / f"{name}-{mechanism}.npz", mechanism=mechanism, agreed=options.rho, **found)
            late = np.mean(found["rhat"] > 1.05)
            miss = np.mean(np.abs(found["attained"] - found["targets"]))
            print(
                f"{name}: {mechanism}, {time.perf_counter() - start:.0f} s, rhat > 1.05 in {late:.0%}, targets missed "
                f"by {miss:.3f} nats",
                flush=True,
            )


if __name__ == "__main__":
    main()
