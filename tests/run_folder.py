"""One folder for each run of the tests, which the workers of pytest-xdist share, and what is built there only once.

The main process names the folder in the environment, which workers and the processes they start inherit.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock

VARIABLE = "EQUIPOISE_TESTS_FOLDER"


def begin() -> None:
    """In the main process, before everything."""
    folder = Path(tempfile.mkdtemp(prefix="equipoise-tests-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user
    os.environ[VARIABLE] = str(folder)
    # Tests must neither use nor make the secret of whoever runs them.
    os.environ["EQUIPOISE_CONFIG_DIR"] = str(folder / "config")


def end() -> None:
    """In the main process, after everything."""
    shutil.rmtree(os.environ.pop(VARIABLE), ignore_errors=True)


def path() -> Path:
    """The folder."""
    return Path(os.environ[VARIABLE])


def once(name: str, build: Callable[[Path], object]) -> Path:
    """A folder that the first worker that asks fills; look at it, or copy it before you change anything."""
    folder = path() / name
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            fresh = folder.with_name(f"{name}.fresh")
            shutil.rmtree(fresh, ignore_errors=True)  # of a worker whose attempt failed
            fresh.mkdir(parents=True)
            build(fresh)
            fresh.rename(folder)
    return folder
