"""What XLA's fusion emitters cost and bring: the first call (tracing, compiling, sampling) and later ones.

python benchmarks/compiling.py
"""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, time
import jax
from equipoise.inference import runtime

chosen = runtime.compiler_options
if sys.argv[2] == "with":
    runtime.compiler_options = lambda effort: {**chosen(effort), "xla_cpu_use_fusion_emitters": True}

import settings
from equipoise.inference import engine

problem, scenarios = getattr(settings, sys.argv[1])()
times = []
for number in range(5):
    start = time.perf_counter()
    keys = jax.random.split(jax.random.key(number), 1)
    engine.run(keys, problem, scenarios, engine.Settings(draws=4_000, max_thinning=1))
    times.append(time.perf_counter() - start)
print(times[0], min(times[1:]))
"""


def measure(setting: str, emitters: str) -> tuple[float, float]:
    """Seconds of the first call and of the best of the next four, in a process of its own without a cache."""
    environment = {**os.environ, "EQUIPOISE_CACHE_DIR": "off", "PYTHONPATH": str(Path(__file__).parent)}
    command = [sys.executable, "-c", PROGRAM, setting, emitters]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, later = map(float, done.stdout.split())
    return first, later


def main() -> None:
    """Print one line for each setting: without emitters, as we ship, and with them."""
    print(f"{'setting':8} {'first call':>22} {'later calls':>22}   (without emitters, ratio to with)")
    for setting in ("syn",):
        (first, later), (first_with, later_with) = (measure(setting, one) for one in ("without", "with"))
        print(f"{setting:8} {first:12.1f} s {first / first_with:7.2f} {later * 1e3:12.0f} ms {later / later_with:7.2f}")


if __name__ == "__main__":
    main()
