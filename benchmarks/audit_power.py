"""How often F1 and F2 notice a useless party and true twins, and overlook neither a small party nor a small difference.

python benchmarks/audit_power.py [ROUNDS]

Games are v(C) = 2 log(1 + sum of what the members have) with known values and independent errors of 0.03 nats, so the
truth is known. "As 0.6 judged" is the rule of that version: every contrast within two errors of 0.
"""

import itertools
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np

from equipoise.estimate import UNSURE, Estimate
from equipoise.mediation.audit import fairness
from equipoise.mediation.audit.verdict import AllZero
from equipoise.reward.targets import TargetPolicy, targets_from_values

ERROR = 0.03  # nats, of every coalition's value
SMALL = 0.05  # what a small party has; and by how much two differ that are no twins


def settled(has: list[float], rng: np.random.Generator) -> Any:
    """As much of a settlement as F1 and F2 look at."""
    parties = tuple(f"p{place}" for place in range(len(has)))
    coalitions = [tuple(p for i, p in enumerate(parties) if mask >> i & 1) for mask in range(2 ** len(has))]
    truth = [2 * np.log1p(sum(has[parties.index(member)] for member in members)) for members in coalitions]
    estimates = [Estimate(0.0, 0.0)] + [Estimate(float(v + ERROR * rng.normal()), ERROR) for v in truth[1:]]
    _, targets = targets_from_values(parties, [parties], estimates, TargetPolicy(0.5, precision=0.05, tolerance=0.1))
    values = {frozenset(members): one for members, one in zip(coalitions[1:], estimates[1:], strict=True)}
    return SimpleNamespace(
        parties=parties,
        exact=True,
        values=values,
        value=lambda *members: values.get(frozenset(members), Estimate(0.0, 0.0)),
        awards={
            party: SimpleNamespace(team=parties, target=targets[place], attained=targets[place])
            for place, party in enumerate(parties)
        },
    )


def differences(settlement: Any, first: str, second: str) -> list[Estimate]:
    """Contrasts of two parties."""
    return next(found for one, two, found in fairness.pairs(settlement) if (one, two) == (first, second))


def by_0_6(contrasts: list[Estimate]) -> bool:
    """Whether 0.6 took all contrasts for 0."""
    return all(abs(one.z_score) <= UNSURE for one in contrasts)


def line(number: int, rounds: int) -> str:
    """Counts of so many rounds of one size: two twins, a useless party and, from 6 on, a small one and no twin."""
    rng = np.random.default_rng(number)
    names = ("useless", "small", "twins", "no twins")
    old, new = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for _ in range(rounds):
        has = rng.uniform(0.5, 2.0, number)
        has[:3] = has[0], has[0], 0.0
        if number > 3:
            has[3:5] = SMALL, has[0] + SMALL
        settlement = settled(has.tolist(), rng)
        contrasts = {
            "useless": fairness.contributions(settlement, "p2"),
            "twins": differences(settlement, "p0", "p1"),
        }
        if number > 3:
            contrasts["small"] = fairness.contributions(settlement, "p3")
            contrasts["no twins"] = differences(settlement, "p0", "p4")
        for name, found in contrasts.items():
            old[name] += by_0_6(found)
            new[name] += AllZero.of(found).possible
    counts = itertools.chain.from_iterable((old[name], new[name]) for name in names)
    return f"| {number} | " + " | ".join(map(str, counts)) + " |"


if __name__ == "__main__":
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    heads = ["useless", "small party", "twins", "no twins"]
    print(f"Taken for nothing, or for the same, of {times} rounds: as 0.6 judged, and now")
    print("| parties | " + " | ".join(f"{head}, 0.6 | now" for head in heads) + " |")
    print("|---" * 9 + "|")
    for parties in (3, 6, 8, 10, 12):
        print(line(parties, times), flush=True)
