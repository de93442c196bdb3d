"""The three ways to hold a reward back, on the same rounds: calibration, and usefulness at equal value.

python benchmarks/mechanisms.py OUTPUT.csv KIND ROUNDS [MECHANISM...]     settles rounds, adding to the file
python benchmarks/mechanisms.py --print OUTPUT.csv                        tables of what the files hold

Rows come from NumPy alone, with a truth of its own in every round. Three parties release by the real mechanism; the
round is settled once for each mechanism, with the same values and targets. Of every reward that is held back: whether
its 90 % intervals cover the truth, over data, releases and paths; similarity to the team's posterior; log loss of new
rows as given, and at home with the party's own rows (`eq.combine`), whose intervals are counted too.
"""

import csv
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.client.home.model import combined, evidence_of, no_evidence
from equipoise.client.home.rows import own_rows

PARTIES = ("north", "south", "west")
ROWS = (150, 300, 600)
EPSILONS = (1.0, 2.0, 2.0)
MECHANISMS = ("tempering", "noise", "degraded")
MODELS = {
    "bernoulli": 'target = { name = "y", labels = [0, 1] }',
    "linear": 'features = [{ name = "a", bounds = [-4, 4] }, { name = "b", bounds = [-4, 4] }]\n'
    'target = { name = "y", bounds = [-8, 8] }',
}
NEW_ROWS = 1_000
DRAWS = 2_000
SETTINGS: dict[str, Any] = {"rho": 0.2, "draws": DRAWS, "precision": 0.1, "processes": 1, "progress": False}
SHOWN = ("miss", "similarity", "given", "home", "own", "covered_given", "covered_home")
COLUMNS = ("kind", "round", "mechanism", "party", *SHOWN)


def agreement(kind: str) -> eq.Agreement:
    """An agreement of three."""
    names = "".join(f'[[parties]]\nname = "{name}"\n' for name in PARTIES)
    return eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "{kind}"\n{MODELS[kind]}\n[privacy]\norder = 2\nmax_epsilon = 5\n'
        f'[reward]\noperator_may_choose = ["mechanism", "rho"]\n{names}'
    )


class Truth:
    """What rows of one round are drawn from."""

    def __init__(self, kind: str, number: int) -> None:
        self.kind, self.rng = kind, np.random.default_rng([number, 2_101])
        self.share = self.rng.uniform(0.1, 0.9)
        self.weights, self.bias = self.rng.normal(0, 0.7, 2), self.rng.normal(0, 0.5)
        self.residual = self.rng.uniform(0.5, 1.5)
        self.correlation = self.rng.uniform(-0.7, 0.7)

    def table(self, rows: int) -> dict[str, Any]:
        """Rows of a party."""
        if self.kind == "bernoulli":
            return {"y": (self.rng.uniform(size=rows) < self.share).astype(int)}
        a, other = self.rng.normal(size=(2, rows))
        b = self.correlation * a + np.sqrt(1 - self.correlation**2) * other
        return {"a": a, "b": b, "y": self.bias + self.weights @ [a, b] + self.residual * self.rng.normal(size=rows)}

    @property
    def parameters(self) -> np.ndarray:
        """The truth in the units that draws have, where every column spans [−1, 1]."""
        if self.kind == "bernoulli":
            return np.array([self.share])
        return np.array([*(self.weights * 4 / 8), self.bias / 8, self.residual / 8])


def numbers(draws: dict[str, np.ndarray]) -> np.ndarray:
    """Draws of the same parameters [draws, parameters]."""
    if "probability" in draws:
        return np.asarray(draws["probability"]).reshape(-1, 1)
    return np.column_stack([draws["weights"], np.sqrt(draws["variance"])])


def covered(model: eq.Reward, truth: Truth) -> list[bool]:
    """Which parameters lie within their 90 % intervals."""
    low, high = np.quantile(numbers(dict(model.posterior.draws)), [0.05, 0.95], axis=0)
    return list((low <= truth.parameters) & (truth.parameters <= high))


def loss(model: eq.Reward, table: dict[str, Any]) -> float:
    """Mean log loss of new rows."""
    return model.loss(None if set(table) == {"y"} else np.column_stack([table["a"], table["b"]]), table["y"])


def settle(kind: str, number: int, mechanisms: Sequence[str] = MECHANISMS) -> Iterator[dict[str, Any]]:
    """One round with every mechanism: a record of every reward that was held back."""
    agreed, truth = agreement(kind), Truth(kind, number)
    tables = dict(zip(PARTIES, map(truth.table, ROWS), strict=True))
    new = truth.table(NEW_ROWS)
    with tempfile.TemporaryDirectory() as folder:
        sent = [
            eq.release(agreed, tables[party], party=party, epsilon=epsilon, ledger=Path(folder) / f"{party}.ledger")
            for party, epsilon in zip(PARTIES, EPSILONS, strict=True)
        ]
    for mechanism in mechanisms:
        settled = eq.mediate(agreed, sent, mechanism=mechanism, **SETTINGS)
        for party, award in settled.awards.items():
            if award.falls_back or (award.kappa == 1 and award.tau == 0):
                continue
            assert award.reward is not None
            rows = own_rows(agreed, tables[party])
            evidence = evidence_of(award.reward)
            home = combined(award.reward, evidence, rows, draws=DRAWS, seed=number)
            own = combined(award.reward, no_evidence(award.reward), rows, draws=DRAWS, seed=number)
            yield {
                "kind": kind,
                "round": number,
                "mechanism": mechanism,
                "party": party,
                "miss": award.attained.value - award.target.value,
                "similarity": award.similarity.value,
                "given": loss(award.reward, new),
                "home": loss(home, new),
                "own": loss(own, new),
                "covered_given": np.mean(covered(award.reward, truth)),
                "covered_home": np.mean(covered(home, truth)),
            }


def show(path: Path) -> None:
    """Means over rounds, with standard errors over rounds, as a table of Markdown."""
    with path.open(newline="", encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    print(f"| model | mechanism | rewards | {' | '.join(name.replace('_', ' ') for name in SHOWN)} |")
    print(f"|---|---|---|{'---|' * len(SHOWN)}")
    for kind in MODELS:
        for mechanism in MECHANISMS:
            chosen = [one for one in records if (one["kind"], one["mechanism"]) == (kind, mechanism)]
            if not chosen:
                continue
            rounds = sorted({one["round"] for one in chosen})
            cells = []
            for name in SHOWN:
                means = [np.mean([float(one[name]) for one in chosen if one["round"] == number]) for number in rounds]
                cells.append(f"{np.mean(means):.3f} ± {np.std(means, ddof=1) / np.sqrt(len(means)):.3f}")
            print(f"| {kind} | {mechanism} | {len(chosen)} | {' | '.join(cells)} |")


def add_rounds(
    path: Path, kind: str, rounds: int, settle: Callable[[str, int], Iterator[dict[str, Any]]], columns: Sequence[str]
) -> None:
    """Settle rounds after those that a file holds, and add what each gives at once."""
    first = 0
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            first = 1 + max((int(one["round"]) for one in csv.DictReader(file) if one["kind"] == kind), default=-1)
    for number in range(first, first + rounds):
        records = list(settle(kind, number))
        is_new = not path.exists()
        with path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, columns)
            if is_new:
                writer.writeheader()
            writer.writerows(records)
        print(f"{kind}: round {number}, {len(records)} records", flush=True)


def main() -> None:
    """Settle rounds, or show what was found."""
    if sys.argv[1] == "--print":
        show(Path(sys.argv[2]))
        return
    of_these = partial(settle, mechanisms=sys.argv[4:] or MECHANISMS)
    add_rounds(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), of_these, COLUMNS)


if __name__ == "__main__":
    main()
