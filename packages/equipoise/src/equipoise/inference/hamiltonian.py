"""Hamiltonian Monte Carlo with many chains at once, for posteriors whose importance weights are too uneven.

Chains move in coordinates where the posterior is about N(0, I): around the mode, scaled by the information there and,
from the second round of warm-up on, by the covariance of all chains. Steps are of random length, and long enough for
four fifths of the proposals to be accepted; a trajectory has enough of them to cross the posterior's width. Chains
begin at points of the importance sampler, in as many groups as nested R̂ compares, and warm-up ends when they agree.

Slopes may be approximate. Any field of slopes that depends on the position alone makes trajectories that are reversible
and preserve volume, so that accepting their ends by the exact density leaves the posterior invariant.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise._util.arrays import Floats
from equipoise.inference.diagnostics import SUPERCHAINS, Diagnostics, diagnose, settled

CHAINS = 64
STEP = 0.35  # first step, in units of the scaled posterior
TRAVEL = 2.2  # length of a trajectory in these units; a quarter of an orbit, which forgets its beginning, is π/2
FEWEST_LEAPS, MOST_LEAPS = 2, 36
ACCEPTANCE = 0.8
FEWEST = 10  # fewest draws of each chain
WARM_UP = 6  # most rounds
ROUND = 8  # transitions of the first two rounds of warm-up; every second round is longer by as many
LONGEST = 1_280  # most draws of each chain
MOST_HALVINGS = 3  # of the step if trajectories break, after which draws are repeated
BROKEN = 1_000.0  # loss of energy from which a trajectory counts as broken

Field = Callable[[Floats], Floats]


class Chains(NamedTuple):
    """Draws [chains, draws, d], and diagnostics of the chains' agreement."""

    draws: Floats
    diagnostics: Diagnostics


class Transition(NamedTuple):
    """A record of a move of all chains: mean acceptance probability, energies, and a mask of broken trajectories."""

    acceptance: float
    energies: Floats
    broken: NDArray[np.bool_]


class _Ensemble:
    """All chains [chains, d] with their log densities and gradients, their scaling and their step."""

    def __init__(
        self, log_density: Field, slopes: Field, points: Floats, root: Floats, rng: np.random.Generator
    ) -> None:
        self._log_density, self._slopes, self._rng = log_density, slopes, rng
        self.points, self.root, self.step = points, root, STEP
        self._value, self._gradient = log_density(points), slopes(points)
        self.gradients = len(points)

    def transition(self) -> "Transition":
        """Move every chain once."""
        rng, root = self._rng, self.root
        momentum = rng.normal(size=self.points.shape)
        length = self.step * rng.uniform(0.6, 1.2, size=(len(self.points), 1))
        energy = 0.5 * np.sum(momentum**2, axis=1) - self._value
        points, gradient = self.points, self._gradient
        leaps = round(np.clip(TRAVEL / self.step, FEWEST_LEAPS, MOST_LEAPS))
        # Trajectories that overflow are rejected below.
        with np.errstate(all="ignore"):
            for _ in range(leaps):
                momentum = momentum + 0.5 * length * (gradient @ root)
                points = points + length * (momentum @ root.T)
                gradient = self._slopes(points)
                momentum = momentum + 0.5 * length * (gradient @ root)
            value = self._log_density(points)
            loss = 0.5 * np.sum(momentum**2, axis=1) - value - energy
        self.gradients += leaps * len(points)
        loss = np.where(np.isfinite(loss), loss, np.inf)
        accepted = np.log(rng.uniform(size=len(loss))) < -loss
        self.points = np.where(accepted[:, None], points, self.points)
        self._value = np.where(accepted, value, self._value)
        self._gradient = np.where(accepted[:, None], gradient, self._gradient)
        return Transition(float(np.exp(-np.maximum(loss, 0.0)).mean()), energy, loss > BROKEN)

    def rescale(self, points: Floats) -> None:
        """Scale by the covariance of points [points, d], shrunk towards the previous one if points are few."""
        dimension = points.shape[1]
        trust = len(points) / (len(points) + 10 * dimension)
        covariance = trust * np.cov(points.T).reshape(dimension, dimension) + (1 - trust) * self.root @ self.root.T
        self.root = np.linalg.cholesky(covariance)


def sample_chains(
    log_density: Field, slopes: Field, starts: Floats, root: Floats, rng: np.random.Generator, number: int
) -> Chains:
    """Draw at least `number` points from starts [starts, d], until the chains agree or the budget is spent.

    `slopes` are those of the log density at points [points, d], or near them.
    """
    # Chains of a group begin at one place, so that nested R̂ sees what they remember of it.
    places = np.repeat(rng.choice(len(starts), SUPERCHAINS, replace=False), CHAINS // SUPERCHAINS)
    ensemble = _Ensemble(log_density, slopes, starts[places], root, rng)
    before = None
    for number_of_round in range(WARM_UP):
        visited = []
        length = ROUND * (1 + number_of_round // 2)
        for _ in range(length):
            ensemble.step *= float(np.exp(0.5 * (ensemble.transition().acceptance - ACCEPTANCE)))
            visited.append(ensemble.points)
        after = np.stack(visited[length // 2 :], axis=1)
        ensemble.rescale(after.reshape(-1, after.shape[2]))
        if before is not None and settled(before, after, SUPERCHAINS):
            break
        before = after
    kept: list[Floats] = []
    transitions: list[Transition] = []
    halvings = 0
    wanted = max(FEWEST, -(-number // CHAINS))
    while True:
        while len(kept) < wanted:
            transitions.append(ensemble.transition())
            kept.append(ensemble.points)
        report, keep = diagnose(
            np.stack(kept, axis=1),
            energy=np.stack([transition.energies for transition in transitions], axis=1),
            divergent=np.stack([transition.broken for transition in transitions], axis=1),
            acceptance=float(np.mean([transition.acceptance for transition in transitions])),
            gradients=ensemble.gradients,
            superchains=SUPERCHAINS,
        )
        if report.diverged and halvings < MOST_HALVINGS:
            halvings += 1
            ensemble.step /= 2
            kept, transitions = [], []
            continue
        if report.mixed or wanted >= LONGEST or report.hopeless:
            return Chains(np.stack(kept, axis=1)[keep], report)
        wanted = min(3 * wanted // 2, LONGEST)
