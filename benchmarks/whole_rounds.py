"""Seconds of whole rounds, in a form that earlier versions run too: for ratios between versions on one machine.

    python benchmarks/whole_rounds.py linear:6:3 logistic:8:3 [--only everybody]
    git archive v0.6.0 | tar x -C elsewhere; PYTHONPATH=elsewhere/src python benchmarks/whole_rounds.py linear:6:3

Each case is kind:features:parties. Parties have 2,000 to 6,000 rows, columns within ±1 and an ε of 1 to 3; agreements
state no prior. `--only everybody` samples the posterior of everybody (4,000 draws) in place of a round, `--only one`
that of the first party: a fraction of what a slow version would take. `--format 2` has the prior that new agreements
have, the standardised one; earlier versions have format 1, and its conjugate prior. Up to 0.15 the first call of a
case compiles, or loads programs from the cache; it is not counted unless `--calls 1` asks for no other. Core-seconds
are of this process and its workers.
"""

import argparse
import math
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq

MANY = 20  # features, from which on their norm is bounded: a box would drown them in noise


def agreement_of(kind: str, width: int, parties: int, version: int = 1) -> str:
    """The text of an agreement over columns x0, x1 … and y."""
    ball = f"norm_bound = {radius_of(width)}\n" if width >= MANY else ""
    features = ", ".join(f'{{ name = "x{k}", bounds = [-1, 1] }}' for k in range(width))
    target = '{ name = "y", labels = ["no", "yes"] }' if kind == "logistic" else '{ name = "y", bounds = [-1, 1] }'
    members = "".join(f'[[parties]]\nname = "p{k}"\n' for k in range(parties))
    return (
        f'format = {version}\n[model]\nkind = "{kind}"\nfeatures = [{features}]\n{ball}target = {target}\n'
        f"[privacy]\norder = 2\nmax_epsilon = 10.0\n{members}"
    )


def radius_of(width: int) -> float:
    """A norm that few rows exceed."""
    return round(0.35 * math.sqrt(width), 3)


def round_of(
    kind: str, width: int, parties: int, folder: Path, version: int = 1
) -> tuple[eq.Agreement, list[eq.Submission]]:
    """An agreement and everybody's release."""
    from equipoise.party.release import release  # not there on a bare machine, which loads rounds

    rng = np.random.default_rng(width)
    agreement = eq.Agreement.parse(agreement_of(kind, width, parties, version))
    scale = 0.3 if width >= MANY else 0.4
    weights = 0.4 / scale * rng.normal(size=width) / np.sqrt(width)
    sent = []
    for place in range(parties):
        rows = int(rng.integers(2_000, 6_000))
        x = np.clip(scale * rng.normal(size=(rows, width)), -1, 1)
        level = x @ weights
        if kind == "logistic":
            y = np.where(rng.uniform(size=rows) < 1 / (1 + np.exp(-3 * level)), "yes", "no").astype(object)
        else:
            y = np.clip(level + 0.2 * rng.normal(size=rows), -1, 1)
        table = {f"x{k}": x[:, k] for k in range(width)} | {"y": y}
        name, epsilon = f"p{place}", float(rng.choice([1.0, 2.0, 3.0]))
        sent.append(release(agreement, table, party=name, epsilon=epsilon, ledger=folder / f"{name}.ledger"))
    return agreement, sent


def made(kind: str, width: int, parties: int, version: int = 1) -> tuple[eq.Agreement, list[eq.Submission]]:
    """A round whose ledgers nobody needs."""
    with tempfile.TemporaryDirectory() as name:
        return round_of(kind, width, parties, Path(name), version)


def save(folder: Path, agreement: str, sent: list[eq.Submission]) -> None:
    """Keep a round for a machine that cannot release."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "agreement.toml").write_text(agreement, encoding="utf-8")
    for one in sent:
        one.save(folder / f"{one.party}.json")


def loaded(folder: Path, case: str) -> tuple[eq.Agreement, list[eq.Submission]]:
    """A round that `--save` has kept."""
    place = folder / case.replace(":", "-")
    agreement = eq.Agreement.load(place / "agreement.toml")
    return agreement, [eq.Submission.load(place / f"{one.name}.json") for one in agreement.parties]


def core_seconds() -> float:
    """Of this process and of those it has waited for."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description="Seconds of whole rounds.")
    parser.add_argument("cases", nargs="+", help="kind:features:parties")
    parser.add_argument("--only", choices=["everybody", "one"])
    parser.add_argument("--calls", type=int, default=2, help="of which the last counts")
    parser.add_argument("--save", type=Path, help="keep the rounds in this folder and do nothing else")
    parser.add_argument("--folder", type=Path, help="where they were kept")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--format", type=int, default=1, choices=(1, 2), help="of the agreement")
    parser.add_argument("--coalitions", default="auto", choices=("auto", "all", "sampled"))
    options = parser.parse_args()
    for case in options.cases:
        kind, width, parties = case.split(":")
        shape = kind, int(width), int(parties), options.format
        agreement, sent = loaded(options.folder, case) if options.folder else made(*shape)
        if options.save:
            save(options.save / case.replace(":", "-"), agreement_of(*shape), sent)
            continue
        seconds = cores = 0.0
        said = ""
        for _ in range(options.calls):
            start, before = time.perf_counter(), core_seconds()
            if options.only:
                coalition = None if options.only == "everybody" else ["p0"]
                found = eq.infer(agreement, sent, coalition=coalition, progress=False)
                said = str(found.diagnostics)
            else:
                settings: dict[str, Any] = {"processes": options.processes, "progress": False, "force": True}
                if options.coalitions != "auto":  # which earlier versions do not know
                    settings["coalitions"] = options.coalitions
                settlement = eq.mediate(agreement, sent, **settings)
                errors = [award.target.error for award in settlement.awards.values()]
                said = f"{len(settlement.coalitions)} coalitions, largest error of a target {max(errors):.3f}"
                said += "; " + ", ".join(f"{name} {spent:.1f} s" for name, spent in settlement.timings.items())
            seconds, cores = time.perf_counter() - start, core_seconds() - before
        print(f"{case:16} {eq.__version__:8} {seconds:8.1f} s {cores:8.1f} core-s  {said}", flush=True)


if __name__ == "__main__":
    main()
