"""Rounds with a party that sends pure noise: how many are refused, what it gets, how far the others' targets move.

python benchmarks/noise_party.py [ROUNDS] [KIND...]

Rows come from NumPy alone. Two parties of 200 and 400 rows release at ε = 0.5 (regressions: 2,000 and 4,000 rows at 2),
the third at ε = 1e-6. Each round is settled at one of several ρ in turn; targets at the others follow from the same
values. Those of the same round without the third party are from the very values of the coalitions that are left.
"""

import sys
import tempfile
from pathlib import Path
from typing import Literal

import numpy as np

import equipoise as eq
from equipoise.reward.targets import TargetPolicy, targets_from_values

Rho = float | Literal["max"]
EXPONENTS: tuple[Rho, ...] = (0.05, 0.2, 0.5, 1.0, "max")
PARTIES = ("north", "south", "noise")

MODELS = {
    "bernoulli": 'target = { name = "y", labels = [0, 1] }',
    "gaussian": 'target = { name = "y", bounds = [-3, 3] }',
    "poisson": 'target = { name = "y", bounds = [0, 20] }',
    "linear": 'features = [{ name = "x", bounds = [-3, 3] }]\ntarget = { name = "y", bounds = [-3, 3] }',
}


def agreement(kind: str, rho: Rho) -> eq.Agreement:
    """An agreement of three with an exponent."""
    exponent = '"max"' if rho == "max" else str(rho)
    names = "".join(f'[[parties]]\nname = "{name}"\n' for name in PARTIES)
    return eq.Agreement.parse(
        f'format = 1\n[model]\nkind = "{kind}"\n{MODELS[kind]}\n'
        f"[privacy]\nmax_epsilon = 5\n[reward]\nrho = {exponent}\n{names}"
    )


def table(kind: str, rows: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Rows of a party."""
    if kind == "linear":
        x = rng.normal(size=rows)
        return {"x": x, "y": 0.3 + 0.7 * x + 0.5 * rng.normal(size=rows)}
    draws = {
        "bernoulli": (rng.uniform(size=rows) < 0.3).astype(int),
        "gaussian": 0.7 + 0.8 * rng.normal(size=rows),
        "poisson": rng.poisson(4.0, rows),
    }
    return {"y": draws[kind]}


def settled(kind: str, rho: Rho, number: int) -> eq.Settlement:
    """One round, settled."""
    agreed = agreement(kind, rho)
    rng = np.random.default_rng([number, 17])
    scale, epsilon = (10, 2.0) if kind == "linear" else (1, 0.5)
    with tempfile.TemporaryDirectory() as folder:
        sent = [
            eq.release(
                agreed,
                table(kind, scale * rows, rng),
                party=party,
                epsilon=spent,
                ledger=Path(folder) / f"{party}.ledger",
            )
            for party, rows, spent in zip(PARTIES, (200, 400, 300), (epsilon, epsilon, 1e-6), strict=True)
        ]
    return eq.mediate(agreed, sent, seed=number, progress=False)


def targets(settlement: eq.Settlement, parties: tuple[str, ...], rho: Rho) -> tuple[np.ndarray, np.ndarray]:
    """Targets of some parties, and errors, as if the others had never been there."""
    values = [
        settlement.value(*(party for place, party in enumerate(parties) if mask >> place & 1))
        for mask in range(2 ** len(parties))
    ]
    options = settlement.options
    found = targets_from_values(
        parties, [parties], values, TargetPolicy(rho, "alone", options["precision"], options["tolerance"])
    )[1]
    return found.values, found.errors


def main(rounds: int, kinds: tuple[str, ...]) -> None:
    """Print one line a model."""
    print(
        "| model | rounds | refused | noise party gets, mean (most) | its target at any rho "
        "| others moved, in errors | within two |"
    )
    print("|---|---|---|---|---|---|---|")
    for kind in kinds:
        refused, gets, wanted, moved = 0, [], [], []
        for number in range(rounds):
            try:
                settlement = settled(kind, EXPONENTS[number % len(EXPONENTS)], number)
            except eq.EquipoiseError as error:
                refused += 1
                print(f"{kind} {number}: {error}", file=sys.stderr)
                continue
            gets.append(settlement.awards["noise"].attained.value)
            for rho in EXPONENTS:
                whole, errors = targets(settlement, PARTIES, rho)
                without, others = targets(settlement, PARTIES[:2], rho)
                wanted.append(whole[2])
                spread = np.hypot(errors[:2], others)
                moved += (np.abs(whole[:2] - without) / np.where(spread > 0, spread, 1.0)).tolist()
        print(
            f"| {kind} | {rounds} | {refused} | {np.mean(gets):.3f} ({np.max(gets):.3f}) | {np.mean(wanted):.3f} "
            f"({np.max(wanted):.3f}) | {np.mean(moved):.2f} ({np.max(moved):.2f}) "
            f"| {np.mean(np.array(moved) <= 2):.1%} |",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50, tuple(sys.argv[2:]) or tuple(MODELS))
