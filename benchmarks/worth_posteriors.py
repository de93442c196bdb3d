"""Sample what `worth_joining.py export` wrote: what coalitions are worth, rewards, and the others' evidence.

    PYTHONPATH=src python benchmarks/worth_posteriors.py FOLDER --output FOLDER [--tables pima] [--rounds 2]

Needs JAX, NumPy and SciPy alone, so that it runs on a bare machine with an accelerator. All rounds of a table go side
by side, in three batches: every coalition; every reward at seven κ, which gives the curve that a target's κ is read
from; and rewards at that κ with the others' evidence beside them. Targets are the library's own, with the largest ρ
that leaves nobody below alone. A reward is not tried again where it misses its target; what it is worth is kept.
"""

import argparse
import itertools
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from equipoise.estimate import Estimate
from equipoise.inference import collapsed
from equipoise.inference.diagnostics import rhat
from equipoise.inference.observations import Observations, Scenarios
from equipoise.inference.runtime import double_precision, use_compilation_cache
from equipoise.reward.targets import PRECISION, TOLERANCE, Targets, Terms, decide, every_coalition
from equipoise.reward.tempering import FIRST_LOOK, Curve, Point
from equipoise.valuation.divergence import divergence
from side_by_side import opened, positions_side_by_side

Floats = NDArray[np.float64]

PARTIES = ("small", "middle", "large")
COALITIONS = every_coalition(PARTIES)[1:]
TERMS = Terms(rho="max", fallback="alone", precision=PRECISION, tolerance=TOLERANCE)
MECHANISMS = ("tempering",)


class Asked(NamedTuple):
    """A posterior to sample: of which round, whose releases are in it, and their power."""

    round: int
    members: tuple[str, ...]
    kappa: float = 1.0


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
        nothing = np.zeros_like(parts[0])
        self._observations = Observations(*(jnp.asarray(part) for part in (*parts, nothing, nothing)))
        self._chains, self._rounds = chains, rounds
        self._at_once = len(COALITIONS) * len(self.settings)  # one shape, so that nothing is compiled twice
        self._seed = 0

    def __call__(self, asked: Sequence[Asked]) -> list[Answer]:
        """Sample every posterior that is asked for."""
        found: list[Answer] = []
        for first in range(0, len(asked), self._at_once):
            chosen = asked[first : first + self._at_once]
            places = np.resize(np.arange(len(chosen)), self._at_once)  # a short batch repeats itself
            rounds = np.array([chosen[place].round for place in places])
            observations = Observations(*(part[rounds] for part in self._observations))
            self._seed += 1
            positions, _ = positions_side_by_side(
                self.model,
                self.prior,
                observations,
                scenarios_of([chosen[place] for place in places]),
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


def _answer(draws: Floats) -> Answer:
    return Answer(draws, divergence(draws), float(rhat(draws).max()))


def scenarios_of(asked: Sequence[Asked]) -> Scenarios:
    """Posteriors as the engine is asked for them."""
    member = np.array([[party in one.members for party in PARTIES] for one in asked], float)
    return Scenarios(jnp.asarray(member), jnp.asarray([one.kappa for one in asked]), jnp.zeros(member.shape))


def reward_at(mechanism: str, number: int, party: str, kappa: float) -> tuple[Asked, Asked]:  # noqa: ARG001
    """A party's reward at κ, and prior times the others' evidence as that reward carries it."""
    others = tuple(one for one in PARTIES if one != party)
    return Asked(number, PARTIES, kappa), Asked(number, others, kappa)


def chosen_kappas(mechanism: str, sampler: Sampler, targets: Sequence[Targets], whole: Sequence[Estimate]) -> Floats:
    """κ of every party in every round [rounds, parties]; of who gets its own posterior instead, NaN."""
    places = list(itertools.product(range(len(targets)), range(len(PARTIES))))
    if mechanism == "tempering":  # one curve serves all parties of a round
        places = [(number, 0) for number in range(len(targets))]
    asked = [reward_at(mechanism, number, PARTIES[party], kappa)[0] for number, party in places for kappa in FIRST_LOOK]
    values = iter([answer.value for answer in sampler(asked)])
    curves = {
        place: Curve(whole[place[0]], [Point(kappa, next(values)) for kappa in FIRST_LOOK]) for place in places
    }
    found = np.full((len(targets), len(PARTIES)), np.nan)
    for number, target in enumerate(targets):
        for party in np.flatnonzero(~target.falls_back):
            curve = curves.get((number, int(party)), curves[number, 0])
            found[number, party] = 1.0 if target.whole[party] else curve.kappa_of(float(target.values[party]))
    return found


def settled(sampler: Sampler, mechanism: str, kept: tuple[int, int]) -> dict[str, Any]:
    """Values, targets and rewards of all rounds, `kept` draws of each reward and of the others' evidence."""
    rounds = range(len(sampler.settings))
    valued = sampler([Asked(number, coalition) for number in rounds for coalition in COALITIONS])
    by_round = [valued[len(COALITIONS) * number :][: len(COALITIONS)] for number in rounds]
    nobody = Estimate(0.0, 0.0)
    targets = [decide(PARTIES, [PARTIES], [nobody, *(one.value for one in row)], TERMS)[1] for row in by_round]
    kappas = chosen_kappas(mechanism, sampler, targets, [row[-1].value for row in by_round])
    asked = []
    for number, party in itertools.product(rounds, range(len(PARTIES))):
        own = Asked(number, (PARTIES[party],))  # instead, where somebody falls back on it; nobody's evidence goes with it
        alone = np.isnan(kappas[number, party])
        asked += (own, own) if alone else reward_at(mechanism, number, PARTIES[party], float(kappas[number, party]))
    made = sampler(asked)

    def thinned(answers: Sequence[Answer], draws: int) -> NDArray[np.float32]:
        chains, length, _ = answers[0].draws.shape
        some = np.stack([one.draws[:, :: max(1, chains * length // draws)] for one in answers])
        return some.astype(np.float32).reshape(*kappas.shape, *some.shape[1:])

    def shaped(numbers: Sequence[float], columns: int) -> Floats:
        return np.array(numbers).reshape(len(rounds), columns)

    return {
        "settings": sampler.settings,
        "reward": thinned(made[::2], kept[0]),
        "others": thinned(made[1::2], kept[1]),
        "kappa": kappas,
        "values": shaped([one.value.value for one in valued], len(COALITIONS)),
        "errors": shaped([one.value.error for one in valued], len(COALITIONS)),
        "targets": np.stack([one.values for one in targets]),
        "rho": np.array([one.rho for one in targets]),
        "attained": shaped([one.value.value for one in made[::2]], len(PARTIES)),
        "rhat": shaped([max(one.rhat for one in pair) for pair in zip(made[::2], made[1::2], strict=True)], len(PARTIES)),
    }


@double_precision
def main() -> None:
    """Sample all tables of a folder, and write one file for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tables", nargs="+", help="all of the folder unless said")
    parser.add_argument("--mechanism", choices=MECHANISMS, default="tempering")
    parser.add_argument("--chains", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2, help="of 40 draws a chain")
    parser.add_argument("--kept", type=int, nargs=2, default=(640, 1_280), help="draws of rewards, and of evidence")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    use_compilation_cache()
    options.output.mkdir(parents=True, exist_ok=True)
    for name in options.tables or sorted(path.stem for path in options.folder.glob("*.npz")):
        start = time.perf_counter()
        sampler = Sampler(options.folder / f"{name}.npz", options.chains, options.rounds)
        found = settled(sampler, options.mechanism, tuple(options.kept))
        np.savez(options.output / f"{name}.npz", mechanism=options.mechanism, **found)
        late = np.mean(found["rhat"] > 1.05)
        miss = np.nanmean(np.abs(found["attained"] - found["targets"]))
        print(
            f"{name}: {len(found['rho'])} rounds, {time.perf_counter() - start:.0f} s, rhat > 1.05 in {late:.0%}, "
            f"targets missed by {miss:.3f} nats",
            flush=True,
        )


if __name__ == "__main__":
    main()
