"""Rounds of many parties, settled for real: seconds and core-seconds of each stage, for three sizes.

    10     10 parties with 10 features, all errors down to 0.05 nats
    100    100 parties with 10 features
    1000   1,000 parties with 3 features, each with another number of rows

Rows are simulated, the same in every run, and so is the noise of releases. Rewards are made by tempering.

    python benchmarks/many_parties.py [--sizes 10,100,1000] [--kind linear] [--precision 0.05] [--profile]
"""

import argparse
import cProfile
import json
import pstats
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import equipoise as eq
from equipoise.mediation import audit, mediator
from equipoise.mediation.journal import FileJournal
from equipoise.mediation.task import task_of
from equipoise.party.mechanism import noise_scale

FEATURES = {10: 10, 100: 10, 1000: 3}
EPSILON = 2.0
DEVIATION = 0.5  # of features and of the residual, in units where bounds are ±1


def agreement_of(kind: str, parties: int, features: int) -> eq.Agreement:
    """Write an agreement of so many parties and features."""
    columns = ", ".join(f'{{ name = "x{k}", bounds = [-1, 1], typical = [-0.98, 0.98] }}' for k in range(features))
    target = "bounds = [-1, 1]" if kind == "linear" else 'labels = ["no", "yes"]'
    members = "".join(f'[[parties]]\nname = "p{k:04}"\n' for k in range(parties))
    return eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "{kind}"\nfeatures = [{columns}]\ntarget = {{ name = "y", {target} }}\n'
        f'[privacy]\norder = 2\nmax_epsilon = 4.0\n[reward]\nrho = 0.2\nmechanism = "tempering"\n{members}'
    )


def submissions_of(agreement: eq.Agreement, folder: Path, seed: int = 0) -> list[eq.Submission]:
    """Release everybody's rows; parties have between 100 and 2,000 of them."""
    rng, sent = np.random.default_rng(seed), []
    features, kind = len(agreement.columns) - 1, agreement.model.kind
    weights = 0.4 * rng.normal(size=features)
    parties = len(agreement.party_names)
    counts = np.sort(np.geomspace(100, 2_000, parties).round().astype(int) + np.arange(parties))
    with mock.patch("equipoise.party.release.perturb", _seeded(seed)):
        for party, rows in zip(agreement.party_names, counts.tolist(), strict=True):
            common = rng.normal(size=(rows, 1))
            x = np.clip(DEVIATION * (0.5 * common + 0.85 * rng.normal(size=(rows, features))), -1, 1)
            table: dict[str, Any] = {f"x{k}": x[:, k] for k in range(features)}
            if kind == "linear":
                table["y"] = np.clip(0.5 * x @ weights + 0.3 * rng.normal(size=rows), -1, 1)
            else:
                is_yes = rng.uniform(size=rows) < 1 / (1 + np.exp(-4 * x @ weights))
                table["y"] = np.where(is_yes, "yes", "no").tolist()
            ledger = folder / f"{party}.ledger"
            sent.append(eq.release(agreement, table, party=party, epsilon=EPSILON, ledger=ledger))
    return sent


def _seeded(seed: int) -> Callable[..., list[int]]:
    """Make noise of the right scale that can be repeated; real releases have no seed."""
    rng = np.random.default_rng(seed + 1_000)

    def perturb(statistic: Sequence[int], *, sensitivity: int, zcdp: float) -> list[int]:
        scale = noise_scale(sensitivity, zcdp)
        return [int(value) + round(scale * rng.normal()) for value in statistic]

    return perturb


def settle(parties: int, options: argparse.Namespace) -> dict[str, float]:
    """Settle one round; return seconds by stage, and sizes."""
    with tempfile.TemporaryDirectory() as place:
        agreement = agreement_of(options.kind, parties, FEATURES.get(parties, 3))
        start = time.perf_counter()
        sent = submissions_of(agreement, Path(place))
        taken = {"releasing": time.perf_counter() - start}
        start, cores = time.perf_counter(), time.process_time()
        task = task_of(agreement, sent, precision=options.precision)
        path = Path(place) / "journal.jsonl"
        audited = 0.0

        def timed(settlement: eq.Settlement) -> eq.Settlement:
            nonlocal audited
            begun = time.perf_counter()
            found = audit.audited(settlement)
            audited += time.perf_counter() - begun
            return found

        with (
            mock.patch.object(mediator, "audited", timed),
            FileJournal(path, task.inputs_digest, task.values_digest) as journal,
        ):
            settlement = mediator.settle(task, journal)
        steps = settlement.timings
        taken |= {name: steps[name] for name in ("valuing coalitions", "making rewards", "plausibility", "sampling")}
        taken["audit"] = audited
        saving = time.perf_counter()
        settlement.save(Path(place) / "out")
        taken["saving"] = time.perf_counter() - saving
        taken["all"] = time.perf_counter() - start
        taken["core-seconds"] = time.process_time() - cores
        taken["posteriors"] = len(path.read_bytes().splitlines()) - 1
        taken["journal MB"] = path.stat().st_size / 1e6
    taken["memory GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    taken["coalitions"] = len(settlement.coalitions)
    taken["draws of coalitions"] = sum(one.draws for one in settlement.coalitions)
    taken["largest target error"] = max(award.target.error for award in settlement.awards.values())
    taken["largest Shapley error"] = max(one.error for one in settlement.shapley.values())
    taken["everybody"] = max(one.value.value for one in settlement.coalitions)
    taken["count as nothing"] = len(settlement.nothing or ())
    return taken


def main() -> None:
    """Settle rounds and print what they cost."""
    parser = argparse.ArgumentParser(description="Rounds of many parties.")
    parser.add_argument("--sizes", default="10,100,1000", help="parties, with commas")
    parser.add_argument("--kind", default="linear", choices=("linear", "logistic"))
    parser.add_argument("--precision", type=float, default=0.05)
    parser.add_argument("--profile", action="store_true", help="print where the main thread spends its time")
    options = parser.parse_args()
    for number in map(int, options.sizes.split(",")):
        profile = cProfile.Profile()
        if options.profile:
            profile.enable()
        found = settle(number, options)
        profile.disable()
        print(json.dumps({"parties": number} | {name: round(one, 3) for name, one in found.items()}), flush=True)
        if options.profile:
            pstats.Stats(profile).sort_stats("cumulative").print_stats(45)


if __name__ == "__main__":
    main()
