"""Seconds that somebody waits for: the demo, and what-ifs about it. Earlier versions run it, too.

python benchmarks/interactive.py
git archive v0.6.0 | tar x -C elsewhere; PYTHONPATH=elsewhere/src python benchmarks/interactive.py
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import equipoise as eq

CODE = "import sys; from equipoise.cli.app import app; app(['demo', '--output', sys.argv[1]])"


def main() -> None:
    """Time the demo in a process of its own, then two questions in this one."""
    with tempfile.TemporaryDirectory() as place:
        folder, start = Path(place) / "demo", time.perf_counter()
        subprocess.run([sys.executable, "-c", CODE, str(folder)], check=True, capture_output=True)
        print(f"{eq.__version__}: demo {time.perf_counter() - start:.1f} s")
        settlement = eq.Settlement.load(folder / "settlement")
        sent = [eq.Submission.load(path) for path in sorted(folder.glob("*/*.submission.json"))]
        party = sent[0].party
        for share in (0.5, 0.7):
            start = time.perf_counter()
            epsilon = share * settlement.contributions[party].epsilon
            eq.what_if(settlement, sent, {party: epsilon}, progress=False)
            print(f"{eq.__version__}: what-if {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
