"""The notebooks are executed by Jupyter's own machinery, and what is committed is what such an execution showed."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest

from pages import ROOT

NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))
LARGEST = 150_000  # bytes
SHOWN = {  # titles of tables that show themselves
    "operator": ("Settlement of 3 parties", "Reward of west"),
    "party": ("Advice to north", "Reward of north"),
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "scripts" / "notebooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _check_outputs(name: str, notebook: Any) -> None:
    """All cells were executed, in order, without an error or a warning, and show tables and pictures."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    data = [output.data for output in outputs if "data" in output]
    tables = "".join(one["text/html"] for one in data if "text/html" in one)
    for title in SHOWN[name]:
        assert f"<b>{title}" in tables, title
    assert "<svg" in tables
    assert [one for one in data if "image/png" in one]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_valid_small_and_has_been_executed(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    _check_outputs(path.stem, notebook)
    text = path.read_text(encoding="utf-8")
    assert len(text) < LARGEST
    assert not re.search(r"/tmp/|iopub|Traceback", text)


def test_notebooks_are_those_that_are_looked_at() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, script: ModuleType) -> None:
    _check_outputs(path.stem, script.execute(path))


@pytest.mark.slow
@pytest.mark.process
def test_a_notebook_that_is_wrong_would_be_noticed(script: ModuleType, tmp_path: Path) -> None:
    from nbclient.exceptions import CellExecutionError

    wrong = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    nbformat.write(wrong, tmp_path / "wrong.ipynb")
    with pytest.raises(CellExecutionError, match="division by zero"):
        script.execute(tmp_path / "wrong.ipynb")
