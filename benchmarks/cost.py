"""How good the estimate of `agreement check --cost` and `mediate` is: estimated, then settled, in one run.

Every case has a process of its own. The seconds are of `eq.mediate`; `needed` are posteriors of 4,000 draws that the
round asked for.

    python benchmarks/cost.py [--cases bernoulli:3,linear3:2,…]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import equipoise as eq
from equipoise.agreement.templates import example_agreement
from equipoise.mediation.cost import Cost, estimate_cost
from equipoise.party.release import release

CASES = "bernoulli:3,linear3:2,linear3:3,logistic3:2,linear3:5"
ROWS = 600


def agreement_of(case: str) -> eq.Agreement:
    """The agreement of a case: a kind with its number of features, and how many parties."""
    name, _, parties = case.partition(":")
    kind, width = name.rstrip("0123456789"), name.lstrip("abcdefghijklmnopqrstuvwxyz")
    document = eq.Agreement.parse(
        example_agreement(kind, tuple(f"party{place}" for place in range(int(parties))))
    ).model_dump(mode="json")
    if width:
        document["model"]["features"] = [{"name": f"x{place}", "bounds": [-2, 2]} for place in range(int(width))]
        document["model"].pop("prior", None)
        document["model"].pop("data_prior", None)
    for party in document["parties"]:
        party.pop("public_key", None)
    return eq.Agreement.model_validate(document)


def table(agreement: eq.Agreement, rng: np.random.Generator) -> dict[str, object]:
    """Rows of one truth."""
    model: Any = agreement.model
    names = [one.name for one in getattr(model, "features", ())]
    x = rng.normal(size=(ROWS, len(names))).clip(-2, 2)
    drive = x @ np.linspace(1, 0.3, len(names)) if names else np.zeros(ROWS)
    if model.kind in ("bernoulli", "logistic"):
        no, yes = model.target.labels
        target: object = [yes if one else no for one in rng.uniform(size=ROWS) < 1 / (1 + np.exp(-0.4 - drive))]
    else:
        low, high = model.target.bounds
        target = (0.5 * (low + high) + 0.1 * (high - low) * (drive + rng.normal(size=ROWS))).clip(low, high)
    return {**dict(zip(names, x.T, strict=True)), model.target.name: target}


def one(case: str) -> None:
    """Estimate and settle one case; print its numbers as JSON."""
    agreement = agreement_of(case)
    start = time.perf_counter()
    cost = estimate_cost(agreement)
    measuring = time.perf_counter() - start
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sent = [
            release(
                agreement,
                table(agreement, rng),
                party=party,
                epsilon=agreement.privacy.max_epsilon / 2**number,
                ledger=place / f"{party}.ledger",
            )
            for number, party in enumerate(agreement.party_names)
        ]
        start = time.perf_counter()
        eq.mediate(agreement, sent, folder=place / "out", progress=False)
        taken = time.perf_counter() - start
        keys = [json.loads(line)["key"] for line in (place / "out" / "journal.jsonl").read_text().splitlines()[1:]]
    needed = sum(key["draws"] for key in keys) / eq.SettlementSettings().draws
    print(json.dumps({"cost": vars(cost), "measuring": measuring, "taken": taken, "needed": needed}))


def main() -> None:
    """Print one line for each case."""
    parser = argparse.ArgumentParser(description="Estimated against measured cost of a round.")
    parser.add_argument("--cases", default=CASES)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one)
        return
    print(
        f"{'case':>12} {'measured in':>12} {'posteriors':>11} {'needed':>7} {'estimate':>9} {'taken':>8} {'ratio':>6}"
    )
    for case in options.cases.split(","):
        said = subprocess.run(
            [sys.executable, __file__, "--one", case], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        found = json.loads(said)
        cost = Cost(**found["cost"])
        print(
            f"{case:>12} {found['measuring']:>10.1f} s {cost.coalitions + cost.rewards:>11} "
            f"{found['needed']:>7.1f} {cost.seconds:>7.1f} s {found['taken']:>6.1f} s "
            f"{found['taken'] / cost.seconds:>6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
