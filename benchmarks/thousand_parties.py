"""A synthetic round of many parties, settled for real: what each phase costs, and how that grows with the parties.

Linear regression with three features of one distribution, rewards by tempering for everybody (degraded ones would take
about ten valuations a party more). Rows are from NumPy; parties have between 50 and 800 of them.

    python benchmarks/thousand_parties.py --parties 30,100,300 --method naive   (the mediation layer)
    python benchmarks/thousand_parties.py --parties 1000 --precision 2 --draws 640
    python benchmarks/thousand_parties.py --parties 1000 --save releases   (and --folder releases, on a bare machine)

A round whose releases were kept keeps its journal beside them, and goes on if it was ended. `naive` samples from the
conjugate posterior and ignores the noise of releases; its values mean nothing. With several numbers of parties,
cost ~ a n^b is fitted.
"""

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import equipoise as eq
from equipoise.mediation import audit, mediator
from equipoise.mediation.journal import FileJournal
from equipoise.mediation.task import task_of
from equipoise.valuation.sampling import smallest_budget

WEIGHTS = np.array([0.8, -0.5, 0.3])


def agreement_of(parties: int) -> eq.Agreement:
    """Three features, a target, and so many parties."""
    features = ", ".join(f'{{ name = "x{k}", bounds = [-3, 3] }}' for k in range(len(WEIGHTS)))
    members = "".join(f'[[parties]]\nname = "p{k:04}"\n' for k in range(parties))
    return eq.Agreement.parse(
        f'format = 2\n[model]\nkind = "linear"\nfeatures = [{features}]\n'
        f'target = {{ name = "y", bounds = [-4, 4] }}\n[model.prior]\nkind = "conjugate"\n'
        f'[model.data_prior]\nkind = "conjugate"\nscope = "shared"\n[privacy]\nmax_epsilon = 100.0\n'
        f'[reward]\nrho = 0.2\nmechanism = "tempering"\n{members}'
    )


def submissions_of(agreement: eq.Agreement, folder: Path, seed: int = 0) -> list[eq.Submission]:
    """Releases of everybody's rows."""
    rng, sent = np.random.default_rng(seed), []
    for party in agreement.party_names:
        rows = int(rng.choice([50, 100, 200, 400, 800]))
        x = np.clip(rng.normal(size=(rows, len(WEIGHTS))), -3, 3)
        y = np.clip(0.2 + x @ WEIGHTS + 0.7 * rng.normal(size=rows), -4, 4)
        table = {**{f"x{k}": x[:, k] for k in range(len(WEIGHTS))}, "y": y}
        ledger = folder / f"{party}.ledger"
        sent.append(eq.release(agreement, table, party=party, epsilon=20.0, ledger=ledger))
    return sent


def settle(parties: int, options: argparse.Namespace) -> dict[str, float]:
    """Seconds by phase, and sizes, of one round."""
    taken: dict[str, float] = {}

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            start = time.perf_counter()
            found = function(*given, **named)
            taken[name] = taken.get(name, 0.0) + time.perf_counter() - start
            return found

        return call

    with tempfile.TemporaryDirectory() as place:
        agreement = agreement_of(parties)
        if options.folder:
            folder = options.folder / str(parties)
            sent = [eq.Submission.load(folder / f"{party}.json") for party in agreement.party_names]
        else:
            folder = Path(place)
            sent = submissions_of(agreement, folder)
        start = time.perf_counter()
        task = task_of(
            agreement, sent, draws=options.draws, precision=options.precision, method=options.method, force=True,
            budget=options.budget or smallest_budget(parties),
        )  # fmt: skip
        path = folder / "journal.jsonl"
        with (
            mock.patch.object(mediator, "audited", timed("audit", audit.audited)),
            FileJournal(path, task.inputs_digest, task.values_digest) as journal,
        ):
            found_before = len(journal)
            settlement = mediator.settle(task, journal, progress=options.progress)
        steps = settlement.timings
        taken |= {name: steps[name] for name in ("valuing coalitions", "making rewards", "plausibility", "sampling")}
        taken["all"] = time.perf_counter() - start
        taken["journal MB"] = path.stat().st_size / 1e6
        taken["posteriors"] = len(path.read_bytes().splitlines()) - 1 - found_before
    taken["memory GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    taken["coalitions"] = len(settlement.coalitions)
    taken["largest target error"] = max(award.target.error for award in settlement.awards.values())
    taken["count as nothing"] = len(settlement.nothing or ())
    return taken


def main() -> None:
    """Settle rounds and print what they cost."""
    parser = argparse.ArgumentParser(description="Rounds of many parties.")
    parser.add_argument("--parties", default="30,100,300", help="how many, 8 or more, with commas")
    parser.add_argument("--method", default="auto", choices=("auto", "naive"))
    parser.add_argument("--draws", type=int, default=640)
    parser.add_argument("--precision", type=float, default=0.5)
    parser.add_argument("--budget", type=int, default=None, help="coalitions at most; the smallest by default")
    parser.add_argument("--save", type=Path, help="keep the releases in this folder and do nothing else")
    parser.add_argument("--folder", type=Path, help="where they were kept")
    parser.add_argument("--progress", action="store_true")
    options = parser.parse_args()
    numbers, found = [int(one) for one in options.parties.split(",")], []
    if options.save:
        for number in numbers:
            folder = options.save / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            for one in submissions_of(agreement_of(number), folder):
                one.save(folder / f"{one.party}.json")
        return
    for number in numbers:
        found.append(settle(number, options))
        print(json.dumps({"parties": number} | {name: round(one, 3) for name, one in found[-1].items()}), flush=True)
    if len(numbers) > 1:
        for name in found[0]:
            costs = np.array([max(one[name], 1e-9) for one in found])
            power, factor = np.polyfit(np.log(numbers), np.log(costs), 1)
            print(f"{name:>22} ~ {np.exp(factor):.3g} n^{power:.2f}")


if __name__ == "__main__":
    main()
