"""Execute the notebooks in docs/notebooks as Jupyter does, each in a kernel of its own, and store what they show.

    python scripts/notebooks.py

What is stored has no timings. Noise has no seed, so that numbers differ from one execution to the next.
"""

import os
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MOST_SECONDS = 600  # of a cell: the first one that samples also compiles


def execute(path: Path) -> NotebookNode:
    """A notebook with the outputs of all its cells, executed in an empty folder; the first error ends it."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=MOST_SECONDS,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        client.execute(env={**os.environ, "TMPDIR": folder})  # so that nothing is left behind
    notebook.metadata.language_info = {"name": "python"}  # not the version at hand
    nbformat.validate(notebook)
    return notebook


if __name__ == "__main__":
    for found in NOTEBOOKS:
        nbformat.write(execute(found), found)
        print(f"{found.name}: {found.stat().st_size / 1000:.0f} kB")
