"""Peak memory of a release from Parquet must not depend on the number of rows.

python benchmarks/statistic_memory.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet

CHILD = """
import resource, sys
sys.path.insert(0, sys.argv[2])
from statistic_throughput import agreement
from equipoise.models import layout_of
from equipoise.party.statistics import exact_statistic
exact = exact_statistic(layout_of(agreement(6)), sys.argv[1])
print(exact.count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


def write_parquet(path: Path, rows: int) -> None:
    """Seven columns of normal numbers, in the usual row groups of a million rows."""
    rng = np.random.default_rng(0)
    names = [*(f"x{k}" for k in range(6)), "y"]
    schema = pa.schema(dict.fromkeys(names, pa.float64()))
    with pa_parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, 10**6):
            size = min(10**6, rows - start)
            writer.write_table(pa.table({name: pa.array(rng.normal(size=size)) for name in names}, schema=schema))


def main() -> None:
    """Print peak memory for a few sizes, each in a fresh process."""
    peaks = {}
    with tempfile.TemporaryDirectory() as folder:
        for rows in (10**5, 10**6, 10**7):
            path = Path(folder) / f"{rows}.parquet"
            write_parquet(path, rows)
            command = [sys.executable, "-c", CHILD, str(path), str(Path(__file__).parent)]
            count, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            peaks[rows] = int(peak)
            print(f"{int(count):>12,} rows  {path.stat().st_size / 2**20:>7.0f} MiB of Parquet  peak {peak:>5} MiB")
    print(f"10^7 rows need {peaks[10**7] / peaks[10**6]:.2f} times the memory of 10^6 rows")


if __name__ == "__main__":
    main()
