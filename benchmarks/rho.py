"""Which fairness exponent leaves everybody better off? Rounds of several shapes, each settled at several ρ.

python benchmarks/rho.py [--rounds 10] [--kind linear]

Rounds are approximated (`approximate_rounds.py`); each has its own truth, patients and noise. Columns: share of rounds
in which every target is worth more than alone by 0.1 nats or more; in which every reward predicts test rows better than
the release alone; in which every model at home predicts better than own rows; the mean gain at home of the party that
gains least and of all; the worst-off party's share of what it could gain over alone (median); and the smallest reward
over the largest (mean): 1 says that all get the same whatever they bring.
"""

import argparse

import numpy as np

from approximate_rounds import HALF, Columns, Outcome, own_posterior, play, rows_of
from equipoise.agreement import Agreement

FEATURES, TEST = 5, 1_000
RHOS = ("max", HALF, 1.0, 0.5, 0.2)
CLEARLY = 0.1  # nats
SHAPES: dict[str, list[tuple[int, float]]] = {
    "equal": [(60, 4.0), (60, 4.0), (60, 4.0)],
    "rows 1:2:4": [(40, 4.0), (80, 4.0), (160, 4.0)],
    "rows 1:1:8": [(40, 4.0), (40, 4.0), (320, 4.0)],
    "eps 4, 2, 1": [(80, 4.0), (80, 2.0), (80, 1.0)],
    "rows up, eps down": [(50, 4.0), (100, 2.0), (200, 1.0)],
    "rows up, eps up": [(50, 1.0), (100, 2.0), (200, 4.0)],
    "two, 1:3": [(50, 4.0), (150, 4.0)],
}


def agreement_of(kind: str, parties: int) -> Agreement:
    """So many parties, scores that fill their bounds."""
    features = ", ".join(f'{{ name = "x{k}", bounds = [0, 4], typical = [0, 4] }}' for k in range(FEATURES))
    target = '{ name = "y", bounds = [0, 100], typical = [5, 95] }'
    if kind == "logistic":
        target = '{ name = "y", labels = ["no", "yes"] }'
    names = "".join(f'[[parties]]\nname = "p{k}"\n' for k in range(parties))
    return Agreement.parse(
        f'format = 2\n[model]\nkind = "{kind}"\nfeatures = [{features}]\ntarget = {target}\n'
        f"[privacy]\norder = 2\nmax_epsilon = 4.0\n{names}"
    )


def patients(kind: str, rows: int, rng: np.random.Generator) -> Columns:
    """Of one truth."""
    scores = rng.integers(0, 5, size=(rows, FEATURES)).astype(float)
    expected = (scores - 2) @ (6 * rng.normal(size=FEATURES))
    columns = {f"x{k}": values for k, values in enumerate(scores.T)}
    if kind == "logistic":
        return columns | {"y": np.where(rng.random(rows) < 1 / (1 + np.exp(-expected / 16)), "yes", "no")}
    return columns | {"y": np.clip(50 + expected + 21 * rng.normal(size=rows), 0, 100)}


def one_round(kind: str, shape: list[tuple[int, float]], seed: int) -> list[list[Outcome]]:
    """Outcomes of everybody, at every ρ."""
    agreement = agreement_of(kind, len(shape))
    whole = patients(kind, sum(rows for rows, _ in shape) + TEST, np.random.default_rng([seed, 7]))
    cuts = np.cumsum([0, *(rows for rows, _ in shape)])
    tables = {
        name: {column: values[start:stop] for column, values in whole.items()}
        for name, start, stop in zip(agreement.party_names, cuts, cuts[1:], strict=False)
    }
    test = rows_of(agreement, {column: values[cuts[-1] :] for column, values in whole.items()})
    epsilons = {name: epsilon for name, (_, epsilon) in zip(agreement.party_names, shape, strict=True)}
    owns = {name: own_posterior(agreement, table) for name, table in tables.items()}
    found = play(agreement, tables, epsilons, test, owns, seed, RHOS)
    return [[one for one in found if one.rho == rho] for rho in RHOS]


def summary(rounds: list[list[Outcome]]) -> str:
    """One line on rounds settled at one ρ."""
    above = np.mean([all(one.target > one.alone + CLEARLY for one in each) for each in rounds])
    better = np.mean([all(one.losses["reward"] < one.losses["alone"] for one in each) for each in rounds])
    at_home = np.mean([all(one.gain_at_home > 0 for one in each) for each in rounds])
    least = np.mean([min(one.gain_at_home for one in each) for each in rounds])
    mean = np.mean([one.gain_at_home for each in rounds for one in each])
    worst = np.median([min(one.share_of_gain for one in each) for each in rounds])
    spread = np.mean([min(one.target for one in each) / max(one.target for one in each) for each in rounds])
    used = np.mean([each[0].used for each in rounds])
    shares = f"{used:5.2f}  {above:5.0%}  {better:5.0%}  {at_home:5.0%}"
    return f"{shares}  {least:+.3f}  {mean:+.3f}  {worst:6.0%}  {spread:.2f}"


def main() -> None:
    """Print a table for every shape, and for all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--kind", default="linear", choices=["linear", "logistic"])
    options = parser.parse_args()
    print(f"{'shape':18} {'rho':8}  used  above reward   home   least    mean   worst  min/max")
    every: list[list[list[Outcome]]] = []
    for name, shape in SHAPES.items():
        found = [one_round(options.kind, shape, seed) for seed in range(options.rounds)]
        every += found
        for place, rho in enumerate(RHOS):
            print(f"{name:18} {rho!s:8} {summary([each[place] for each in found])}", flush=True)
    for place, rho in enumerate(RHOS):
        print(f"{'all':18} {rho!s:8} {summary([each[place] for each in every])}")


if __name__ == "__main__":
    main()
