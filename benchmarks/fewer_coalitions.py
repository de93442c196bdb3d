"""All coalitions, or a sample that grows: which is cheaper at the same precision, by number of parties.

Games are made up: Bayesian surprise of normal posteriors as the proxy sees it, with a bias that it does not see, larger
for small coalitions and different for each party, and errors like those of a valuation (3/√draws nats). Costs are in
valuations of 4,000 draws, a warm-up of 2,000 included. `z` is the root mean square of errors over stated errors of
Shapley values, against all coalitions without error.

    python benchmarks/fewer_coalitions.py [--parties 6,7,8,9,10,12] [--games 6] [--precision 0.05] [--rho 0.5]
"""

import argparse
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from equipoise.estimate import Estimate
from equipoise.mediation import coalitions
from equipoise.mediation.requests import Appraisal, Request
from equipoise.mediation.settings import SettlementSettings
from equipoise.reward.targets import Terms, least_among
from equipoise.valuation.shapley import weights

Floats = NDArray[np.float64]
WARM_UP, USUAL, SPREAD, DIMENSION = 2_000, 4_000, 3.0, 6


class Game:
    """Parties that are alike, of very different sizes ("skewed"), or one of them without data ("useless")."""

    def __init__(self, parties: int, seed: int, kind: str) -> None:
        rng = np.random.default_rng(1_000 + seed)
        rows = rng.integers(50, 400, parties) * (rng.lognormal(0, 1.5, parties) if kind == "skewed" else 1.0)
        if kind == "useless":
            rows[0] = 0.0
        truth = 0.5 * rng.normal(size=DIMENSION)
        x = rng.normal(size=(parties, 40, DIMENSION))
        self.information = np.einsum("pki,pkj,p->pij", x, x, rows / 800)
        noise = np.einsum("pki,pk,p->pi", x, rng.normal(size=(parties, 40)), np.sqrt(rows / 800))
        self.pull = self.information @ truth + noise
        self.odd = rng.normal(size=(parties, 3))
        if kind == "useless":
            self.odd[0] = 0.0

    def proxy(self, inside: NDArray[np.bool_]) -> Floats:
        """Divergence of a normal posterior from N(0, I)."""
        member = inside.astype(float)
        precision = np.eye(DIMENSION) + np.einsum("cp,pij->cij", member, self.information)
        mean = np.linalg.solve(precision, (member @ self.pull)[..., None])[..., 0]
        trace = np.trace(np.linalg.inv(precision), axis1=1, axis2=2)
        return np.asarray(0.5 * (np.linalg.slogdet(precision)[1] + trace - DIMENSION + np.sum(mean**2, axis=1)))

    def value(self, inside: NDArray[np.bool_]) -> Floats:
        """What a coalition is truly worth."""
        sizes = inside.sum(axis=1)
        bump = np.tanh(inside @ self.odd / 2).sum(axis=1) / np.sqrt(1 + sizes)
        return np.asarray(self.proxy(inside) * (1 - 0.15 / (1 + sizes / 3)) + 0.15 * bump)


def play(parties: int, seed: int, kind: str, how: str, options: argparse.Namespace) -> dict[str, float]:
    """Settle one game; cost, number of coalitions, the largest error of a target, and z."""
    game, rng = Game(parties, seed, kind), np.random.default_rng(77 + seed)
    names = tuple(f"p{party:03}" for party in range(parties))
    places, cost = {name: place for place, name in enumerate(names)}, 0.0

    def appraise(requests: Sequence[Request], **_: Any) -> list[Appraisal]:
        nonlocal cost
        inside = np.zeros((len(requests), parties), bool)
        for row, request in zip(inside, requests, strict=True):
            row[[places[name] for name in request.coalition]] = True
        cost += sum(request.draws + WARM_UP for request in requests) / (USUAL + WARM_UP)
        errors = [SPREAD / math.sqrt(request.draws) for request in requests]
        return [
            Appraisal(Estimate(float(value + error * rng.normal()), error), request.draws, 1.0, 1e3)
            for value, error, request in zip(game.value(inside), errors, requests, strict=True)
        ]

    precision = options.precision
    settings: Any = SettlementSettings.of(None, {"precision": precision, "coalitions": how})
    terms = Terms(options.rho, "alone", precision, 2 * precision, least=least_among(parties))
    task: Any = SimpleNamespace(
        parties=names, settings=settings, teams=(names,), seed=seed, agreement=None, submissions=None,
        first_draws=settings.draws, terms=terms, enumerates=how == "all",
    )  # fmt: skip
    appraiser: Any = SimpleNamespace(appraise=appraise)
    found = coalitions.Coalitions(task, appraiser)
    with mock.patch.object(coalitions, "normal_proxy", return_value=game.proxy):
        shapley, targets = found.shares()
    every = (np.arange(2**parties)[:, None] >> np.arange(parties) & 1).astype(bool)
    scores = (shapley.values - weights(parties) @ game.value(every)) / shapley.errors
    return {
        "cost": cost,
        "coalitions": len(found.known),
        "largest error": float(targets.errors.max()),
        "z²": float(np.mean(scores**2)),
    }


def main() -> None:
    """Print one line for each kind of game and number of parties."""
    parser = argparse.ArgumentParser(description="All coalitions, or a sample that grows.")
    parser.add_argument("--parties", default="6,7,8,9,10,12", help="how many, up to 12, with commas")
    parser.add_argument("--games", type=int, default=6)
    parser.add_argument("--precision", type=float, default=0.05)
    parser.add_argument("--rho", type=float, default=0.5)
    options = parser.parse_args()
    print(f"{'':8} {'parties':>7} {'all':>7} {'sampled':>8} {'ratio':>6} {'coalitions':>10} {'error':>6} {'z':>5}")
    for kind in ("alike", "skewed", "useless"):
        for number in map(int, options.parties.split(",")):
            of = {
                how: [play(number, seed, kind, how, options) for seed in range(options.games)]
                for how in ("all", "sampled")
            }
            full, part = (float(np.mean([one["cost"] for one in of[how]])) for how in ("all", "sampled"))
            sampled = of["sampled"]
            print(
                f"{kind:8} {number:>7} {full:>7.0f} {part:>8.0f} {part / full:>6.2f} "
                f"{np.mean([one['coalitions'] for one in sampled]):>10.0f} "
                f"{max(one['largest error'] for one in sampled):>6.3f} "
                f"{math.sqrt(np.mean([one['z²'] for one in sampled])):>5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
