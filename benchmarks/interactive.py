"""Seconds that somebody waits for: the demo, and what-ifs about it; and the processor's. Earlier versions run it, too.

python benchmarks/interactive.py
git archive v0.6.0 | tar x -C elsewhere; PYTHONPATH=elsewhere/src python benchmarks/interactive.py
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import equipoise as eq

CODE = "import sys; from equipoise.cli.app import app; app(['demo', '--output', sys.argv[1]])"


def timed(what: str, action: Callable[[], object]) -> None:
    """Print what an action took, worker processes included."""
    start, before = time.perf_counter(), _processor_seconds()
    action()
    wall, cores = time.perf_counter() - start, _processor_seconds() - before
    print(f"{eq.__version__}: {what} {wall:.1f} s, {cores:.1f} s of the processor", flush=True)


def _processor_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def main() -> None:
    """Time the demo in a process of its own, then two questions in this one."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "demo"
        command = [sys.executable, "-c", CODE, str(folder)]
        timed("demo", partial(subprocess.run, command, check=True, capture_output=True))
        settlement = eq.Settlement.load(folder / "settlement")
        sent = [eq.Submission.load(path) for path in sorted(folder.glob("*/*.submission.json"))]
        party = sent[0].party
        for share in (0.5, 0.7):
            epsilon = share * settlement.contributions[party].epsilon
            timed("what-if", partial(eq.what_if, settlement, sent, {party: epsilon}, progress=False))


if __name__ == "__main__":
    main()
