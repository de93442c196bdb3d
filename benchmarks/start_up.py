"""Start-up time of the command line and the library, as ratios to a bare interpreter.

python benchmarks/start_up.py
"""

import subprocess
import sys

from timing import best_seconds

COMMANDS = {
    "bare interpreter": ["-c", "pass"],
    "import equipoise": ["-c", "import equipoise"],
    "equipoise --help": ["-m", "equipoise", "--help"],
    "equipoise party release --help": ["-m", "equipoise", "party", "release", "--help"],
    "import the whole party side": ["-c", "import equipoise.party.release"],
}


def main() -> None:
    """Print one line for each command."""
    bare = 0.0
    for name, arguments in COMMANDS.items():
        command = [sys.executable, *arguments]
        seconds = best_seconds(lambda c=command: subprocess.run(c, capture_output=True, check=True), 5)  # type: ignore[misc]
        bare = bare or seconds
        print(f"{name:32} {seconds * 1e3:6.0f} ms  {seconds / bare:5.1f}x")


if __name__ == "__main__":
    main()
