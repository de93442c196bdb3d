"""Seconds until the first round of draws in a fresh process: nothing kept, compiled programs kept, traced ones as well.

    python benchmarks/first_draw.py [--setting syn]

Processes share a cache that begins empty. Programs traced here and programs of kept traces are compiled apart, so
two compile; of the other two, one finds compiled programs and may not use traced ones, one finds both. Importing JAX
and the rest is not counted.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time


def first_draw(setting: str, *, traced: bool) -> None:
    """Print the seconds; a process of its own."""
    import jax

    import settings
    from equipoise.inference import chains, engine, programs
    from equipoise.inference.runtime import double_precision, use_compilation_cache

    programs.CAN_KEEP = traced

    @double_precision
    def measure() -> None:
        use_compilation_cache()
        problem, scenarios = getattr(settings, setting)()
        start = time.perf_counter()
        run = chains.CollapsedChains(
            jax.random.split(jax.random.key(0), 1), problem, scenarios, engine.Settings(draws=640)
        )
        next(iter(run.warm_up()))
        print(f"{time.perf_counter() - start:.1f}")

    measure()


def main() -> None:
    """Print a line for each process."""
    parser = argparse.ArgumentParser(description="Seconds until the first draws.")
    parser.add_argument("--setting", default="syn", choices=["syn"])
    parser.add_argument("--only", choices=["traced", "compiled"], help="be one of the processes")
    options = parser.parse_args()
    if options.only:
        first_draw(options.setting, traced=options.only == "traced")
        return
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "EQUIPOISE_CACHE_DIR": folder, "NPROC": "1"}
        for words, only in (
            ("nothing kept, traces to be kept", "traced"),
            ("nothing of use kept, no traces", "compiled"),
            ("compiled programs kept", "compiled"),
            ("compiled and traced ones kept", "traced"),
        ):
            command = [sys.executable, __file__, "--setting", options.setting, "--only", only]
            done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
            print(f"{words:34} {done.stdout.strip():>6} s", flush=True)


if __name__ == "__main__":
    main()
